//! Latency of packets of admissible permutations in windows, with paths chosen by CLOS04's
//! connection controller or by other schemes, and the links that connections share.
//!
//! A point is one run: in each window every host sends to one other and receives from one other;
//! packets are generated at a constant rate. All schemes get the same packets at the same times;
//! only the DLIDs differ, and with them the paths.
//!
//! ```text
//!   | window 0                | window 1                |
//!   | sending         | guard | sending         | guard |
//!     p   p   p   p  .          p   p   p   p  .          nothing is in flight at the boundary
//! ```
//!
//! Connections that are moved change their DLID at the boundary of a window. The paper does not say
//! what happens to packets that are still in flight; here no host sends in the last `guard_ns` of a
//! window. Interference is measured twice: from the tables (cables that two connections of a window
//! use) and from the packets (those that take longer than through an empty network).

mod judge;
mod measure;
mod pattern;
mod plan;
mod run;
mod scheme;
mod show;

use serde::{Deserialize, Serialize};
use sim::{RoutedFabric, number};

pub use plan::WindowsPlan;

use crate::ExperimentError;
use crate::axes::Axis;
use crate::checks::Refusal;
use crate::experiment::{Experiment, Verdict};
use crate::figure::Figure;
use crate::windows::plan::Fabric;

/// The result of one run. Latencies are in nanoseconds, from the generation of a packet to the
/// arrival of its last byte; quantiles are up to 1 % above the true ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The topology's name.
    pub(super) topology: String,
    /// How paths are chosen.
    pub(super) scheme: String,
    /// Guard time: no host sends so long before a window ends.
    pub(super) guard_ns: u64,
    /// Which run of this point, from 0.
    pub(super) run: u32,
    /// The run's seed.
    pub(super) seed: u64,
    /// What a connection sends outside the guard time.
    #[serde(rename = "rate_bytes_per_ns")]
    pub(super) rate: f64,
    /// What was generated per host, over all windows.
    #[serde(rename = "offered_bytes_per_ns")]
    pub(super) offered: f64,
    /// What arrived per host, until the last arrival or the end of the last window.
    #[serde(rename = "accepted_bytes_per_ns")]
    pub(super) accepted: f64,
    /// Connections, summed over all windows.
    pub(super) connections: u64,
    /// Connections that continued from the window before and were moved to another tree.
    pub(super) moved: u64,
    /// Cables between switches, each direction, that two or more connections of a window use; all
    /// windows together.
    pub(super) links_shared: u64,
    /// The most connections on one of them.
    pub(super) connections_on_a_link_max: u64,
    /// Packets.
    pub(super) packets: u64,
    /// Packets that took longer than in an empty network.
    pub(super) waited: u64,
    /// Latency in an empty network, within a leaf.
    pub(super) empty_within_ns: u64,
    /// Latency in an empty network, between leaves.
    pub(super) empty_between_ns: u64,
    /// Mean latency.
    pub(super) latency_mean_ns: f64,
    /// 10th percentile.
    pub(super) latency_p10_ns: u64,
    /// 25th percentile.
    pub(super) latency_p25_ns: u64,
    /// Median.
    pub(super) latency_p50_ns: u64,
    /// 75th percentile.
    pub(super) latency_p75_ns: u64,
    /// 90th percentile.
    pub(super) latency_p90_ns: u64,
    /// 99th percentile.
    pub(super) latency_p99_ns: u64,
    /// 99.9th percentile.
    pub(super) latency_p999_ns: u64,
    /// The longest.
    pub(super) latency_max_ns: u64,
    /// The longest within a leaf; 0 without packets.
    pub(super) latency_within_max_ns: u64,
    /// Packets through switches.
    pub(super) traversals: u64,
}

/// The parameters of a point.
#[derive(Clone, Copy, Debug)]
struct Task {
    fabric: usize,
    scheme: usize,
    guard_ns: u64,
    load: f64,
    run: u32,
}

/// Fabric, guard time, scheme, load, run.
type At = [usize; 5];

impl WindowsPlan {
    /// The point with these coordinates.
    fn task(&self, [fabric, guard, scheme, load, run]: At) -> Task {
        Task {
            fabric,
            scheme,
            guard_ns: self.guards_ns[guard],
            load: self.loads[load],
            run: number(run),
        }
    }
}

impl Experiment<5> for WindowsPlan {
    type Point = Point;
    /// Fabrics by schemes.
    type Shared = Vec<Vec<RoutedFabric>>;

    fn check(&self) -> Result<(), Refusal> {
        self.check()
    }

    fn axes(&self) -> [Axis; 5] {
        let schemes = self.fabric.iter().map(|fabric| &fabric.schemes[..]);
        let longest = schemes.max_by_key(|schemes| schemes.len());
        [
            Axis::list("fabric", self.fabric.iter().map(|fabric| &fabric.topology)),
            Axis::list("guards_ns", &self.guards_ns),
            Axis::list("schemes", longest.unwrap_or_default()),
            Axis::list("loads", &self.loads),
            Axis::count("runs", self.runs),
        ]
    }

    /// Fabrics differ in their schemes.
    fn has(&self, [fabric, _, scheme, ..]: At) -> bool {
        scheme < self.fabric[fabric].schemes.len()
    }

    fn label(&self, at: At) -> String {
        let task = self.task(at);
        let fabric = &self.fabric[task.fabric];
        format!(
            "{} {} at {} bytes/ns, guard {} ns, run {}",
            fabric.topology, fabric.schemes[task.scheme], task.load, task.guard_ns, task.run
        )
    }

    fn share(&self, _seed: u64) -> Result<Self::Shared, ExperimentError> {
        let share = |fabric: &Fabric| {
            let graph = topologies::parse(&fabric.topology)?.graph;
            let schemes = fabric.schemes.iter();
            let prepared: Result<_, _> = schemes.map(|scheme| scheme.prepare(&graph)).collect();
            Ok(prepared?)
        };
        self.fabric.iter().map(share).collect()
    }

    fn run(&self, fabrics: &Self::Shared, at: At, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.task(at);
        run::run(self, task, &fabrics[task.fabric][task.scheme], seed)
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
