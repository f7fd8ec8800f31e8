//! The papers' experiments: plans, runs, reports.
//!
//! A [`Plan`] says which networks, schemes, lanes, workloads and loads; [`run`] runs every point,
//! as many side by side as asked for, and writes three files beside each other: the points as CSV
//! and, with the verdicts, as JSON, and a report as one HTML file with its plots. The same plan,
//! size and seed give the same bytes on any machine. Interrupted, it goes on where it was.

mod html;
mod judge;
mod output;
mod plan;
mod points;
mod svg;

use std::path::{Path, PathBuf};

use thiserror::Error;

pub use judge::{Verdict, judge};
pub use plan::{Band, Credits, Lanes, Misfortune, Plan, PlanError, PlannedFault, Quick, Traffic};
pub use points::Point;

use crate::setup::SetupError;
use points::{Kept, run_all, unwritable, write_whole};

/// Why there are no results.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The topology cannot be made.
    #[error(transparent)]
    Topology(#[from] topologies::TopologyError),
    /// A run cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A checker found what must never happen: a fault of the simulator or of a device.
    #[error("{point}: {what}")]
    Violation {
        /// Which point.
        point: String,
        /// What happened.
        what: String,
    },
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
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
    /// All points in the order of the plan.
    pub points: Vec<Point>,
    /// Bands and observations.
    pub verdicts: Vec<Verdict>,
    /// The files written: CSV, JSON, HTML.
    pub files: [PathBuf; 3],
}

/// Runs a plan and writes `<plan>.csv`, `.json` and `.html` into `out`, which is made if need be.
/// `progress` is told how many points of how many are done, from any thread.
///
/// # Errors
/// [`ExperimentError`]. Finished points are kept for the next attempt.
pub fn run(
    plan: &Plan,
    options: Options,
    out: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Results, ExperimentError> {
    let reduced;
    let plan = if options.quick {
        reduced = plan.reduced();
        &reduced
    } else {
        plan
    };
    std::fs::create_dir_all(out).map_err(|source| unwritable(out, source))?;
    let kept = Kept::new(out, plan, options.seed)?;
    let points = run_all(plan, options.seed, &kept, options.threads, progress)?;
    let verdicts = judge(plan, &points);
    let files = ["csv", "json", "html"].map(|kind| out.join(format!("{}.{kind}", plan.name)));
    let [csv, json, html] = &files;
    write_whole(csv, output::csv(&points).as_bytes())?;
    let text = output::json(plan, options, &points, &verdicts);
    write_whole(json, text.as_bytes())?;
    let text = html::report(plan, options, &points, &verdicts);
    write_whole(html, text.as_bytes())?;
    kept.discard()?;
    Ok(Results {
        points,
        verdicts,
        files,
    })
}
