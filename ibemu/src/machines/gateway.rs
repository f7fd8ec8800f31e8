//! The machine that `up` was called on: starts the job step, hands the fabric's files over, and stands for the sockets of
//! all processes, so that every verb works here as on one machine.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use cluster::message::{Message, is_name};
use daemon::signals::ShutdownSignals;
use netio::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout_at};

use super::agent::greet;
use super::job::Job;
use super::rendezvous::Place;
use super::streams::Streams;
use super::wire::Wire;
use super::{build, gather};
use crate::dir::{self, FabricDir};
use crate::state::FabricState;

/// How long the job step may take to begin, and its machines to find each other.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the job step may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a job step that has failed may take to say why.
const WORDS_TIMEOUT: Duration = Duration::from_secs(3);
/// Lines of the job step's errors that are kept.
const LINES_MAX: usize = 200;
/// The file in which `up` finds why there is no fabric.
pub(crate) const FAILURE: &str = "failure";

/// Runs until the fabric ends.
///
/// # Errors
/// If it cannot be had; why stands in the file [`FAILURE`].
pub(crate) async fn run(dir: FabricDir, state: FabricState) -> Result<()> {
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let job = state.job.clone().context("the fabric is of no job")?;
    let mut step = Step::start(&dir, &job)?;
    let joined = tokio::select! {
        joined = join(&dir, &state, &mut step) => joined,
        () = leave.next() => Err(anyhow!("asked to end")),
    };
    let (mut wire, streams) = match joined {
        Ok(joined) => joined,
        Err(error) => {
            let error = step.explain(error, &job).await;
            let why = format!("{error:#}");
            dir.require()?.replace(FAILURE, why.as_bytes())?;
            return Err(error);
        }
    };
    tracing::info!(
        "fabric {} is on {} machines",
        state.fabric,
        job.machines.len()
    );
    let why = loop {
        tokio::select! {
            message = wire.incoming.next() => match message {
                Ok(Message::End { why } | Message::Refused(why)) => break why,
                Ok(message) => streams.take(message),
                Err(error) => break format!("the supervisor is lost: {error:#}"),
            },
            () = leave.next() => {
                let why = "the machine of `ibemu up` was asked to end".to_owned();
                wire.outgoing.send(Message::End { why: String::new() }).await;
                break why;
            }
        }
    };
    tracing::info!("the fabric has ended: {why}");
    streams.end();
    step.end().await;
    if job.is_own {
        super::allocation::release(&job.id).await;
    }
    dir.remove()
}

/// Learns the supervisor's place, connects, and hands the files over.
async fn join(
    dir: &FabricDir,
    state: &FabricState,
    step: &mut Step,
) -> Result<(Wire, std::rc::Rc<Streams>)> {
    let place = step.place().await?;
    let build = build::own()?;
    let own = netio::process::host_name();
    let wire = Wire::connect(place.address, place.secret.clone()).await;
    let mut wire = wire.with_context(|| {
        format!("{own} cannot reach the job's first machine at {} (TCP); are ports filtered between them?", place.address)
    })?;
    greet(&wire, &place, build, None, &own).await?;
    let deadline = step.deadline;
    match timeout_at(deadline, wire.incoming.next()).await?? {
        Message::Welcome => {}
        Message::Refused(why) | Message::End { why } => bail!("{why}"),
        _ => bail!("the supervisor says something else than welcome"),
    }
    gather::send_files(&wire.outgoing, &files(dir)?).await;
    match timeout_at(deadline, wire.incoming.next()).await?? {
        Message::Files => {}
        Message::Refused(why) | Message::End { why } => bail!("{why}"),
        _ => bail!("the supervisor says something else than that it is ready"),
    }
    let streams = Streams::new(dir, wire.outgoing.clone(), false, Default::default());
    streams.stand_for(&state.sockets_beside(None))?;
    Ok((wire, streams))
}

/// The files of the fabric's directory.
fn files(dir: &FabricDir) -> Result<BTreeMap<String, Vec<u8>>> {
    let directory = dir.require()?;
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory.path()).context("cannot read the fabric's directory")? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        if let Ok(name) = name
            && entry.file_type()?.is_file()
            && is_name(&name)
            && name != dir::JOURNAL
        {
            let content = directory.read(&name)?;
            files.insert(name, content);
        }
    }
    Ok(files)
}

/// The job step of the agents.
struct Step {
    srun: Child,
    /// Its standard output, until the place has come.
    output: Option<tokio::io::Lines<BufReader<tokio::process::ChildStdout>>>,
    errors: tokio::task::JoinHandle<Vec<String>>,
    deadline: Instant,
}

impl Step {
    fn start(dir: &FabricDir, job: &Job) -> Result<Self> {
        let machines: Vec<&str> = job.names().collect();
        let count = machines.len().to_string();
        let mut command = std::process::Command::new("srun");
        command.args([
            "--mpi=pmi2",
            "--ntasks-per-node=1",
            "--overlap",
            "--cpu-bind=none",
        ]);
        command.args(["--unbuffered", "--chdir=/", "--input=none", "--export=ALL"]);
        command.args(["--jobid", &job.id, "--nodes", &count, "--ntasks", &count]);
        match job.no_kill {
            true => command.args(["--no-kill", "--kill-on-bad-exit=0"]),
            false => command.arg("--kill-on-bad-exit=1"),
        };
        command
            .arg(netio::process::own_executable()?)
            .args(["--fabric", dir.fabric().as_str(), "agent", "--machines"])
            .arg(machines.join(","))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // What srun would take for options of its own.
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            if name.starts_with("SLURM_") && !name.starts_with("SLURM_CONF") {
                command.env_remove(&variable);
            }
        }
        // It outlives this process for a moment: the supervisor notices the loss and ends everything in order, while the
        // end of srun would have Slurm kill everything at once.
        let mut srun = Command::from(command)
            .spawn()
            .context("cannot run srun: is Slurm's client installed here?")?;
        let output = srun.stdout.take().context("srun has no output")?;
        let errors = srun.stderr.take().context("srun has no output")?;
        Ok(Self {
            srun,
            output: Some(BufReader::new(output).lines()),
            errors: tokio::task::spawn_local(keep_lines(errors)),
            deadline: Instant::now() + STEP_TIMEOUT,
        })
    }

    /// The supervisor's place, once the first machine has told it.
    async fn place(&mut self) -> Result<Place> {
        let mut output = self.output.take().context("the place was told already")?;
        loop {
            let line = timeout_at(self.deadline, output.next_line()).await;
            let line = line.with_context(|| format!("the job step did not begin within {STEP_TIMEOUT:?}: are its machines free (squeue --steps)?"))?;
            let Some(line) = line? else {
                bail!("the job step has ended at once");
            };
            if let Some(place) = Place::of_line(&line) {
                // What else is said there is read, so that nobody waits for it.
                tokio::task::spawn_local(async move {
                    while let Ok(Some(_)) = output.next_line().await {}
                });
                return place;
            }
        }
    }

    /// The error, with what the job step has said about it.
    async fn explain(self, error: anyhow::Error, job: &Job) -> anyhow::Error {
        let Self {
            mut srun, errors, ..
        } = self;
        // What has failed says why, and the rest is ended by srun; that takes a moment.
        let _ = tokio::time::timeout(WORDS_TIMEOUT, srun.wait()).await;
        if let Some(pid) = srun.id()
            && let Ok(pidfd) = netio::process::Pidfd::open(pid)
        {
            let _ = pidfd.signal(Signal::TERM);
        }
        let deadline = Instant::now() + END_TIMEOUT;
        let _ = timeout_at(deadline, srun.wait()).await;
        let lines = match timeout_at(deadline, errors).await {
            Ok(Ok(lines)) => lines,
            _ => Vec::new(),
        };
        for line in &lines {
            tracing::info!("{line}");
        }
        let said = lines.iter().filter_map(|line| line.strip_prefix("ibemu: "));
        if let Some(said) = said.clone().find(|said| !is_consequence(said)) {
            return anyhow!("{said}");
        }
        let cannot_run = lines.iter().find(|line| line.contains("execve()"));
        if let (Some(line), Ok(path)) = (cannot_run, netio::process::own_executable()) {
            let count = job.machines.len();
            return anyhow!(
                "the machines of job {} cannot run {} ({line}): ibemu has to stand at one path on all {count}, as in a common folder",
                job.id,
                path.display()
            );
        }
        let errors = lines.iter().find(|line| line.contains("error:"));
        match errors {
            Some(line) => anyhow!("{error:#}: {line}"),
            None => error,
        }
    }

    async fn end(mut self) {
        let ended = tokio::time::timeout(END_TIMEOUT, self.srun.wait()).await;
        if ended.is_err() {
            // Its agents have been told; Slurm ends what does not end.
            let _ = self.srun.kill().await;
        }
    }
}

/// Whether a process of the step tells only that it was ended because of another one.
fn is_consequence(said: &str) -> bool {
    let begins = ["the supervisor on ", "the agent of ", "ended before "];
    begins.iter().any(|begin| said.starts_with(begin))
}

/// The first lines of a stream, read to its end.
async fn keep_lines(stream: impl AsyncRead + Unpin) -> Vec<String> {
    let mut lines = BufReader::new(stream).lines();
    let mut kept = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        if kept.len() < LINES_MAX {
            kept.push(line);
        }
    }
    kept
}
