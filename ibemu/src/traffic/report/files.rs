//! The report as files: a page with plots, and what they show as CSV.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use experiments::{Axis, Curve, Figure, csv, page_of_figures};
use hostd::control::Histogram;
use serde::Serialize;
use wire::TrafficKind;
use wire::convert::{real, u64_of};

use super::super::collective_report::CollectiveJson;
use super::super::constant::ConstantJson;
use super::super::flows::Flow;
use super::super::run::RunOutcome;
use super::{About, state_name, sums};
use crate::quantity::{bit_rate, duration, per_second};

/// A flow in `flows.csv`.
#[derive(Debug, Serialize)]
struct FlowRow<'a> {
    source: &'a str,
    destination: &'a str,
    group: &'a str,
    dlid: u16,
    size: u16,
    state: &'static str,
    offered: u64,
    sent: u64,
    delivered: u64,
    lost: u64,
    unsent: u64,
    abandoned: u64,
    duplicates: u64,
    reordered: u64,
    bytes_delivered: u64,
    elapsed_ns: u64,
    bits_per_second: u64,
    latency_mean_ns: u64,
    latency_p50_ns: u64,
    latency_p99_ns: u64,
    latency_max_ns: u64,
}

/// Packets of a group with about one latency, in `latency.csv`.
#[derive(Debug, Serialize)]
struct LatencyRow<'a> {
    group: &'a str,
    latency_ns: u64,
    packets: u64,
}

/// Writes the report into a folder, which is made if need be.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(folder: &Path, what: &str, ran: &RunOutcome, about: &About<'_>) -> Result<()> {
    let groups = about.groups;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let put = |name: &str, bytes: Vec<u8>| {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())
    };
    let flows: Vec<FlowRow<'_>> = rows(ran, groups).collect();
    put("flows.csv", csv(&flows)?)?;
    let latencies = groups.iter().zip(&ran.latencies);
    let latencies = latencies.flat_map(|(group, histogram)| {
        histogram.points().map(|(latency_ns, packets)| LatencyRow {
            group,
            latency_ns,
            packets,
        })
    });
    let latencies: Vec<LatencyRow<'_>> = latencies.collect();
    put("latency.csv", csv(&latencies)?)?;
    let page = page_of_figures(
        &format!("Traffic: {what}"),
        &conditions(ran),
        &figures(ran, about),
    );
    put("traffic.html", page.into_bytes())
}

fn rows<'a>(ran: &'a RunOutcome, groups: &'a [String]) -> impl Iterator<Item = FlowRow<'a>> {
    ran.flows.iter().map(|Flow { spec, report }| {
        let name = |host: usize| ran.hosts[host].identity.name.as_str();
        let counts = super::Counts::of(report);
        let bits = report.bytes_delivered.saturating_mul(8);
        FlowRow {
            source: name(spec.pair.0),
            destination: name(spec.pair.1),
            group: group_name(groups, spec.group),
            dlid: report.dlid.get(),
            size: report.size,
            state: state_name(report.state),
            offered: counts.offered,
            sent: counts.sent,
            delivered: counts.delivered,
            lost: counts.lost,
            unsent: counts.unsent,
            abandoned: counts.abandoned,
            duplicates: counts.duplicates,
            reordered: counts.reordered,
            bytes_delivered: counts.bytes_delivered,
            elapsed_ns: report.elapsed_ns,
            bits_per_second: per_second(bits, report.elapsed_ns),
            latency_mean_ns: report.latency.mean_ns,
            latency_p50_ns: report.latency.p50_ns,
            latency_p99_ns: report.latency.p99_ns,
            latency_max_ns: report.latency.max_ns,
        }
    })
}

fn group_name(groups: &[String], group: u32) -> &str {
    let group = groups.get(wire::convert::usize_of(group));
    group.map_or("", String::as_str)
}

/// What is true of the whole run.
fn conditions(ran: &RunOutcome) -> [(&'static str, String); 6] {
    let all = sums(ran, |_| true);
    let counts = all.counts;
    let lost = match ran.left_out.len() {
        0 => String::new(),
        hosts => format!("; {hosts} hosts were left out"),
    };
    [
        ("Hosts", format!("{}{lost}", ran.hosts.len())),
        ("Flows", all.flows.to_string()),
        (
            "Packets",
            format!(
                "{} offered = {} delivered + {} lost + {} not sent + {} abandoned",
                counts.offered, counts.delivered, counts.lost, counts.unsent, counts.abandoned
            ),
        ),
        ("Delivered", bit_rate(all.bits_per_second)),
        ("Time", duration(all.elapsed_ns)),
        (
            "Ended",
            if ran.interrupted {
                "by an interrupt"
            } else {
                "as planned"
            }
            .to_owned(),
        ),
    ]
}

fn figures(ran: &RunOutcome, about: &About<'_>) -> Vec<Figure> {
    let groups = about.groups;
    let mut all = vec![group_table(ran, groups)];
    let operations = about.collectives_of(ran);
    if !operations.is_empty() {
        all.push(iterations(&operations));
    }
    let constants = about.constants_of(ran);
    if !constants.is_empty() {
        all.extend(in_intervals(&constants));
    }
    all.push(latencies(groups, &ran.latencies));
    all.push(shares(ran, groups));
    all.push(packets(ran));
    all.push(drops(ran));
    all
}

fn group_table(ran: &RunOutcome, groups: &[String]) -> Figure {
    let of_groups = groups.iter().zip(0..);
    let of_groups =
        of_groups.map(|(name, number)| (name.clone(), sums(ran, |group| group == number)));
    let columns = [
        "group",
        "flows",
        "offered",
        "delivered",
        "lost",
        "not sent",
        "abandoned",
        "rate",
        "fairness",
        "median latency",
        "99 %",
    ];
    let rows = of_groups.map(|(name, sums)| {
        let counts = sums.counts;
        let fairness = sums.fairness.map(|index| format!("{index:.3}"));
        vec![
            name,
            sums.flows.to_string(),
            counts.offered.to_string(),
            counts.delivered.to_string(),
            counts.lost.to_string(),
            counts.unsent.to_string(),
            counts.abandoned.to_string(),
            bit_rate(sums.bits_per_second),
            fairness.unwrap_or_default(),
            duration(sums.latency.p50_ns),
            duration(sums.latency.p99_ns),
        ]
    });
    Figure::table("Groups of flows", columns, rows)
}

fn iterations(all: &[CollectiveJson]) -> Figure {
    let curves = all.iter().map(|one| {
        let (name, times) = one.iterations();
        let times = times.iter().zip(1u32..);
        let points = times.map(|(&ns, iteration)| (f64::from(iteration), real(ns) / 1000.0));
        Curve::measured(name, points)
    });
    let x = Axis::linear("iteration");
    Figure::plot("Collectives", curves, x, Axis::linear("time, us"))
}

/// Delays and jitter of flows of constant bit rate.
fn in_intervals(all: &[ConstantJson<'_>]) -> [Figure; 2] {
    let x = || Axis::linear("inter-arrival times");
    let plot = |heading, which: usize, y| {
        let curves = all.iter().map(|one| {
            let (name, curves) = one.curves();
            Curve::measured(name, curves[which].clone())
        });
        Figure::plot(heading, curves, x(), Axis::linear(y))
    };
    [
        plot("Delay", 0, "packets that take no longer, %"),
        plot("Jitter", 1, "packets that deviate by no more, %"),
    ]
}

fn latencies(groups: &[String], all: &[Histogram]) -> Figure {
    let curves = groups.iter().zip(all).map(|(name, histogram)| {
        let mut below = 0;
        let points = histogram.points().map(move |(ns, packets)| {
            below += packets;
            let percent = 100.0 * real(below) / real(histogram.samples.max(1));
            (real(ns.max(1)) / 1000.0, percent)
        });
        Curve::measured(name, points)
    });
    let x = Axis::logarithmic("one-way latency, us");
    let y = Axis::linear("packets that take no longer, %");
    Figure::plot("Latency", curves, x, y)
}

/// What each flow gets, from the least to the most.
fn shares(ran: &RunOutcome, groups: &[String]) -> Figure {
    let curves = groups.iter().zip(0..).map(|(name, group)| {
        let own = ran.flows.iter().filter(|flow| flow.spec.group == group);
        let rate = |flow: &Flow| {
            let bits = flow.report.bytes_delivered.saturating_mul(8);
            per_second(bits, flow.report.elapsed_ns)
        };
        let mut rates: Vec<u64> = own.map(rate).collect();
        rates.sort_unstable();
        let of = real(u64_of(rates.len()).max(1));
        let points = rates.into_iter().zip(1u32..);
        let points = points.map(|(bits, at)| (100.0 * f64::from(at) / of, real(bits) / 1e6));
        Curve::measured(name, points.collect::<Vec<_>>())
    });
    let x = Axis::linear("flows, the slowest first, %");
    let y = Axis::linear("delivered, Mbit/s");
    Figure::plot("What flows get", curves, x, y)
}

fn packets(ran: &RunOutcome) -> Figure {
    let columns = [
        "packets",
        "sent",
        "delivered",
        "dropped",
        "under way",
        "unaccounted",
    ];
    let rows = TrafficKind::ALL.into_iter().filter_map(|kind| {
        let sums = ran.account.kinds.get(kind.name())?;
        Some(vec![
            kind.name().to_owned(),
            sums.sent.to_string(),
            sums.delivered.to_string(),
            sums.dropped.values().sum::<u64>().to_string(),
            sums.under_way.to_string(),
            sums.unaccounted.to_string(),
        ])
    });
    Figure::table("Where the packets are", columns, rows)
}

fn drops(ran: &RunOutcome) -> Figure {
    let columns = ["device", "port", "kind", "reason", "packets"];
    let rows = ran.account.drops.iter().map(|at| {
        vec![
            at.device.clone(),
            at.port.to_string(),
            at.kind.to_string(),
            at.reason.clone().unwrap_or_default(),
            at.packets.to_string(),
        ]
    });
    Figure::table("Dropped", columns, rows)
}
