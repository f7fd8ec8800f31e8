//! Conditions, plots and tables of promised bandwidth at work.

use wire::convert::u64_of;

use crate::experiment::mean;
use crate::figure::{Axis, Columns, Curve, Figure};
use crate::qos::judge::{is_paper_configuration, name, span};
use crate::qos::lists::{Counts, LEVELS};
use crate::qos::plan::{QosPlan, Subject};
use crate::qos::point::Point;
use crate::qos::summary::{Summary, percents};
use crate::qos::workload::{DELAYS_32, JITTER_8};
use sim::real;

pub(super) fn conditions(plan: &QosPlan) -> Vec<(&'static str, String)> {
    let sizes: Vec<String> = plan.packet_bytes.iter().map(u16::to_string).collect();
    let model = plan.model(plan.packet_bytes.first().copied().unwrap_or(256));
    vec![
        ("Runs of each point", plan.runs.to_string()),
        ("Routing", plan.routing.to_string()),
        (
            "Packets",
            format!("{} bytes (LRH to ICRC)", sizes.join(", ")),
        ),
        (
            "Network",
            format!(
                "a byte takes 4 ns where VLARB01's takes 3.2, so all times are 1.25 times the \
                 paper's and connections keep their shares of links; {} ns of flight and {} ns of \
                 arbitration, virtual cut-through, a crossbar that takes no time (the paper's is \
                 twice as fast as the links)",
                model.flight_ns, model.routing_ns
            ),
        ),
        (
            "Buffers",
            format!(
                "{0} packets in, {0} packets out, for each VL of a port",
                plan.buffer_packets
            ),
        ),
        (
            "Credits",
            "ideal: returned as soon as a buffer is freed".to_owned(),
        ),
        (
            "Connections",
            "DB, the four bands in turn, source, destination and rate drawn until admitted; a \
             packet each IAT = packet / rate, the first at a random time of the first IAT"
                .to_owned(),
        ),
        (
            "Draws for a connection before no more are tried",
            plan.retries.to_string(),
        ),
        (
            "Reserved",
            "20 % for best effort (13 entries), one entry for challenged traffic".to_owned(),
        ),
        (
            "Time",
            format!(
                "{} packets of a busy link to warm up, {} measured",
                plan.warmup_packets, plan.measure_packets
            ),
        ),
        (
            "Delay",
            "from the generation of a packet to the arrival of its last byte".to_owned(),
        ),
    ]
}

pub(super) fn figures(plan: &QosPlan, summaries: &[Summary<'_>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    if plan.shows(Subject::Throughput) {
        figures.push(throughput(plan, summaries));
    }
    let full: Vec<&Summary<'_>> = summaries
        .iter()
        .filter(|summary| summary.first.tries == plan.tries_max())
        .collect();
    figures.push(overview(plan, &full));
    for summary in full
        .iter()
        .filter(|summary| is_paper_configuration(summary))
    {
        let heading = name(summary);
        if plan.shows(Subject::Utilisation) {
            figures.extend(utilisation(&heading, summary));
        }
    }
    for summary in &full {
        let heading = if plan.shows(Subject::Layouts) {
            title(summary)
        } else {
            name(summary)
        };
        if plan.shows(Subject::Delays) {
            figures.push(delays(&heading, summary));
            figures.push(delay_table(&heading, summary));
        }
        if plan.shows(Subject::Jitter) {
            figures.extend(jitter(&heading, summary));
        }
        if plan.shows(Subject::Extremes) {
            figures.extend((0..LEVELS).map(|level| extremes(&heading, summary, level)));
        }
    }
    figures
}

fn title(summary: &Summary<'_>) -> String {
    let first = summary.first;
    format!(
        "{}, {} entries, best effort {}",
        name(summary),
        first.layout,
        first.best_effort
    )
}

/// Connections and traffic next to the paper's numbers.
fn overview(plan: &QosPlan, full: &[&Summary<'_>]) -> Figure {
    let paper = |summary: &Summary<'_>| {
        let first = summary.first;
        let mut references = plan.reference.iter();
        let reference = references.find(|reference| {
            reference.topology == first.topology && reference.packet_bytes == first.packet_bytes
        });
        reference.map_or_else(String::new, |r| r.established.to_string())
    };
    let established = |summary: &Summary<'_>| {
        let [least, most] = summary.established();
        span(least, most)
    };
    let busy = |summary: &Summary<'_>, list: fn(&Point) -> &Counts| {
        let used = mean(summary.utilisation(list)).unwrap_or(0.0);
        format!("{:.2}", 100.0 * used)
    };
    let share =
        |summary: &Summary<'_>, value: fn(&Point) -> f64| format!("{:.4}", summary.mean(value));
    let refused = |summary: &Summary<'_>| {
        let refused: u64 = summary.points.iter().map(|point| point.refused).sum();
        refused.to_string()
    };
    let columns: &Columns<'_, &&Summary<'_>> = &[
        ("network", &|s| name(s)),
        ("entries", &|s| s.first.layout.to_string()),
        ("best effort", &|s| s.first.best_effort.to_string()),
        ("connections", &|s| established(s)),
        ("in the paper", &|s| paper(s)),
        ("reserved", &|s| share(s, |point| point.reserved_mean)),
        ("injected", &|s| share(s, |point| point.injected)),
        ("delivered", &|s| share(s, |point| point.delivered)),
        ("best effort arrived", &|s| {
            share(s, |point| point.delivered_best_effort)
        }),
        ("hosts busy, %", &|s| busy(s, |point| &point.host_bytes)),
        ("switch ports busy, %", &|s| {
            busy(s, |point| &point.switch_bytes)
        }),
        ("refused", &|s| refused(s)),
    ];
    let heading = "Connections and traffic (bytes per byte time and host)";
    Figure::rows(heading, columns, full)
}

/// Figure 4.
fn throughput(plan: &QosPlan, summaries: &[Summary<'_>]) -> Figure {
    let mut curves = Vec::new();
    for topology in &plan.topologies {
        for &bytes in &plan.packet_bytes {
            let here = summaries.iter().filter(|summary| {
                let first = summary.first;
                is_paper_configuration(summary)
                    && first.topology == *topology
                    && first.packet_bytes == bytes
            });
            let point = |summary: &Summary<'_>| {
                let established = summary.mean(|point| f64::from(point.established));
                (established, summary.mean(|point| point.delivered))
            };
            let name = format!("{topology}, {bytes} bytes");
            curves.push(Curve::measured(name, here.map(point)));
        }
    }
    Figure::plot(
        "Figure 4: delivered traffic",
        curves,
        Axis::linear("connections established"),
        Axis::linear("delivered traffic, bytes per byte time and host"),
    )
}

/// Figures 5 to 7: in the order of ports, hosts first, and in the order of utilisation.
fn utilisation(heading: &str, summary: &Summary<'_>) -> [Figure; 2] {
    let percent = |values: Vec<f64>| -> Vec<f64> { values.iter().map(|u| 100.0 * u).collect() };
    let hosts = percent(summary.utilisation(|point| &point.host_bytes));
    let switches = percent(summary.utilisation(|point| &point.switch_bytes));
    let curve = |name: &str, values: &[f64], from: usize| {
        let values = values.iter().zip(from..);
        Curve::measured(name, values.map(|(&value, at)| (real(u64_of(at)), value)))
    };
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let plot = |what: &str, hosts: &[f64], switches: &[f64], from: usize| {
        let hosts = curve("host interfaces", hosts, 0);
        Figure::plot(
            format!("Utilisation {what}: {heading}"),
            [hosts, curve("switch ports", switches, from)],
            Axis::linear("port"),
            Axis::linear("utilisation, %"),
        )
    };
    [
        plot("by port, hosts first", &hosts, &switches, hosts.len()),
        plot("in ascending order", &sorted(&hosts), &sorted(&switches), 0),
    ]
}

fn level_name(level: usize) -> String {
    format!("SL {level}")
}

/// Thresholds of delays in inter-arrival times.
fn thresholds() -> impl Iterator<Item = f64> {
    DELAYS_32.iter().map(|&parts| real(parts) / 32.0)
}

fn delay_curve(name: String, counts: &Counts) -> Curve {
    let shares = percents(counts, DELAYS_32.len());
    Curve::measured(name, thresholds().zip(shares))
}

fn shares_by_deadline(heading: String, curves: impl IntoIterator<Item = Curve>) -> Figure {
    let (x, y) = (
        Axis::logarithmic("deadline, IAT"),
        Axis::linear("packets, %"),
    );
    Figure::plot(heading, curves, x, y)
}

/// Figure 8.
fn delays(heading: &str, summary: &Summary<'_>) -> Figure {
    let curve = |level: usize| delay_curve(level_name(level), &summary.delays.0[level]);
    shares_by_deadline(
        format!("Packets that arrive in time: {heading}"),
        (0..LEVELS).map(curve),
    )
}

fn delay_table(heading: &str, summary: &Summary<'_>) -> Figure {
    let mut columns: Vec<String> = ["", "packets", "mean, IAT", "longest, IAT", "longest, ns"]
        .map(str::to_owned)
        .into();
    columns.extend(DELAYS_32.map(|parts| format!("within {parts}/32, %")));
    let row = |level: usize| {
        let counts = &summary.delays.0[level];
        let mut row = vec![
            level_name(level),
            counts.sum().to_string(),
            format!("{:.4}", summary.delay_mean(level)),
            format!("{:.4}", summary.delay_max(level)),
            summary.delay_max_ns(level).to_string(),
        ];
        let shares = percents(counts, DELAYS_32.len());
        row.extend(shares.iter().map(|share| format!("{share:.3}")));
        row
    };
    Figure::table(format!("Delays: {heading}"), columns, (0..LEVELS).map(row))
}

/// Figure 9: a curve through the middles of the bars, and the numbers.
fn jitter(heading: &str, summary: &Summary<'_>) -> [Figure; 2] {
    let edges: Vec<f64> = JITTER_8
        .iter()
        .map(|&parts| real(parts.unsigned_abs()) / 8.0 * if parts < 0 { -1.0 } else { 1.0 })
        .collect();
    let share = |counts: &Counts, place: usize| {
        let count = counts.0.get(place).copied().unwrap_or(0);
        100.0 * real(count) / real(counts.sum().max(1))
    };
    let bars = edges.len() + 1;
    let middle = |place: usize| match (place.checked_sub(1), edges.get(place)) {
        (Some(before), Some(&edge)) => f64::midpoint(edges[before], edge),
        (None, Some(&edge)) => edge - 0.125,
        (Some(before), None) => edges[before] + 0.125,
        (None, None) => 0.0,
    };
    let curve = |level: usize| {
        let point = |place| (middle(place), share(&summary.jitter.0[level], place));
        Curve::measured(level_name(level), (0..bars).map(point))
    };
    let mut columns = vec![String::new()];
    columns.extend((0..bars).map(|place| match (place, JITTER_8.get(place)) {
        (0, Some(edge)) => format!("to {edge}/8"),
        (_, Some(edge)) => format!("{} to {edge}/8", JITTER_8[place - 1]),
        (_, None) => "above 8/8".to_owned(),
    }));
    let row = |level: usize| {
        let shares = (0..bars).map(|place| share(&summary.jitter.0[level], place));
        let mut row = vec![level_name(level)];
        row.extend(shares.map(|share| format!("{share:.3}")));
        row
    };
    [
        Figure::plot(
            format!("Packets by jitter: {heading}"),
            (0..LEVELS).map(curve),
            Axis::linear("jitter, IAT"),
            Axis::linear("packets, %"),
        ),
        Figure::table(
            format!("Packets by jitter, %, bounds in IAT: {heading}"),
            columns,
            (0..LEVELS).map(row),
        ),
    ]
}

/// One part of figures 10 to 12.
fn extremes(heading: &str, summary: &Summary<'_>, level: usize) -> Figure {
    let [best, worst] = summary.extremes_bps[level];
    let curve = |what: &str, bps: u64, counts: &Counts| {
        let name = format!("{what}: {:.3} Mbit/s", real(bps) / 1e6);
        delay_curve(name, counts)
    };
    shares_by_deadline(
        format!("Best and worst connection of SL {level}: {heading}"),
        [
            curve("best", best, &summary.best.0[level]),
            curve("worst", worst, &summary.worst.0[level]),
        ],
    )
}
