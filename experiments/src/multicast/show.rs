//! Conditions, plots like the paper's, tables.

use crate::figure::{Axis, Curve, Figure};
use crate::multicast::plan::{Delivery, Grouping, MulticastPlan, Share, Show};
use crate::multicast::summary::{Case, SMALL_BYTES_MAX, Summary};
use crate::network::delays;
use sim::real;

/// What stands in the report beside the results.
pub(super) fn conditions(plan: &MulticastPlan) -> Vec<(&'static str, String)> {
    let mut runs = format!(
        "{}, nested: a larger number of sources contains the smaller one",
        plan.runs
    );
    if let Some(unicast) = plan.unicast_runs {
        runs = format!("{runs}; of unicast {unicast}");
    }
    vec![
        ("Fabric", plan.topology.clone()),
        ("Draws of each point", runs),
        ("Groups", groups(plan)),
        (
            "Network",
            format!(
                "{}, one VL, virtual cut-through, a packet leaves its input buffer at the link's rate",
                delays(&plan.model(u32::MAX))
            ),
        ),
        (
            "Messages",
            format!(
                "up to {0} bytes one packet; longer ones several packets of {0} bytes; \
                 all begin at the same moment",
                plan.packet_bytes
            ),
        ),
        (
            "Buffers",
            "one packet in, one packet out for each port: of the message's size, or the longest"
                .to_owned(),
        ),
        (
            "Credits",
            "ideal: in the moment in which a buffer is freed".to_owned(),
        ),
        (
            "Unicast",
            format!(
                "by the paths of {}: all of a message to one member, then to the next, in an order \
                 that each source draws",
                plan.routing
            ),
        ),
        (
            "Time",
            "from the moment in which all messages are posted to the last byte at the last member \
             of all groups; mean over draws"
                .to_owned(),
        ),
        (
            "Ratios",
            "of the sums over the draws that both schemes have".to_owned(),
        ),
    ]
}

fn groups(plan: &MulticastPlan) -> String {
    let text = plan.grouping.iter().map(|grouping| match grouping {
        Grouping::Own => "each source has drawn one of its own among the other hosts",
        Grouping::Common => "one for all sources, drawn among all hosts",
    });
    let text: Vec<&str> = text.collect();
    text.join("; beside that: ")
}

/// What headings say of a grouping.
fn suffix(grouping: Grouping) -> &'static str {
    match grouping {
        Grouping::Own => "",
        Grouping::Common => ", one group for all sources",
    }
}

/// Times against sizes for each traffic, gains against groups, tables.
pub(super) fn figures(summary: &Summary<'_>) -> Vec<Figure> {
    let plan = summary.plan;
    let mut figures = Vec::new();
    for &grouping in &plan.grouping {
        if plan.shows.contains(&Show::Gains) {
            figures.extend(gains(summary, grouping));
        }
        for &sources in &plan.sources {
            if plan.shows.contains(&Show::Times) {
                for &groups in &plan.groups {
                    figures.extend(times(summary, (grouping, sources, groups)));
                }
            }
            figures.push(table(summary, grouping, sources));
        }
    }
    figures
}

/// The number of the paper's figure of a traffic.
fn number(grouping: Grouping, sources: Share, groups: Share) -> Option<u8> {
    let place = |share: Share, list: [Share; 3]| list.iter().position(|&known| known == share);
    let [part, all] = [40, 100].map(Share::Percent);
    let row = place(sources, [Share::One, part, all])?;
    let column = place(groups, [Share::Percent(10), part, all])?;
    let number = u8::try_from(8 + 3 * row + column).ok()?;
    (grouping == Grouping::Own).then_some(number)
}

/// Times against sizes, small ones and large ones apart as in the paper.
fn times(
    summary: &Summary<'_>,
    (grouping, sources, groups): (Grouping, Share, Share),
) -> Vec<Figure> {
    let cases: Vec<Case> = summary
        .cases(grouping)
        .into_iter()
        .filter(|case| case.sources == sources && case.groups == groups)
        .collect();
    let Some(first) = cases.first() else {
        return Vec::new();
    };
    let name = match number(grouping, sources, groups) {
        Some(number) => format!("Figure {number}: {}", first.traffic()),
        None => first.traffic(),
    };
    let parts = [("small sizes", true), ("large sizes", false)];
    let plot = |(part, is_small): (&str, bool)| {
        let cases: Vec<&Case> = cases
            .iter()
            .filter(|case| (case.size_bytes <= SMALL_BYTES_MAX) == is_small)
            .collect();
        let curve = |&scheme: &Delivery| {
            Curve::over(scheme, &cases, |case| {
                let ns = summary.mean_ns(case, scheme)?;
                Some((f64::from(case.size_bytes), ns / 1000.0))
            })
        };
        (cases.len() > 1).then(|| {
            Figure::plot(
                format!("{name} multicast, {part}"),
                summary.plan.schemes.iter().map(curve),
                Axis::logarithmic("message, bytes"),
                Axis::logarithmic("time, us"),
            )
        })
    };
    parts.into_iter().filter_map(plot).collect()
}

/// Gains of cyclic against groups (figure 17), one curve for each number of sources and size.
fn gains(summary: &Summary<'_>, grouping: Grouping) -> Vec<Figure> {
    let plan = summary.plan;
    let kinds = [
        (Delivery::SPANNING_TREE, "Figure 17: speed-up"),
        (Delivery::Unicast, "Speed-up"),
    ];
    let plot = |(scheme, figure): (Delivery, &str)| {
        let mut curves = Vec::new();
        for &sources in &plan.sources {
            for &size_bytes in &plan.sizes_bytes {
                let point = |&groups: &Share| {
                    let case = Case {
                        grouping,
                        sources,
                        groups,
                        size_bytes,
                    };
                    let ratio = summary.ratio(&case, scheme, Delivery::CYCLIC)?;
                    Some((groups.percent()?, ratio.mean))
                };
                let name = format!("{sources} to many, {size_bytes} bytes");
                curves.push(Curve::over(name, &plan.groups, point));
            }
        }
        let figure = match grouping {
            Grouping::Own => figure,
            Grouping::Common => "Speed-up",
        };
        let common = suffix(grouping);
        let has_points = curves.iter().any(|curve| !curve.points.is_empty());
        let time = format!("time of {scheme} / cyclic");
        has_points.then(|| {
            Figure::plot(
                format!("{figure} of cyclic multicast over {scheme}{common}"),
                curves,
                Axis::linear("members of a group, % of the hosts"),
                match scheme {
                    Delivery::Unicast => Axis::logarithmic(time),
                    _ => Axis::linear(time),
                },
            )
        })
    };
    kinds.into_iter().filter_map(plot).collect()
}

/// Times and ratios of all groups and sizes.
fn table(summary: &Summary<'_>, grouping: Grouping, sources: Share) -> Figure {
    let plan = summary.plan;
    let mut columns = vec!["group".to_owned(), "message, bytes".to_owned()];
    columns.extend(plan.schemes.iter().map(|scheme| format!("{scheme}, us")));
    columns.extend([
        "spanning-tree/cyclic".to_owned(),
        "in single draws".to_owned(),
        "unicast/cyclic".to_owned(),
        "draws".to_owned(),
    ]);
    let cases = summary.cases(grouping);
    let cases = cases.into_iter().filter(|case| case.sources == sources);
    let rows = cases.map(|case| {
        let mut row = vec![case.groups.to_string(), case.size_bytes.to_string()];
        row.extend(plan.schemes.iter().map(|&scheme| {
            let mean = summary.mean_ns(&case, scheme);
            mean.map_or_else(String::new, |ns| format!("{:.2}", ns / 1000.0))
        }));
        let tree = summary.ratio(&case, Delivery::SPANNING_TREE, Delivery::CYCLIC);
        let unicast = summary.ratio(&case, Delivery::Unicast, Delivery::CYCLIC);
        let cell = |text: Option<String>| text.unwrap_or_default();
        row.push(cell(tree.map(|ratio| format!("{:.3}", ratio.mean))));
        row.push(cell(
            tree.map(|ratio| format!("{:.3} to {:.3}", ratio.min, ratio.max)),
        ));
        row.push(cell(unicast.map(|ratio| format!("{:.2}", ratio.mean))));
        let draws = summary.draws(&case, Delivery::CYCLIC);
        row.push(draws.to_string());
        row
    });
    let common = suffix(grouping);
    let deliveries: u64 = summary
        .points
        .iter()
        .filter(|point| point.sources == sources && point.grouping == grouping)
        .map(|point| point.deliveries)
        .sum();
    let heading = format!(
        "Times, {sources} to many{common} ({:.1} million deliveries)",
        real(deliveries) / 1e6
    );
    Figure::table(heading, columns, rows)
}
