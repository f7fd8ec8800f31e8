//! Fault campaigns on live fabrics: bounded ones, of every kind of fault.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use e2e::{Fabric, Outcome, Transport};
use serde_json::Value;

/// Every kind of fault, as `ibemu chaos --help` lists them.
const KINDS: [&str; 14] = [
    "switch-kill",
    "host-kill",
    "controller-kill",
    "standby-kill",
    "supervisor-kill",
    "switch-stop",
    "host-stop",
    "controller-stop",
    "switch-restart",
    "host-restart",
    "controller-restart",
    "cable-pull",
    "cables-pull",
    "cable-bounce",
];

/// Heal times are below this, milliseconds, but for what the fabric has waited for a processor.
const HEAL_MS_MAX: u64 = 2_000;

/// Asserts that traffic healed in time. Where the kernel does not tell how long processes wait, what this
/// machine did meanwhile cannot be told from what the fabric did.
fn assert_healed_in_time(report: &Value) {
    for heal in report["heals"].as_array().expect("heal times") {
        let Some(waited_ms) = heal["waited_ms"].as_u64() else {
            continue;
        };
        let own_ms = heal["ms"]
            .as_u64()
            .expect("a time")
            .saturating_sub(waited_ms);
        assert!(own_ms < HEAL_MS_MAX, "{heal}\n{:#}", report["timeline"]);
    }
}

/// Runs a campaign and asserts that it held: what it reports.
fn campaign(fabric: &Fabric, arguments: &[&str]) -> Value {
    let command = [&["chaos", "--json"], arguments].concat();
    let report = fabric.call(&command).success().json();
    assert_eq!(report["held"], true, "{report:#}");
    report
}

/// The process ids of the fabric, by name.
fn pids(fabric: &Fabric) -> Vec<(String, String)> {
    let status = fabric.status();
    let devices = status["devices"].as_array().expect("devices").clone();
    let pid = |device: Value| (device["name"].to_string(), device["pid"].to_string());
    devices.into_iter().map(pid).collect()
}

#[test]
fn a_fabric_survives_faults_of_every_kind_the_supervisor_too_and_is_as_it_was() {
    survives_faults_of_every_kind(Transport::Veth);
}

#[test]
fn a_fabric_in_shared_memory_survives_faults_of_every_kind() {
    survives_faults_of_every_kind(Transport::Shm);
}

/// As many rounds as there are kinds: all of them come. About 30 s.
fn survives_faults_of_every_kind(transport: Transport) {
    let sm = ["--sm-node", "h0.0,h2.1"];
    let fabric = Fabric::up(transport, "fat-tree-4-2", &sm);
    let report = campaign(&fabric, &["--seed", "1", "--rounds", "14"]);
    assert_eq!(report["rounds"], 14);
    let faults = report["faults"].as_object().expect("faults by kind");
    let come: BTreeSet<&str> = faults.keys().map(String::as_str).collect();
    assert_eq!(come, KINDS.into());
    // Something was measured: a killed switch, at least, takes its hosts' traffic along until it is back.
    let heal = &report["heal"];
    assert!(heal["broken"].as_u64() > Some(0), "{heal}");
    assert_healed_in_time(&report);
    assert!(
        heal["worst_ms"].as_u64() >= heal["p50_ms"].as_u64(),
        "{heal}"
    );
    let sent = report["packets_sent"].as_u64();
    assert!(
        sent >= report["packets_delivered"].as_u64() && sent > Some(0),
        "{sent:?}"
    );
    let said = report["timeline"].to_string();
    for part in [
        "kill -9 supervisor",
        "kill -STOP ",
        "sweep ",
        "all faults are taken back",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    // The next verb finds it whole.
    fabric.all_pairs().expect("all pairs answer");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn the_same_seed_does_the_same_faults_over_udp_and_one_round_can_be_repeated() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    let rounds = |report: &Value| -> Vec<String> {
        let events = report["timeline"].as_array().expect("a timeline").clone();
        let texts = events.iter().filter_map(|event| event["what"].as_str());
        let texts = texts.filter(|text| text.starts_with("round "));
        texts.map(str::to_owned).collect()
    };
    let kinds = "cable-pull,host-kill,controller-restart,supervisor-kill";
    let all = campaign(
        &fabric,
        &["--seed", "5", "--rounds", "3", "--faults", kinds],
    );
    let again = [
        "--seed", "5", "--first", "3", "--rounds", "1", "--faults", kinds,
    ];
    let third = campaign(&fabric, &again);
    let (all, third) = (rounds(&all), rounds(&third));
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(third, all[2..]);
    fabric.down();
}

#[test]
fn a_campaign_refuses_what_it_cannot_do_and_a_fabric_that_is_not_whole() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let before = pids(&fabric);
    let standby = fabric.call(&["chaos", "--faults", "standby-kill"]);
    standby.fails_with(2, "--sm-node A,B");
    let unknown = fabric.call(&["chaos", "--faults", "cable-cut"]);
    unknown.fails_with(2, "cable-pull");
    let _ = fabric.call(&["link", "down", "s0:2"]).success();
    let broken = fabric.call(&["chaos", "--rounds", "1"]);
    broken.fails_with(1, "a campaign begins with a whole fabric");
    assert_eq!(pids(&fabric), before, "nothing was done");
    fabric.down();
}

#[test]
fn an_interrupt_takes_faults_back_and_reports() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    let mut command = fabric.command(&[
        "chaos",
        "--minutes",
        "5",
        "--faults",
        "host-stop,cable-pull",
    ]);
    let mut chaos = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("chaos starts");
    let mut output = BufReader::new(chaos.stdout.take().expect("its output"));
    // Until the first fault lasts.
    let mut line = String::new();
    while !line.contains(" round 1: ") {
        line.clear();
        assert!(
            output.read_line(&mut line).expect("text") > 0,
            "it has ended"
        );
    }
    let pid = chaos.id().to_string();
    let _ = Outcome::of(std::process::Command::new("kill").args(["-INT", &pid])).success();
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    let code = chaos.wait().expect("it ends").code();
    assert_eq!(code, Some(1), "no round has ended: {rest}");
    assert!(rest.contains("verdict: NOT HELD, interrupted"), "{rest}");
    let devices = fabric.status()["devices"].clone();
    let hung = devices.as_array().expect("devices").iter();
    let hung: Vec<_> = hung.filter(|device| device["state"] != "running").collect();
    assert!(hung.is_empty(), "{hung:?}");
    e2e::within(
        std::time::Duration::from_secs(5),
        "all pairs answer",
        || fabric.ping_all(std::time::Duration::from_millis(500)),
    );
    fabric.down();
}
