//! Compares measured values with VLARB01's statements.

use routing::qos::Layout;

use crate::experiment::{Verdict, mean};
use crate::qos::lists::{Counts, LEVELS};
use crate::qos::plan::{BestEffort, QosPlan, Subject};
use crate::qos::point::HALF;
use crate::qos::summary::Summary;
use crate::qos::workload::{DELAYS_32, JITTER_8};
use sim::real;

/// Tolerance of "close to" a utilisation.
const UTILISATION_TOLERANCE: f64 = 0.08;
/// Tolerance of delivered against sent traffic: packets in flight at the end.
const DELIVERY_TOLERANCE: f64 = 0.01;
/// The share of a link that best effort leaves to connections.
const AVAILABLE: f64 = 0.8;
/// Indices of thresholds: 1/32, 3/4 and one inter-arrival time.
const FIRST: usize = 0;
const THREE_QUARTERS: usize = 5;
const WHOLE: usize = 6;
const _: () = assert!(DELAYS_32[THREE_QUARTERS] == 24 && DELAYS_32[WHOLE] == 32);
/// The bin of jitter from -1/8 to 1/8 of an inter-arrival time.
pub(super) const CENTRE: usize = 5;
const _: () = assert!(JITTER_8[CENTRE] == 1 && JITTER_8[CENTRE - 1] == -1);

/// Judges everything that the plan shows.
pub(super) fn judge(plan: &QosPlan, summaries: &[Summary<'_>]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let full: Vec<&Summary<'_>> = summaries
        .iter()
        .filter(|summary| summary.first.tries == plan.tries_max())
        .collect();
    let paper_configurations = full
        .iter()
        .filter(|summary| is_paper_configuration(summary));
    for summary in paper_configurations {
        verdicts.extend(established(plan, summary));
        if plan.shows(Subject::Utilisation) {
            verdicts.extend(utilisation(summary));
        }
        if plan.shows(Subject::Delays) {
            verdicts.extend(delays(summary));
        }
        if plan.shows(Subject::Jitter) {
            verdicts.extend(jitter(summary));
        }
        if plan.shows(Subject::Extremes) {
            verdicts.extend(extremes(summary));
        }
    }
    if plan.shows(Subject::Throughput) {
        verdicts.extend(
            summaries
                .iter()
                .filter(|s| is_paper_configuration(s))
                .map(throughput),
        );
    }
    if plan.shows(Subject::Layouts) {
        verdicts.extend(layouts(&full));
    }
    verdicts
}

/// Whether it is a configuration that the paper has measured.
pub(super) fn is_paper_configuration(summary: &Summary<'_>) -> bool {
    summary.first.layout == Layout::Contiguous && summary.first.best_effort == BestEffort::Idle
}

/// Name of the network and length of packets.
pub(super) fn name(summary: &Summary<'_>) -> String {
    let first = summary.first;
    format!("{}, {} bytes", first.topology, first.packet_bytes)
}

fn established(plan: &QosPlan, summary: &Summary<'_>) -> Option<Verdict> {
    let [least, most] = plan.established?;
    let [fewest, greatest] = summary.established();
    Some(Verdict {
        expected: format!(
            "{}: {least} to {most} connections established",
            name(summary)
        ),
        measured: span(fewest, greatest),
        holds: Some(fewest >= least && greatest <= most),
    })
}

/// A range, as one number if its ends are equal.
pub(super) fn span(least: u32, most: u32) -> String {
    if least == most {
        least.to_string()
    } else {
        format!("{least} to {most}")
    }
}

/// What connections have sent and what of it was delivered, and whether these are the same.
fn delivery(summary: &Summary<'_>) -> (f64, f64, bool) {
    let injected = summary.mean(|point| point.injected);
    let delivered = summary.mean(|point| point.delivered);
    let is_all = (injected - delivered).abs() <= DELIVERY_TOLERANCE * injected;
    (injected, delivered, is_all)
}

/// Figure 4.
fn throughput(summary: &Summary<'_>) -> Verdict {
    let (injected, delivered, is_all) = delivery(summary);
    let refused: u64 = summary.points.iter().map(|point| point.refused).sum();
    Verdict {
        expected: format!(
            "{}, {} tried: what connections send is delivered",
            name(summary),
            summary.first.tries
        ),
        measured: format!(
            "{injected:.4} sent and {delivered:.4} delivered, bytes per byte time and host"
        ),
        holds: Some(refused == 0 && is_all),
    }
}

fn utilisation(summary: &Summary<'_>) -> Vec<Verdict> {
    let hosts = summary.utilisation(|point| &point.host_bytes);
    let switches = summary.utilisation(|point| &point.switch_bytes);
    let links = [("host interfaces", hosts), ("switch ports", switches)];
    let verdict = |(what, used): (&str, Vec<f64>)| {
        let average = mean(used.iter().copied()).unwrap_or(0.0);
        let above = used.iter().filter(|&&used| used > AVAILABLE).count();
        Verdict {
            expected: format!(
                "{}: the average utilisation of {what} is close to 80 % (within {:.0})",
                name(summary),
                100.0 * UTILISATION_TOLERANCE
            ),
            measured: format!(
                "{:.1} % ({above} of {} above 80 %)",
                100.0 * average,
                used.len()
            ),
            holds: Some((average - AVAILABLE).abs() <= UTILISATION_TOLERANCE),
        }
    };
    links.into_iter().map(verdict).collect()
}

/// Whether all packets are within a threshold (`None` without packets), and a text about it.
fn all_within(counts: &Counts, place: usize) -> (String, Option<bool>) {
    let all = counts.sum();
    let within: u64 = counts.0.iter().take(place + 1).sum();
    let percent = 100.0 * counts.share_up_to(place);
    let text = format!("{percent:.3} % ({} of {all} later)", all - within);
    (text, (all > 0).then_some(within == all))
}

fn delays(summary: &Summary<'_>) -> Vec<Verdict> {
    let verdict = |level: usize| {
        let (place, limit) = if level < 2 {
            (FIRST, "1/32 IAT")
        } else {
            (THREE_QUARTERS, "3/4 IAT")
        };
        let (measured, holds) = all_within(&summary.delays.0[level], place);
        Verdict {
            expected: format!(
                "{}: all packets of SL {level} arrive within {limit}",
                name(summary)
            ),
            measured: format!(
                "{measured}, the latest after {:.3} IAT",
                summary.delay_max(level)
            ),
            holds,
        }
    };
    (0..LEVELS).map(verdict).collect()
}

fn jitter(summary: &Summary<'_>) -> Vec<Verdict> {
    let verdict = |level: usize| {
        let counts = &summary.jitter.0[level].0;
        let all: u64 = counts.iter().sum();
        let last = JITTER_8.len();
        let (bins, limit) = if level < 2 {
            (CENTRE..=CENTRE, "1/8 IAT")
        } else {
            (1..=last - 1, "1 IAT")
        };
        let within: u64 = counts.get(bins).map_or(0, |bins| bins.iter().sum());
        let percent = 100.0 * real(within) / real(all.max(1));
        Verdict {
            expected: format!(
                "{}: the jitter of SL {level} is never beyond {limit}",
                name(summary)
            ),
            measured: match all {
                0 => "no connection has had two packets".to_owned(),
                _ => format!("{percent:.3} % ({} of {all} beyond)", all - within),
            },
            holds: (all > 0).then_some(within == all),
        }
    };
    (0..LEVELS).map(verdict).collect()
}

fn extremes(summary: &Summary<'_>) -> Vec<Verdict> {
    let verdict = |level: usize| {
        let (best, worst) = (&summary.best.0[level], &summary.worst.0[level]);
        let half = |counts: &Counts| 100.0 * counts.share_up_to(HALF);
        let (_, holds) = all_within(worst, WHOLE);
        Verdict {
            expected: format!(
                "{}: even the worst connection of SL {level} has all packets within 1 IAT",
                name(summary)
            ),
            measured: format!(
                "{:.2} % of the worst; within 1/2 IAT: best {:.2} %, worst {:.2} %",
                100.0 * worst.share_up_to(WHOLE),
                half(best),
                half(worst)
            ),
            holds,
        }
    };
    (0..LEVELS).map(verdict).collect()
}

/// Packets of all service levels that took longer than one inter-arrival time, and all packets.
fn late(summary: &Summary<'_>) -> (u64, u64) {
    let levels = summary.delays.0.iter();
    levels.fold((0, 0), |(late, all), counts| {
        let within: u64 = counts.0.iter().take(WHOLE + 1).sum();
        (late + counts.sum() - within, all + counts.sum())
    })
}

/// Whether connections get the promised bandwidth.
fn promised(heading: &str, summary: &Summary<'_>) -> Verdict {
    let (injected, delivered, is_all) = delivery(summary);
    Verdict {
        expected: format!(
            "{heading}: {} entries keep the promised bandwidth",
            summary.first.layout
        ),
        measured: format!(
            "{:.2} % of it, with {:.4} of best effort (bytes per byte time and host)",
            100.0 * delivered / injected,
            summary.mean(|point| point.delivered_best_effort)
        ),
        holds: Some(is_all),
    }
}

/// Contiguous against interleaved entries where best effort is backlogged.
fn layouts(full: &[&Summary<'_>]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for contiguous in full {
        if contiguous.first.layout != Layout::Contiguous {
            continue;
        }
        let is_other = |other: &&&Summary<'_>| {
            other.first.layout == Layout::Interleaved
                && other.first.best_effort == contiguous.first.best_effort
                && name(other) == name(contiguous)
        };
        let Some(interleaved) = full.iter().find(is_other) else {
            continue;
        };
        let is_backlogged = contiguous.first.best_effort == BestEffort::Backlogged;
        let heading = format!(
            "{}, best effort {}",
            name(contiguous),
            contiguous.first.best_effort
        );
        let (late, all) = late(contiguous);
        let missed = |late: u64, all: u64| {
            let percent = 100.0 * real(late) / real(all.max(1));
            format!("{late} of {all} ({percent:.4} %)")
        };
        let (late_interleaved, all_interleaved) = self::late(interleaved);
        if is_backlogged {
            verdicts.extend([contiguous, interleaved].map(|summary| promised(&heading, summary)));
            verdicts.push(Verdict {
                expected: format!("{heading}: contiguous entries miss deadlines of 1 IAT"),
                measured: missed(late, all),
                holds: Some(late > 0),
            });
            verdicts.push(Verdict {
                expected: format!("{heading}: interleaved entries miss fewer of them"),
                measured: missed(late_interleaved, all_interleaved),
                holds: Some(late_interleaved < late),
            });
        }
        let ratio = |level: usize| {
            real(contiguous.delay_max_ns(level)) / real(interleaved.delay_max_ns(level).max(1))
        };
        let ratios: Vec<String> = (0..LEVELS)
            .map(|level| format!("SL {level}: {:.2}", ratio(level)))
            .collect();
        verdicts.push(Verdict {
            expected: if is_backlogged {
                format!("{heading}: the longest delay of SL 2 and 3 shrinks by interleaving")
            } else {
                format!("{heading}: longest delay, contiguous over interleaved")
            },
            measured: ratios.join(", "),
            holds: is_backlogged.then(|| ratio(2) > 1.0 && ratio(3) > 1.0),
        });
    }
    verdicts
}

#[cfg(test)]
mod tests;
