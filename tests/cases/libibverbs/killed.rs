//! Programs that are killed at each point of their transfers: their peers are told by the right completion, and the hosts have nothing of
//! them afterwards.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use e2e::{Fabric, Outcome, Transport, within};

use super::{START, pair};

/// Two ends of transfers, of which one is killed.
const PROGRAM: &str = include_str!("killed.c");
/// The number of SIGKILL.
const KILLED: i32 = 9;
/// Calls of a program before it tells its peer of its queue pair, and those before its transfer begins.
const ALONE: u32 = 9;
const CONNECTING: u32 = 4;
/// From here on the victim counts the transfer's progress.
const PROGRESS: u32 = 100;

/// `IBV_WC_REM_OP_ERR`: the host could not reach the dead program's memory, while it still had its queue pairs.
const REMOTE_OPERATION: &str = "11";
/// `IBV_WC_RETRY_EXC_ERR`.
const RETRY_EXCEEDED: &str = "12";

/// Who kills the victim, and when.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// It itself, in a call or at a progress.
    Own(u32),
    /// Its peer, at a progress.
    ByPeer(u32),
}

/// An end of a transfer.
struct End {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl End {
    fn start(fabric: &Fabric, host: &str, program: &Path, words: [&str; 2], death: Death) -> Self {
        let (own, peer) = match death {
            Death::Own(at) => (at, 0),
            Death::ByPeer(at) => (0, at),
        };
        let mut command = fabric.command(&["exec", host]);
        command
            .arg(program)
            .args(words)
            .args([own.to_string(), peer.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("ibemu can be started");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, output }
    }

    /// What it tells its peer; empty if it has died before.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line
    }

    fn hears(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(line.as_bytes()).expect("it reads");
    }

    fn dies(mut self, what: &str) {
        let status = self.child.wait().expect("it can be waited for");
        assert_eq!(status.signal(), Some(KILLED), "{what}: {}", self.errors());
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        let mut errors = self.child.stderr.take().expect("its errors");
        errors.read_to_string(&mut text).expect("text");
        text
    }

    /// What it prints until its good end.
    fn told(mut self, what: &str) -> String {
        let told = self.line();
        let status = self.child.wait().expect("it can be waited for");
        assert!(status.success(), "{what}: {status}: {}", self.errors());
        told.trim().to_owned()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Descriptors of a host's process, and shared queues among its memory.
fn held(fabric: &Fabric, host: &str) -> (usize, usize) {
    let process = Path::new("/proc").join(fabric.pid(host).to_string());
    let descriptors = std::fs::read_dir(process.join("fd")).expect("a process");
    let maps = std::fs::read_to_string(process.join("maps")).expect("a process");
    (descriptors.count(), maps.matches("memfd:ibemu").count())
}

/// One transfer and its end.
fn ends(fabric: &Fabric, program: &Path, operation: &str, death: Death) {
    let what = format!("{operation} {death:?}");
    let mut victim = End::start(fabric, "h1", program, ["victim", operation], death);
    let own = victim.line();
    if matches!(death, Death::Own(at) if at <= ALONE) {
        assert_eq!(own, "", "{what}");
        return victim.dies(&what);
    }
    let mut survivor = End::start(fabric, "h0", program, ["survivor", operation], death);
    let peer = survivor.line();
    survivor.hears(&own);
    victim.hears(&peer);
    let told = survivor.told(&what);
    victim.dies(&what);
    let right = [REMOTE_OPERATION, RETRY_EXCEEDED].contains(&told.as_str());
    assert!(right, "{what}: status {told}");
}

#[test]
fn whenever_a_program_is_killed_its_peer_is_told_and_the_hosts_keep_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("killed.c"), folder.path().join("killed"));
    std::fs::write(&source, PROGRAM).expect("it can be written");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Werror"]).arg(&source);
    compiler.arg("-libverbs").arg("-o").arg(&program);
    let _ = Outcome::of(&mut compiler).success();

    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let hosts = ["h0", "h1"];
    let before = hosts.map(|host| held(&fabric, host));
    for call in 1..=ALONE + CONNECTING {
        ends(&fabric, &program, "w", Death::Own(call));
    }
    for operation in ["w", "s", "a", "W", "R", "S", "A"] {
        for progress in [1, 11] {
            ends(
                &fabric,
                &program,
                operation,
                Death::Own(PROGRESS + progress),
            );
        }
    }
    for operation in ["w", "r", "s", "a", "W", "S", "A"] {
        ends(&fabric, &program, operation, Death::ByPeer(5));
    }
    ends(&fabric, &program, "r", Death::ByPeer(20));
    // The victim's first requests, one by one.
    for call in 1..=3 {
        let posted = Death::Own(ALONE + CONNECTING + call);
        ends(&fabric, &program, "W", posted);
    }

    within(
        START,
        "hosts have nothing of programs that have ended",
        || {
            let now = hosts.map(|host| held(&fabric, host));
            match now == before {
                true => Ok(()),
                false => Err(format!("{before:?}, then {now:?}")),
            }
        },
    );
    let printed = pair(&fabric, hosts, &["ibv_rc_pingpong", "-n", "50"]);
    assert!(printed.contains(" bytes in "), "{printed}");
    fabric.assert_no_errors_logged();
    fabric.down();
}
