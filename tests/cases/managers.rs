//! Several subnet managers on one fabric: ours, and stock OpenSM in both orders.

use std::time::Duration;

use e2e::{Fabric, OpenSm, Outcome, Transport, within};
use hostd::control::{Reply, Request};

/// How long a takeover may take on a loaded machine; what it takes on a quiet one is in
/// docs/reliability.md.
const TAKEOVER: Duration = Duration::from_secs(30);
/// How long a verb may take until its traffic runs.
const START: Duration = Duration::from_secs(20);
/// OpenSM's own words.
const STANDBY: &str = "Entering STANDBY state";
const MASTER: &str = "Entering MASTER state";

fn kill(pid: i32) {
    let outcome = Outcome::of(std::process::Command::new("kill").args(["-9", &pid.to_string()]));
    assert_eq!(outcome.code, 0, "{outcome}");
}

/// Waits until the manager of that name is in that phase.
fn enters(fabric: &Fabric, manager: &str, phase: &str) {
    within(TAKEOVER, &format!("{manager} is {phase}"), || {
        let sm = &fabric.status()["sm"];
        let managers = sm["managers"].as_array().expect("a list of managers");
        let found = managers.iter().find(|found| found["name"] == manager);
        match found {
            Some(found) if found["phase"] == phase => Ok(()),
            _ => Err(sm.to_string()),
        }
    });
}

#[test]
fn opensm_stands_by_for_our_controller_takes_over_from_it_and_gives_back() {
    let fabric = Fabric::up(Transport::Udp, "ring-3-1", &["--sm-node", "h0:8"]);
    let mut sm = OpenSm::spawn(&fabric, "h1", &[]);
    within(TAKEOVER, "OpenSM stands by", || sm.has_logged(STANDBY, 1));
    sm.assert_no_errors();
    enters(&fabric, "controller", "up");
    fabric.all_pairs().expect("our tables reach every pair");

    kill(fabric.pid("controller"));
    within(TAKEOVER, "OpenSM takes over", || {
        sm.has_logged(MASTER, 1)?;
        sm.has_logged("SUBNET UP", 1)
    });
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");

    let _ = fabric.call(&["restart", "controller"]).success();
    enters(&fabric, "controller", "up");
    within(TAKEOVER, "OpenSM stands by again", || {
        sm.has_logged(STANDBY, 2)
    });
    fabric.all_pairs().expect("our tables reach every pair");
    let managers = fabric.status()["sm"]["managers"].clone();
    let foreign = &managers.as_array().expect("a list")[1];
    assert_eq!(foreign["node"], "h1", "{managers}");
    fabric.down();
}

#[test]
fn our_controller_stands_by_for_opensm_of_higher_priority_whoever_was_first() {
    let fabric = Fabric::up(Transport::Udp, "ring-3-1", &["--sm-node", "h0:3"]);
    let mut sm = OpenSm::spawn(&fabric, "h1", &["-p", "9"]);
    within(TAKEOVER, "OpenSM is handed the subnet", || {
        sm.has_logged(MASTER, 1)?;
        sm.has_logged("SUBNET UP", 1)
    });
    enters(&fabric, "controller", "standby");
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");

    // Now OpenSM is first.
    let _ = fabric.call(&["restart", "controller"]).success();
    enters(&fabric, "controller", "standby");
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");
    sm.assert_no_errors();

    drop(sm);
    enters(&fabric, "controller", "up");
    fabric.all_pairs().expect("our tables reach every pair");
    fabric.down();
}

/// LIDs by device.
fn lids(fabric: &Fabric) -> Vec<(String, String)> {
    let status = fabric.status();
    let devices = status["devices"].as_array().expect("devices").clone();
    devices
        .iter()
        .filter(|device| device["name"] != "h0.0.0")
        .map(|device| (device["name"].to_string(), device["lid"].to_string()))
        .collect()
}

#[test]
fn the_next_controller_takes_over_without_losing_a_packet_and_gives_back() {
    let options = ["--sm-node", "h0.0.0,h2.0.1"];
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &options);
    enters(&fabric, "controller", "up");
    enters(&fabric, "controller2", "standby");
    let before = lids(&fabric);
    let mut perf = fabric.command(&["perf", "h1.0.0", "h3.1.1"]);
    perf.args(["--seconds", "600", "--rate", "20M", "--json"])
        .stdout(std::process::Stdio::piped());
    let traffic = perf.spawn().expect("perf starts");
    let flow = within(START, "traffic runs", || fabric.running_flow("h1.0.0"));

    kill(fabric.pid("controller"));
    enters(&fabric, "controller2", "up");
    assert_eq!(lids(&fabric), before, "LIDs are sticky over a takeover");
    let _ = fabric.call(&["restart", "controller"]).success();
    enters(&fabric, "controller", "up");
    enters(&fabric, "controller2", "standby");
    kill(fabric.pid("h0.0.0"));
    enters(&fabric, "controller2", "up");

    assert_eq!(fabric.running_flow("h1.0.0"), Ok(flow));
    let stopped = fabric.ask_host("h1.0.0", &Request::PerfStop { flow });
    assert_eq!(stopped, Reply::Done);
    let output = traffic.wait_with_output().expect("perf ends");
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["total"]["lost"], 0, "{report:#}");
    assert_eq!(lids(&fabric), before, "LIDs are sticky over a takeover");
    fabric.down();
}
