//! The papers' experiments: plans, runs, reports.
//!
//! A [`Plan`] is one TOML file for one result: which networks, schemes and workloads, how much of
//! each, and what is expected. [`run`] runs every point, as many side by side as asked for, and
//! writes three files beside each other: the points as CSV and, with the conditions and verdicts,
//! as JSON, and a report as one HTML file with its plots. The same plan, size and seed give the
//! same bytes on any machine. Interrupted, it goes on where it was. [`report`] writes one page
//! over the results of many plans.
//!
//! ```text
//! plan.toml --> Plan --> Experiment (its kind) --> points, any order, any thread --> checkpoints
//!                                                                                         |
//!                                  .csv .json .html <-- statements, figures <-------------+
//! ```

mod axes;
mod checkpoint;
mod checks;
mod document;
#[cfg(test)]
mod example;
mod experiment;
mod figure;
mod html;
mod lids;
mod load;
mod multicast;
mod network;
mod output;
mod overview;
mod paper;
mod plan;
mod qos;
mod requests;
mod run;
mod sparkline;
mod statement;
mod svg;
mod trace;
mod variant;
mod windows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use lids::LidsPlan;
pub use load::{Band, LoadPlan, Traffic};
pub use multicast::MulticastPlan;
pub use network::{FaultKind, PlannedFault};
pub use overview::{Overview, report};
pub use plan::{Plan, PlanError};
pub use qos::{
    AdmissionPlan, AdmissionReference, BestEffort, QosPlan, RatePlan, Reference, Subject,
};
pub use requests::RequestsPlan;
pub use statement::Statement;
pub use trace::{Trace, TraceError, TraceFile, TraceFlow, TracePlan, TraceVlChoice};
pub use windows::WindowsPlan;

use sim::SetupError;

/// Why there are no results.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The topology cannot be made.
    #[error(transparent)]
    Topology(#[from] topologies::TopologyError),
    /// A graph cannot be put together.
    #[error(transparent)]
    Graph(#[from] topologies::GraphError),
    /// There are no such paths or LIDs.
    #[error(transparent)]
    Lids(#[from] routing::lid_assignment::LidError),
    /// Connections cannot be tried.
    #[error(transparent)]
    Qos(#[from] routing::qos::QosError),
    /// A run cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A fabric cannot be used as its plan says.
    #[error("{fabric}: {source}")]
    Fabric {
        /// Which one, and on how many VLs.
        fabric: String,
        /// Why not.
        source: SetupError,
    },
    /// Connections with promised bandwidth on tables that have service levels of their own.
    #[error("{topology}: {routing} needs the VLs for itself; choose an engine that does not")]
    ServiceLevels {
        /// The topology.
        topology: String,
        /// The routing engine.
        routing: routing::RoutingEngine,
    },
    /// A checker found what must never happen: a fault of the simulator or of a device.
    #[error("a rule was broken: {0}")]
    Violation(String),
    /// A point cannot be run.
    #[error("{plan}: {point}")]
    Point {
        /// Which plan.
        plan: String,
        /// Which point.
        point: String,
        /// Why.
        source: Box<Self>,
    },
    /// An explanation that is of no statement.
    #[error(
        "{plan}: [[explain]] {statement:?} is part of no statement of the plan; the results are written. \
         The statements are those of its report"
    )]
    Unused {
        /// Which plan.
        plan: String,
        /// The statement that it is about.
        statement: String,
    },
    /// A folder without results.
    #[error("{}: no results here: `ibemu sim run` or `ibemu sim batch` writes them", .0.display())]
    NoResults(PathBuf),
    /// Two plans would write the same files.
    #[error("two plans are named {0}: their results would go to the same files")]
    SameName(String),
    /// Results cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// How a plan is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The reduced plan.
    pub quick: bool,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Points run side by side.
    pub threads: usize,
}

/// What a plan has given.
#[derive(Clone, Debug)]
pub struct Results {
    /// How many points there are.
    pub points: usize,
    /// What was expected, and whether it holds.
    pub statements: Vec<Statement>,
    /// The files written: CSV, JSON, HTML.
    pub files: [PathBuf; 3],
}

/// Runs a plan and writes `<plan>.csv`, `.json` and `.html` into `out`, which is made if need be.
/// `progress` is told how many points of how many are done, from any thread.
///
/// # Errors
/// [`ExperimentError`]. Finished points have checkpoints for the next attempt.
pub fn run(
    plan: &Plan,
    options: Options,
    out: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Results, ExperimentError> {
    let mut outcomes = batch(core::slice::from_ref(plan), options, out, progress)?;
    outcomes.remove(0)
}

/// Runs several plans as [`run`] does, all their points on the same threads: a plan that fails does
/// not keep the others from their results. What comes of each, in their order.
///
/// # Errors
/// [`ExperimentError::SameName`]; [`ExperimentError::Unwritable`]: `out` cannot be written to.
pub fn batch(
    plans: &[Plan],
    options: Options,
    out: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Result<Results, ExperimentError>>, ExperimentError> {
    let mut names = BTreeSet::new();
    if let Some(again) = plans.iter().find(|plan| !names.insert(plan.name())) {
        return Err(ExperimentError::SameName(again.name().to_owned()));
    }
    let jobs: Result<Vec<_>, _> = plans.iter().map(|plan| plan.job(options, out)).collect();
    Ok(run::run_all(&jobs?, options.threads, progress))
}
