//! How many connections a fabric admits at each link rate (VLARB01, tables 1 to 4). No packets are
//! simulated.

mod judge;
mod show;

use routing::RoutingEngine;
use routing::qos::{FillOptions, FillReport, Layout, LinkRate, QosError};
use serde::{Deserialize, Serialize};
use sim::{number, split_mix};

use crate::ExperimentError;
use crate::axes::Axis;
use crate::checks::{Refusal, not_empty};
use crate::experiment::{Experiment, Verdict, rounded};
use crate::figure::Figure;
use crate::qos::fabrics;
use crate::qos::plan::{check_range, check_topologies, check_tries};
use crate::qos::workload::QosFabric;

/// Table 1 of the paper: how long a frame takes, nanoseconds.
const fn frame_in_paper_ns(rate: LinkRate) -> u64 {
    match rate {
        LinkRate::X1 => 3_342_336,
        LinkRate::X4 => 835_584,
        LinkRate::X12 => 278_528,
    }
}

/// A table of the paper: connections tried and established at one link rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatePlan {
    /// Which rate.
    pub rate: LinkRate,
    /// Which table.
    pub table: String,
    /// Rows: connections tried, ascending.
    pub tries: Vec<u32>,
    /// The expected number of established connections in the last row: least and most.
    pub established: Option<[u32; 2]>,
}

/// The last row of a table of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionReference {
    /// The rate.
    pub rate: LinkRate,
    /// The topology as the plan names it.
    pub topology: String,
    /// Connections established with packets of 256 and of 4,096 bytes.
    pub established: [u32; 2],
}

/// Fabrics filled with connections.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionPlan {
    /// Names of topologies.
    pub topologies: Vec<String>,
    /// Routing engine.
    pub routing: RoutingEngine,
    /// Draws for a connection before no more are tried.
    pub retries: u32,
    /// Runs of each point, with connections of their own.
    pub runs: u32,
    /// Link rates and their tables.
    pub rates: Vec<RatePlan>,
    /// The paper's numbers.
    #[serde(default)]
    pub reference: Vec<AdmissionReference>,
}

/// The result of filling a fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The link rate.
    rate: LinkRate,
    /// The topology's name.
    topology: String,
    /// Which run of this point, from 0.
    run: u32,
    /// The run's seed.
    seed: u64,
    /// Connections that were to be tried.
    tries: u32,
    /// Connections tried until one could not be established.
    tried: u32,
    /// Connections established.
    established: u32,
    /// Of service level 0.
    established_sl0: u32,
    /// Of service level 1.
    established_sl1: u32,
    /// Of service level 2.
    established_sl2: u32,
    /// Of service level 3.
    established_sl3: u32,
    /// Slots that connections own, as a part of the frame, mean over all links.
    reserved_mean: f64,
    /// The same, of the link with the most.
    reserved_max: f64,
    /// Draws refused because of bandwidth.
    refused_bandwidth: u32,
    /// Draws refused because of table entries.
    refused_entries: u32,
    /// Cause of the first refusal: `bandwidth`, `entries` or `none`.
    first_refusal: String,
}

/// Rate, topology, run.
type At = [usize; 3];

impl AdmissionPlan {
    /// The paper's numbers for a table and a topology.
    fn paper(&self, rate: LinkRate, topology: &str) -> Option<[u32; 2]> {
        let mut references = self.reference.iter();
        let found = references.find(|r| r.rate == rate && r.topology == topology);
        found.map(|reference| reference.established)
    }
}

impl Experiment<3> for AdmissionPlan {
    const POINTS_MAX: usize = 2000;

    type Point = Point;
    type Shared = Vec<QosFabric>;

    fn check(&self) -> Result<(), Refusal> {
        let mut rates = self.rates.iter();
        rates.try_for_each(|rate| not_empty("tries", &rate.tries))?;
        check_topologies(&self.topologies)?;
        check_tries("retries", &[self.retries])?;
        for rate in &self.rates {
            check_tries("tries", &rate.tries)?;
            check_range("established", rate.established)?;
        }
        Ok(())
    }

    fn axes(&self) -> [Axis; 3] {
        [
            Axis::list("rates", self.rates.iter().map(|table| table.rate)),
            Axis::list("topologies", &self.topologies),
            Axis::count("runs", self.runs),
        ]
    }

    fn share(&self, _seed: u64) -> Result<Vec<QosFabric>, ExperimentError> {
        fabrics(&self.topologies, self.routing)
    }

    fn run(
        &self,
        fabrics: &Vec<QosFabric>,
        [rate, topology, run]: At,
        seed: u64,
    ) -> Result<Point, ExperimentError> {
        let (table, run) = (&self.rates[rate], number(run));
        let how = FillOptions {
            tries: table.tries.last().copied().unwrap_or(0),
            retries: self.retries,
            seed: split_mix(seed, u64::from(run)),
        };
        let fabric = &fabrics[topology];
        let (_, filled) = fabric.fill(Layout::Contiguous, table.rate.bps(), how)?;
        let topology = &self.topologies[topology];
        Ok(point(topology, table.rate, (run, how), &filled))
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Runs of each point", self.runs.to_string()),
            ("Routing", self.routing.to_string()),
            (
                "Draws for a connection before no more are tried",
                self.retries.to_string(),
            ),
            (
                "Reserved",
                "20 % for best effort (13 entries), one entry for challenged traffic".to_owned(),
            ),
        ]
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        judge::judge(self, points)
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let mut figures = vec![show::frames(self)];
        for rate in &self.rates {
            figures.push(show::table(self, rate, points));
            figures.push(show::plot(self, rate, points));
        }
        figures.push(show::refusals(self, points));
        figures
    }
}

fn point(
    topology: &str,
    rate: LinkRate,
    (run, how): (u32, FillOptions),
    filled: &FillReport,
) -> Point {
    let [sl0, sl1, sl2, sl3] = filled.established;
    let first_refusal = match filled.first_refusal {
        Some(QosError::Refused {
            cause: routing::qos::Cause::Entries { .. },
            ..
        }) => "entries",
        Some(_) => "bandwidth",
        None => "none",
    };
    Point {
        rate,
        topology: topology.to_owned(),
        run,
        seed: how.seed,
        tries: how.tries,
        tried: filled.tried,
        established: filled.total(),
        established_sl0: sl0,
        established_sl1: sl1,
        established_sl2: sl2,
        established_sl3: sl3,
        reserved_mean: rounded(filled.load_mean),
        reserved_max: rounded(filled.load_max),
        refused_bandwidth: filled.refused_bandwidth,
        refused_entries: filled.refused_entries,
        first_refusal: first_refusal.to_owned(),
    }
}

#[cfg(test)]
mod tests;
