//! `ibemu sim`: the papers' experiments in virtual time.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use experiments::{ExperimentError, Options, Plan, Results, Statement};
use indicatif::{ProgressBar, ProgressStyle};

use wire::convert::u64_of;

use crate::output;
use crate::usage::UsageError;

/// Experiments in virtual time: the same switches and hosts, without processes.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Run one plan; interrupted, the same call goes on where it was
    Run {
        /// A plan that comes with the program (`ibemu sim list`) or the path of a TOML file
        plan: String,
        /// How it is run.
        #[command(flatten)]
        how: How,
    },
    /// Run several plans, their points on the same cores, and write a page over all results
    Batch {
        /// Plans that come with the program, or paths of TOML files
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        plans: Vec<String>,
        /// Every plan that comes with the program
        #[arg(long)]
        all: bool,
        /// How they are run.
        #[command(flatten)]
        how: How,
        /// Where they are run.
        #[command(flatten)]
        slurm: super::array::Array,
    },
    /// Write index.html over the results in a folder, and say what of them holds
    Report {
        /// Where `ibemu sim run` and `batch` have written their results
        #[arg(value_name = "FOLDER", default_value = "results")]
        folder: PathBuf,
    },
    /// Run recorded devices through the same again and compare every byte; 1 if something differs,
    /// 2 if a file is damaged or no recording
    Replay {
        /// Recordings (`ibemu up --record`)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Run schedules of faults drawn from seeds, with all checkers; 1 if one fails, and the line that
    /// replays it
    Campaign(super::campaign::Campaign),
    /// Send traffic by a pattern or a plan, as `ibemu traffic` does, through a fabric in virtual time
    Traffic(Box<super::virtual_traffic::VirtualTraffic>),
    /// List the plans that come with the program, and how many points each has, whole and reduced
    List,
}

/// How plans are run.
#[derive(Debug, Args)]
pub struct How {
    /// The reduced plan: fewer loads, VLs or packets
    #[arg(long)]
    pub(super) quick: bool,
    /// Seed of everything that is drawn; the same seed gives the same files on any machine
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Folder for <plan>.csv, <plan>.json and <plan>.html; made if need be
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    pub(super) out: PathBuf,
    /// Points run side by side, 1 to 1024 [default: one a core]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,
}

impl How {
    fn options(&self) -> Options {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Options {
            quick: self.quick,
            seed: self.seed,
            threads: self.threads.map_or_else(cores, usize::from),
        }
    }
}

/// Does what was asked.
///
/// # Errors
/// A plan that cannot be, a checker's finding, a folder that cannot be written. A verdict that
/// does not hold is printed, and is no error: it is a result.
pub fn run(what: &Sim) -> Result<()> {
    match what {
        Sim::List => list(),
        Sim::Campaign(campaign) => super::campaign::run(campaign),
        Sim::Traffic(traffic) => super::virtual_traffic::run(traffic),
        Sim::Replay { files } => super::replay::run(files),
        Sim::Run { plan, how } => batch(&[find(plan)?], how),
        Sim::Batch {
            plans, how, slurm, ..
        } => {
            let names: Vec<&str> = match plans.as_slice() {
                [] => Plan::builtins().collect(),
                plans => plans.iter().map(String::as_str).collect(),
            };
            let plans: Result<Vec<Plan>> = names.iter().map(|plan| find(plan)).collect();
            let plans = plans?;
            if let Some(part) = slurm.part()? {
                let out = &how.out;
                return experiments::part(&plans, how.options(), out, part).map_err(refused);
            }
            if slurm.is_asked() {
                return slurm.submit(&names, &plans, how);
            }
            let ended = batch(&plans, how);
            if ended.is_ok() {
                return report(&how.out);
            }
            ended
        }
        Sim::Report { folder } => report(folder),
    }
}

fn find(given: &str) -> Result<Plan> {
    Ok(Plan::find(given).map_err(|error| UsageError(error.to_string()))?)
}

fn list() -> Result<()> {
    for name in Plan::builtins() {
        let [whole, reduced] = find(name)?.points();
        output::line(format!("{name:32} {whole:6} {reduced:6}"))?;
    }
    Ok(())
}

fn batch(plans: &[Plan], how: &How) -> Result<()> {
    let options = how.options();
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} points, {eta} left") {
        bar.set_style(style);
    }
    let outcomes = experiments::batch(plans, options, &how.out, &|done, of| {
        bar.set_length(u64_of(of));
        bar.set_position(u64_of(done));
    });
    bar.finish_and_clear();
    let mut failed = Vec::new();
    for (plan, outcome) in plans.iter().zip(outcomes.map_err(refused)?) {
        match outcome {
            Ok(results) => print(plan, &results)?,
            Err(error) => failed.push(format!("{:#}", anyhow::Error::from(error))),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{}", failed.join("\n"))
}

/// Makes a wrong request a usage error; other errors stay as they are.
fn refused(error: ExperimentError) -> anyhow::Error {
    match error {
        ExperimentError::SameName(_) => UsageError(error.to_string()).into(),
        error => error.into(),
    }
}

fn print(plan: &Plan, results: &Results) -> Result<()> {
    output::line(format!("{}: {} points", plan.name(), results.points))?;
    for statement in &results.statements {
        line(statement)?;
    }
    for file in &results.files {
        output::line(format!("  {}", file.display()))?;
    }
    Ok(())
}

fn line(statement: &Statement) -> Result<()> {
    let word = match statement.holds {
        Some(true) => "holds",
        Some(false) => "DOES NOT HOLD",
        None => "no verdict",
    };
    output::line(format!(
        "  {word}: {}; measured: {}",
        statement.expected, statement.measured
    ))?;
    match &statement.why {
        Some(why) => output::line(format!("    why: {why}")),
        None => Ok(()),
    }
}

fn report(folder: &Path) -> Result<()> {
    let (overviews, page) = experiments::report(folder)?;
    for overview in &overviews {
        let [holds, fails, open] = overview.counts;
        output::line(format!(
            "{}: {holds} hold, {fails} do not, {open} without verdict",
            overview.plan
        ))?;
        for statement in &overview.failed {
            line(statement)?;
        }
    }
    output::line(page.display())
}
