//! Tables as the paper has them, beside the paper's numbers, and plots.

use core::iter::once;

use crate::figure::{Axis, Curve, Figure};
use crate::lids::judge::{judge_order, number};
use crate::lids::plan::{LidsPlan, Measure, RoutingScheme};
use crate::lids::size::Size;
use crate::lids::summary::Summary;

/// The key of the paper.
const PAPER: &str = "LID07";

/// Tables of each reading and measure, and plots of the first reading.
pub(super) fn figures(plan: &LidsPlan, readings: &[Summary<'_>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for summary in readings {
        for &measure in &plan.measures {
            figures.push(means(summary, measure));
            figures.push(confidence(summary, measure));
        }
    }
    if readings.len() > 1 && !plan.order.is_empty() {
        figures.push(statements(plan, readings));
    }
    for &measure in &plan.measures {
        let first = readings.iter().take(1);
        figures.extend(first.flat_map(|summary| plots(summary, measure)));
    }
    figures
}

/// A table with a row for each size and `cells` for each scheme, given its place.
fn table(
    summary: &Summary<'_>,
    what: String,
    columns: &[&str],
    cells: impl Fn(Size, usize, &RoutingScheme) -> Vec<String>,
) -> Figure {
    let plan = summary.plan;
    let names = plan.scheme.iter().flat_map(|scheme| {
        let others = columns.iter().copied();
        once(scheme.name.as_str()).chain(others).map(str::to_owned)
    });
    let row = |&size: &Size| {
        let mut row = vec![size.to_string()];
        for (place, scheme) in plan.scheme.iter().enumerate() {
            row.extend(cells(size, place, scheme));
        }
        row
    };
    let heading = match plan.reading.len() {
        1 => what,
        _ => format!("{what}: {}", summary.reading),
    };
    let columns = once("hosts/switches".to_owned()).chain(names);
    Figure::table(heading, columns, plan.sizes.iter().map(row))
}

/// Means beside the paper's results.
fn means(summary: &Summary<'_>, measure: Measure) -> Figure {
    let title = measure.title();
    let what = format!("{title}, mean over graphs, beside the paper's (how far off)");
    table(summary, what, &["paper"], |size, place, scheme| {
        let sample = summary.sample(size, scheme, measure);
        let mean = sample.map(|sample| sample.mean);
        let paper = summary.reference(size, place, measure);
        let compared = mean.zip(paper).map(|(mean, paper)| {
            let off = 100.0 * (mean / paper - 1.0);
            format!("{paper} ({off:+.1} %)")
        });
        let mean = mean.map(|mean| number(mean, measure));
        vec![mean.unwrap_or_default(), compared.unwrap_or_default()]
    })
}

/// Confidence intervals of the means.
fn confidence(summary: &Summary<'_>, measure: Measure) -> Figure {
    let title = measure.title();
    let what = format!("{title}: 95 % interval of the mean, standard deviation of a graph");
    table(summary, what, &[], |size, _, scheme| {
        let sample = summary.sample(size, scheme, measure);
        let cell = sample.map(|sample| format!("± {:.2}, {:.2}", sample.margin, sample.deviation));
        vec![cell.unwrap_or_default()]
    })
}

/// Which of the paper's statements hold in which reading.
fn statements(plan: &LidsPlan, readings: &[Summary<'_>]) -> Figure {
    let orders = &plan.order;
    let rows = readings.iter().map(|summary| {
        let cells = orders.iter().map(|order| {
            let holds = judge_order(summary, order).and_then(|verdict| verdict.holds);
            match holds {
                Some(true) => "holds".to_owned(),
                Some(false) => "does not".to_owned(),
                None => String::new(),
            }
        });
        once(summary.reading.to_string()).chain(cells).collect()
    });
    let names = orders.iter().map(|order| {
        let (least, title) = (&order.least, order.measure.title());
        format!("{title}: {least} at most {}", order.than.join(", "))
    });
    let heading = "Statements by reading; only the first is judged";
    let columns = once("reading".to_owned()).chain(names);
    Figure::table(heading, columns, rows)
}

/// A plot over hosts for each number of switches: measured, and the paper's.
fn plots(summary: &Summary<'_>, measure: Measure) -> Vec<Figure> {
    let plan = summary.plan;
    let mut switches: Vec<u32> = plan.sizes.iter().map(|size| size.switches).collect();
    switches.sort_unstable();
    switches.dedup();
    let plot = |switches: u32| {
        let mut sizes = plan.sizes.clone();
        sizes.retain(|size| size.switches == switches);
        sizes.sort_unstable();
        let points = |of: &dyn Fn(usize) -> Option<f64>| -> Vec<(f64, f64)> {
            sizes
                .iter()
                .enumerate()
                .filter_map(|(at, size)| {
                    let hosts = f64::from(size.hosts);
                    Some((hosts, of(at)? / hosts))
                })
                .collect()
        };
        let measured = plan.scheme.iter().map(|scheme| {
            let mean = |at: usize| Some(summary.sample(sizes[at], scheme, measure)?.mean);
            Curve::measured(&scheme.name, points(&mean))
        });
        let paper = plan.scheme.iter().enumerate().map(|(place, scheme)| {
            let reference = |at: usize| summary.reference(sizes[at], place, measure);
            Curve::of_paper(PAPER, scheme.name.as_str(), points(&reference))
        });
        let curves = measured.chain(paper);
        Figure::plot(
            format!("{}, {switches} switches", measure.title()),
            curves.filter(|curve| !curve.points.is_empty()),
            Axis::logarithmic("hosts"),
            Axis::linear(match measure {
                Measure::Lids => "LIDs a host",
                Measure::Load => "load, divided by hosts",
            }),
        )
    };
    switches.into_iter().map(plot).collect()
}
