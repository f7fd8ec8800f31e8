//! A cluster of Slurm on this host: each machine is a set of namespaces (`tests/slurm`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{Outcome, ibemu};

/// How long anything of a cluster may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How often something is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Machines `n1` to `nN` and `head`, from which jobs are submitted; taken down when dropped.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    machines: usize,
    /// Where all machines see the same files.
    folder: tempfile::TempDir,
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("slurm")
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Cluster {
    /// Brings one up: that many machines with two processors each.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn up(machines: usize) -> Self {
        // At most eight characters, and another one for each cluster of a process.
        let process = std::process::id() % 100_000;
        let name = format!(
            "c{process:05}{}",
            COUNT.fetch_add(1, Ordering::Relaxed) % 10
        );
        let beside = ibemu();
        let beside = beside.parent().expect("a folder");
        let folder = tempfile::Builder::new()
            .prefix("cluster-")
            .tempdir_in(beside)
            .expect("a folder");
        let mut up = Command::new(scripts().join("up.sh"));
        let up = up.args([&name, &machines.to_string(), "2"]);
        let _ = Outcome::of(up).success();
        Self {
            name,
            machines,
            folder,
        }
    }

    /// A folder that all machines see.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command on a machine.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, machine: &str, line: &[S]) -> Command {
        let mut command = Command::new(scripts().join("in.sh"));
        command
            .args([&self.name, machine])
            .args(line)
            .current_dir(self.folder())
            .env("TMPDIR", "/tmp")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command on a machine to its end.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, machine: &str, line: &[S]) -> Outcome {
        Outcome::of(&mut self.command(machine, line))
    }

    /// Runs `ibemu` where jobs are submitted.
    #[must_use]
    pub fn ibemu(&self, arguments: &[&str]) -> Outcome {
        self.ibemu_on("head", arguments)
    }

    /// Runs `ibemu` on a machine.
    #[must_use]
    pub fn ibemu_on(&self, machine: &str, arguments: &[&str]) -> Outcome {
        Outcome::of(&mut self.ibemu_command(machine, arguments))
    }

    /// `ibemu` on a machine.
    #[must_use]
    pub fn ibemu_command(&self, machine: &str, arguments: &[&str]) -> Command {
        let program = ibemu();
        let mut line: Vec<&OsStr> = vec![program.as_os_str()];
        line.extend(arguments.iter().map(OsStr::new));
        self.command(machine, &line)
    }

    /// Starts a command on a machine.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start<S: AsRef<OsStr>>(&self, machine: &str, line: &[S]) -> Child {
        let mut command = self.command(machine, line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("a command on a machine")
    }

    /// The entry of one device in `ibemu status`, asked where jobs are submitted.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    #[must_use]
    pub fn device(&self, name: &str) -> serde_json::Value {
        let status = self.ibemu(&["status", "--json"]).success().json();
        let devices = status["devices"].as_array().expect("devices");
        let found = devices.iter().find(|device| device["name"] == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {status:#}"))
            .clone()
    }

    /// Pulls the plug of a machine.
    pub fn crash(&self, machine: &str) {
        let mut crash = Command::new(scripts().join("crash.sh"));
        let _ = Outcome::of(crash.args([&self.name, machine])).success();
    }

    /// The network namespace of a machine.
    #[must_use]
    pub fn namespace(&self, machine: &str) -> String {
        format!("{}-{machine}", self.name)
    }

    /// The number of the job that runs.
    ///
    /// # Panics
    /// If there is not one.
    #[must_use]
    pub fn job(&self) -> String {
        let listed = self
            .run("head", &["squeue", "--noheader", "--format=%A"])
            .success();
        let job = listed.stdout.trim().to_owned();
        assert!(job.parse::<u32>().is_ok(), "{listed}");
        job
    }

    /// What is there of fabrics on the machines: processes, files and namespaces.
    #[must_use]
    pub fn remains(&self) -> String {
        let mut remains = String::new();
        let machines = (1..=self.machines).map(|number| format!("n{number}"));
        for machine in machines.chain(["head".to_owned()]) {
            let script = "ps -e -o args= | grep -E '^(/[^ ]*/)?(switchd|hostd|controller|ibemu|srun) ' || true
                find /run/ibemu /run/netns /tmp/ibemu* -mindepth 1 2>/dev/null || true";
            let found = self.run(&machine, &["bash", "-c", script]);
            // Logs of what has failed are kept for the user.
            for line in found.stdout.lines().filter(|line| !line.contains("-logs-")) {
                remains.push_str(&format!("{machine}: {line}\n"));
            }
        }
        remains
    }

    /// Waits until nothing of any fabric is left on any machine, and no machine is out of order.
    ///
    /// # Panics
    /// If something stays.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.wait_until("nothing is left", || match self.remains() {
            left if left.is_empty() => Ok(()),
            left => Err(left),
        });
        let drained = self
            .run("head", &["sinfo", "--noheader", "--list-reasons"])
            .success();
        assert!(!drained.stdout.contains("Kill task failed"), "{drained}");
    }

    /// Waits until something holds.
    ///
    /// # Panics
    /// If it does not within a minute.
    #[track_caller]
    pub fn wait_until<T>(&self, what: &str, mut holds: impl FnMut() -> Result<T, String>) -> T {
        let begun = Instant::now();
        loop {
            match holds() {
                Ok(value) => return value,
                Err(why) if begun.elapsed() > LIMIT => panic!("{what}: {why}"),
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let script = "head -c 20000 /run/*/log/slurmctld.log | tail -20; cat /run/ibemu/*/log/supervisor.log 2>/dev/null | tail -n 40";
            eprintln!("{}", self.run("head", &["bash", "-c", script]));
        }
        let mut down = Command::new(scripts().join("down.sh"));
        let down = Outcome::of(down.arg(&self.name));
        if down.code != 0 {
            eprintln!("{down}");
        }
    }
}
