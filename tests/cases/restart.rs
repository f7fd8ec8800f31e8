//! Right after `ibemu restart` a device can be used as before: the command waits until it is configured, where somebody configures it.

use std::process::Command;

use e2e::{Fabric, OpenSm, Outcome, Transport};

/// Restarts a device, and asserts that every pair of hosts answers at once.
#[track_caller]
fn answers_after_restart_of(fabric: &Fabric, device: &str) {
    let _ = fabric.call(&["restart", device]).success();
    let answers = fabric.all_pairs();
    answers.unwrap_or_else(|why| panic!("after the restart of {device}: {why}"));
}

fn every_pair_answers_right_after_a_restart(transport: Transport) {
    let fabric = Fabric::up(transport, "star-3", &["--no-ip"]);
    // The controller runs beside h0.
    for device in ["h1", "s0", "h0"] {
        answers_after_restart_of(&fabric, device);
    }
    fabric.kill("h2");
    answers_after_restart_of(&fabric, "h2");
    fabric.down();
}

#[test]
fn every_pair_answers_right_after_a_restart_over_veth() {
    every_pair_answers_right_after_a_restart(Transport::Veth);
}

#[test]
fn every_pair_answers_right_after_a_restart_over_udp() {
    every_pair_answers_right_after_a_restart(Transport::Udp);
}

#[test]
fn every_pair_answers_right_after_a_restart_in_shared_memory() {
    every_pair_answers_right_after_a_restart(Transport::Shm);
}

#[test]
fn every_pair_answers_right_after_a_restart_over_tunnels() {
    every_pair_answers_right_after_a_restart(Transport::Tunnel);
}

#[test]
fn a_restart_waits_for_opensm_and_for_nobody_where_no_manager_is_at_work() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--sm", "none", "--no-ip"]);
    let _ = fabric
        .call(&["restart", "h1", "--timeout", "3600"])
        .success();
    let sm = OpenSm::start(&fabric, "h0", &[]);
    for device in ["h1", "s0"] {
        answers_after_restart_of(&fabric, device);
    }
    drop(sm);
    fabric.down();
}

#[test]
fn a_device_that_nobody_configures_in_time_is_said_to_run_but_not_to_be_ready() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let controller = fabric.pid("controller").to_string();
    let signal = |name: &str| {
        let _ = Outcome::of(Command::new("kill").args([name, &controller])).success();
    };
    signal("-STOP");
    let outcome = fabric.call(&["restart", "h1", "--timeout", "1"]);
    outcome.fails_with(1, "h1 runs again, but cannot be used yet");
    outcome.fails_with(1, "no subnet manager has configured h1:1");
    let _ = fabric.call(&["restart", "h1", "--timeout", "0"]).success();
    signal("-CONT");
    answers_after_restart_of(&fabric, "h1");
    fabric.down();
}
