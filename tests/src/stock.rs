//! Programs that no one here wrote, run against the fabric: OpenSM and infiniband-diags from
//! Debian, through ibsim's client library.

use std::fs::{self, File};
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
        let mut sm = Self::spawn(fabric, host, options);
        within(Duration::from_secs(60), "OpenSM reaches SUBNET UP", || {
            sm.has_logged("SUBNET UP", 1)
        });
        sm
    }

    /// Starts OpenSM beside `host` and waits for nothing. In standby it polls the master four times a
    /// second, and takes over after three polls without answer.
    ///
    /// # Panics
    /// If it is not installed.
    #[track_caller]
    #[must_use]
    pub fn spawn(fabric: &Fabric, host: &str, options: &[&str]) -> Self {
        assert!(
            installed("opensm"),
            "opensm is missing: install it from Debian"
        );
        let _ = umad2sim();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("opensm.log");
        // By default OpenSM writes what is no error when its buffer is full.
        let config = folder.path().join("opensm.conf");
        let settings = "force_log_flush TRUE\nsminfo_polling_timeout 250\npolling_retry_number 2\n";
        fs::write(&config, settings).expect("a file");
        let mut command = fabric.command(&["exec", host, "opensm"]);
        // Every file that OpenSM writes stays in this test's folder.
        command
            .args(["-F".as_ref(), config.as_os_str()])
            .args(["-f".as_ref(), log.as_os_str()])
            .args(["--pidfile".as_ref(), folder.path().join("pid").as_os_str()])
            .args(options)
            .env("OSM_TMP_DIR", folder.path())
            .env("OSM_CACHE_DIR", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("stdout")).expect("a file"))
            .stderr(File::create(folder.path().join("stderr")).expect("a file"));
        let child = command.spawn().expect("ibemu exec starts");
        Self { child, folder }
    }

    /// Whether the log holds these words at least so many times.
    ///
    /// # Errors
    /// The log, if it does not.
    ///
    /// # Panics
    /// If OpenSM has ended.
    #[track_caller]
    pub fn has_logged(&mut self, words: &str, times: usize) -> Result<(), String> {
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

    /// Asserts that the log holds no error (OpenSM marks each with `ERR` and a number).
    ///
    /// # Panics
    /// If it does.
    #[track_caller]
    pub fn assert_no_errors(&self) {
        let errors: Vec<String> = self
            .log()
            .lines()
            .filter(|line| line.contains(" ERR "))
            .map(Into::into)
            .collect();
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
