//! Compares measured values with the paper's statements.

use crate::experiment::Verdict;
use crate::requests::Point;
use crate::requests::plan::{Policy, RequestsPlan, Sequence, Size};

/// Sums over runs and occupancies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) points: u32,
    pub(super) requests: u64,
    pub(super) blocked: u64,
    pub(super) moving: u64,
    pub(super) moves: u64,
    pub(super) moves_max: u64,
    pub(super) deferred: u64,
    pub(super) windows: u64,
    pub(super) connections: u64,
}

/// The points of a sequence on a fabric under a policy.
#[derive(Clone, Copy)]
pub(super) struct Series<'a> {
    pub(super) points: &'a [Point],
    pub(super) size: Size,
    pub(super) sequence: Sequence,
    pub(super) policy: Policy,
    /// `None` for all.
    pub(super) occupancy_percent: Option<u8>,
}

impl Series<'_> {
    /// Sums over the points whose number of trees is in the range.
    pub(super) fn sum(&self, trees: impl Fn(u32) -> bool) -> Sum {
        let (sequence, policy) = (self.sequence, self.policy);
        let is_here = |point: &&Point| {
            (point.leaves, point.hosts) == (self.size.leaves, self.size.hosts)
                && point.sequence == sequence
                && point.policy == policy
                && self
                    .occupancy_percent
                    .is_none_or(|percent| percent == point.occupancy_percent)
                && trees(point.trees)
        };
        let here = self.points.iter().filter(is_here);
        here.fold(Sum::default(), |sum, point| Sum {
            points: sum.points + 1,
            requests: sum.requests + point.requests,
            blocked: sum.blocked + point.blocked,
            moving: sum.moving + point.moving,
            moves: sum.moves + point.moves,
            moves_max: sum.moves_max.max(point.moves_max),
            deferred: sum.deferred + point.deferred_source_busy + point.deferred_destination_busy,
            windows: sum.windows + point.windows,
            connections: sum.connections + point.connections,
        })
    }
}

/// Judges every sequence on every fabric.
pub(super) fn judge(plan: &RequestsPlan, points: &[Point]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for &size in &plan.fabric {
        for &sequence in &plan.sequences {
            for &policy in &plan.policies {
                let series = Series {
                    points,
                    size,
                    sequence,
                    policy,
                    occupancy_percent: None,
                };
                let found = match policy {
                    Policy::Rearrange => rearranged(&series),
                    Policy::Fixed => fixed(&series),
                };
                verdicts.extend(found.into_iter().flatten());
            }
        }
    }
    verdicts
}

fn blocked(sum: Sum) -> String {
    format!("{} of {} requests blocked", sum.blocked, sum.requests)
}

/// With rearrangement: `trees >= n` suffices, and a request moves few connections.
fn rearranged(series: &Series<'_>) -> [Option<Verdict>; 3] {
    let Series { size, sequence, .. } = series;
    let n = size.hosts;
    let enough = series.sum(|trees| trees >= n);
    let no_moves = series.sum(|trees| trees >= 2 * n - 1);
    let few = series.sum(|trees| trees < n);
    let verdict = |sum: Sum, expected: &str, measured: String, holds: Option<bool>| {
        (sum.points > 0).then(|| Verdict {
            expected: format!("{size}, {sequence}: {expected}"),
            measured,
            holds,
        })
    };
    let chain = 2 * u64::from(size.leaves);
    let is_one_by_one = *sequence != Sequence::Windows;
    let least = series.sum(|trees| trees == n);
    [
        verdict(
            enough,
            "with rearrangement nothing is blocked from n trees on",
            format!("{}; below n: {}", blocked(enough), blocked(few)),
            Some(enough.blocked == 0),
        ),
        verdict(
            no_moves,
            "from 2n - 1 trees on nothing is moved",
            format!(
                "{} moved for {} requests",
                no_moves.moves, no_moves.requests
            ),
            Some(no_moves.moves == 0),
        ),
        verdict(
            least,
            if is_one_by_one {
                "a request moves fewer connections than twice the leaves (Paull)"
            } else {
                "connections that continue are moved with n trees"
            },
            format!(
                "{} moved for {} requests with n trees, {} at most for one {}",
                least.moves,
                least.requests,
                least.moves_max,
                if is_one_by_one { "request" } else { "window" }
            ),
            is_one_by_one.then_some(enough.moves_max < chain),
        ),
    ]
}

/// Without rearrangement: `2n - 1` trees suffice, and fewer do not.
fn fixed(series: &Series<'_>) -> [Option<Verdict>; 3] {
    let Series { size, sequence, .. } = series;
    let n = size.hosts;
    let enough = series.sum(|trees| trees >= 2 * n - 1);
    let few = series.sum(|trees| trees == n);
    let just_not = series.sum(|trees| trees == 2 * n - 2);
    let verdict = |sum: Sum, expected: String, holds: Option<bool>| {
        (sum.points > 0).then(|| Verdict {
            expected: format!("{size}, {sequence}: without rearrangement {expected}"),
            measured: blocked(sum),
            holds,
        })
    };
    let is_worst = *sequence == Sequence::Worst;
    let holds = |found: bool| (n > 1).then_some(found);
    [
        verdict(
            enough,
            "nothing is blocked from 2n - 1 trees on".to_owned(),
            Some(enough.blocked == 0),
        ),
        verdict(
            few,
            "requests are blocked with n trees".to_owned(),
            holds(few.blocked > 0),
        ),
        verdict(
            just_not,
            format!(
                "2n - 2 trees do not suffice{}",
                if is_worst {
                    ""
                } else {
                    " (not judged: a random sequence may miss the case)"
                }
            ),
            if is_worst {
                holds(just_not.blocked > 0)
            } else {
                None
            },
        ),
    ]
}
