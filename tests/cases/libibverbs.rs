//! The libibverbs that `ibemu exec` puts before the system's, with stock programs of verbs, unchanged: the pingpongs of
//! rdma-core, perftest, UCX, Open MPI and MPICH; and programs beside many hosts at once.

mod faults;
mod fork;
mod killed;
pub(crate) mod mpi;
mod perftest;
mod pyverbs;
mod qperf;
mod refused;
mod run;
mod ucx;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, within};
use netio::process::{Pidfd, Signal};

/// How long a program may take until it waits for its peer.
const START: Duration = Duration::from_secs(60);
/// State of a socket that listens, in the kernel's list.
const LISTENS: &str = "0A";

/// A program that is ended with the test.
pub(crate) struct Running(String, Option<Child>);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = piped.spawn().expect("ibemu can be started");
        Self(format!("{command:?}"), Some(child))
    }

    pub(crate) fn end(&mut self) -> Outcome {
        let child = self.1.take().expect("it has not been waited for");
        let output = child.wait_with_output().expect("it can be waited for");
        Outcome::told(std::mem::take(&mut self.0), &output)
    }

    pub(crate) fn kill(&mut self) {
        if let Some(child) = &mut self.1 {
            let _ = child.kill();
        }
    }

    /// As Ctrl-C does.
    fn interrupt(&mut self) {
        let child = self.1.as_ref().expect("it has not been waited for");
        let process = Pidfd::open(child.id()).expect("it has not been waited for");
        process.signal(Signal::INT).expect("it may be ended");
    }

    /// The number of its process.
    fn process(&self) -> String {
        let child = self.1.as_ref().expect("it has not been waited for");
        child.id().to_string()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.1.as_mut().expect("it has not been waited for");
        child.try_wait().expect("it can be waited for").is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut child) = self.1.take() {
            let _ = child.wait();
        }
    }
}

/// A TCP port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

pub(crate) fn is_listening(port: u16) -> bool {
    is_listening_where("self", port)
}

/// Whether something listens at a port in the network namespace of a process.
fn is_listening_where(process: &str, port: u16) -> bool {
    let ending = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|file| {
        let list = std::fs::read_to_string(format!("/proc/{process}/net/{file}"));
        let list = list.unwrap_or_default();
        list.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let is_own = fields.next().is_some_and(|local| local.ends_with(&ending));
            is_own && fields.nth(1) == Some(LISTENS)
        })
    })
}

/// Runs a program beside two hosts, which meet by TCP, and returns what the second one printed.
pub(crate) fn pair(fabric: &Fabric, hosts: [&str; 2], program: &[&str]) -> String {
    let (mut waiting, mut running) = start_pair(fabric, hosts, program);
    let told = running.end();
    if told.code != 0 {
        waiting.kill();
        panic!("{told}\n{}", waiting.end());
    }
    let _ = waiting.end().success();
    told.stdout
}

/// Starts a program beside two hosts, which meet by TCP and the name of the first: it waits, then comes the other one.
pub(crate) fn start_pair(
    fabric: &Fabric,
    [server, client]: [&str; 2],
    program: &[&str],
) -> (Running, Running) {
    let port = free_port();
    let number = port.to_string();
    let call = |host: &str| {
        let mut call = fabric.command(&["exec", host]);
        call.args(program).args(["-p", &number]);
        call
    };
    let mut waiting = Running::start(&mut call(server));
    within(START, "the server listens", || {
        // Over veth in the host's namespace, which the program enters.
        match is_listening_where(&waiting.process(), port) || waiting.has_ended() {
            true => Ok(()),
            false => Err(format!("{program:?}")),
        }
    });
    let running = Running::start(call(client).arg(server));
    (waiting, running)
}

/// The bytes that a pingpong says it has exchanged.
fn exchanged(printed: &str) -> u64 {
    let line = printed.lines().find(|line| line.contains(" bytes in "));
    let number = line.and_then(|line| line.split(' ').next());
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{printed}"))
}

const PINGPONGS: [&str; 4] = [
    "ibv_rc_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong",
];

#[test]
fn pingpongs_of_every_service_run_with_and_without_events() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    for program in PINGPONGS {
        for options in [&[][..], &["-e"][..]] {
            let command = [&[program, "-n", "200", "-s", "1024"], options].concat();
            let printed = pair(&fabric, ["h0", "h1"], &command);
            assert!(
                exchanged(&printed) >= 2 * 200 * 1024,
                "{command:?}: {printed}"
            );
        }
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_program_shows_the_adapter_as_the_fabric_has_it() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let mut call = fabric.command(&["exec", "h1"]);
    let told = Outcome::of(call.args(["ibv_devinfo", "-v"]))
        .success()
        .stdout;
    let status = fabric.device("h1");
    let field = |name: &str| {
        let line = told.lines().find_map(|line| line.trim().strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {told}"))
            .trim()
            .to_owned()
    };
    assert_eq!(field("hca_id:"), "ibemu0");
    assert_eq!(field("state:"), "PORT_ACTIVE (4)");
    assert_eq!(field("link_layer:"), "InfiniBand");
    assert_eq!(field("port_lid:"), status["lid"].to_string());
    fabric.down();
}
