//! Devices die, cables are pulled, the controller restarts: the fabric carries on.

use std::time::Duration;

use daemon::control::ControlClient;
use e2e::{Fabric, Outcome, Transport, kill, within};
use hostd::control::{Reply, Request};
use netio::process::Pidfd;

const RECOVERY: Duration = Duration::from_secs(3);
/// How long a verb may take until its traffic runs.
const START: Duration = Duration::from_secs(20);

/// The ports that the packet from one host to another takes, as `ibemu path` prints them.
fn path(fabric: &Fabric, source: &str, destination: &str) -> String {
    fabric.call(&["path", source, destination]).success().stdout
}

/// Asserts that all pairs answer soon, and that packets take the path `before` again.
fn returns_to(fabric: &Fabric, before: &str, what: &str) {
    fabric.heals(RECOVERY, what, |subnet| !subnet.degraded);
    assert_eq!(path(fabric, "h0.0.0", "h3.0.0"), before);
}

fn a_root_dies_and_returns(transport: Transport) {
    let fabric = Fabric::up(transport, "fat-tree-4-3", &[]);
    let before = path(&fabric, "h0.0.0", "h3.0.0");
    let root = before
        .split_whitespace()
        .find(|word| word.starts_with("s0."))
        .expect("the path crosses a root")
        .trim_end_matches(|c: char| !c.is_ascii_digit())
        .to_owned();
    let switches = fabric.subnet().expect("the controller runs").switches;
    fabric.kill(&root);
    fabric.heals(RECOVERY, "all pairs answer without the root", |subnet| {
        subnet.switches == switches - 1
    });
    let around = path(&fabric, "h0.0.0", "h3.0.0");
    assert!(
        !around.contains(&root),
        "{root} is dead but still on the path: {around}"
    );
    let _ = fabric.call(&["restart", &root]).success();
    returns_to(&fabric, &before, "the full tables return with the root");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn all_pairs_answer_within_three_seconds_of_the_death_of_a_root_over_veth() {
    a_root_dies_and_returns(Transport::Veth);
}

#[test]
fn all_pairs_answer_within_three_seconds_of_the_death_of_a_root_over_udp() {
    a_root_dies_and_returns(Transport::Udp);
}

#[test]
fn all_pairs_answer_within_three_seconds_of_the_death_of_a_root_in_shared_memory() {
    a_root_dies_and_returns(Transport::Shm);
}

#[test]
fn all_pairs_answer_after_a_link_goes_down_and_after_it_returns() {
    for transport in [Transport::Veth, Transport::Udp, Transport::Shm] {
        let fabric = Fabric::up(transport, "fat-tree-4-3", &[]);
        let before = path(&fabric, "h0.0.0", "h3.0.0");
        // Port 3 of a leaf leads up.
        let _ = fabric.call(&["link", "down", "s2.0.0:3"]).success();
        fabric.heals(RECOVERY, "all pairs answer without the link", |subnet| {
            subnet.degraded
        });
        let _ = fabric.call(&["link", "up", "s2.0.0:3"]).success();
        returns_to(&fabric, &before, "the full tables return with the link");
        fabric.down();
    }
}

/// Asserts that all pairs answer soon, and that every link of the switch with the fault is Active.
fn is_whole_again(fabric: &Fabric) {
    fabric.heals(RECOVERY, "the link is Active again", |subnet| {
        !subnet.degraded
    });
    let device = fabric.device("s2.0.0");
    assert_eq!(
        device["ports_active"], device["ports_connected"],
        "{device}"
    );
}

/// `ip` inside a device's namespace.
fn ip(fabric: &Fabric, device: &str, arguments: &[&str]) {
    let namespace = format!("{}.{device}", fabric.name());
    let mut command = std::process::Command::new("ip");
    command.args(["-n", &namespace]).args(arguments);
    let _ = Outcome::of(&mut command).success();
}

#[test]
fn all_pairs_answer_after_one_end_of_a_link_is_set_down_by_hand() {
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-3", &[]);
    ip(&fabric, "s2.0.0", &["link", "set", "p3", "down"]);
    fabric.heals(RECOVERY, "all pairs answer without the link", |subnet| {
        subnet.degraded
    });
    ip(&fabric, "s2.0.0", &["link", "set", "p3", "up"]);
    is_whole_again(&fabric);
    fabric.down();
}

#[test]
fn all_pairs_answer_after_one_end_of_a_link_is_deleted_by_hand() {
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-3", &[]);
    ip(&fabric, "s2.0.0", &["link", "delete", "p3"]);
    fabric.heals(RECOVERY, "all pairs answer without the link", |subnet| {
        subnet.degraded
    });
    // The return of the cable: `link up` makes the pair anew.
    let _ = fabric.call(&["link", "up", "s2.0.0:3"]).success();
    is_whole_again(&fabric);
    fabric.down();
}

#[test]
fn a_restart_of_the_controller_loses_no_packet() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    let lids = |fabric: &Fabric| -> Vec<(String, String)> {
        let status = fabric.status();
        let devices = status["devices"].as_array().expect("devices").clone();
        devices
            .iter()
            .map(|device| (device["name"].to_string(), device["lid"].to_string()))
            .collect()
    };
    let before = lids(&fabric);
    // The traffic runs from before the controller ends until after the subnet is up again: it is
    // ended below, long before its time.
    let mut perf = fabric.command(&["perf", "h0.0.0", "h3.1.1"]);
    perf.args(["--seconds", "600", "--rate", "20M", "--json"])
        .stdout(std::process::Stdio::piped());
    let traffic = perf.spawn().expect("perf starts");
    let flow = within(START, "traffic runs", || fabric.running_flow("h0.0.0"));
    fabric.kill("controller");
    let _ = fabric.call(&["restart", "controller"]).success();
    fabric.heals(RECOVERY, "the controller has the subnet up again", |_| true);
    assert_eq!(fabric.running_flow("h0.0.0"), Ok(flow));
    let stopped = fabric.ask_host("h0.0.0", &Request::PerfStop { flow });
    assert_eq!(stopped, Reply::Done);
    let output = traffic.wait_with_output().expect("perf ends");
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["total"]["lost"], 0, "{report:#}");
    assert_eq!(lids(&fabric), before, "LIDs are sticky over a restart");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_supervisor_tells_a_device_of_its_cables_that_its_predecessor_had_not_told() {
    for transport in [Transport::Udp, Transport::Shm, Transport::Tunnel] {
        a_successor_tells_of_cables(transport);
    }
}

fn a_successor_tells_of_cables(transport: Transport) {
    let fabric = Fabric::up(transport, "star-2", &[]);
    let pid = fabric.pid("h1");
    let sweeps = fabric.sweeps();
    fabric.kill("supervisor");
    // Started again without a supervisor that connects it: as if the supervisor had done that and ended.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("a command line");
    let line = String::from_utf8(line).expect("UTF-8");
    let mut words = line.split_terminator('\0');
    let process = Pidfd::open(pid.cast_unsigned()).expect("h1 runs");
    kill(pid);
    assert!(process.wait(START).expect("a process"), "h1 goes on");
    let mut again = std::process::Command::new(words.next().expect("a program"))
        .args(words)
        .spawn()
        .expect("h1 starts");
    let socket = fabric.dir().join("h1.ctl");
    within(START, "h1 answers", || {
        let client = ControlClient::connect(&socket, START);
        client.map_err(|error| error.to_string())
    });
    // Starts the next supervisor.
    assert_eq!(fabric.device("h1")["state"], "running");
    fabric.heals(RECOVERY, "all pairs answer", |subnet| {
        subnet.generation > sweeps && !subnet.degraded
    });
    fabric.down();
    let _ = again.wait();
}

#[test]
fn the_death_of_the_supervisor_harms_no_traffic_and_its_successor_adopts_what_runs() {
    for transport in [Transport::Udp, Transport::Shm, Transport::Tunnel] {
        a_successor_adopts_what_runs(transport);
    }
}

fn a_successor_adopts_what_runs(transport: Transport) {
    let fabric = Fabric::up(transport, "fat-tree-4-2", &[]);
    let switch = fabric.pid("s0.0");
    fabric.kill("supervisor");
    fabric
        .all_pairs()
        .expect("all pairs answer without a supervisor");
    let sweeps = fabric.sweeps();
    let _ = fabric.call(&["restart", "h0.0"]).success();
    fabric.heals(RECOVERY, "all pairs answer after the restart", |subnet| {
        subnet.generation > sweeps && !subnet.degraded
    });
    assert_eq!(
        fabric.pid("s0.0"),
        switch,
        "the switch was adopted, not restarted"
    );
    fabric.down();
}
