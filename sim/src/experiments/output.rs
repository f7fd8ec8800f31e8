//! Points as CSV, and everything as JSON.

use core::fmt::Write as _;

use serde::Serialize;

use crate::experiments::Options;
use crate::experiments::judge::Verdict;
use crate::experiments::plan::Plan;
use crate::experiments::points::Point;

const COLUMNS: &str = "topology,scheme,vls,traffic,run,seed,offered_bytes_per_ns,\
accepted_bytes_per_ns,latency_ns,total_latency_ns,latency_p50_ns,latency_p99_ns,packets,born,\
refused,traversals,dropped,lost,deadlock";

/// One line a point under a line of names. No field holds a comma or a quote.
pub(super) fn csv(points: &[Point]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for point in points {
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{:.6},{:.3},{:.3},{},{},{},{},{},{},{},{},{}",
            point.topology,
            point.scheme,
            point.vls,
            point.traffic,
            point.run,
            point.seed,
            point.offered,
            point.accepted,
            point.latency_ns,
            point.total_latency_ns,
            point.latency_p50_ns,
            point.latency_p99_ns,
            point.packets,
            point.born,
            point.refused,
            point.traversals,
            point.dropped,
            point.lost,
            point.deadlock.is_some(),
        );
    }
    text
}

#[derive(Serialize)]
struct Document<'a> {
    plan: &'a str,
    title: &'a str,
    paper: &'a str,
    quick: bool,
    seed: u64,
    packet_bytes: u16,
    credits: String,
    lanes: String,
    warmup_ns: u64,
    measure_ns: u64,
    verdicts: &'a [Verdict],
    points: &'a [Point],
}

/// The conditions, the verdicts and all points.
pub(super) fn json(
    plan: &Plan,
    options: Options,
    points: &[Point],
    verdicts: &[Verdict],
) -> String {
    let document = Document {
        plan: &plan.name,
        title: &plan.title,
        paper: &plan.paper,
        quick: options.quick,
        seed: options.seed,
        packet_bytes: plan.packet_bytes,
        credits: format!("{:?}", plan.credits).to_lowercase(),
        lanes: format!("{:?}", plan.lanes).to_lowercase(),
        warmup_ns: plan.warmup_ns,
        measure_ns: plan.measure_ns,
        verdicts,
        points,
    };
    // All of it is numbers and text: nothing that JSON could not say.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
