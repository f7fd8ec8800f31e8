//! Internet addresses and names of hosts.

mod decode;
mod programs;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::{Fabric, OpenSm, Outcome, Transport, within};

/// How long something may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program beside a host, which is ended with the test.
struct Beside(Child);

impl Beside {
    fn start(fabric: &Fabric, host: &str, command: &[&str]) -> Self {
        let mut call: Command = fabric.command(&[&["exec", host], command].concat());
        let quiet = call.stdin(Stdio::null()).stdout(Stdio::piped());
        Self(quiet.spawn().expect("ibemu can be started"))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn exec(fabric: &Fabric, host: &str, command: &[&str]) -> Outcome {
    fabric.call(&[&["exec", host], command].concat())
}

/// Sends three echo requests by `ping`, IPv4 (`-4`) or IPv6; all are answered.
fn ping(fabric: &Fabric, version: &str, from: &str, to: &str) {
    let ping = ["ping", version, "-c", "3", "-i", "0.2", "-w", "30", to];
    let told = exec(fabric, from, &ping).success().stdout;
    assert!(told.contains(" 3 received"), "{told}");
}

/// The name of this machine.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name")
}

#[test]
fn a_program_finds_every_host_by_its_name() {
    let named = machine();
    let system = std::fs::read_to_string("/etc/hosts").expect("/etc/hosts");
    for (transport, own, other) in [
        (Transport::Udp, "127.73.0.1", "127.73.0.2"),
        (Transport::Shm, "127.73.0.1", "127.73.0.2"),
        (Transport::Veth, "10.73.0.1", "fd73::2"),
    ] {
        let fabric = Fabric::up(transport, "star-2", &[]);
        let exec = |command: &[&str]| {
            let call = [&["exec", "h0"], command].concat();
            fabric.call(&call).success().stdout
        };
        let found = exec(&["getent", "hosts", "h1"]);
        assert!(found.starts_with(other), "{found}");
        assert_eq!(exec(&["printenv", "IBEMU_ADDRESS"]).trim(), own);
        assert_eq!(exec(&["hostname"]).trim(), "h0", "the machine's name there");
        let hosts = exec(&["cat", "/etc/hosts"]);
        assert!(
            hosts.starts_with(&system),
            "the system's own names stay: {hosts}"
        );
        fabric.down();
    }
    let after = std::fs::read_to_string("/etc/hosts").expect("/etc/hosts");
    assert_eq!(after, system, "the system's file is as it was");
    assert_eq!(machine(), named, "the system's name is as it was");
}

#[test]
fn a_fabric_without_addresses_leaves_names_as_they_are() {
    let system = std::fs::read_to_string("/etc/hosts").expect("/etc/hosts");
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let hosts = fabric.call(&["exec", "h0", "cat", "/etc/hosts"]).success();
    assert_eq!(hosts.stdout, system);
    let own = ["exec", "h0", "cat", "/proc/sys/kernel/hostname"];
    assert_eq!(fabric.call(&own).success().stdout, machine());
    let told = fabric.call(&["exec", "h0", "printenv", "IBEMU_ADDRESS"]);
    assert_eq!(told.code, 1, "{told}");
    fabric.down();
}

/// Memory of a process that is its own, KiB.
fn anonymous_kib(pid: i32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a process");
    let anonymous = maps
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = anonymous.and_then(|rest| rest.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse().ok()).expect(&maps)
}

#[test]
fn an_interface_that_carries_nothing_takes_little_memory() {
    let of_host = |options: &[&str]| {
        let fabric = Fabric::up(Transport::Veth, "star-2", options);
        let kib = anonymous_kib(fabric.pid("h1"));
        fabric.down();
        kib
    };
    let (with, without) = (of_host(&[]), of_host(&["--no-ip"]));
    assert!(
        with < without + 512,
        "{with} KiB with it, {without} without"
    );
}

#[test]
fn hosts_reach_each_other_by_ping_under_our_controller_and_after_its_restart_and_a_pulled_cable() {
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-3", &[]);
    ping(&fabric, "-4", "h0.0.0", "h3.1.1");
    ping(&fabric, "-6", "h0.0.0", "h3.1.1");
    let resolved = exec(&fabric, "h0.0.0", &["getent", "ahostsv4", "h3.1.1"]);
    assert!(resolved.stdout.starts_with("10.73.0.16"), "{resolved}");
    let groups = exec(&fabric, "h1.0.0", &["saquery", "-g"]).success().stdout;
    assert!(groups.contains("ff12:401b:ffff::ffff:ffff"), "{groups}");
    let _ = fabric.call(&["restart", "controller"]).success();
    ping(&fabric, "-4", "h1.0.1", "h2.1.0");
    let _ = fabric.call(&["link", "down", "s0.0.0:1"]).success();
    within(PATIENCE, "the fabric routes round the cable", || {
        fabric.all_pairs()
    });
    ping(&fabric, "-4", "h0.0.0", "h3.1.1");
    ping(&fabric, "-6", "h3.1.1", "h0.0.0");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn hosts_reach_each_other_by_ping_under_opensm() {
    let fabric = Fabric::up(Transport::Veth, "star-3", &["--sm", "none"]);
    let sm = OpenSm::start(&fabric, "h0", &[]);
    ping(&fabric, "-4", "h1", "h2");
    ping(&fabric, "-6", "h2", "h0");
    drop(sm);
    fabric.down();
}

/// Waits for a datagram to a group, and prints it.
const LISTENER: &str = "
import socket, struct, sys
own, group = sys.argv[1:3]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((group, 5007))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
print('ready', flush=True)
print(s.recv(100).decode(), flush=True)
";

/// Sends datagrams to a group until it is ended.
const SENDER: &str = "
import socket, sys, time
own, group = sys.argv[1:3]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
while True:
    s.sendto(b'hello', (group, 5007))
    time.sleep(0.05)
";

#[test]
fn a_multicast_program_is_heard_by_all_that_listen() {
    use std::io::Read as _;
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-2", &[]);
    let group = "239.1.2.3";
    let listeners: Vec<Beside> = [("h1.0", "10.73.0.3"), ("h2.1", "10.73.0.6")]
        .iter()
        .map(|(host, own)| Beside::start(&fabric, host, &["python3", "-c", LISTENER, own, group]))
        .collect();
    let sender = ["python3", "-c", SENDER, "10.73.0.1", group];
    let _sender = Beside::start(&fabric, "h0.0", &sender);
    for mut listener in listeners {
        let mut told = String::new();
        let mut output = listener.0.stdout.take().expect("a pipe");
        output.read_to_string(&mut told).expect("text");
        assert_eq!(told, "ready\nhello\n");
    }
    fabric.down();
}

#[test]
fn streams_arrive_whole_and_iperf3_finds_a_server_by_name() {
    let fabric = Fabric::up(Transport::Veth, "star-2", &["--unpaced"]);
    let _server = Beside::start(&fabric, "h1", &["iperf3", "--server"]);
    let run = |options: &[&str]| {
        let call = [&["iperf3", "--json", "--client", "h1"], options].concat();
        let mut bytes = 0;
        within(PATIENCE, "the server answers", || {
            let told = exec(&fabric, "h0", &call);
            if told.code != 0 {
                return Err(told.to_string());
            }
            let end = &told.json()["end"];
            let sums = [&end["sum_received"]["bytes"], &end["sum"]["bytes"]];
            bytes = sums.iter().find_map(|sum| sum.as_u64()).unwrap_or(0);
            Ok(())
        });
        assert!(bytes > 100_000, "{bytes} bytes with {options:?}");
    };
    // More than the socket's buffers hold: most of it has arrived when the client ends.
    let much = ["--bytes", "8M"];
    run(&much);
    run(&[&much[..], &["--parallel", "4", "--reverse"]].concat());
    run(&["--udp", "--bitrate", "50M", "--time", "1"]);
    run(&[&much[..], &["-6"]].concat());
    fabric.assert_no_errors_logged();
    fabric.down();
}
