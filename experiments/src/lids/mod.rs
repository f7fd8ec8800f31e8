//! How many LIDs a routing takes, by heuristic, and what balance LIDs buy (LID07).
//!
//! A point is one random graph with the paths of one routing: the LIDs of all five heuristics
//! (each host's rounded up to a power of two, then summed) and the busiest channel. Points of the
//! same size and number have the same graph, whatever the routing and whatever else the reading
//! says. See [`reading`] for what the paper leaves open.

mod judge;
mod plan;
mod reading;
mod show;
mod summary;

use routing::lid_assignment::{Assignment, PathScheme, Scheme};
use routing::network::Network;
use serde::{Deserialize, Serialize};

pub use plan::LidsPlan;

use crate::ExperimentError;
use crate::figure::Figure;
use crate::lids::plan::Size;
use crate::lids::reading::Reading;
use crate::lids::summary::Summary;
use crate::study::{Head, Refusal, Study, Verdict, rounded};
use sim::mix;

/// One routing on one graph and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// How the paper is read.
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
    pub(super) routing: String,
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

/// What a point is, before it is run.
#[derive(Clone, Copy, Debug)]
struct Task {
    reading: Reading,
    size: Size,
    routing: PathScheme,
    graph: u32,
}

impl LidsPlan {
    /// The points in the order of the results.
    fn tasks(&self) -> Vec<Task> {
        let routings = self.routings();
        let mut tasks = Vec::with_capacity(self.count());
        for &reading in &self.reading {
            for &size in &self.sizes {
                for &routing in &routings {
                    tasks.extend((0..self.graphs).map(|graph| Task {
                        reading,
                        size,
                        routing,
                        graph,
                    }));
                }
            }
        }
        tasks
    }
}

impl Study for LidsPlan {
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
        self.count()
    }

    fn label(&self, at: usize) -> String {
        let Some(task) = self.tasks().get(at).copied() else {
            return String::new();
        };
        format!(
            "{} {}, graph {} ({})",
            task.size,
            task.routing.name(),
            task.graph,
            task.reading
        )
    }

    fn share(&self, _seed: u64) -> Result<(), ExperimentError> {
        Ok(())
    }

    fn run(&self, (): &(), at: usize, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.tasks()[at];
        let Task { reading, size, .. } = task;
        // Half the bits: the seed is part of the topology's name, and people may want to type it.
        let graph_seed = mix(seed, u64::from(task.graph)) >> 32;
        let graph = reading.graph(size, self.degree, graph_seed)?;
        let network = Network::new(&graph);
        let routes = reading.routes(task.routing, &network)?;
        let lids = |scheme| Assignment::new(&network, &routes, scheme).map(|given| given.lids());
        let exact = self.wants_exact(task.routing);
        let loads = routes.loads(&network);
        let hops: u64 = loads.iter().map(|&flows| u64::from(flows)).sum();
        let flows = f64::from(size.hosts) * f64::from(size.hosts - 1);
        Ok(Point {
            reading: reading.to_string(),
            hosts: size.hosts,
            switches: size.switches,
            degree: self.degree,
            graph: task.graph,
            graph_seed,
            routing: task.routing.name().to_owned(),
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
        let readings: Vec<String> = self.reading.iter().map(Reading::to_string).collect();
        let mut conditions = vec![
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
        ];
        if !self.notes.is_empty() {
            conditions.push(("Notes", self.notes.join(" ")));
        }
        conditions
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        judge::judge(&Summary { plan: self, points })
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        show::figures(&Summary { plan: self, points })
    }
}

#[cfg(test)]
mod tests;
