//! Packets of admissible permutations in windows, their paths chosen by CLOS04's connection
//! controller or otherwise: how long they take, and which links connections share.
//!
//! A point is one run: in each window every host sends to one other and hears one other; packets
//! are born at a constant rate. All schemes see the same packets in the same moments; what differs
//! is the DLID, and with it the path.
//!
//! ```text
//!   | window 0                | window 1                |
//!   | sending         | guard | sending         | guard |
//!     p   p   p   p  .          p   p   p   p  .          nothing is under way at the edge
//! ```
//!
//! Connections that are moved change their DLID at the edge. The paper does not say what becomes
//! of packets that are still under way; here nobody sends in the last `guard_ns` of a window. What
//! is shared is counted twice over: from the tables (cables that two connections of a window use)
//! and from the packets (those that took longer than through an empty network).

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
use crate::experiment::{Experiment, Refusal, Verdict};
use crate::figure::Figure;

/// One run and what came of it. Latencies from a packet's birth to its last byte at its host, in
/// nanoseconds, quantiles up to 1 % above the true ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The topology's name.
    pub(super) topology: String,
    /// How paths were chosen.
    pub(super) scheme: String,
    /// How long nobody sends before a window ends.
    pub(super) guard_ns: u64,
    /// Which run of this point, from 0.
    pub(super) run: u32,
    /// The run's seed.
    pub(super) seed: u64,
    /// What a connection sends until the guard time.
    #[serde(rename = "rate_bytes_per_ns")]
    pub(super) rate: f64,
    /// What was born, a host, over all windows.
    #[serde(rename = "offered_bytes_per_ns")]
    pub(super) offered: f64,
    /// What arrived, a host, until the last arrival or the end of the last window.
    #[serde(rename = "accepted_bytes_per_ns")]
    pub(super) accepted: f64,
    /// Connections, each window's counted anew.
    pub(super) connections: u64,
    /// Those that went on and were moved to another tree.
    pub(super) moved: u64,
    /// Cables between switches, each direction, that two or more connections of a window use; all
    /// windows together.
    pub(super) links_shared: u64,
    /// The most connections on one of them.
    pub(super) connections_on_a_link_max: u64,
    /// Packets.
    pub(super) packets: u64,
    /// Those that took longer than in an empty network.
    pub(super) waited: u64,
    /// In an empty network, within a leaf.
    pub(super) empty_within_ns: u64,
    /// In an empty network, between leaves.
    pub(super) empty_between_ns: u64,
    /// Mean.
    pub(super) latency_mean_ns: f64,
    /// A tenth of the packets took at most so long.
    pub(super) latency_p10_ns: u64,
    /// A quarter.
    pub(super) latency_p25_ns: u64,
    /// Half.
    pub(super) latency_p50_ns: u64,
    /// Three quarters.
    pub(super) latency_p75_ns: u64,
    /// 90 %.
    pub(super) latency_p90_ns: u64,
    /// 99 %.
    pub(super) latency_p99_ns: u64,
    /// 99.9 %.
    pub(super) latency_p999_ns: u64,
    /// All of them.
    pub(super) latency_max_ns: u64,
    /// The longest within a leaf; 0 without packets.
    pub(super) latency_within_max_ns: u64,
    /// Packets through switches.
    pub(super) traversals: u64,
}

/// What a point is, before it is run.
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
            Axis::list("fabric", &self.fabric),
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
        let mut fabrics = Vec::with_capacity(self.fabric.len());
        for fabric in &self.fabric {
            let graph = topologies::parse(&fabric.topology)?.graph;
            let schemes = fabric.schemes.iter();
            let prepared: Result<Vec<_>, _> =
                schemes.map(|scheme| scheme.prepare(&graph)).collect();
            fabrics.push(prepared?);
        }
        Ok(fabrics)
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
