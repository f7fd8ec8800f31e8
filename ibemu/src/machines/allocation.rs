//! The machines of a job: those of the allocation that this is called in, or of one that is asked for.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cluster::slurm;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::job::Machine;
use crate::cli::Slurm;
use crate::names::FabricName;

/// How often it is looked whether a job can begin at all.
const PENDING_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How much of what salloc says is kept, bytes.
const SAID_BYTES_MAX: usize = 16 * 1024;

/// Machines of a job, not yet given devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Slurm's number of the job.
    pub id: String,
    /// Its machines, in the order of ranks.
    pub machines: Vec<Machine>,
    /// Whether it was asked for here.
    pub is_own: bool,
}

/// The machines on which a fabric is brought up.
///
/// # Errors
/// Without Slurm, an allocation of two machines or more, or if Slurm does not give one.
pub async fn allocate(fabric: &FabricName, options: &Slurm) -> Result<Allocation> {
    let inside = std::env::var(slurm::JOB).ok();
    let (id, is_own) = match (inside, options.nodes) {
        (Some(id), None) => (id, false),
        (Some(id), Some(_)) => bail!(
            "this is called inside of job {id}, whose machines it takes: leave -N out, or call it outside"
        ),
        (None, Some(nodes)) => {
            ensure!(nodes >= 2, one_machine(1));
            (submit(fabric, nodes, &options.salloc).await?, true)
        }
        (None, None) => bail!(
            "--slurm is for the inside of an allocation (salloc -N 3, sbatch): call it there, or let it ask for machines (--slurm -N 3)"
        ),
    };
    match machines(&id).await {
        Ok(machines) => Ok(Allocation {
            id,
            machines,
            is_own,
        }),
        Err(error) => {
            if is_own {
                release(&id).await;
            }
            Err(error)
        }
    }
}

fn one_machine(count: usize) -> String {
    format!(
        "the allocation has {count} machine: a fabric is placed on 2 or more; without --slurm it runs on this one"
    )
}

/// Asks Slurm for machines; waits until they are there.
async fn submit(fabric: &FabricName, nodes: u16, more: &[String]) -> Result<String> {
    let mut command = Command::new("salloc");
    command.args([
        "--no-shell",
        "--ntasks-per-node=1",
        "--nodes",
        &nodes.to_string(),
    ]);
    command.arg(format!("--job-name=ibemu-{fabric}")).args(more);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut salloc = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .context("cannot run salloc: is Slurm installed here? Without --slurm a fabric runs on this machine")?;
    let errors = salloc.stderr.take().context("salloc has no output")?;
    let mut errors = BufReader::new(errors).lines();
    let mut said = String::new();
    let mut waiting: Option<Waiting> = None;
    loop {
        let line = match tokio::time::timeout(PENDING_POLL_INTERVAL, errors.next_line()).await {
            Ok(line) => line?,
            Err(_) => {
                if let Some(waiting) = &waiting
                    && let Some(why) = waiting.never_begins().await
                {
                    bail!("Slurm gives no machines: a job of {nodes} would wait for ever ({why})");
                }
                continue;
            }
        };
        let Some(line) = line else { break };
        let id_behind = |words: &str| line.strip_prefix(words).map(|id| id.trim().to_owned());
        if let Some(id) = id_behind("salloc: Pending job allocation ") {
            waiting = Some(Waiting(Some(id)));
        }
        if let Some(id) = id_behind("salloc: Granted job allocation ") {
            if let Some(mut waiting) = waiting.take() {
                waiting.0 = None;
            }
            salloc.wait().await?;
            return Ok(id);
        }
        if said.len() < SAID_BYTES_MAX {
            said.push_str(&line);
            said.push('\n');
        }
    }
    bail!("Slurm gives no machines: {}", reason(&said))
}

/// A job that has no machines yet; it is cancelled when nobody waits for it any more.
struct Waiting(Option<String>);

impl Waiting {
    /// Why the job can never begin, if Slurm says so.
    async fn never_begins(&self) -> Option<String> {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--format=%r", "--jobs", self.0.as_deref()?]);
        let output = output(command, "squeue").await.ok()?;
        let reason = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let is_for_ever = [
            "PartitionConfig",
            "PartitionNodeLimit",
            "PartitionTimeLimit",
            "BadConstraints",
        ];
        is_for_ever.contains(&reason.as_str()).then_some(reason)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(id) = &self.0 {
            // Without Slurm there is nothing to cancel.
            let _ = Command::new("scancel").arg(id).status();
        }
    }
}

/// What a program of Slurm says about why it fails.
fn reason(said: &str) -> String {
    let error = said.lines().find(|line| line.contains("error:"));
    let line = error.or_else(|| said.lines().last());
    let line = line.unwrap_or("it does not say why");
    match line.split_once("error: ") {
        Some((_, words)) => words.to_owned(),
        None => line.to_owned(),
    }
}

/// The machines of a running job.
async fn machines(id: &str) -> Result<Vec<Machine>> {
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "job", id]);
    let output = output(command, "scontrol").await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("Slurm does not know job {id}: {}", reason(&errors));
    }
    let list = field(&said, "NodeList=").context("the job has no machines yet")?;
    let mut command = Command::new("scontrol");
    command.args(["show", "hostnames", &list]);
    let hostnames = self::output(command, "scontrol").await?;
    let hostnames = String::from_utf8_lossy(&hostnames.stdout).into_owned();
    let names: Vec<String> = hostnames.lines().map(str::to_owned).collect();
    ensure!(names.len() >= 2, one_machine(names.len()));
    let cpus = match std::env::var(slurm::CPUS) {
        Ok(text) => slurm::cpus(&text)?,
        Err(_) => {
            let all = field(&said, "NumCPUs=").and_then(|text| text.parse::<u32>().ok());
            let each = all.unwrap_or(0) / u32::try_from(names.len())?;
            vec![each.max(1); names.len()]
        }
    };
    ensure!(
        cpus.len() == names.len() && names.iter().all(|name| cluster::message::is_name(name)),
        "Slurm names {} machines and the processors of {}",
        names.len(),
        cpus.len()
    );
    let machines = names.into_iter().zip(cpus).map(|(name, cpus)| Machine {
        name,
        cpus,
        address: None,
    });
    Ok(machines.collect())
}

/// The value of a field in a line of scontrol.
fn field(line: &str, key: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let value = words.find_map(|word| word.strip_prefix(key))?;
    (!value.is_empty() && value != "(null)").then(|| value.to_owned())
}

/// Gives the machines of a job back.
pub(crate) async fn release(id: &str) {
    let mut command = Command::new("scancel");
    command.arg(id);
    if let Err(error) = output(command, "scancel").await {
        tracing::warn!("job {id} could not be ended: {error:#}");
    }
}

async fn output(command: Command, name: &str) -> Result<std::process::Output> {
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.with_context(|| {
        format!("cannot run {name}: is Slurm installed here? Without --slurm a fabric runs on this machine")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_reasons_are_found_in_what_slurm_says() {
        let line = "JobId=3 ReqNodeList=(null) NodeList=n[1-3] NumNodes=3 NumCPUs=6 BatchHost=n1";
        assert_eq!(field(line, "NodeList=").as_deref(), Some("n[1-3]"));
        assert_eq!(field(line, "NumCPUs=").as_deref(), Some("6"));
        assert_eq!(field(line, "ReqNodeList="), None);
        let said = "salloc: error: Job submit/allocate failed: Requested node configuration is not available\nsalloc: x\n";
        assert!(reason(said).starts_with("Job submit/allocate failed"));
        assert_eq!(reason(""), "it does not say why");
    }
}
