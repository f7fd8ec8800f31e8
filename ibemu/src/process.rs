//! The processes of a fabric: those of the fabric's user that run one of our programs with the
//! fabric's directory as argument, held by pidfd, never by process id alone.

mod identity;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netio::process::{Pidfd, Signal};
use serde::{Deserialize, Serialize};

use crate::dir::FabricDir;
use crate::names;
pub use identity::{FileId, ProcessRecord, runs_as};

/// A process for as long as it runs: process ids are reused, but not with the same start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub start: u64,
}

impl ProcessId {
    /// The process that has number `pid` now; `None` if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (start, state) = start_and_state(&stat)?;
        (state != 'Z' && state != 'X').then_some(Self { pid, start })
    }

    /// A child that has not been waited for, whether it still runs or has ended already: until then
    /// no other process has its number. `None` if `/proc` is not mounted.
    #[must_use]
    pub fn of_child(child: &Child) -> Option<Self> {
        let pid = child.id();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (start, _) = start_and_state(&stat)?;
        Some(Self { pid, start })
    }

    /// The calling process.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn own() -> Result<Self> {
        Self::of(std::process::id()).context("cannot read /proc/self/stat; is /proc mounted?")
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Takes hold of it; `None` if it has ended.
    #[must_use]
    pub fn hold(self) -> Option<Pidfd> {
        let pidfd = Pidfd::open(self.pid).ok()?;
        // The process id may have been reused before the descriptor was opened, not after.
        self.is_alive().then_some(pidfd)
    }
}

/// Start time and state letter from the text of `/proc/<pid>/stat`. The command's name, in
/// parentheses, may hold anything.
fn start_and_state(stat: &str) -> Option<(u64, char)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // `state` is field 3; the start time is field 22.
    let start = fields.nth(18)?.parse().ok()?;
    Some((start, state))
}

/// The role of a process in a fabric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A device, by its handle.
    Device(String),
    /// A subnet manager, by its handle.
    Controller(String),
    /// The supervisor.
    Supervisor,
}

/// A running process of a fabric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its role.
    pub role: Role,
    /// Which it is.
    pub id: ProcessId,
}

/// All running processes of the fabric in `dir`: of the fabric's user, with a command line that
/// names the fabric, and either `recorded` in its journal or running one of our programs.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn find(dir: &FabricDir, recorded: &[ProcessRecord]) -> Result<Vec<Found>> {
    let owner = dir.owner();
    let programs = own_programs();
    let mut found = Vec::new();
    for pid in all_pids()? {
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
            continue;
        };
        let Some(role) = role_of(&line, dir.path()) else {
            continue;
        };
        let Some(process) = ProcessRecord::of(pid) else {
            continue;
        };
        let runs_ours = || {
            let executable = process.executable.as_ref();
            executable.is_some_and(|executable| programs.contains(executable))
        };
        let is_recorded = || {
            let mut same = recorded.iter().filter(|record| record.id == process.id);
            same.any(|record| record.is_alive_as(owner))
        };
        if runs_as(pid, owner) && (runs_ours() || is_recorded()) {
            let id = process.id;
            found.push(Found { role, id });
        }
    }
    found.sort();
    Ok(found)
}

/// The programs that stand beside this one, and this one.
fn own_programs() -> BTreeSet<FileId> {
    let own = FileId::executable(std::process::id());
    let path = netio::process::own_executable().unwrap_or_default();
    ["switchd", "hostd", "controller", "ibemu"]
        .iter()
        .filter_map(|name| FileId::of(&path.with_file_name(name)).ok())
        .chain(own)
        .collect()
}

fn all_pids() -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc").context("cannot read /proc; is it mounted?")?;
    Ok(entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// The role of the process with this command line in the fabric at `dir`, if it has one.
fn role_of(line: &[u8], dir: &Path) -> Option<Role> {
    let mut arguments = line
        .split(|&byte| byte == 0)
        .map(|argument| std::str::from_utf8(argument).unwrap_or(""));
    let program = arguments.next()?.rsplit('/').next()?;
    let arguments: Vec<&str> = arguments.collect();
    let value = |name| {
        let at = arguments.iter().position(|argument| *argument == name)?;
        arguments.get(at + 1).copied()
    };
    if Path::new(value("--dir")?) != dir {
        return None;
    }
    match program {
        "switchd" | "hostd" => {
            let handle = value("--handle").or_else(|| value("--name"))?;
            Some(Role::Device(handle.to_owned()))
        }
        "controller" => {
            let handle = value("--handle").unwrap_or(names::CONTROLLERS[0]);
            Some(Role::Controller(handle.to_owned()))
        }
        "ibemu" if arguments.first() == Some(&"supervisor") => Some(Role::Supervisor),
        _ => None,
    }
}

/// Programs that `ibemu exec` has started and that still run: inside one of `namespaces` (names),
/// or of the fabric's user with the fabric's directory in their environment. (Only root enters a
/// namespace; every user can set the environment of an own process.) The calling process and its ancestors are left out.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn find_exec_programs(
    dir: &FabricDir,
    namespaces: &[String],
) -> Result<Vec<(ProcessId, String)>> {
    use std::os::unix::fs::MetadataExt;
    let inodes: std::collections::BTreeSet<(u64, u64)> = namespaces
        .iter()
        .filter_map(|name| fs::metadata(Path::new(netio::namespace::DIRECTORY).join(name)).ok())
        .map(|metadata| (metadata.dev(), metadata.ino()))
        .collect();
    let label = format!("{ENVIRONMENT_LABEL}={}", dir.path().display());
    let owner = dir.owner();
    let spared = own_and_ancestors();
    let mut guests = Vec::new();
    for pid in all_pids()? {
        let inside = !inodes.is_empty()
            && fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|metadata| inodes.contains(&(metadata.dev(), metadata.ino())));
        // Read first: what is found out next is then of this process or of none.
        let id = ProcessId::of(pid);
        let ours = inside || (runs_as(pid, owner) && has_variable(pid, &label));
        if spared.contains(&pid) || !ours {
            continue;
        }
        if let Some(id) = id {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            guests.push((id, name.trim_end().to_owned()));
        }
    }
    guests.sort();
    Ok(guests)
}

/// The user's processes with this variable in their environment, as `NAME=VALUE`. The calling process and its
/// ancestors are left out.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn find_labelled(variable: &str) -> Result<Vec<ProcessId>> {
    let owner = netio::process::effective_uid();
    let spared = own_and_ancestors();
    let mut found = Vec::new();
    for pid in all_pids()?.into_iter().filter(|pid| !spared.contains(pid)) {
        // Read first: what is found out next is then of this process or of none.
        let id = ProcessId::of(pid);
        if runs_as(pid, owner) && has_variable(pid, variable) {
            found.extend(id);
        }
    }
    Ok(found)
}

/// Whether a process has a variable in the environment that it was started with, as `NAME=VALUE`.
fn has_variable(pid: u32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        let mut variables = environment.split(|&byte| byte == 0);
        variables.any(|other| other == variable.as_bytes())
    })
}

/// The environment variable that marks what `ibemu exec` starts; its value is the fabric's
/// directory.
pub const ENVIRONMENT_LABEL: &str = "IBEMU_FABRIC_DIR";

fn own_and_ancestors() -> Vec<u32> {
    let mut chain = vec![std::process::id()];
    while let Some(&pid) = chain.last()
        && chain.len() < 1024
    {
        let parent = fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| {
                let (_, rest) = stat.rsplit_once(") ")?;
                rest.split_ascii_whitespace().nth(1)?.parse().ok()
            });
        match parent {
            Some(parent) if parent > 0 => chain.push(parent),
            _ => break,
        }
    }
    chain
}

/// Kills all of `processes` and waits until they are gone.
///
/// # Errors
/// If one may not be killed, or has not gone after `limit`.
pub fn kill_all(processes: &[ProcessId], limit: Duration) -> Result<()> {
    let held = hold_all(processes);
    signal_all(&held, Signal::KILL)?;
    match wait_for_end(&held, limit)? {
        None => Ok(()),
        Some(pid) => bail!("process {pid} does not end (it was sent SIGKILL)"),
    }
}

/// Asks all of `processes` to end, and kills those that have not after `grace`.
///
/// # Errors
/// If one may not be ended, or has not gone after `limit`.
pub fn end_all(processes: &[ProcessId], grace: Duration, limit: Duration) -> Result<()> {
    let held = hold_all(processes);
    signal_all(&held, Signal::TERM)?;
    match wait_for_end(&held, grace)? {
        None => Ok(()),
        Some(_) => kill_all(processes, limit),
    }
}

fn hold_all(processes: &[ProcessId]) -> Vec<Pidfd> {
    processes.iter().filter_map(|id| id.hold()).collect()
}

fn signal_all(held: &[Pidfd], signal: Signal) -> Result<()> {
    for pidfd in held {
        match pidfd.signal(signal) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                return Err(error).with_context(|| format!("cannot end process {}", pidfd.pid()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Waits until all are gone, `limit` at most; one that is not.
fn wait_for_end(held: &[Pidfd], limit: Duration) -> Result<Option<u32>> {
    let deadline = Instant::now() + limit;
    for pidfd in held {
        let left = deadline.saturating_duration_since(Instant::now());
        if !pidfd.wait(left.max(Duration::from_millis(1)))? {
            return Ok(Some(pidfd.pid()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_read_past_a_name_with_blanks_and_parentheses() {
        let stat = "77 (a) (b c) S 1 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 2 3";
        assert_eq!(start_and_state(stat), Some((12345, 'S')));
        assert_eq!(start_and_state("77 (x"), None);
        assert_eq!(start_and_state("77 (x) S 1"), None);
    }

    #[test]
    fn the_own_process_is_alive_and_another_start_time_is_not() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive());
        let earlier = ProcessId {
            start: own.start + 1,
            ..own
        };
        assert!(!earlier.is_alive());
        assert!(earlier.hold().is_none());
    }

    #[test]
    fn a_child_is_itself_whether_it_has_ended_or_not() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let running = ProcessId::of_child(&child).unwrap();
        assert_eq!(ProcessId::of(child.id()), Some(running));
        let pidfd = Pidfd::open(child.id()).unwrap();
        drop(child.stdin.take());
        assert!(pidfd.wait(Duration::from_secs(60)).unwrap());
        assert_eq!(ProcessId::of_child(&child), Some(running));
        assert!(!running.is_alive());
        child.wait().unwrap();
        assert_eq!(ProcessId::of_child(&child), None);
    }

    #[test]
    fn processes_are_known_by_program_and_directory() {
        let dir = Path::new("/run/ibemu/ib");
        let role = |line: &str| role_of(line.replace(' ', "\0").as_bytes(), dir);
        assert_eq!(
            role("/x/switchd --name s0 --dir /run/ibemu/ib"),
            Some(Role::Device("s0".into()))
        );
        assert_eq!(
            role("hostd --name x/y --handle x_y --dir /run/ibemu/ib"),
            Some(Role::Device("x_y".into()))
        );
        assert_eq!(
            role("controller --mad-socket /x --dir /run/ibemu/ib"),
            Some(Role::Controller("controller".into()))
        );
        assert_eq!(
            role("/x/ibemu supervisor --dir /run/ibemu/ib"),
            Some(Role::Supervisor)
        );
        for other in [
            "switchd --name s0 --dir /run/ibemu/ib2",
            "switchd --name s0",
            "switchd --name s0 --dir",
            "vim --dir /run/ibemu/ib",
            "ibemu status --dir /run/ibemu/ib",
            "",
        ] {
            assert_eq!(role(other), None, "{other}");
        }
    }

    /// Runs a process that waits for ever and calls itself switch `s0` of the fabric in `dir`.
    fn impostor(dir: &FabricDir, uid: u32) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        let mut child = std::process::Command::new("sh")
            .arg0("switchd")
            .args(["-c", "echo; read line", "x", "--name", "s0", "--dir"])
            .arg(dir.path())
            .env(ENVIRONMENT_LABEL, dir.path())
            .uid(uid)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        child
    }

    #[test]
    fn a_process_of_another_user_is_never_the_fabrics_whatever_it_calls_itself() {
        assert_eq!(
            netio::process::effective_uid(),
            0,
            "this test acts as another user: run it as root (tests/run.sh does)"
        );
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        dir.create().unwrap();
        let mut other = impostor(&dir, 65534);
        let record = ProcessRecord::of(other.id()).unwrap();
        assert_eq!(find(&dir, &[record]).unwrap(), []);
        assert_eq!(find_exec_programs(&dir, &[]).unwrap(), []);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_process_that_runs_no_program_of_ours_is_the_fabrics_only_if_the_journal_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        dir.create().unwrap();
        let mut other = impostor(&dir, netio::process::effective_uid());
        assert_eq!(find(&dir, &[]).unwrap(), []);
        let record = ProcessRecord::of(other.id()).unwrap();
        let role = Role::Device("s0".into());
        let id = record.id;
        assert_eq!(find(&dir, &[record]).unwrap(), [Found { role, id }]);
        assert_eq!(find_exec_programs(&dir, &[]).unwrap().len(), 1);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn what_is_killed_is_gone_afterwards() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        kill_all(&[id], Duration::from_secs(10)).unwrap();
        assert!(!id.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn what_does_not_end_when_asked_is_killed() {
        let mut deaf = std::process::Command::new("sh")
            .args(["-c", "trap '' TERM; echo deaf; read line"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        std::io::Read::read_exact(deaf.stdout.as_mut().unwrap(), &mut said).unwrap();
        let id = ProcessId::of(deaf.id()).unwrap();
        end_all(&[id], Duration::from_millis(1), Duration::from_secs(10)).unwrap();
        assert!(!id.is_alive());
        deaf.wait().unwrap();
    }
}
