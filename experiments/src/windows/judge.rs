//! Compares measured values with the paper's statements.

use crate::experiment::Verdict;
use crate::windows::Point;
use crate::windows::plan::{Fabric, WindowsPlan};
use crate::windows::scheme::Scheme;

/// The least part of the offered traffic that counts as all of it: the last packets arrive a
/// little after the last window.
const ACCEPTED_MIN: f64 = 0.98;

/// The points of a scheme on a fabric with a guard time.
pub(super) fn points_of<'a>(
    points: &'a [Point],
    fabric: &'a Fabric,
    scheme: &Scheme,
    guard_ns: u64,
) -> impl Iterator<Item = &'a Point> {
    let scheme = scheme.to_string();
    points.iter().filter(move |point| {
        point.topology == fabric.topology && point.scheme == scheme && point.guard_ns == guard_ns
    })
}

/// Judges every fabric with every guard time. Guard times that are too short are not judged.
pub(super) fn judge(plan: &WindowsPlan, points: &[Point]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for fabric in &plan.fabric {
        for &guard_ns in &plan.guards_ns {
            let of = |scheme: &Scheme| -> Vec<&Point> {
                points_of(points, fabric, scheme, guard_ns).collect()
            };
            let controlled = of(&Scheme::CONTROLLER);
            if controlled.is_empty() {
                continue;
            }
            let name = &fabric.topology;
            verdicts.push(no_packet_waits(name, guard_ns, &controlled));
            if Some(&guard_ns) != plan.guards_ns.first() {
                continue;
            }
            verdicts.push(no_link_shared(name, &controlled));
            verdicts.push(all_is_accepted(name, &controlled));
            for scheme in &fabric.schemes {
                if *scheme != Scheme::CONTROLLER {
                    verdicts.push(tail_is_not_longer(name, &controlled, &of(scheme)));
                }
            }
        }
    }
    verdicts
}

fn sum(points: &[&Point], of: impl Fn(&Point) -> u64) -> u64 {
    points.iter().map(|point| of(point)).sum()
}

/// CLOS04's definition of a strictly non-interfering network, for links of one rate.
fn no_packet_waits(name: &str, guard_ns: u64, points: &[&Point]) -> Verdict {
    let waited = sum(points, |point| point.waited);
    let packets = sum(points, |point| point.packets);
    let worst = points.iter().map(|point| point.latency_max_ns).max();
    let empty_ns = points.iter().map(|point| point.empty_between_ns).max();
    let (worst, empty_ns) = (worst.unwrap_or(0), empty_ns.unwrap_or(0));
    let is_enough = guard_ns >= empty_ns;
    Verdict {
        expected: format!(
            "{name}, guard {guard_ns} ns: with the controller no packet waits for another: all \
             take as long as in an empty network, {empty_ns} ns at most{}",
            if is_enough {
                ""
            } else {
                " (not judged: the guard time is shorter than that)"
            }
        ),
        measured: format!("{waited} of {packets} packets waited, the longest took {worst} ns"),
        holds: is_enough.then_some(waited == 0 && worst <= empty_ns),
    }
}

fn no_link_shared(name: &str, points: &[&Point]) -> Verdict {
    let shared = sum(points, |point| point.links_shared);
    let connections = sum(points, |point| point.connections);
    let moved = sum(points, |point| point.moved);
    Verdict {
        expected: format!(
            "{name}: with the controller no link is shared by two connections of a window, and no \
             admissible request is blocked"
        ),
        measured: format!(
            "{shared} links shared, 0 of {connections} connections blocked, {moved} moved"
        ),
        holds: Some(shared == 0),
    }
}

fn all_is_accepted(name: &str, points: &[&Point]) -> Verdict {
    let parts = points.iter().map(|point| point.accepted / point.offered);
    let least = parts.fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.rate).fold(0.0, f64::max);
    Verdict {
        expected: format!(
            "{name}: with the controller all offered traffic is accepted, up to {most} bytes/ns"
        ),
        measured: format!("{:.1} % at least", 100.0 * least),
        holds: Some(least >= ACCEPTED_MIN),
    }
}

/// Compares the 99th percentile with another scheme's, rate by rate.
fn tail_is_not_longer(name: &str, controlled: &[&Point], others: &[&Point]) -> Verdict {
    let mut holds = true;
    let mut measured = Vec::new();
    let mut rates: Vec<f64> = others.iter().map(|point| point.rate).collect();
    rates.dedup_by(|a, b| a.total_cmp(b).is_eq());
    for rate in rates {
        let worst = |points: &[&Point]| {
            let here = points.iter().filter(|p| p.rate.total_cmp(&rate).is_eq());
            here.map(|point| point.latency_p99_ns).max().unwrap_or(0)
        };
        let (own, other) = (worst(controlled), worst(others));
        holds &= own <= other;
        measured.push(format!("{rate}: {own} against {other}"));
    }
    let scheme = others.first().map_or("", |point| &point.scheme);
    Verdict {
        expected: format!(
            "{name}: the 99th percentile of the latency is not longer than with {scheme}"
        ),
        measured: format!("ns by bytes/ns: {}", measured.join("; ")),
        holds: Some(holds),
    }
}
