//! Compares numbers of established connections with VLARB01's.

use routing::qos::{LinkRate, frame_ns};
use wire::choice::Choice as _;

use super::{AdmissionPlan, Point, RatePlan, frame_in_paper_ns};
use crate::experiment::Verdict;
use crate::qos::judge::span;

/// The fewest and the most connections established among the first `tries`; `None` without runs.
pub(super) fn established(
    points: &[Point],
    rate: LinkRate,
    topology: &str,
    tries: u32,
) -> Option<[u32; 2]> {
    let here = points
        .iter()
        .filter(|point| point.rate == rate && point.topology == topology);
    // A fill ends with the first connection that cannot be established.
    let counts = here.map(|point| point.established.min(tries));
    Some([counts.clone().min()?, counts.max()?])
}

/// Judges all tables.
pub(super) fn judge(plan: &AdmissionPlan, points: &[Point]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for table in &plan.rates {
        let rate = table.rate;
        let ns = frame_ns(rate.bps());
        verdicts.push(Verdict {
            expected: format!(
                "Table 1, {}: a frame of {} ns",
                rate.name(),
                frame_in_paper_ns(rate)
            ),
            measured: ns.map_or_else(|error| error.to_string(), |ns| format!("{ns} ns")),
            holds: Some(ns == Ok(frame_in_paper_ns(rate))),
        });
        for topology in &plan.topologies {
            let last = table.tries.last().copied().unwrap_or(0);
            let Some([least, most]) = established(points, rate, topology, last) else {
                continue;
            };
            let paper = plan.paper(rate, topology);
            if let Some(paper) = paper {
                verdicts.push(full_rows(table, topology, (least, most), paper));
                verdicts.push(final_number(table, topology, (least, most), paper));
            }
            if let Some([from, to]) = table.established {
                verdicts.push(Verdict {
                    expected: format!(
                        "{topology} at {}: {from} to {to} connections established",
                        rate.name()
                    ),
                    measured: span(least, most),
                    holds: Some(least >= from && most <= to),
                });
            }
        }
    }
    verdicts.push(entries_limit(points));
    verdicts
}

/// The rows of the paper in which all connections are established in every column.
fn full_rows(
    table: &RatePlan,
    topology: &str,
    (least, most): (u32, u32),
    paper: [u32; 2],
) -> Verdict {
    let in_paper = paper.into_iter().min().unwrap_or(0);
    let rows = table.tries.iter().rev();
    let whole = rows.copied().find(|&tries| tries <= in_paper).unwrap_or(0);
    Verdict {
        expected: format!(
            "{}, {topology}: {whole} connections tried are all established",
            table.table
        ),
        measured: format!("{} are", span(least.min(whole), most.min(whole))),
        holds: Some(least >= whole),
    }
}

/// The final number of connections next to the paper's; not judged.
fn final_number(
    table: &RatePlan,
    topology: &str,
    (least, most): (u32, u32),
    paper: [u32; 2],
) -> Verdict {
    let [small, large] = paper;
    let mean = f64::midpoint(f64::from(small), f64::from(large));
    let ours = f64::midpoint(f64::from(least), f64::from(most));
    Verdict {
        expected: format!(
            "{}, {topology}: {small} (256 bytes) and {large} (4,096 bytes) connections established",
            table.table
        ),
        measured: format!(
            "{}, {:+.1} %",
            span(least, most),
            100.0 * (ours / mean - 1.0)
        ),
        holds: None,
    }
}

fn entries_limit(points: &[Point]) -> Verdict {
    let by = |cause: &str| points.iter().filter(|p| p.first_refusal == cause).count();
    Verdict {
        expected: "the number of table entries is no limit (section 4.2)".to_owned(),
        measured: format!(
            "the first refusal was for entries in {} fills, for bandwidth in {}",
            by("entries"),
            by("bandwidth")
        ),
        holds: Some(by("entries") == 0),
    }
}
