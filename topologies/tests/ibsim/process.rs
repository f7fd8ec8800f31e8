//! A running ibsim, for the tests of `topologies` and `routing`.
#![allow(
    clippy::disallowed_methods,
    reason = "ibsim and its clients are other programs"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const CLIENT_LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

/// A running ibsim, ended with the test.
pub(crate) struct Ibsim {
    process: Child,
    /// Kept open: SIGPIPE ends ibsim when it prints to a closed pipe.
    _out: BufReader<ChildStdout>,
    socket: String,
}

impl Ibsim {
    /// Starts ibsim on a file of its format; no other test process may have the same `case`.
    pub(crate) fn start(net: &Path, case: &str) -> Self {
        let crate_name = env!("CARGO_PKG_NAME");
        let socket = format!("ibemu-{crate_name}-{case}-{}", std::process::id());
        let mut process = Command::new("stdbuf")
            .args(["-oL", "ibsim", "-s", "-n"])
            .arg(net)
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("stdbuf (coreutils) and ibsim (package ibsim-utils) are needed");
        let mut log = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        while !log.contains("MaxMcastCap") {
            let more = out.read_line(&mut log).unwrap();
            assert_ne!(more, 0, "ibsim refused the file: {log}");
        }
        Self {
            process,
            _out: out,
            socket,
        }
    }

    /// What a stock program prints that sends its MADs to ibsim; `change` adds to its environment.
    pub(crate) fn output(
        &self,
        program: &str,
        arguments: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> String {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LD_PRELOAD", CLIENT_LIBRARY)
            .env("IBSIM_SOCKNAME", &self.socket);
        let output = change(&mut command)
            .output()
            .expect("opensm and infiniband-diags are needed");
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
