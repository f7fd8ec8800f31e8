//! Programs of the system's librdmacm, unchanged: rdma-core's examples, perftest and libfabric, with connections made by communication
//! management over the fabric.

use std::process::Command;
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, named, within};

use crate::libibverbs::{Running, free_port, is_listening};

/// How long a program may take until it waits for its peer.
const START: Duration = Duration::from_secs(60);
/// What a host's log says then.
const LISTENS: &str = "a program listens for connections";

/// The address of a host of a fabric over UDP, by its number.
fn address(number: usize) -> String {
    format!("127.73.0.{number}")
}

/// How often a program beside a host has begun to listen.
fn listeners(fabric: &Fabric, host: &str) -> usize {
    let log = fabric.dir().join("log").join(format!("{host}.log"));
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.matches(LISTENS).count()
}

fn exec(fabric: &Fabric, host: &str, program: &[&str]) -> Command {
    let mut call = fabric.command(&["exec", host]);
    call.args(program);
    call
}

/// Starts a program that waits for its peer.
fn server(fabric: &Fabric, host: &str, program: &[&str]) -> Running {
    let before = listeners(fabric, host);
    let mut running = Running::start(&mut exec(fabric, host, program));
    within(START, "the server listens", || {
        match listeners(fabric, host) > before || running.has_ended() {
            true => Ok(()),
            false => Err(format!("{program:?}")),
        }
    });
    running
}

/// Runs the two ends of a program; what each has printed.
fn pair(fabric: &Fabric, hosts: [&str; 2], programs: [&[&str]; 2]) -> [String; 2] {
    let mut waiting = server(fabric, hosts[0], programs[0]);
    let mut running = Running::start(&mut exec(fabric, hosts[1], programs[1]));
    let told = running.end();
    if told.code != 0 {
        waiting.kill();
        panic!("{told}\n{}", waiting.end());
    }
    [waiting.end().success().stdout, told.stdout]
}

#[test]
fn programs_of_rdma_core_connect() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let (hosts, to) = (["h0", "h1"], address(1));
    let rping = ["rping", "-V", "-v", "-C", "20", "-S", "500", "-a", &to];
    let [served, told] = pair(
        &fabric,
        hosts,
        [
            &[&rping[..], &["-s"]].concat(),
            &[&rping[..], &["-c"]].concat(),
        ],
    );
    assert!(told.contains("ping data: rdma-ping-19"), "{told}");
    assert!(
        served.contains("server ping data: rdma-ping-19"),
        "{served}"
    );
    let [_, told] = pair(
        &fabric,
        hosts,
        [
            &["ucmatose", "-c", "3"],
            &["ucmatose", "-c", "3", "-s", &to],
        ],
    );
    assert!(told.contains("return status 0"), "{told}");
    let [_, told] = pair(
        &fabric,
        hosts,
        [&["udaddy", "-c", "2"], &["udaddy", "-c", "2", "-s", &to]],
    );
    assert!(told.contains("return status 0"), "{told}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn streams_over_connections_carry_what_they_are_given() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let to = address(1);
    let rstream = ["rstream", "-S", "4096", "-C", "20", "-I", "5", "-T", "v"];
    let client = [&rstream[..], &["-s", &to]].concat();
    let [_, told] = pair(&fabric, ["h0", "h1"], [&rstream, &client]);
    assert!(told.contains("custom"), "{told}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn perftest_connects_over_three_levels_of_switches() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    let (hosts, to) = (["h0.0.0", "h3.1.1"], address(1));
    for program in [
        &["ib_send_bw", "-R", "-F", "-n", "100", "-s", "4096"][..],
        &["ib_write_lat", "-R", "-F", "-n", "100", "-s", "8"],
    ] {
        let client = [program, &[&to]].concat();
        let [_, printed] = pair(&fabric, hosts, [program, &client]);
        assert!(printed.contains("#bytes"), "{printed}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn libfabric_finds_the_device_and_connects() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let port = free_port();
    let (number, to) = (port.to_string(), address(1));
    let program = [
        "fi_pingpong",
        "-p",
        "verbs",
        "-e",
        "msg",
        "-I",
        "20",
        "-S",
        "1024",
    ];
    let waiting = [&program[..], &["-B", &number]].concat();
    let mut waiting = Running::start(&mut exec(&fabric, "h0", &waiting));
    within(START, "the server listens", || {
        match is_listening(port) || waiting.has_ended() {
            true => Ok(()),
            false => Err(number.clone()),
        }
    });
    let client = [&program[..], &["-P", &number, &to]].concat();
    let told = Outcome::of(&mut exec(&fabric, "h1", &client)).success();
    assert!(told.stdout.contains("1k"), "{told}");
    let _ = waiting.end().success();
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn programs_send_to_the_group_that_they_have_joined() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let (own, other) = (address(1), address(2));
    let mckey = ["mckey", "-m", "239.1.2.3", "-C", "5"];
    let receiver = [&mckey[..], &["-b", &own]].concat();
    let mut waiting = Running::start(&mut exec(&fabric, "h0", &receiver));
    within(START, "the receiver has joined", || {
        let groups = fabric.call(&["mcast", "groups"]).success().stdout;
        match groups.contains("ff12:4001") || waiting.has_ended() {
            true => Ok(()),
            false => Err(groups),
        }
    });
    let sender = [&mckey[..], &["-s", "-b", &other]].concat();
    let told = Outcome::of(&mut exec(&fabric, "h1", &sender)).success();
    assert!(told.stdout.contains("return status 0"), "{told}");
    let received = waiting.end().success();
    assert!(received.stdout.contains("return status 0"), "{received}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn who_connects_to_nobody_is_refused_and_who_loses_its_peer_is_told() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let to = address(1);
    let client = ["rping", "-c", "-v", "-a", &to];
    let refused = Outcome::of(&mut exec(&fabric, "h1", &client));
    assert_ne!(refused.code, 0, "{refused}");
    assert!(
        refused.to_string().contains("RDMA_CM_EVENT_REJECTED"),
        "{refused}"
    );
    let nowhere = ["rping", "-c", "-v", "-a", "127.73.200.200"];
    let unknown = Outcome::of(&mut exec(&fabric, "h1", &nowhere));
    assert_ne!(unknown.code, 0, "{unknown}");
    assert!(
        unknown.to_string().contains("RDMA_CM_EVENT_ADDR_ERROR"),
        "{unknown}"
    );
    let mut waiting = server(&fabric, "h0", &["rping", "-s", "-v", "-a", &to]);
    let mut running = Running::start(&mut exec(&fabric, "h1", &client));
    within(START, "they exchange data", || {
        let counters = named(&fabric.host_ports("h0")[0]);
        let received = counters.get("PortUnicastRcvPkts").copied();
        match received > Some(1000) || running.has_ended() {
            true => Ok(()),
            false => Err(format!("{received:?}")),
        }
    });
    waiting.kill();
    let told = running.end();
    assert!(
        told.to_string().contains("DISCONNECT"),
        "the client hears that its peer has gone: {told}"
    );
    let _ = waiting.end();
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_stopped_host_is_not_found_and_one_that_was_found_before_is_not_reached() {
    // Its links stay, as it is not taken for dead for so long.
    let options = ["--silence-ms", "60000"];
    let fabric = Fabric::up(Transport::Udp, "star-4", &options);
    let call = |number: usize| {
        let to = address(number);
        Outcome::of(&mut exec(&fabric, "h3", &["rping", "-c", "-v", "-a", &to])).to_string()
    };
    let known = call(2);
    assert!(known.contains("RDMA_CM_EVENT_REJECTED"), "{known}");
    let signal = |name: &str| {
        for host in ["h1", "h2"] {
            let pid = fabric.pid(host).to_string();
            let _ = Outcome::of(Command::new("kill").args([name, &pid])).success();
        }
    };
    signal("-STOP");
    // Who is remembered, and whose address is asked for. The manager is beside another host.
    let (known, unknown) = (call(2), call(3));
    signal("-CONT");
    let expected = "RDMA_CM_EVENT_ADDR_ERROR, error -110";
    assert!(unknown.contains(expected), "{unknown}");
    let expected = "RDMA_CM_EVENT_UNREACHABLE, error -110";
    assert!(known.contains(expected), "{known}");
    fabric.down();
}
