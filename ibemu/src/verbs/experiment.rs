//! `ibemu sim`: the papers' experiments in virtual time.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use sim::experiments::{self, Options, Plan, Results};

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
    /// Run every plan that comes with the program, one after the other
    Batch(How),
    /// List the plans that come with the program
    List,
}

/// How plans are run.
#[derive(Debug, Args)]
pub struct How {
    /// The reduced plan: fewer loads, lanes or packets
    #[arg(long)]
    quick: bool,
    /// Seed of everything that is drawn; the same seed gives the same files on any machine
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Folder for <plan>.csv, <plan>.json and <plan>.html; made if need be
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    out: PathBuf,
    /// Points run side by side [default: one a core]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// Does what was asked.
///
/// # Errors
/// A plan that cannot be, a checker's finding, a folder that cannot be written. A verdict that
/// does not hold is printed, and is no error: it is a result.
pub fn run(what: &Sim) -> Result<()> {
    match what {
        Sim::List => Plan::builtins().try_for_each(output::line),
        Sim::Run { plan, how } => one(plan, how),
        Sim::Batch(how) => Plan::builtins().try_for_each(|plan| one(plan, how)),
    }
}

fn one(given: &str, how: &How) -> Result<()> {
    let plan = Plan::find(given).map_err(|error| UsageError(error.to_string()))?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        quick: how.quick,
        seed: how.seed,
        threads: how.threads.map_or_else(cores, usize::from),
    };
    let bar = ProgressBar::new(0).with_prefix(plan.name.clone());
    if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} points {eta}")
    {
        bar.set_style(style);
    }
    let results = experiments::run(&plan, options, &how.out, &|done, of| {
        bar.set_length(u64::try_from(of).unwrap_or(u64::MAX));
        bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
    })?;
    bar.finish_and_clear();
    print(&plan, &results)
}

fn print(plan: &Plan, results: &Results) -> Result<()> {
    output::line(format!("{}: {} points", plan.name, results.points.len()))?;
    for verdict in &results.verdicts {
        let word = match verdict.holds {
            Some(true) => "holds",
            Some(false) => "DOES NOT HOLD",
            None => "no verdict",
        };
        output::line(format!(
            "  {word}: {}; measured: {}",
            verdict.expected, verdict.measured
        ))?;
    }
    for file in &results.files {
        output::line(format!("  {}", file.display()))?;
    }
    Ok(())
}
