//! Several subnet managers on one fabric: ours, and stock OpenSM in both orders.

use std::time::Duration;

use e2e::{Fabric, OpenSm, Transport, paced, within};
use hostd::control::{Reply, Request};

/// How long a takeover may take on a loaded machine; what it takes on a quiet one is in
/// docs/reliability.md.
const TAKEOVER: Duration = Duration::from_secs(30);
/// The longest takeover, without the time by which a loaded machine wakes its processes late.
const TAKEOVER_MAX: Duration = Duration::from_secs(2);
/// How long a verb may take until its traffic runs.
const START: Duration = Duration::from_secs(20);

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

/// Asserts that what ends with a new master takes no longer than a takeover may.
#[track_caller]
fn takes_over(what: &str, takeover: impl FnOnce()) {
    let ((), took) = paced(takeover);
    assert!(took < TAKEOVER_MAX, "{what}: {took:?}");
}

#[test]
fn opensm_stands_by_for_our_controller_takes_over_from_it_and_gives_back() {
    let fabric = Fabric::up(Transport::Udp, "ring-3-1", &["--sm-node", "h0:8"]);
    let mut sm = OpenSm::spawn(&fabric, "h1", &[]);
    sm.await_standby(TAKEOVER, "OpenSM stands by", 1);
    sm.assert_no_errors();
    enters(&fabric, "controller", "up");
    fabric.all_pairs().expect("our tables reach every pair");

    takes_over("OpenSM from ours", || {
        fabric.kill("controller");
        within(TAKEOVER, "OpenSM is master", || {
            sm.check_log("Entering MASTER state", 1)
        });
    });
    sm.await_master(TAKEOVER, "OpenSM takes over");
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");

    let _ = fabric.call(&["restart", "controller"]).success();
    enters(&fabric, "controller", "up");
    sm.await_standby(TAKEOVER, "OpenSM stands by again", 2);
    fabric.all_pairs().expect("our tables reach every pair");
    let managers = fabric.status()["sm"]["managers"].clone();
    let foreign = &managers.as_array().expect("a list")[1];
    assert_eq!(foreign["node"], "h1", "{managers}");
    fabric.down();
}

#[test]
fn our_controller_stands_by_for_opensm_of_higher_priority_in_any_order_of_starts() {
    let fabric = Fabric::up(Transport::Udp, "ring-3-1", &["--sm-node", "h0:3"]);
    let mut sm = OpenSm::spawn(&fabric, "h1", &["-p", "9"]);
    sm.await_master(TAKEOVER, "OpenSM is handed the subnet");
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

    takes_over("ours from OpenSM", || {
        drop(sm);
        enters(&fabric, "controller", "up");
    });
    fabric.all_pairs().expect("our tables reach every pair");
    fabric.down();
}

#[test]
fn on_a_fat_tree_opensm_of_lesser_priority_stands_by_in_any_order_of_starts() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    let mut sm = OpenSm::spawn(&fabric, "h3.1.1", &["-p", "3"]);
    sm.await_standby(TAKEOVER, "OpenSM stands by", 1);
    enters(&fabric, "controller", "up");
    sm.assert_no_errors();
    drop(sm);
    fabric.down();

    // The other order: OpenSM has the subnet when the controller comes.
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    fabric.kill("controller");
    let mut sm = OpenSm::start(&fabric, "h3.1.1", &["-p", "3"]);
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");
    let _ = fabric.call(&["restart", "controller"]).success();
    enters(&fabric, "controller", "up");
    sm.await_standby(TAKEOVER, "OpenSM hands over", 1);
    fabric.all_pairs().expect("our tables reach every pair");
    sm.assert_no_errors();
    drop(sm);
    fabric.down();
}

#[test]
fn between_equal_priorities_the_lower_guid_is_master_in_any_order_of_starts() {
    let fabric = Fabric::up(Transport::Udp, "ring-3-1", &["--sm-node", "h1:5"]);
    // OpenSM's GUID is higher: it stands by, also when the controller comes back.
    let mut sm = OpenSm::spawn(&fabric, "h2", &["-p", "5"]);
    sm.await_standby(TAKEOVER, "OpenSM stands by", 1);
    enters(&fabric, "controller", "up");
    fabric.kill("controller");
    sm.await_master(TAKEOVER, "OpenSM takes over");
    let _ = fabric.call(&["restart", "controller"]).success();
    sm.await_standby(TAKEOVER, "OpenSM stands by again", 2);
    enters(&fabric, "controller", "up");
    drop(sm);

    // OpenSM's GUID is lower: it is handed the subnet, also when it comes back.
    for _ in 0..2 {
        let mut sm = OpenSm::spawn(&fabric, "h0", &["-p", "5"]);
        sm.await_master(TAKEOVER, "OpenSM is handed the subnet");
        enters(&fabric, "controller", "standby");
        fabric
            .all_pairs()
            .expect("OpenSM's tables reach every pair");
        sm.assert_no_errors();
        drop(sm);
        enters(&fabric, "controller", "up");
    }
    fabric.all_pairs().expect("our tables reach every pair");
    fabric.down();
}

#[test]
fn of_three_managers_the_next_best_takes_over_and_the_best_comes_back() {
    let options = ["--sm-node", "h0:9,h1:3"];
    let fabric = Fabric::up(Transport::Udp, "ring-3-1", &options);
    let mut sm = OpenSm::spawn(&fabric, "h2", &["-p", "6"]);
    sm.await_standby(TAKEOVER, "OpenSM stands by", 1);
    enters(&fabric, "controller", "up");
    enters(&fabric, "controller2", "standby");

    fabric.kill("controller");
    sm.await_master(TAKEOVER, "OpenSM is master");
    enters(&fabric, "controller2", "standby");
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");

    let _ = fabric.call(&["restart", "controller"]).success();
    enters(&fabric, "controller", "up");
    sm.await_standby(TAKEOVER, "OpenSM stands by again", 2);
    drop(sm);
    fabric.kill("controller");
    enters(&fabric, "controller2", "up");
    fabric.all_pairs().expect("our tables reach every pair");

    // OpenSM finds the least of them as master.
    let mut sm = OpenSm::spawn(&fabric, "h2", &["-p", "6"]);
    sm.await_master(TAKEOVER, "OpenSM is handed the subnet");
    enters(&fabric, "controller2", "standby");
    sm.assert_no_errors();
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

    takes_over("ours from ours", || {
        fabric.kill("controller");
        enters(&fabric, "controller2", "up");
    });
    assert_eq!(lids(&fabric), before, "LIDs are sticky over a takeover");
    let _ = fabric.call(&["restart", "controller"]).success();
    enters(&fabric, "controller", "up");
    enters(&fabric, "controller2", "standby");
    takes_over("ours from ours whose host is gone", || {
        fabric.kill("h0.0.0");
        enters(&fabric, "controller2", "up");
    });

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
