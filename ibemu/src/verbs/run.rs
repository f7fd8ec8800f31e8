//! `ibemu run`: starts a program beside several hosts at once, as launchers of parallel programs do.
//!
//! ```text
//!  ibemu run ---- ibemu exec h0 PROGRAM    standard output and error come back line by line, with the host's name
//!             \-- ibemu exec h1 PROGRAM
//! ```
//!
//! The first process that fails decides; the others are ended then, with all that they have started: what carries
//! the run's label in its environment.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use daemon::signals::ShutdownSignals;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::cli::Run;
use crate::dir::FabricDir;
use crate::names::FabricName;
use crate::process;
use crate::state::FabricState;
use crate::usage::UsageError;

/// The environment variable that marks what a run has started.
const LABEL: &str = "IBEMU_RUN";
/// How long processes have to end when they are asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long they may take to go when they are killed.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest line that is held back until it is complete, bytes.
const LINE_BYTES_MAX: u64 = 1 << 16;
/// Exit code of a run that was interrupted.
const INTERRUPTED: u8 = 130;

/// Runs the program and waits until all processes have ended: the exit code of the first one that failed, or 0.
///
/// # Errors
/// If there are not so many hosts, or a process cannot be started.
pub async fn run(fabric: &FabricName, options: &Run) -> Result<u8> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let hosts = hosts(&state, options)?;
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let label = format!("{}-{}", dir.path().display(), std::process::id());
    let folder = dir.path().join(format!("run-{}", std::process::id()));
    let mut processes = FuturesUnordered::new();
    // Goes before the processes themselves do: they are asked to end first.
    let ending = Ending { label, folder };
    for (rank, host) in hosts.iter().enumerate() {
        let child = ending.start(fabric, options, &hosts, (rank, host))?;
        processes.push(follow(host.clone(), child));
    }
    let mut failed = None;
    while failed.is_none() {
        let next = tokio::select! {
            next = processes.next() => next,
            () = leave.next() => return Ok(INTERRUPTED),
        };
        let Some((host, status)) = next else {
            break;
        };
        let status = status.with_context(|| format!("cannot wait for the process of {host}"))?;
        if !status.success() {
            tell(&host, status);
            failed = Some(code(status));
        }
    }
    Ok(failed.unwrap_or(0))
}

/// The names of the hosts, one for each rank.
fn hosts(state: &FabricState, options: &Run) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for name in &options.hosts {
        let host = state.find_host(name)?;
        ensure!(
            !hosts.contains(&host),
            UsageError(format!("{name} is named twice with --hosts"))
        );
        hosts.push(host);
    }
    if hosts.is_empty() {
        hosts.extend(
            state
                .real_hosts()
                .filter(|&node| state.nodes[node].device.is_none()),
        );
    }
    let wanted = options.number.unwrap_or(hosts.len());
    let have = hosts.len();
    ensure!(
        wanted <= have,
        UsageError(format!(
            "-n {wanted}: one process a host, and there are {have} hosts to choose from"
        ))
    );
    let named = hosts.into_iter().take(wanted);
    Ok(named.map(|node| state.nodes[node].name.clone()).collect())
}

/// What is left when the run ends, however it ends.
struct Ending {
    label: String,
    folder: std::path::PathBuf,
}

impl Ending {
    fn start(
        &self,
        fabric: &FabricName,
        options: &Run,
        hosts: &[String],
        (rank, host): (usize, &str),
    ) -> Result<Child> {
        let mut command = Command::new(netio::process::own_executable()?);
        command.args(["--fabric", fabric.as_str(), "exec", host]);
        command.args(&options.command);
        command
            .env(LABEL, &self.label)
            .env("IBEMU_RANK", rank.to_string())
            .env("IBEMU_RANKS", hosts.len().to_string())
            .env("IBEMU_HOSTS", hosts.join(","))
            .env("IBEMU_HOSTFILE", self.hostfile(hosts)?)
            .stdin(if rank == 0 {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn();
        child.with_context(|| format!("cannot start a process beside {host}"))
    }

    /// A file with a host a line.
    fn hostfile(&self, hosts: &[String]) -> Result<std::path::PathBuf> {
        let path = self.folder.join("hosts");
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(&path, hosts.join("\n") + "\n"));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let variable = format!("{LABEL}={}", self.label);
        // What a process has started while others were ended is found the next time.
        for _ in 0..4 {
            let ended = process::find_labelled(&variable).and_then(|left| match left.is_empty() {
                true => Ok(true),
                false => process::end_all(&left, GRACE, LIMIT).map(|()| false),
            });
            match ended {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    let _ = writeln!(io::stderr(), "ibemu: {error:#}");
                    break;
                }
            }
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Passes a process's output on until it ends.
async fn follow(host: String, mut child: Child) -> (String, io::Result<ExitStatus>) {
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let name = host.clone();
    let passing = async {
        tokio::join!(
            pass_on(&name, output, io::stdout),
            pass_on(&name, errors, io::stderr)
        );
    };
    tokio::pin!(passing);
    let status = tokio::select! {
        biased;
        () = &mut passing => child.wait().await,
        status = child.wait() => {
            // What it has started may hold its output open for longer than it runs.
            let _ = tokio::time::timeout(GRACE, passing).await;
            status
        }
    };
    (host, status)
}

/// Copies lines, with the host's name in front.
async fn pass_on<W: Write>(host: &str, from: Option<impl AsyncRead + Unpin>, to: impl Fn() -> W) {
    let Some(from) = from else {
        return;
    };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut from).take(LINE_BYTES_MAX);
        if !matches!(bounded.read_until(b'\n', &mut line).await, Ok(1..)) {
            return;
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let named = [host.as_bytes(), b": ", &line].concat();
        let mut to = to();
        // Nobody may read it any more.
        if to.write_all(&named).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn tell(host: &str, status: ExitStatus) {
    let mut text = format!("ibemu: the process of {host} ");
    let _ = match (status.code(), status.signal()) {
        (Some(code), _) => write!(text, "has ended with exit code {code}"),
        (None, Some(signal)) => write!(text, "was ended by signal {signal}"),
        (None, None) => write!(text, "has failed"),
    };
    let _ = writeln!(io::stderr(), "{text}: the others are ended");
}
