//! `ibemu sim batch --slurm`: the points of plans as tasks of an array job, and a job after it that writes the results.
//!
//! A point's result is a checkpoint in the folder of the results, written under another name and renamed, so it does no
//! harm to run a point twice. The last job is the same call without Slurm: it finds the checkpoints, runs what is missing,
//! and writes the same bytes as if it had run all.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use experiments::Plan;

use super::experiment::How;
use crate::output;

/// Where the points are run.
#[derive(Debug, Args)]
pub struct Array {
    /// Run the points as tasks of an array job of Slurm, with a processor each, and write the results in a job after it; waits
    /// for that. The folder of the results has to be one that all machines share
    #[arg(long)]
    slurm: bool,
    /// At most that many tasks at once, 1 to 100000 [default: as many as there is room for]
    #[arg(long, value_name = "NUMBER", requires = "slurm", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    array: Option<u32>,
    /// A further argument of sbatch, as --sbatch=--time=60. May be given several times [default: none]
    #[arg(
        long,
        value_name = "ARGUMENT",
        requires = "slurm",
        allow_hyphen_values = true
    )]
    sbatch: Vec<String>,
    /// Points of a task: with it, this is one, and SLURM_ARRAY_TASK_ID says which
    #[arg(long, hide = true, conflicts_with = "slurm")]
    points_a_task: Option<usize>,
}

/// The folder of the jobs' outputs below that of the results.
const OUTPUTS: &str = ".slurm";
/// Slurm's own default of MaxArraySize.
const ARRAY_MAX: usize = 1001;

impl Array {
    /// Whether jobs are to be submitted.
    pub(super) fn is_asked(&self) -> bool {
        self.slurm
    }

    /// The points that this task of an array runs; `None` if it is none.
    pub(super) fn part(&self) -> Result<Option<Range<usize>>> {
        let Some(each) = self.points_a_task else {
            return Ok(None);
        };
        let task = std::env::var("SLURM_ARRAY_TASK_ID").ok();
        let task: Option<usize> = task.and_then(|text| text.parse().ok());
        let task = task.context("this is no task of an array job of Slurm")?;
        let from = task.saturating_mul(each);
        Ok(Some(from..from.saturating_add(each)))
    }

    /// Submits the jobs, waits for the last one and prints what it says.
    pub(super) fn submit(&self, names: &[&str], plans: &[Plan], how: &How) -> Result<()> {
        let points = plans
            .iter()
            .map(|plan| plan.points()[usize::from(how.quick)]);
        let points: usize = points.sum();
        let each = points.div_ceil(array_max().saturating_sub(1).max(1)).max(1);
        let tasks = points.div_ceil(each);
        let outputs = std::path::absolute(&how.out)?.join(OUTPUTS);
        let unwritable = || format!("cannot make {}", outputs.display());
        fs::create_dir_all(&outputs).with_context(unwritable)?;
        let at_once = self
            .array
            .map_or_else(String::new, |number| format!("%{number}"));
        let line = line(names, how)?;
        let points = sbatch(
            &self.sbatch,
            &outputs.join("%A_%a.out"),
            &[
                "--requeue",
                "--job-name=ibemu-points",
                &format!("--array=0-{}{at_once}", tasks - 1),
            ],
            &format!("{line} --threads 1 --points-a-task {each}"),
        )?;
        let points = points.trim();
        progress(&format!(
            "job {points}: {tasks} tasks of {each} points at most"
        ));
        let report = outputs.join(format!("{points}.report"));
        let ended = sbatch(
            &self.sbatch,
            &report,
            &[
                "--wait",
                "--requeue",
                "--job-name=ibemu-report",
                &format!("--dependency=afterany:{points}"),
            ],
            &line,
        );
        let said = fs::read_to_string(&report).with_context(|| {
            format!(
                "the job of the results has left nothing in {}: is that a folder that all machines share?",
                outputs.display()
            )
        })?;
        match ended {
            Ok(_) => {
                output::text(&said)?;
                fs::remove_dir_all(&outputs)
                    .with_context(|| format!("cannot remove {}", outputs.display()))
            }
            Err(error) => Err(error).with_context(|| {
                format!("the job of the results has failed:\n{}", said.trim_end())
            }),
        }
    }
}

/// Tells of a job on standard error: standard output is that of the batch. One that is closed is as good.
fn progress(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The same call without Slurm, for a shell.
fn line(names: &[&str], how: &How) -> Result<String> {
    let program = netio::process::own_executable()?;
    let out = std::path::absolute(&how.out)?;
    let mut words = vec![text_of(&program)?, "sim".to_owned(), "batch".to_owned()];
    words.extend(names.iter().map(|&name| name.to_owned()));
    words.extend([
        "--seed".to_owned(),
        how.seed.to_string(),
        "--out".to_owned(),
        text_of(&out)?,
    ]);
    if how.quick {
        words.push("--quick".to_owned());
    }
    let quoted = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    Ok(quoted.collect::<Vec<_>>().join(" "))
}

fn text_of(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{} is no text", path.display()))
}

/// How large an array may be here.
fn array_max() -> usize {
    let asked = Command::new("scontrol")
        .args(["show", "config"])
        .stdin(Stdio::null())
        .output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let value = said.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "MaxArraySize").then(|| value.trim().parse().ok())?
    });
    value.unwrap_or(ARRAY_MAX)
}

/// Submits a job: what sbatch says.
fn sbatch(more: &[String], output: &PathBuf, options: &[&str], line: &str) -> Result<String> {
    let mut command = Command::new("sbatch");
    command.args(["--parsable", "--ntasks=1", "--open-mode=truncate"]);
    command.arg("--output").arg(output).args(options).args(more);
    command
        .arg(format!("--wrap=exec {line}"))
        .stdin(Stdio::null());
    let output = command.output().context(
        "cannot run sbatch: is Slurm installed here? Without --slurm the points run on this machine",
    )?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        match said.is_empty() {
            true => bail!("it ended with {}", output.status),
            false => bail!("Slurm does not take the job: {said}"),
        }
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
