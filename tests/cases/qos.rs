//! Promised bandwidth (VLARB01): connections and best effort share one port as its arbitration
//! tables say, and keep what they were promised.

use std::process::Stdio;
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, within};
use serde_json::Value;

/// Two switches with three hosts each and one cable between them, a hundred times slower than 1x
/// SDR: 20 Mbit/s behind the line code, some two thousand packets a second.
fn bottleneck() -> Fabric {
    let options = [
        "--qos",
        "vlarb01",
        "--vls",
        "8",
        "--width",
        "1x",
        "--speed",
        "sdr",
        "--time-scale",
        "100",
    ];
    Fabric::up(Transport::Udp, "mesh-2x1-3", &options)
}

/// The rate of a link in the tests' own time, bits a second.
const LINK_BPS: f64 = 20e6;
/// How many times slower than real links are.
const TIME_SCALE: f64 = 100.0;
/// Slots of a frame, and those of them that are best effort's.
const FRAME: f64 = 64.0 * 255.0;
const BEST_EFFORT: f64 = FRAME / 5.0;

/// Bytes of a packet: 17 slots, of which 15 make up the weight of a full entry, so that entries send
/// what they weigh.
const PACKET: &str = "1086";

fn connect(fabric: &Fabric, arguments: &[&str]) -> Value {
    let verb = ["qos", "connect"].iter().chain(arguments);
    let line: Vec<&str> = verb.chain(&["--json"]).copied().collect();
    fabric.call(&line).success().json()
}

fn service_level(connection: &Value) -> String {
    connection["sl"].as_u64().expect("a level").to_string()
}

/// Bits a second that each flow delivers while all of them send for ten seconds.
fn rates(fabric: &Fabric, flows: &[&[&str]]) -> Vec<f64> {
    let running: Vec<_> = flows
        .iter()
        .map(|flow| {
            let verb = ["perf"].iter().chain(*flow);
            let more = ["--size", PACKET, "--seconds", "10", "--json"];
            let line: Vec<&str> = verb.chain(&more).copied().collect();
            let mut command = fabric.command(&line);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("ibemu starts")
        })
        .collect();
    running
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("ibemu ends");
            let outcome = Outcome {
                command: "ibemu perf".to_owned(),
                code: output.status.code().unwrap_or(-1),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            };
            let report = outcome.success().json();
            let flow = &report["flows"][0];
            assert_eq!(flow["lost"], 0, "{report:#}");
            let number = |name: &str| flow[name].as_f64().expect("a number");
            number("bytes_delivered") * 8e9 / number("elapsed_ns")
        })
        .collect()
}

#[track_caller]
fn assert_within_5_percent(what: &str, have: f64, want: f64) {
    assert!(
        (have - want).abs() <= 0.05 * want,
        "{what}: {have:.3e}, wanted {want:.3e}"
    );
}

#[test]
fn backlogged_connections_and_best_effort_get_their_slots() {
    let fabric = bottleneck();
    // 523 and 3264 slots of a frame at 2 Gbit/s, in virtual lanes of their own.
    let slow = connect(&fabric, &["h0", "h3", "--rate", "64M"]);
    let fast = connect(&fabric, &["h1", "h4", "--rate", "400M"]);
    let slots = [523.0, 3264.0, BEST_EFFORT];
    let (slow, fast) = (service_level(&slow), service_level(&fast));
    let rates = rates(
        &fabric,
        &[
            // Enough to be backlogged; and in proportion to the slots, since what is under way in
            // the end comes with the link to itself.
            &["h0", "h3", "--sl", &slow, "--window", "25"],
            &["h1", "h4", "--sl", &fast, "--window", "160"],
            &["h2", "h5", "--window", "160"],
        ],
    );
    let (sent, all): (f64, f64) = (rates.iter().sum(), slots.iter().sum());
    for ((rate, slots), what) in rates.iter().zip(slots).zip(["slow", "fast", "best effort"]) {
        assert_within_5_percent(what, rate / sent, slots / all);
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn connections_at_their_rates_keep_them_whatever_best_effort_does() {
    let fabric = bottleneck();
    let video = connect(&fabric, &["h0", "h3", "--rate", "64M"]);
    let call = connect(&fabric, &["h1", "h4", "--rate", "600M", "--class", "dbts"]);
    let (video, call) = (service_level(&video), service_level(&call));
    // What is promised is promised of links at full speed.
    let rates = rates(
        &fabric,
        &[
            &["h0", "h3", "--sl", &video, "--rate", "640k"],
            &["h1", "h4", "--sl", &call, "--rate", "6M"],
            &["h2", "h5"],
        ],
    );
    assert_within_5_percent("dedicated bandwidth", rates[0], 64e6 / TIME_SCALE);
    assert_within_5_percent("time sensitive", rates[1], 600e6 / TIME_SCALE);
    let left = LINK_BPS - 664e6 / TIME_SCALE;
    assert!(rates[2] > 0.8 * left, "best effort has {:.3e}", rates[2]);
    fabric.down();
}

#[test]
fn connections_are_listed_released_and_refused_with_a_reason() {
    let fabric = bottleneck();
    let first = connect(&fabric, &["h0", "h3", "--rate", "1G"]);
    let refused = fabric.call(&["qos", "connect", "h1", "h4", "--rate", "1G"]);
    refused.fails_with(1, "slots of 64 bytes a frame left, 8160 are wanted");
    refused.fails_with(1, "of s0");
    let list = fabric.call(&["qos", "list", "--json"]).success().json();
    assert_eq!(list[0], first, "{list:#}");
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list:#}");
    let id = first["id"].to_string();
    let _ = fabric.call(&["qos", "release", &id]).success();
    let again = fabric.call(&["qos", "release", &id]);
    again.fails_with(1, "there is no connection");
    connect(&fabric, &["h1", "h4", "--rate", "1G"]);
    fabric.all_pairs().expect("best effort on service level 0");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn connections_outlive_the_controller_and_a_dropped_one_is_told_to_its_sender() {
    let fabric = bottleneck();
    let video = connect(&fabric, &["h0", "h3", "--rate", "64M"]);
    let call = connect(&fabric, &["h1", "h4", "--rate", "600M", "--class", "dbts"]);
    let list = || fabric.call(&["qos", "list", "--json"]);
    let before = list().success().json();
    assert_eq!(before, serde_json::json!([video, call]));
    let _ = fabric.call(&["restart", "controller"]).success();
    within(
        Duration::from_secs(20),
        "both connections stand again",
        || {
            let after = list();
            match after.code == 0 && after.json() == before {
                true => Ok(()),
                false => Err(after.to_string()),
            }
        },
    );
    let rates = rates(
        &fabric,
        &[
            &["h1", "h4", "--sl", &service_level(&call), "--rate", "6M"],
            &["h2", "h5"],
        ],
    );
    assert_within_5_percent("time sensitive", rates[0], 600e6 / TIME_SCALE);

    let _ = fabric.call(&["link", "down", "h3:1"]).success();
    within(Duration::from_secs(20), "the sender is notified", || {
        let log = std::fs::read_to_string(fabric.dir().join("log/h0.log"));
        let log = log.map_err(|error| error.to_string())?;
        match log.contains("a connection is dropped") {
            true => Ok(()),
            false => Err(log),
        }
    });
    assert_eq!(list().success().json(), serde_json::json!([call]));
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_fabric_without_promises_says_what_to_do() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let refused = fabric.call(&["qos", "connect", "h0", "h1", "--rate", "64M"]);
    refused.fails_with(1, "--qos vlarb01");
    let refused = fabric.call(&["clos", "run"]);
    refused.fails_with(1, "--routing clos");
    fabric.down();
}
