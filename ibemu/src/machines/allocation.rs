//! The machines of a job: those of the allocation that this is called in, or of one that is asked for.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use cluster::slurm;
use daemon::signals::ShutdownSignals;
use netio::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStderr;

use super::job::Machine;
use crate::cli::Slurm;
use crate::names::FabricName;

/// What salloc says in front of a job's number: once it waits, and once it has its machines.
const PENDING: &str = "salloc: Pending job allocation ";
const GRANTED: &str = "salloc: Granted job allocation ";
/// How often it is looked whether a job can begin at all.
const PENDING_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a job that was cancelled may take to end, where somebody waits for it, and how often it is looked for.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
const GONE_POLL_INTERVAL: Duration = Duration::from_millis(50);
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
/// Without Slurm, an allocation of two machines or more, if Slurm does not give one, or if it is asked to end; no
/// job of its own is then left.
pub async fn allocate(
    fabric: &FabricName,
    options: &Slurm,
    leave: &mut ShutdownSignals,
) -> Result<Allocation> {
    let inside = std::env::var(slurm::JOB).ok();
    let (id, is_own) = match (inside, options.nodes) {
        (Some(id), None) => (id, false),
        (Some(id), Some(_)) => bail!(
            "this is called inside of job {id}, whose machines it takes: leave -N out, or call it outside"
        ),
        (None, Some(nodes)) => {
            ensure!(nodes >= 2, one_machine(1));
            (submit(fabric, nodes, &options.salloc, leave).await?, true)
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
                release(&id, RELEASE_TIMEOUT).await;
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

/// Asks Slurm for machines; waits until they are there, or until it is asked to end.
async fn submit(
    fabric: &FabricName,
    nodes: u16,
    more: &[String],
    leave: &mut ShutdownSignals,
) -> Result<String> {
    let mut command = tokio::process::Command::new("salloc");
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
    let mut salloc = command.spawn().context(
        "cannot run salloc: is Slurm installed here? Without --slurm a fabric runs on this machine",
    )?;
    let errors = salloc.stderr.take().context("salloc has no output")?;
    let mut said = Said {
        lines: BufReader::new(errors).lines(),
        id: None,
        text: String::new(),
    };
    let outcome = tokio::select! {
        granted = said.granted(nodes) => granted,
        () = leave.next() => Err(anyhow!("interrupted: nothing was begun")),
    };
    if outcome.is_err() {
        // It gives back what it has, unless it was about to end.
        if let Some(pid) = salloc.id()
            && let Ok(pidfd) = netio::process::Pidfd::open(pid)
        {
            let _ = pidfd.signal(Signal::TERM);
        }
        let rest = async {
            while said.next().await.is_ok_and(|line| line.is_some()) {}
            salloc.wait().await
        };
        let _ = tokio::time::timeout(RELEASE_TIMEOUT, rest).await;
        if let Some(id) = &said.id {
            release(id, RELEASE_TIMEOUT).await;
        }
    } else {
        salloc.wait().await?;
    }
    outcome
}

/// What salloc says.
struct Said {
    lines: Lines<BufReader<ChildStderr>>,
    /// The job, once it has a number.
    id: Option<String>,
    /// All else, as far as it is kept.
    text: String,
}

impl Said {
    /// The next line; `None` at the end.
    async fn next(&mut self) -> Result<Option<String>> {
        let Some(line) = self.lines.next_line().await? else {
            return Ok(None);
        };
        if let Some(id) = [PENDING, GRANTED]
            .iter()
            .find_map(|words| line.strip_prefix(words))
        {
            self.id = Some(id.trim().to_owned());
        } else if self.text.len() < SAID_BYTES_MAX {
            self.text.push_str(&line);
            self.text.push('\n');
        }
        Ok(Some(line))
    }

    /// The job, once it has its machines.
    async fn granted(&mut self, nodes: u16) -> Result<String> {
        loop {
            match tokio::time::timeout(PENDING_POLL_INTERVAL, self.next()).await {
                Ok(line) => match line? {
                    Some(line) if line.starts_with(GRANTED) => {
                        return self.id.clone().context("salloc gives the job no number");
                    }
                    Some(_) => {}
                    None => bail!("Slurm gives no machines: {}", reason(&self.text)),
                },
                Err(_) => {
                    if let Some(id) = &self.id
                        && let Some(why) = never_begins(id).await
                    {
                        bail!(
                            "Slurm gives no machines: a job of {nodes} would wait for ever ({why})"
                        );
                    }
                }
            }
        }
    }
}

/// Why a job that waits can never begin, if Slurm says so.
async fn never_begins(id: &str) -> Option<String> {
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--format=%r", "--jobs", id]);
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

/// Gives the machines of a job back; waits until Slurm has them, for `limit` at most.
pub(crate) async fn release(id: &str, limit: Duration) {
    let mut command = Command::new("scancel");
    command.arg(id);
    if let Err(error) = output(command, "scancel").await {
        tracing::warn!("job {id} could not be ended: {error:#}");
        return;
    }
    let gone = async {
        while is_queued(id).await {
            tokio::time::sleep(GONE_POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(limit, gone).await.is_err() {
        tracing::warn!("job {id} was cancelled, and has not ended within {limit:?}");
    }
}

/// Whether a job waits, runs or is being ended.
async fn is_queued(id: &str) -> bool {
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--format=%T", "--jobs", id]);
    // Slurm forgets jobs that have ended, and says so as an error.
    let asked = output(command, "squeue").await;
    asked.is_ok_and(|output| !output.stdout.trim_ascii().is_empty())
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
