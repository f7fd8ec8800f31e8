//! How many connections a fabric takes at each link rate (VLARB01, tables 1 to 4); nothing is
//! simulated.

mod judge;
mod show;

use routing::qos::{FillOptions, FillReport, Layout, QosError, link_rate};
use serde::{Deserialize, Serialize};

use crate::ExperimentError;
use crate::figure::Figure;
use crate::qos::grounds;
use crate::qos::plan::{check_range, check_topologies, check_tries};
use crate::qos::scene::Ground;
use crate::study::{Head, Refusal, Study, Verdict, check_head, check_lists, rounded};
use sim::mix;

/// The most points of one plan.
const POINTS_MAX: usize = 2000;

/// A rate of links, as VLARB01 counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// 2.5 Gbit/s.
    #[serde(rename = "1x")]
    X1,
    /// 10 Gbit/s.
    #[serde(rename = "4x")]
    X4,
    /// 30 Gbit/s.
    #[serde(rename = "12x")]
    X12,
}

impl Rate {
    fn name(self) -> &'static str {
        match self {
            Self::X1 => "1x",
            Self::X4 => "4x",
            Self::X12 => "12x",
        }
    }

    fn bps(self) -> u64 {
        match self {
            Self::X1 => link_rate::X1,
            Self::X4 => link_rate::X4,
            Self::X12 => link_rate::X12,
        }
    }

    /// Table 1 of the paper: how long a frame takes, nanoseconds.
    fn frame_in_paper_ns(self) -> u64 {
        match self {
            Self::X1 => 3_342_336,
            Self::X4 => 835_584,
            Self::X12 => 278_528,
        }
    }
}

/// A table of the paper: connections tried and established at one link rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatePlan {
    /// Which rate.
    pub rate: Rate,
    /// Which table.
    pub table: String,
    /// Rows: connections tried, ascending.
    pub tries: Vec<u32>,
    /// How many connections should stand in the last row: the least and the most.
    pub established: Option<[u32; 2]>,
}

/// What the paper's last row has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionReference {
    /// The rate.
    pub rate: Rate,
    /// The topology as the plan names it.
    pub topology: String,
    /// Connections established with packets of 256 and of 4,096 bytes.
    pub established: [u32; 2],
}

/// What the reduced plan does otherwise; what is not said stays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionQuick {
    /// Instead of the plan's draws.
    pub retries: Option<u32>,
    /// Instead of one run of each point.
    pub runs: Option<u32>,
}

/// Fabrics filled with connections.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionPlan {
    /// `admission`.
    pub kind: String,
    /// Name of the plan and of the files of its results.
    pub name: String,
    /// What the report is headed.
    pub title: String,
    /// Key of the paper whose result this is.
    pub paper: String,
    /// Names of topologies.
    pub topologies: Vec<String>,
    /// Routing engine.
    pub routing: String,
    /// Draws for a connection before no more are tried.
    pub retries: u32,
    /// Runs of each point, with connections of their own.
    pub runs: u32,
    /// Link rates and their tables.
    pub rates: Vec<RatePlan>,
    /// The paper's numbers.
    #[serde(default)]
    pub reference: Vec<AdmissionReference>,
    /// What the reduced plan does otherwise.
    #[serde(default)]
    pub quick: AdmissionQuick,
    /// What a reader of the report should know, a sentence or two each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A fabric that was filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The link rate.
    rate: String,
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
    /// Draws refused for want of bandwidth.
    refused_bandwidth: u32,
    /// Draws refused for want of table entries.
    refused_entries: u32,
    /// What the first refusal was for: `bandwidth`, `entries` or `none`.
    first_refusal: String,
}

/// What a point is, before it is run.
#[derive(Clone, Copy, Debug)]
struct Task {
    rate: usize,
    topology: usize,
    run: u32,
}

impl AdmissionPlan {
    fn count(&self) -> usize {
        let runs = usize::try_from(self.runs).unwrap_or(usize::MAX);
        (self.rates.len() * self.topologies.len()).saturating_mul(runs)
    }

    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::with_capacity(self.count());
        for rate in 0..self.rates.len() {
            for topology in 0..self.topologies.len() {
                tasks.extend((0..self.runs).map(|run| Task {
                    rate,
                    topology,
                    run,
                }));
            }
        }
        tasks
    }

    /// The paper's numbers for a table and a topology.
    fn paper(&self, rate: Rate, topology: &str) -> Option<[u32; 2]> {
        let mut references = self.reference.iter();
        let found = references.find(|r| r.rate == rate && r.topology == topology);
        found.map(|reference| reference.established)
    }
}

impl Study for AdmissionPlan {
    type Point = Point;
    type Shared = Vec<Ground>;

    fn head(&self) -> Head<'_> {
        Head {
            name: &self.name,
            title: &self.title,
            paper: &self.paper,
        }
    }

    fn check(&self) -> Result<(), Refusal> {
        check_head(Study::head(self))?;
        check_lists(&[
            ("topologies", self.topologies.is_empty()),
            ("rates", self.rates.is_empty()),
            ("tries", self.rates.iter().any(|rate| rate.tries.is_empty())),
        ])?;
        check_topologies(&self.topologies)?;
        routing::engine(&self.routing).map_err(|error| ("routing", error.to_string()))?;
        check_tries("retries", &[self.retries])?;
        for rate in &self.rates {
            check_tries("tries", &rate.tries)?;
            check_range("established", rate.established)?;
        }
        let points = self.count();
        if self.runs == 0 || points > POINTS_MAX {
            return Err(("runs", format!("{points} points: 1 to {POINTS_MAX}")));
        }
        Ok(())
    }

    fn reduced(&self) -> Self {
        let mut plan = self.clone();
        plan.retries = self.quick.retries.unwrap_or(plan.retries);
        plan.runs = self.quick.runs.unwrap_or(1);
        plan
    }

    fn points(&self) -> usize {
        self.count()
    }

    fn label(&self, at: usize) -> String {
        let Some(&task) = self.tasks().get(at) else {
            return String::new();
        };
        format!(
            "{} at {}, run {}",
            self.topologies[task.topology],
            self.rates[task.rate].rate.name(),
            task.run
        )
    }

    fn share(&self, _seed: u64) -> Result<Vec<Ground>, ExperimentError> {
        grounds(&self.topologies, &self.routing)
    }

    fn run(&self, grounds: &Vec<Ground>, at: usize, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.tasks()[at];
        let table = &self.rates[task.rate];
        let how = FillOptions {
            tries: table.tries.last().copied().unwrap_or(0),
            retries: self.retries,
            seed: mix(seed, u64::from(task.run)),
        };
        let ground = &grounds[task.topology];
        let (_, filled) = ground.fill(Layout::Contiguous, table.rate.bps(), how)?;
        let topology = &self.topologies[task.topology];
        Ok(point(topology, table.rate, (task.run, how), &filled))
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        let mut conditions = vec![
            ("Runs of each point", self.runs.to_string()),
            ("Routing", self.routing.clone()),
            (
                "Draws for a connection before no more are tried",
                self.retries.to_string(),
            ),
            (
                "Reserved",
                "20 % for best effort (13 entries), one entry for challenged traffic".to_owned(),
            ),
        ];
        if !self.notes.is_empty() {
            conditions.push(("Notes", self.notes.join(" ")));
        }
        conditions
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        judge::judge(self, points)
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let mut figures = vec![show::frames(self)];
        figures.extend(
            self.rates
                .iter()
                .map(|rate| show::table(self, rate, points)),
        );
        figures.push(show::refusals(self, points));
        figures
    }
}

fn point(topology: &str, rate: Rate, (run, how): (u32, FillOptions), filled: &FillReport) -> Point {
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
        rate: rate.name().to_owned(),
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
