//! One fabric of real processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use netio::transport::Transport;
use serde_json::Value;
use wire::choice::Choice as _;

use crate::{Traces, ibemu_command};

/// How long an echo may take on a loaded machine where it is asked only whether it comes.
const ECHO_TIMEOUT: Duration = Duration::from_secs(10);

/// What a finished command left.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub command: String,
    /// Exit code; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// Runs `command` to its end.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn of(command: &mut Command) -> Self {
        let line = format!("{command:?}");
        let output = command
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("cannot run {line}: {error}"));
        Self::told(line, &output)
    }

    /// What a command that has ended left.
    #[must_use]
    pub fn told(command: String, output: &std::process::Output) -> Self {
        Self {
            command,
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts that the command ended with exit code 0.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    #[must_use]
    pub fn success(self) -> Self {
        assert_eq!(self.code, 0, "{self}");
        self
    }

    /// Asserts that the command ended with `code` and said `part` on standard error.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    pub fn fails_with(&self, code: i32, part: &str) {
        assert_eq!(self.code, code, "{self}");
        assert!(
            self.stderr.contains(part),
            "no {part:?} in standard error of {self}"
        );
        assert!(!self.stderr.contains("panicked"), "{self}");
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} -> exit {}\n--- stdout\n{}\n--- stderr\n{}",
            self.command, self.code, self.stdout, self.stderr
        )
    }
}

/// A fabric that stands, and is taken down when dropped.
#[derive(Debug)]
pub struct Fabric {
    name: String,
    transport: Transport,
    before: Traces,
    is_up: bool,
    /// For what a failed `up` keeps.
    temporary: tempfile::TempDir,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A fabric name that no other test and no user has.
fn fresh_name() -> String {
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("t{}-{n}", std::process::id())
}

impl Fabric {
    /// A name and a look at the machine, with nothing brought up yet.
    #[must_use]
    pub fn planned(transport: Transport) -> Self {
        let name = fresh_name();
        let before = Traces::of(&name);
        Self {
            name,
            transport,
            before,
            is_up: true,
            temporary: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// Brings `topology` up, with more options of `ibemu up`.
    ///
    /// # Panics
    /// If that fails.
    #[track_caller]
    #[must_use]
    pub fn up(transport: Transport, topology: &str, options: &[&str]) -> Self {
        let fabric = Self::planned(transport);
        let _ = fabric.try_up(topology, options).success();
        fabric
    }

    /// Calls `ibemu up` for this fabric.
    #[must_use]
    pub fn try_up(&self, topology: &str, options: &[&str]) -> Outcome {
        Outcome::of(&mut self.up_command(topology, options))
    }

    /// The command line of `ibemu up` for this fabric.
    #[must_use]
    pub fn up_command(&self, topology: &str, options: &[&str]) -> Command {
        let transport = self.transport.name();
        let mut command = ibemu_command(&[
            "up",
            topology,
            "--fabric",
            &self.name,
            "--transport",
            transport,
        ]);
        command.args(options).env("TMPDIR", self.temporary.path());
        command
    }

    /// The fabric's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls a verb of `ibemu` for this fabric.
    #[must_use]
    pub fn call(&self, verb: &[&str]) -> Outcome {
        Outcome::of(&mut self.command(verb))
    }

    /// The command line of a verb: `--fabric` stands right behind it.
    #[must_use]
    pub fn command(&self, verb: &[&str]) -> Command {
        let mut arguments = vec![verb[0], "--fabric", &self.name];
        arguments.extend(&verb[1..]);
        ibemu_command(&arguments)
    }

    /// `ibemu status --json`.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    #[must_use]
    pub fn status(&self) -> Value {
        self.call(&["status", "--json"]).success().json()
    }

    /// The status entry of one device.
    ///
    /// # Panics
    /// If there is none of that name.
    #[track_caller]
    #[must_use]
    pub fn device(&self, name: &str) -> Value {
        let status = self.status();
        let devices = status["devices"].as_array().expect("status has devices");
        devices
            .iter()
            .find(|device| device["name"] == name)
            .unwrap_or_else(|| panic!("no device {name} in {status:#}"))
            .clone()
    }

    /// Process id of a device.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    #[must_use]
    pub fn pid(&self, device: &str) -> i32 {
        let entry = self.device(device);
        entry["pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok())
            .unwrap_or_else(|| panic!("{device} has no process: {entry}"))
    }

    /// Kills a device or a process of the fabric (SIGKILL).
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn kill(&self, device: &str) {
        kill(self.pid(device));
    }

    /// `Ok` if every pair of hosts answers, however long that takes on a loaded machine.
    ///
    /// # Errors
    /// What `ibemu ping --all` said.
    pub fn all_pairs(&self) -> Result<(), String> {
        self.ping_all(ECHO_TIMEOUT)
    }

    /// `Ok` if every pair of hosts answers, each within `timeout`.
    ///
    /// # Errors
    /// What `ibemu ping --all` said.
    pub fn ping_all(&self, timeout: Duration) -> Result<(), String> {
        let timeout = timeout.as_millis().to_string();
        let outcome = self.call(&["ping", "--all", "--count", "1", "--timeout", &timeout]);
        if outcome.code == 0 {
            Ok(())
        } else {
            Err(outcome.to_string())
        }
    }

    /// The fabric's directory.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        Traces::dir_of(&self.name)
    }

    /// Asserts that no device or controller logged at level ERROR or panicked.
    ///
    /// # Panics
    /// If one did.
    #[track_caller]
    pub fn assert_no_errors_logged(&self) {
        for (path, text) in logs(&self.dir().join("log")) {
            for line in text.lines() {
                assert!(
                    !line.contains("ERROR") && !line.contains("panicked"),
                    "{}: {line}",
                    path.display()
                );
            }
        }
    }

    /// Takes the fabric down and asserts that no namespace, interface, process or file is left.
    ///
    /// # Panics
    /// If `ibemu down` fails or something is left.
    #[track_caller]
    pub fn down(mut self) {
        let _ = self.call(&["down"]).success();
        self.is_up = false;
        self.before.assert_nothing_left();
    }

    /// Asserts that nothing of the fabric is left, after something else took it down.
    ///
    /// # Panics
    /// If something is.
    #[track_caller]
    pub fn assert_gone(mut self) {
        self.is_up = false;
        self.before.assert_nothing_left();
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if self.is_up {
            if std::thread::panicking() {
                self.temporary.disable_cleanup(true);
                for (path, text) in logs(&self.dir().join("log")) {
                    let worth: Vec<&str> = text
                        .lines()
                        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
                        .take(20)
                        .collect();
                    if !worth.is_empty() {
                        eprintln!("--- {}\n{}", path.display(), worth.join("\n"));
                    }
                }
            }
            let outcome = self.call(&["down"]);
            if outcome.code != 0 && self.dir().exists() {
                eprintln!("{outcome}");
            }
        }
    }
}

/// Every log of a fabric, in order of name.
fn logs(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| {
            entries
                .filter_map(Result::ok)
                .map(|entry| entry.path())
                .collect()
        })
        .unwrap_or_default();
    paths.sort();
    paths
        .into_iter()
        .filter_map(|path| std::fs::read(&path).ok().map(|bytes| (path, bytes)))
        .map(|(path, bytes)| (path, String::from_utf8_lossy(&bytes).into_owned()))
        .collect()
}

/// Kills a process (SIGKILL).
///
/// # Panics
/// If there is none.
#[track_caller]
pub fn kill(pid: i32) {
    let outcome = Outcome::of(std::process::Command::new("kill").args(["-9", &pid.to_string()]));
    assert_eq!(outcome.code, 0, "{outcome}");
}
