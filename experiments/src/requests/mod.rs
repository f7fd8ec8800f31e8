//! Sequences of requests for connections on Clos fabrics with few and with many trees: how many
//! find no tree, and how many connections are moved for them (CLOS04).
//!
//! A point is one sequence on one fabric with one number of trees. There are no packets: it is the
//! connection controller alone, its Paull matrix where requests come one by one.

mod judge;
mod plan;
mod sequence;
mod show;

use serde::{Deserialize, Serialize};

pub use plan::RequestsPlan;

use crate::ExperimentError;
use crate::figure::Figure;
use crate::requests::plan::{Policy, Sequence, Size};
use crate::requests::sequence::{random, windows, worst};
use crate::study::{Head, Refusal, Study, Verdict};
use sim::mix;

/// One sequence and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Leaves.
    pub(super) leaves: u32,
    /// Hosts of each, n.
    pub(super) hosts: u32,
    /// Routing trees.
    pub(super) trees: u32,
    /// Which requests were made.
    pub(super) sequence: String,
    /// How connections got trees.
    pub(super) policy: String,
    /// Part of the hosts that send.
    pub(super) occupancy_percent: u8,
    /// Which run of this point, from 0.
    pub(super) run: u32,
    /// The run's seed.
    pub(super) seed: u64,
    /// Requests; but for windows, all between leaves.
    pub(super) requests: u64,
    /// Those that found no tree.
    pub(super) blocked: u64,
    /// Requests (windows) for which connections were moved.
    pub(super) moving: u64,
    /// Connections moved.
    pub(super) moves: u64,
    /// The most for one request (in one window).
    pub(super) moves_max: u64,
    /// In windows: how often a request was put off as its source sent elsewhere.
    pub(super) deferred_source_busy: u64,
    /// In windows: how often a request was put off as its destination heard another.
    pub(super) deferred_destination_busy: u64,
    /// Windows.
    pub(super) windows: u64,
    /// In windows: connections, each window's counted anew.
    pub(super) connections: u64,
}

/// What a point is, before it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    size: Size,
    trees: u32,
    sequence: Sequence,
    policy: Policy,
    occupancy_percent: u8,
    run: u32,
}

impl RequestsPlan {
    /// The points in the order of the results.
    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::with_capacity(self.count());
        for &size in &self.fabric {
            for &sequence in &self.sequences {
                for &policy in &self.policies {
                    for &occupancy_percent in &self.occupancy_percent {
                        for trees in self.trees(size) {
                            tasks.extend((0..self.runs).map(|run| Task {
                                size,
                                trees,
                                sequence,
                                policy,
                                occupancy_percent,
                                run,
                            }));
                        }
                    }
                }
            }
        }
        // The worst sequence knows neither chance nor occupancy.
        let first = self.occupancy_percent.first().copied();
        tasks.retain(|task| {
            let is_first = task.run == 0 && Some(task.occupancy_percent) == first;
            task.sequence != Sequence::Worst || is_first
        });
        tasks
    }
}

impl Study for RequestsPlan {
    type Point = Point;
    type Shared = ();

    fn head(&self) -> Head<'_> {
        self.head()
    }

    fn check(&self) -> Result<(), Refusal> {
        self.check()
    }

    fn reduced(&self) -> Self {
        self.shrunk()
    }

    fn points(&self) -> usize {
        self.tasks().len()
    }

    fn label(&self, at: usize) -> String {
        let Some(task) = self.tasks().get(at).copied() else {
            return String::new();
        };
        let Task { size, trees, .. } = task;
        format!(
            "{size}, {trees} trees, {} {} at {} %, run {}",
            task.sequence, task.policy, task.occupancy_percent, task.run
        )
    }

    fn share(&self, _seed: u64) -> Result<(), ExperimentError> {
        Ok(())
    }

    fn run(&self, (): &(), at: usize, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.tasks()[at];
        let Task {
            size,
            trees,
            policy,
            occupancy_percent,
            ..
        } = task;
        // The same seed for all numbers of trees and policies.
        let seed = mix(seed, u64::from(task.run));
        let outcome = match task.sequence {
            Sequence::Random => random(
                (size, trees, policy),
                occupancy_percent,
                self.requests,
                seed,
            ),
            Sequence::Worst => worst((size, trees, policy)),
            Sequence::Windows => windows((size, trees), occupancy_percent, self.requests, seed)
                .map_err(|error| ExperimentError::Violation(error.to_string()))?,
        };
        Ok(Point {
            leaves: size.leaves,
            hosts: size.hosts,
            trees,
            sequence: task.sequence.to_string(),
            policy: policy.to_string(),
            occupancy_percent,
            run: task.run,
            seed,
            requests: outcome.requests,
            blocked: outcome.blocked,
            moving: outcome.moving,
            moves: outcome.moves,
            moves_max: outcome.moves_max,
            deferred_source_busy: outcome.source_busy,
            deferred_destination_busy: outcome.destination_busy,
            windows: outcome.windows,
            connections: outcome.connections,
        })
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        show::conditions(self)
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        judge::judge(self, points)
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        show::figures(self, points)
    }
}

#[cfg(test)]
mod tests;
