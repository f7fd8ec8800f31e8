//! Sequences of requests for connections on Clos fabrics with few and with many trees: how many
//! are blocked, and how many connections are moved for them (CLOS04).
//!
//! A point is one sequence on one fabric with one number of trees. No packets are simulated:
//! only the connection controller runs, or its Paull matrix where requests come one by one.

mod judge;
mod plan;
mod sequence;
mod show;

use serde::{Deserialize, Serialize};
use sim::{number, split_mix};

pub use plan::RequestsPlan;

use crate::ExperimentError;
use crate::axes::Axis;
use crate::checks::Refusal;
use crate::experiment::{Experiment, Verdict};
use crate::figure::Figure;
use crate::requests::plan::{Policy, Sequence, Size};
use crate::requests::sequence::{random, windows, worst};

/// One sequence and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Leaves.
    pub(super) leaves: u32,
    /// Hosts of each, n.
    pub(super) hosts: u32,
    /// Routing trees.
    pub(super) trees: u32,
    /// Which requests are made.
    pub(super) sequence: Sequence,
    /// How connections are given trees.
    pub(super) policy: Policy,
    /// Part of the hosts that send.
    pub(super) occupancy_percent: u8,
    /// Which run of this point, from 0.
    pub(super) run: u32,
    /// The run's seed.
    pub(super) seed: u64,
    /// Requests. Except in windows, all are between leaves.
    pub(super) requests: u64,
    /// Requests for which no tree was free.
    pub(super) blocked: u64,
    /// Requests (windows) for which connections were moved.
    pub(super) moving: u64,
    /// Connections moved.
    pub(super) moves: u64,
    /// The most connections moved for one request; with windows, in one window.
    pub(super) moves_max: u64,
    /// Windows: how often a request was deferred because its source was busy.
    pub(super) deferred_source_busy: u64,
    /// Windows: how often a request was deferred because its destination was busy.
    pub(super) deferred_destination_busy: u64,
    /// Windows: their number.
    pub(super) windows: u64,
    /// Windows: connections, summed over all windows.
    pub(super) connections: u64,
}

/// The parameters of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    size: Size,
    trees: u32,
    sequence: Sequence,
    policy: Policy,
    occupancy_percent: u8,
    run: u32,
}

/// Fabric, sequence, policy, occupancy, trees, run.
type At = [usize; 6];

impl RequestsPlan {
    /// The point with these coordinates.
    fn task(&self, [fabric, sequence, policy, occupancy, trees, run]: At) -> Task {
        let size = self.fabric[fabric];
        let least = *self.trees(size).start();
        Task {
            size,
            trees: least.saturating_add(number(trees)),
            sequence: self.sequences[sequence],
            policy: self.policies[policy],
            occupancy_percent: self.occupancy_percent[occupancy],
            run: number(run),
        }
    }
}

impl Experiment<6> for RequestsPlan {
    const POINTS_MAX: usize = 50_000;

    type Point = Point;
    type Shared = ();

    fn check(&self) -> Result<(), Refusal> {
        self.check()
    }

    fn axes(&self) -> [Axis; 6] {
        let trees = self.fabric.iter().map(|&size| {
            let trees = self.trees(size);
            (trees.end() - trees.start()).saturating_add(1)
        });
        [
            Axis::list("fabric", &self.fabric),
            Axis::list("sequences", &self.sequences),
            Axis::list("policies", &self.policies),
            Axis::list("occupancy_percent", &self.occupancy_percent),
            Axis::count("trees_above", trees.max().unwrap_or(0)),
            Axis::count("runs", self.runs),
        ]
    }

    /// Fabrics differ in their numbers of trees. The worst sequence depends neither on chance nor
    /// on the occupancy: it is run once.
    fn has(&self, at: At) -> bool {
        let task = self.task(at);
        let [.., occupancy, _, run] = at;
        let is_first = run == 0 && occupancy == 0;
        self.trees(task.size).contains(&task.trees)
            && (task.sequence != Sequence::Worst || is_first)
    }

    fn label(&self, at: At) -> String {
        let task = self.task(at);
        let Task { size, trees, .. } = task;
        format!(
            "{size}, {trees} trees, {} {} at {} %, run {}",
            task.sequence, task.policy, task.occupancy_percent, task.run
        )
    }

    fn share(&self, _seed: u64) -> Result<(), ExperimentError> {
        Ok(())
    }

    fn run(&self, (): &(), at: At, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.task(at);
        let Task {
            size,
            trees,
            policy,
            occupancy_percent,
            ..
        } = task;
        // The same seed for all numbers of trees and policies.
        let seed = split_mix(seed, u64::from(task.run));
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
            sequence: task.sequence,
            policy,
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
