//! A shell beside a host in which programs run one after the other, without the start of an
//! `ibemu exec` for each.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::{Fabric, Outcome};

/// Reads command lines; runs each with its output in files; writes how it ended. A program that takes
/// longer than 200 s is ended (exit code 124).
const LOOP: &str =
    "while IFS= read -r line; do timeout 200 sh -c \"$line\" >out 2>err </dev/null; echo $?; done";

/// Where scripts of infiniband-diags keep what they have discovered, by the name of the adapter, which
/// hosts of all fabrics have in common: each shell gets a folder of its own in its place.
const OWN_CACHE: &str =
    "mkdir -p /var/cache/infiniband-diags && mount -t tmpfs none /var/cache/infiniband-diags";

/// A shell beside a host, in a folder of its own.
#[derive(Debug)]
pub struct Station {
    shell: Child,
    commands: Option<ChildStdin>,
    codes: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Station {
    /// Starts a shell beside `host`.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn beside(fabric: &Fabric, host: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = format!("{OWN_CACHE} || exit\n{LOOP}");
        let mut shell = fabric
            .command(&["exec", host, "unshare", "--mount", "sh", "-c", &script])
            .current_dir(folder.path())
            .env("OSM_TMP_DIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ibemu exec starts");
        let commands = shell.stdin.take();
        let codes = BufReader::new(shell.stdout.take().expect("a pipe"));
        Self {
            shell,
            commands,
            codes,
            folder,
        }
    }

    /// Runs a line of shell commands to its end.
    ///
    /// # Panics
    /// If the shell has ended.
    #[must_use]
    pub fn run(&mut self, line: &str) -> Outcome {
        assert!(!line.contains('\n'), "one line: {line:?}");
        let commands = self.commands.as_mut().expect("an open pipe");
        writeln!(commands, "{line}").expect("the shell reads");
        let mut code = String::new();
        self.codes.read_line(&mut code).expect("the shell writes");
        let read = |name: &str| {
            let bytes = fs::read(self.folder.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Outcome {
            command: line.to_owned(),
            code: code.trim().parse().expect("an exit code"),
            stdout: read("out"),
            stderr: read("err"),
        }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        // The shell ends with its input.
        drop(self.commands.take());
        let _ = self.shell.wait();
    }
}
