//! Stock programs run against the fabric: OpenSM and infiniband-diags from Debian, with the libibumad of
//! `ibemu exec`, or with ibsim's client library.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::traces::installed;
use crate::{Fabric, Outcome, within};

/// ibsim's client library, which stands in for `/dev/infiniband` in a stock program.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn umad2sim() -> PathBuf {
    let path = PathBuf::from("/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so");
    assert!(
        path.exists(),
        "{} is missing: install ibsim-utils",
        path.display()
    );
    path
}

/// How long OpenSM may take on a loaded machine for whatever it is asked to do.
const UP_TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of OpenSM's log.
const SUBNET_UP: &str = "SUBNET UP";
const STANDBY: &str = "Entering STANDBY state";
const MASTER: &str = "Entering MASTER state";
/// The prompt of its console.
const PROMPT: &str = "OpenSM $ ";

/// A stock OpenSM beside a host of the fabric.
#[derive(Debug)]
pub struct OpenSm {
    child: Child,
    folder: tempfile::TempDir,
}

impl OpenSm {
    /// Starts OpenSM beside `host` and waits until it reports SUBNET UP.
    ///
    /// # Panics
    /// If it does not within 60 s.
    #[track_caller]
    #[must_use]
    pub fn start(fabric: &Fabric, host: &str, options: &[&str]) -> Self {
        Self::start_with(fabric, host, options, "")
    }

    /// As [`Self::start`]; `settings` are further lines of its configuration file.
    ///
    /// # Panics
    /// If it does not within 60 s.
    #[track_caller]
    #[must_use]
    pub fn start_with(fabric: &Fabric, host: &str, options: &[&str], settings: &str) -> Self {
        let mut sm = Self::spawn_with(fabric, host, options, settings);
        sm.wait_for_up(1);
        sm
    }

    /// Waits until OpenSM has reported SUBNET UP so many times since its start.
    ///
    /// # Panics
    /// If it does not within 60 s.
    #[track_caller]
    pub fn wait_for_up(&mut self, times: usize) {
        within(UP_TIMEOUT, "OpenSM reaches SUBNET UP", || {
            self.check_log(SUBNET_UP, times)
        });
    }

    /// How many times OpenSM has reported SUBNET UP.
    #[must_use]
    pub fn ups(&self) -> usize {
        self.log().matches(SUBNET_UP).count()
    }

    /// Starts OpenSM beside `host` and waits for nothing. In standby it polls the master four times a
    /// second, and takes over after three polls without answer.
    ///
    /// # Panics
    /// If it is not installed.
    #[track_caller]
    #[must_use]
    pub fn spawn(fabric: &Fabric, host: &str, options: &[&str]) -> Self {
        Self::spawn_with(fabric, host, options, "")
    }

    /// As [`Self::spawn`]; `settings` are further lines of its configuration file.
    ///
    /// # Panics
    /// If it is not installed.
    #[track_caller]
    #[must_use]
    pub fn spawn_with(fabric: &Fabric, host: &str, options: &[&str], settings: &str) -> Self {
        assert!(
            installed("opensm"),
            "opensm is missing: install it from Debian"
        );
        let _ = umad2sim();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("opensm.log");
        // By default OpenSM writes what is no error when its buffer is full.
        let config = folder.path().join("opensm.conf");
        let always = "force_log_flush TRUE\nsminfo_polling_timeout 250\npolling_retry_number 2\n";
        fs::write(&config, format!("{always}{settings}\n")).expect("a file");
        let mut command = fabric.command(&["exec", host, "opensm"]);
        // Every file that OpenSM writes stays in this test's folder.
        command
            .args(["-F".as_ref(), config.as_os_str()])
            .args(["-f".as_ref(), log.as_os_str()])
            .args(["--pidfile".as_ref(), folder.path().join("pid").as_os_str()])
            .args(["--dump_files_dir".as_ref(), folder.path().as_os_str()])
            .args(options)
            .env("OSM_TMP_DIR", folder.path())
            .env("OSM_CACHE_DIR", folder.path())
            .current_dir(folder.path())
            // Where its console is, if it has one: `-q local`.
            .stdin(Stdio::piped())
            .stdout(File::create(folder.path().join("stdout")).expect("a file"))
            .stderr(File::create(folder.path().join("stderr")).expect("a file"));
        let child = command.spawn().expect("ibemu exec starts");
        Self { child, folder }
    }

    /// Waits until OpenSM has entered standby so many times since its start.
    ///
    /// # Panics
    /// If it does not within `limit`.
    #[track_caller]
    pub fn await_standby(&mut self, limit: Duration, what: &str, times: usize) {
        within(limit, what, || self.check_log(STANDBY, times));
    }

    /// Waits until OpenSM is master and has brought the subnet up.
    ///
    /// # Panics
    /// If it does not within `limit`.
    #[track_caller]
    pub fn await_master(&mut self, limit: Duration, what: &str) {
        within(limit, what, || {
            self.check_log(MASTER, 1)?;
            self.check_log(SUBNET_UP, 1)
        });
    }

    /// Checks that the log holds these words at least so many times.
    ///
    /// # Errors
    /// The log, if it does not.
    ///
    /// # Panics
    /// If OpenSM has ended.
    #[track_caller]
    pub fn check_log(&mut self, words: &str, times: usize) -> Result<(), String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("OpenSM ended ({status}):\n{}", self.output());
        }
        let log = self.log();
        if log.matches(words).count() >= times {
            Ok(())
        } else {
            Err(log)
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read(self.folder.path().join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn output(&self) -> String {
        format!(
            "{}\n{}\n{}",
            self.read("stdout"),
            self.read("stderr"),
            self.log()
        )
    }

    /// The whole log.
    #[must_use]
    pub fn log(&self) -> String {
        self.read("opensm.log")
    }

    /// Gives a command to its console (`-q local`) and returns what it prints until the next prompt.
    ///
    /// # Panics
    /// If it prints no prompt within 60 s.
    #[track_caller]
    #[must_use]
    pub fn console(&mut self, command: &str) -> String {
        let before = self.read("stdout").len();
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{command}").expect("OpenSM reads its console");
        within(UP_TIMEOUT, "OpenSM's console answers", || {
            let all = self.read("stdout");
            let new = all.get(before..).unwrap_or_default();
            match new.strip_suffix(PROMPT) {
                Some(printed) => Ok(printed.to_owned()),
                None => Err(format!("{command}: {new}")),
            }
        })
    }

    /// Waits until OpenSM has ended by itself.
    ///
    /// # Panics
    /// If it does not within 60 s, or fails.
    #[track_caller]
    pub fn wait_for_end(&mut self) {
        let status = within(UP_TIMEOUT, "OpenSM ends", || {
            let ended = self.child.try_wait().expect("OpenSM can be waited for");
            ended.ok_or_else(|| self.log())
        });
        assert!(status.success(), "{status}:\n{}", self.output());
    }

    /// The lines of the log that tell of errors: OpenSM marks each with `ERR` and a number.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(" ERR "));
        lines.map(Into::into).collect()
    }

    /// Asserts that the log holds no error.
    ///
    /// # Panics
    /// If it does.
    #[track_caller]
    pub fn assert_no_errors(&self) {
        self.assert_only_errors(&[]);
    }

    /// Asserts that each error in the log holds one of these words.
    ///
    /// # Panics
    /// If one does not.
    #[track_caller]
    pub fn assert_only_errors(&self, known: &[&str]) {
        let is_known = |line: &String| known.iter().any(|words| line.contains(words));
        let mut errors = self.errors();
        errors.retain(|line| !is_known(line));
        assert!(
            errors.is_empty(),
            "OpenSM's log has errors:\n{}",
            errors.join("\n")
        );
    }

    /// The folder in which OpenSM runs and writes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for OpenSm {
    fn drop(&mut self) {
        // `ibemu exec` becomes the command, so the child is OpenSM itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program of infiniband-diags beside `host` to its end.
///
/// # Panics
/// If it is not installed.
#[track_caller]
#[must_use]
pub fn diags(fabric: &Fabric, host: &str, command: &[&str]) -> Outcome {
    let program = command.first().copied().unwrap_or_default();
    assert!(
        installed(program),
        "{program} is missing: install infiniband-diags"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut call = fabric.command(&["exec", host]);
    call.args(command).current_dir(folder.path());
    Outcome::of(&mut call)
}

/// What stock `ibnetdiscover` prints beside `host`.
///
/// # Panics
/// If it fails.
#[track_caller]
#[must_use]
pub fn ibnetdiscover(fabric: &Fabric, host: &str) -> String {
    diags(fabric, host, &["ibnetdiscover"]).success().stdout
}
