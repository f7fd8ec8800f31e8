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
use super::rendezvous::{self, Place};
use super::streams::Streams;
use super::wire::Wire;
use super::{build, gather};
use crate::dir::{self, FabricDir};
use crate::state::FabricState;

/// How long the job step may take to begin, and its machines to find each other.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the job step may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long Slurm may take for a job that is given back; a machine that is lost keeps it for longer.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a job step that has failed may take to say why.
const WORDS_TIMEOUT: Duration = Duration::from_secs(3);
/// Lines of the job step's errors that are kept.
const LINES_MAX: usize = 200;
/// What a process of the job step says that has lost Slurm's PMI-2, or is refused by it ([`cluster::pmi::PmiError`]).
const PMI_FAILED: [&str; 2] = [
    "the connection to Slurm's PMI-2 failed",
    "Slurm's PMI-2 refuses",
];
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
        super::allocation::release(&job.id, GIVE_BACK_TIMEOUT).await;
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
    let mut wire = wire.map_err(|error| {
        rendezvous::unreachable(&own, "the job's first machine", place.address, &error)
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
        // Each line begins with the rank that says it.
        command.arg("--label");
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
            if let Some(place) = Place::of_line(unlabelled(&line).1) {
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
        if let (Some(line), Ok(path)) = (cannot_run(&lines), netio::process::own_executable()) {
            let count = job.machines.len();
            return anyhow!(
                "the machines of job {} cannot run {} ({line}): ibemu has to stand at one path on all {count}, as in a common folder",
                job.id,
                path.display()
            );
        }
        if let Some(said) = cause(&lines) {
            return anyhow!("{said}");
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

/// The rank that a line of the step's output is of, and what it says; without a rank it is of srun.
fn unlabelled(line: &str) -> (Option<u32>, &str) {
    let parts = line.split_once(": ");
    let rank = parts.and_then(|(rank, _)| rank.trim_start().parse().ok());
    match (rank, parts) {
        (Some(rank), Some((_, said))) => (Some(rank), said),
        _ => (None, line),
    }
}

/// Why there is no fabric, among what the processes of the step have said. The first one knows best: when it refuses one
/// machine it ends, and another that comes then says that it cannot be reached.
fn cause(lines: &[String]) -> Option<&str> {
    let said = lines.iter().filter_map(|line| {
        let (rank, said) = unlabelled(line);
        Some((rank?, said.strip_prefix("ibemu: ")?))
    });
    let causes = said.filter(|(_, said)| !is_consequence(said));
    causes
        .min_by_key(|&(rank, said)| (may_be_of_the_end(said), rank > 0))
        .map(|(_, said)| said)
}

/// The line which says that a machine could not run the agent; whatever else is said follows from it. The words of Slurm's step
/// daemon get lost when srun ends before they have come: what stays is its exit code, an errno, where agents have 0 or 1.
fn cannot_run(lines: &[String]) -> Option<&str> {
    let codes = [libc::ENOENT, libc::ENOEXEC, libc::EACCES];
    let endings = codes.map(|code| format!("Exited with exit code {code}"));
    let by_code = |line: &&String| endings.iter().any(|ending| line.ends_with(ending));
    let in_words = lines.iter().find(|line| line.contains("execve()"));
    let line = in_words.or_else(|| lines.iter().find(by_code));
    line.map(String::as_str)
}

/// Whether a process of the step tells only that it was ended because of another one.
fn is_consequence(said: &str) -> bool {
    let begins = ["the supervisor on ", "the agent of ", "ended before "];
    begins.iter().any(|begin| said.starts_with(begin))
}

/// Whether a process of the step may say this only because srun was just ending it with the others.
fn may_be_of_the_end(said: &str) -> bool {
    let mut words = PMI_FAILED.iter();
    said.ends_with(rendezvous::KILLED_MEANWHILE) || words.any(|words| said.contains(words))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_machine_says_stands_above_what_follows_from_it_elsewhere() {
        let lines = |lines: &[&str]| {
            lines
                .iter()
                .map(|&line| line.to_owned())
                .collect::<Vec<_>>()
        };
        let refused =
            "n2 runs ibemu 2, and n1 runs ibemu 1: the same build has to be on all machines";
        let unreachable = "n3 cannot reach n1 at 10.0.0.1:7 (TCP): are ports filtered between them? (Connection refused)";
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let all = [
                format!("0: ibemu: {refused}"),
                format!("2: ibemu: {unreachable}"),
                "srun: error: n3: task 2: Exited with exit code 1".to_owned(),
            ];
            let said = order.map(|number: usize| all[number].clone());
            assert_eq!(cause(&said), Some(refused), "{said:?}");
        }
        let filtered = lines(&[
            &format!(" 2: ibemu: {unreachable}"),
            " 0: ibemu: ended before the fabric was there",
            " 1: ibemu: the supervisor on n1 is lost: the connection has ended",
        ]);
        assert_eq!(cause(&filtered), Some(unreachable));
        let killed = format!("1: ibemu: n2: unmunge {}", rendezvous::KILLED_MEANWHILE);
        let killed = lines(&[&killed, &filtered[0]]);
        assert_eq!(cause(&killed), Some(unreachable));
        let io = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let lost = format!("n2: {}", cluster::pmi::PmiError::Io(io));
        let lines_of_the_end = lines(&[&format!("1: ibemu: {lost}"), &filtered[0]]);
        assert_eq!(cause(&lines_of_the_end), Some(unreachable));
        assert_eq!(cause(&lines_of_the_end[..1]), Some(lost.as_str()));
        let refused = cluster::pmi::PmiError::Refused {
            command: "kvs-fence",
            reason: "14".to_owned(),
        };
        let lines_of_the_end = lines(&[&format!("1: ibemu: n2: {refused}"), &filtered[0]]);
        assert_eq!(cause(&lines_of_the_end), Some(unreachable));
        assert_eq!(cause(&lines(&["srun: error: x", "ibemu: of nobody"])), None);
    }

    #[test]
    fn a_program_that_cannot_be_run_is_told_by_slurms_words_or_by_their_exit_code() {
        let words = "slurmstepd: error: execve(): /x/ibemu: Permission denied";
        let code = "srun: error: n3: task 2: Exited with exit code 13";
        let own = "srun: error: n3: task 2: Exited with exit code 1";
        let found = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            cannot_run(&lines).map(str::to_owned)
        };
        assert_eq!(found(&[own, code, words]).as_deref(), Some(words));
        assert_eq!(found(&[own, code]).as_deref(), Some(code));
        assert_eq!(found(&[own]), None);
    }

    #[test]
    fn a_line_without_a_rank_is_whole() {
        assert_eq!(unlabelled("12: a: b"), (Some(12), "a: b"));
        assert_eq!(unlabelled("srun: error: x"), (None, "srun: error: x"));
        assert_eq!(unlabelled("3"), (None, "3"));
    }
}
