//! Many tools at once, tools that stop or die, and bytes that are no datagrams of theirs.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Fabric, Station, Transport, within};
use netio::seqpacket::BlockingConnection;

/// How long a tool may take beside others.
const TOOL_TIMEOUT: Duration = Duration::from_secs(15);
/// Datagrams of a flood.
const FLOOD: usize = 20_000;
/// Resident memory of a host that was flooded, kilobytes.
const MEMORY_MAX_KB: u64 = 128 * 1024;

/// Tools that each need the fabric in another way, for the LID of a host.
fn tools(lid: &str) -> [String; 5] {
    [
        format!("smpquery NI {lid}"),
        format!("perfquery {lid} 1"),
        format!("saquery NR {lid}"),
        "sminfo".to_owned(),
        format!("ibaddr {lid}"),
    ]
}

fn lid_of(fabric: &Fabric, host: &str) -> String {
    fabric.device(host)["lid"].to_string()
}

/// Asserts that every tool works beside `host`.
#[track_caller]
fn all_work(fabric: &Fabric, host: &str, lid: &str) {
    let mut station = Station::beside(fabric, host);
    for line in tools(lid) {
        let start = Instant::now();
        let _ = station.run(&line).success();
        assert!(
            start.elapsed() < TOOL_TIMEOUT,
            "{line}: {:?}",
            start.elapsed()
        );
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(
        sent.is_ok_and(|status| status.success()),
        "kill {name} {pid}"
    );
}

#[test]
fn twenty_tools_at_once_beside_one_host_all_work() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &[]);
    let lid = lid_of(&fabric, "h3.1");
    std::thread::scope(|scope| {
        for first in 0..20 {
            let (fabric, lid) = (&fabric, &lid);
            scope.spawn(move || {
                let mut station = Station::beside(fabric, "h0.0");
                let lines = tools(lid);
                for round in 0..10 {
                    let _ = station.run(&lines[(first + round) % lines.len()]).success();
                }
            });
        }
    });
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Each asks for the table of all nodes, and subnet administration has many answers under way.
#[test]
fn tables_asked_for_in_quick_succession_and_at_once_are_all_told() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    let mut station = Station::beside(&fabric, "h1.0.0");
    let nodes = 36;
    for _ in 0..40 {
        let told = station.run("saquery -N").success().stdout;
        assert_eq!(told.matches("NodeRecord dump").count(), nodes, "{told}");
    }
    let at_once = "for i in $(seq 40); do saquery -N >told$i 2>&1 & done; wait; cat told*";
    let told = station.run(at_once).success().stdout;
    let count = told.matches("NodeRecord dump").count();
    assert_eq!(count, 40 * nodes, "{told}");
    drop(station);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn tools_work_beside_one_that_has_stopped_and_those_that_died() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &[]);
    let lid = lid_of(&fabric, "h3.1");
    // Without an answer it repeats its request.
    let mut stopped = fabric
        .command(&["exec", "h0.0", "ibping", "-f", "-c", "1000000", &lid])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ibemu exec starts");
    let beside = || fabric.call(&["exec", "h0.0", "sminfo"]).success();
    let _ = beside();
    signal("-STOP", stopped.id());
    all_work(&fabric, "h0.0", &lid);
    // Programs that are killed while they ask.
    for _ in 0..30 {
        let mut dying = fabric
            .command(&["exec", "h0.0", "ibnetdiscover"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ibemu exec starts");
        std::thread::yield_now();
        dying.kill().expect("it was not waited for");
        let _ = dying.wait();
    }
    all_work(&fabric, "h0.0", &lid);
    signal("-CONT", stopped.id());
    stopped.kill().expect("it was not waited for");
    let _ = stopped.wait();
    all_work(&fabric, "h0.0", &lid);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Bytes of every length up to 400 that mean nothing.
fn garbage(number: usize) -> Vec<u8> {
    let byte = |at: usize| {
        u8::try_from((number.wrapping_mul(2_654_435_761) >> (at % 24)) & 0xff).unwrap_or(0)
    };
    (0..number % 400).map(byte).collect()
}

#[test]
fn a_flood_of_garbage_at_a_hosts_sockets_leaves_it_working() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &[]);
    let lid = lid_of(&fabric, "h3.1");
    let base = std::fs::read_to_string(fabric.dir().join("h0.0.umad")).expect("the file");
    let control = format!("{base}:ctl\0");
    let address = SocketAddr::from_abstract_name(control.as_bytes()).expect("a name");
    let stranger = UnixDatagram::unbound().expect("a socket");
    stranger.set_nonblocking(true).expect("a socket");
    for number in 0..FLOOD {
        // What does not fit into the host's queue is lost.
        let _ = stranger.send_to_addr(&garbage(number), &address);
        if number == FLOOD / 2 {
            all_work(&fabric, "h0.0", &lid);
        }
    }
    for number in 1..200 {
        let socket = BlockingConnection::connect(&fabric.dir().join("h0.0.mad"), TOOL_TIMEOUT);
        // The host ends a connection that brings garbage.
        let _ = socket.expect("the host listens").send(&garbage(number));
    }
    all_work(&fabric, "h0.0", &lid);
    within(TOOL_TIMEOUT, "the host's memory is bounded", || {
        let path = format!("/proc/{}/status", fabric.pid("h0.0"));
        let status = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let digits = line.and_then(|line| line.trim().split(' ').next());
        match digits.and_then(|digits| digits.parse::<u64>().ok()) {
            Some(kilobytes) if kilobytes < MEMORY_MAX_KB => Ok(()),
            other => Err(format!("{other:?} kB")),
        }
    });
    let pair = ["ping", "h0.0", "h3.1", "--count", "1"];
    let _ = fabric.call(&pair).success();
    fabric.assert_no_errors_logged();
    fabric.down();
}
