//! How many connections a fabric takes at each link rate (VLARB01, tables 1 to 4); nothing is
//! simulated.

use routing::qos::{FillOptions, FillReport, Layout, QosError, frame_ns, link_rate};
use serde::{Deserialize, Serialize};

use crate::experiments::ExperimentError;
use crate::experiments::figure::Figure;
use crate::experiments::qos::grounds;
use crate::experiments::qos::judge::span;
use crate::experiments::qos::plan::{check_range, check_topologies, check_tries};
use crate::experiments::qos::scene::Ground;
use crate::experiments::study::{Head, Refusal, Study, Verdict, check_head, check_lists, rounded};
use crate::load::real;
use crate::workload::mix;

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
        judge(self, points)
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let mut figures = vec![frames(self)];
        figures.extend(self.rates.iter().map(|rate| table(self, rate, points)));
        figures.push(refusals(self, points));
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

/// The fewest and the most connections that stand, of those tried first; `None` without runs.
fn established(points: &[Point], rate: Rate, topology: &str, tries: u32) -> Option<[u32; 2]> {
    let here = points
        .iter()
        .filter(|point| point.rate == rate.name() && point.topology == topology);
    // A fill ends with the first connection that cannot be established.
    let counts = here.map(|point| point.established.min(tries));
    Some([counts.clone().min()?, counts.max()?])
}

fn judge(plan: &AdmissionPlan, points: &[Point]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for table in &plan.rates {
        let rate = table.rate;
        let ns = frame_ns(rate.bps());
        verdicts.push(Verdict {
            expected: format!(
                "Table 1, {}: a frame of {} ns",
                rate.name(),
                rate.frame_in_paper_ns()
            ),
            measured: ns.map_or_else(|error| error.to_string(), |ns| format!("{ns} ns")),
            holds: Some(ns == Ok(rate.frame_in_paper_ns())),
        });
        for topology in &plan.topologies {
            let last = table.tries.last().copied().unwrap_or(0);
            let Some([least, most]) = established(points, rate, topology, last) else {
                continue;
            };
            let paper = plan.paper(rate, topology);
            if let Some(paper) = paper {
                verdicts.push(all_stand(table, topology, (least, most), paper));
                verdicts.push(beside(table, topology, (least, most), paper));
            }
            if let Some([from, to]) = table.established {
                verdicts.push(Verdict {
                    expected: format!(
                        "{topology} at {}: {from} to {to} connections established",
                        rate.name()
                    ),
                    measured: span(least, most),
                    holds: Some(least >= from && most <= to),
                });
            }
        }
    }
    verdicts.push(entries_limit(points));
    verdicts
}

/// The paper's rows in which all connections stand in every column.
fn all_stand(
    table: &RatePlan,
    topology: &str,
    (least, most): (u32, u32),
    paper: [u32; 2],
) -> Verdict {
    let in_paper = paper.into_iter().min().unwrap_or(0);
    let rows = table.tries.iter().rev();
    let whole = rows.copied().find(|&tries| tries <= in_paper).unwrap_or(0);
    Verdict {
        expected: format!(
            "{}, {topology}: {whole} connections tried are all established",
            table.table
        ),
        measured: format!("{} are", span(least.min(whole), most.min(whole))),
        holds: Some(least >= whole),
    }
}

/// How many stand in the end, beside the paper's numbers; nothing hangs on it.
fn beside(table: &RatePlan, topology: &str, (least, most): (u32, u32), paper: [u32; 2]) -> Verdict {
    let [small, large] = paper;
    let mean = f64::midpoint(f64::from(small), f64::from(large));
    let ours = f64::midpoint(f64::from(least), f64::from(most));
    Verdict {
        expected: format!(
            "{}, {topology}: {small} (256 bytes) and {large} (4,096 bytes) connections established",
            table.table
        ),
        measured: format!(
            "{}, {:+.1} %",
            span(least, most),
            100.0 * (ours / mean - 1.0)
        ),
        holds: None,
    }
}

fn entries_limit(points: &[Point]) -> Verdict {
    let by = |cause: &str| points.iter().filter(|p| p.first_refusal == cause).count();
    Verdict {
        expected: "the number of table entries is no limit (section 4.2)".to_owned(),
        measured: format!(
            "the first refusal was for entries in {} fills, for bandwidth in {}",
            by("entries"),
            by("bandwidth")
        ),
        holds: Some(by("entries") == 0),
    }
}

fn frames(plan: &AdmissionPlan) -> Figure {
    let row = |table: &RatePlan| {
        let ns = frame_ns(table.rate.bps()).unwrap_or(0);
        vec![
            table.rate.name().to_owned(),
            format!("{}", real(table.rate.bps()) / 1e9),
            format!("{:.6}", real(ns) / 1e6),
            format!("{:.6}", real(table.rate.frame_in_paper_ns()) / 1e6),
        ]
    };
    Figure::Table {
        heading: "Table 1: time of a frame".to_owned(),
        columns: [
            "speed",
            "link rate, Gbit/s",
            "frame, ms",
            "in the paper, ms",
        ]
        .map(str::to_owned)
        .into(),
        rows: plan.rates.iter().map(row).collect(),
    }
}

/// Table 2, 3 or 4.
fn table(plan: &AdmissionPlan, table: &RatePlan, points: &[Point]) -> Figure {
    let mut columns = vec!["tried".to_owned()];
    for topology in &plan.topologies {
        columns.push(topology.clone());
        if plan.paper(table.rate, topology).is_some() {
            columns.push("paper, 256 bytes".to_owned());
            columns.push("paper, 4,096 bytes".to_owned());
        }
    }
    let row = |&tries: &u32| {
        let mut row = vec![tries.to_string()];
        for topology in &plan.topologies {
            let [least, most] =
                established(points, table.rate, topology, tries).unwrap_or_default();
            row.push(span(least, most));
            let paper = plan.paper(table.rate, topology).into_iter().flatten();
            row.extend(paper.map(|established| established.min(tries).to_string()));
        }
        row
    };
    Figure::Table {
        heading: format!(
            "{}: connections established, {}",
            table.table,
            table.rate.name()
        ),
        columns,
        rows: table.tries.iter().map(row).collect(),
    }
}

fn refusals(plan: &AdmissionPlan, points: &[Point]) -> Figure {
    let columns = [
        "rate",
        "network",
        "connections",
        "slots owned, mean",
        "slots owned, most",
        "draws refused for bandwidth",
        "draws refused for entries",
    ];
    let mut rows = Vec::new();
    for rate in plan.rates.iter().map(|table| table.rate) {
        for topology in &plan.topologies {
            let here = points
                .iter()
                .filter(|point| point.rate == rate.name() && point.topology == *topology);
            let here: Vec<&Point> = here.collect();
            let count = real(u64::try_from(here.len().max(1)).unwrap_or(1));
            let mean = |value: fn(&Point) -> f64| {
                here.iter().map(|point| value(point)).sum::<f64>() / count
            };
            rows.push(vec![
                rate.name().to_owned(),
                topology.clone(),
                format!("{:.0}", mean(|point| f64::from(point.established))),
                format!("{:.4}", mean(|point| point.reserved_mean)),
                format!("{:.4}", mean(|point| point.reserved_max)),
                format!("{:.0}", mean(|point| f64::from(point.refused_bandwidth))),
                format!("{:.0}", mean(|point| f64::from(point.refused_entries))),
            ]);
        }
    }
    Figure::Table {
        heading: "Why no more are established (means over the runs)".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows,
    }
}

#[cfg(test)]
mod tests;
