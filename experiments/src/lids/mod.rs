//! LIDs that a routing scheme needs, by heuristic, and the balance of load that it reaches (LID07).
//!
//! A point is one random graph with the paths of one routing: the LIDs of all five heuristics
//! (each host's rounded up to a power of two, then summed) and the busiest channel. Points of the
//! same size and number have graphs of the same seed, whatever the routing and the reading. See [`reading`] for what the paper leaves open.

mod judge;
mod plan;
mod reading;
mod show;
mod size;
mod summary;

use routing::lid_assignment::{Assignment, PathScheme, Scheme};
use routing::network::Network;
use serde::{Deserialize, Serialize};

pub use plan::LidsPlan;

use crate::ExperimentError;
use crate::axes::Axis;
use crate::checks::Refusal;
use crate::experiment::{Experiment, Verdict, rounded};
use crate::figure::Figure;
use crate::lids::reading::Interpretation;
use crate::lids::summary::Summary;

/// One routing on one graph, and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The interpretation of the paper.
    pub(super) reading: String,
    /// Hosts.
    pub(super) hosts: u32,
    /// Switches.
    pub(super) switches: u32,
    /// Neighbours of a switch.
    pub(super) degree: u32,
    /// Which graph of this size, from 0.
    pub(super) graph: u32,
    /// The graph's seed.
    pub(super) graph_seed: u64,
    /// How paths were found.
    pub(super) routing: PathScheme,
    /// LIDs of all hosts, each host's rounded up to a power of two.
    pub(super) lids_greedy: u32,
    /// As by `split-merge-s`.
    pub(super) lids_split_merge_s: u32,
    /// As by `split-merge-l`.
    pub(super) lids_split_merge_l: u32,
    /// As by `color-s`.
    pub(super) lids_color_s: u32,
    /// As by `color-l`.
    pub(super) lids_color_l: u32,
    /// The least possible, where the plan wants it.
    pub(super) lids_exact: Option<u32>,
    /// Flows on the busiest channel, each host sending one to each other.
    pub(super) flows_max: u32,
    /// The same divided by the hosts less one.
    pub(super) load_max: f64,
    /// Channels between switches that a flow crosses, on the average.
    pub(super) hops_mean: f64,
}

/// Interpretation, size, routing, graph.
type At = [usize; 4];

impl Experiment<4> for LidsPlan {
    type Point = Point;
    type Shared = ();

    fn check(&self) -> Result<(), Refusal> {
        self.check()
    }

    fn axes(&self) -> [Axis; 4] {
        [
            Axis::list("reading", &self.reading),
            Axis::list("sizes", &self.sizes),
            Axis::list("scheme", self.routings()),
            Axis::count("graphs", self.graphs),
        ]
    }

    fn share(&self, _seed: u64) -> Result<(), ExperimentError> {
        Ok(())
    }

    fn run(&self, (): &(), at: At, seed: u64) -> Result<Point, ExperimentError> {
        let [reading, size, routing, number] = at;
        let (reading, size) = (self.reading[reading], self.sizes[size]);
        let routing = self.routings()[routing];
        let number = sim::number(number);
        // Half the bits: the seed is part of the topology's name, and users may have to type it.
        let graph_seed = sim::split_mix(seed, u64::from(number)) >> 32;
        let graph = reading.graph(size, self.degree, graph_seed)?;
        let network = Network::new(&graph);
        let routes = reading.routes(routing, &network)?;
        let lids = |scheme| Assignment::new(&network, &routes, scheme).map(|given| given.lids());
        let exact = self.wants_exact(routing);
        let loads = routes.loads(&network);
        let hops: u64 = loads.iter().map(|&flows| u64::from(flows)).sum();
        let flows = f64::from(size.hosts) * f64::from(size.hosts - 1);
        Ok(Point {
            reading: reading.to_string(),
            hosts: size.hosts,
            switches: size.switches,
            degree: self.degree,
            graph: number,
            graph_seed,
            routing,
            lids_greedy: lids(Scheme::Greedy)?,
            lids_split_merge_s: lids(Scheme::SplitMergeS)?,
            lids_split_merge_l: lids(Scheme::SplitMergeL)?,
            lids_color_s: lids(Scheme::ColorS)?,
            lids_color_l: lids(Scheme::ColorL)?,
            lids_exact: exact.then(|| lids(Scheme::Exact)).transpose()?,
            flows_max: loads.iter().copied().max().unwrap_or(0),
            load_max: rounded(routes.load_max(&network)),
            hops_mean: rounded(sim::real(hops) / flows),
        })
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        let readings: Vec<String> = self.reading.iter().map(Interpretation::to_string).collect();
        vec![
            ("Graphs of each size", self.graphs.to_string()),
            ("Neighbours of a switch", self.degree.to_string()),
            ("Readings", readings.join("; ")),
            (
                "LIDs",
                "of all hosts, each host's rounded up to a power of two (LMC)".to_owned(),
            ),
            (
                "Load",
                "flows on the busiest channel between switches when each host sends one to each \
                 other, divided by the hosts less one"
                    .to_owned(),
            ),
        ]
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        let readings = Summary::all(self, points);
        readings.first().map_or_else(Vec::new, judge::judge)
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        show::figures(self, &Summary::all(self, points))
    }
}

#[cfg(test)]
mod tests;
