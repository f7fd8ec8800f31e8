//! Promised bandwidth (VLARB01): connections and best effort share one port as its arbitration
//! tables say, and keep what they were promised.

use std::process::{Child, Stdio};
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, diags, within};
use hostd::control::{Reply, Request};
use serde_json::Value;

use crate::libibverbs::start_pair;

const TOPOLOGY: &str = "mesh-2x1-3";

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
    Fabric::up(Transport::Udp, TOPOLOGY, &options)
}

/// The rate of a link in the tests' own time, bits a second.
const LINK_BPS: f64 = 20e6;
/// How many times slower than real links are.
const TIME_SCALE: f64 = 100.0;
/// Slots of a frame, and those of them that are best effort's.
const FRAME: f64 = 64.0 * 255.0;
const BEST_EFFORT: f64 = FRAME / 5.0;

/// Frames of which the shares are measured. What is sent of one more or less is less than 5 %.
const FRAMES: f64 = 30.0;
/// How long something may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

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

/// Starts traffic that goes on until it is stopped.
fn start(fabric: &Fabric, flow: &[&str]) -> Child {
    let verb = ["perf"].iter().chain(flow);
    let more = ["--size", PACKET, "--seconds", "600", "--json"];
    let line: Vec<&str> = verb.chain(&more).copied().collect();
    let mut command = fabric.command(&line);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("ibemu starts")
}

/// What the port between the switches has sent of each of these service levels, in slots of 64 bytes.
fn sent_slots(fabric: &Fabric, levels: &[String]) -> Vec<f64> {
    let graph = topologies::parse(TOPOLOGY).expect("a topology").graph;
    let [one, other] = ["s0", "s1"].map(|name| graph.find(name).expect("a switch"));
    let mut cables = graph.cables(one);
    let (port, _) = cables
        .find(|(_, end)| end.node == other)
        .expect("the cable between them");
    let lid = fabric.switch_ports("s0")[0].lid.to_string();
    let query = ["perfquery", "--xmtsl", &lid, &port.to_string()];
    let printed = diags(fabric, "h0", &query).success().stdout;
    let words = |level: &String| -> f64 {
        let name = format!("XmtDataSL{level}:");
        let line = printed.lines().find_map(|line| line.strip_prefix(&name));
        let digits = line.map(|line| line.trim_start_matches('.'));
        let words = digits.and_then(|digits| digits.parse().ok());
        words.unwrap_or_else(|| panic!("no {name} in {printed}"))
    };
    levels.iter().map(|level| words(level) / 16.0).collect()
}

/// Bits a second that each flow delivers while all of them send for five seconds.
fn rates(fabric: &Fabric, flows: &[&[&str]]) -> Vec<f64> {
    let running: Vec<_> = flows
        .iter()
        .map(|flow| {
            let verb = ["perf"].iter().chain(*flow);
            let more = ["--size", PACKET, "--seconds", "5", "--json"];
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

/// Asserts that what a port sends of each of these service levels from now on is as these slots are.
fn assert_shares(fabric: &Fabric, levels: &[String], slots: &[f64]) {
    let all: f64 = slots.iter().sum();
    let before = sent_slots(fabric, levels);
    let sent = within(LIMIT, "some frames are sent", || {
        let now = sent_slots(fabric, levels).into_iter();
        let sent: Vec<f64> = now.zip(&before).map(|(now, before)| now - before).collect();
        match sent.iter().sum::<f64>() / all {
            frames if frames >= FRAMES => Ok(sent),
            frames => Err(format!("{frames} frames: {sent:?}")),
        }
    });
    let sum: f64 = sent.iter().sum();
    for ((sent, slots), level) in sent.iter().zip(slots).zip(levels) {
        let what = format!("service level {level}");
        assert_within_5_percent(&what, sent / sum, slots / all);
    }
}

#[test]
fn backlogged_connections_and_best_effort_get_their_slots() {
    let fabric = bottleneck();
    // 523 and 3264 slots of a frame at 2 Gbit/s, in virtual lanes of their own.
    let slow = connect(&fabric, &["h0", "h3", "--rate", "64M"]);
    let fast = connect(&fabric, &["h1", "h4", "--rate", "400M"]);
    let slots = [523.0, 3264.0, BEST_EFFORT];
    let levels = [service_level(&slow), service_level(&fast), "0".to_owned()];
    // Enough to be backlogged.
    let flows = [
        start(&fabric, &["h0", "h3", "--sl", &levels[0], "--window", "50"]),
        start(
            &fabric,
            &["h1", "h4", "--sl", &levels[1], "--window", "160"],
        ),
        start(&fabric, &["h2", "h5", "--window", "160"]),
    ];
    let running = ["h0", "h1", "h2"].map(|host| {
        let flow = within(LIMIT, "traffic runs", || fabric.running_flow(host));
        (host, flow)
    });
    // As the port counts them, from when all send and before any ends: the processes do neither at once.
    assert_shares(&fabric, &levels, &slots);
    for (host, flow) in running {
        let stopped = fabric.ask_host(host, &Request::PerfStop { flow });
        assert_eq!(stopped, Reply::Done);
    }
    for flow in flows {
        let output = flow.wait_with_output().expect("ibemu ends");
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["total"]["lost"], 0, "{report:#}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Server and client of programs with a promise and of those without.
const PROMISED: [&str; 2] = ["h4", "h1"];
const BESIDE: [&str; 2] = ["h5", "h2"];

/// perftest's program on a service level, for so many seconds. A message is a packet of 17 slots; an acknowledgement may be late by
/// 4.096 us * 2^20, four seconds.
fn writes<'a>(level: &'a str, seconds: &'a str) -> Vec<&'a str> {
    let message = [
        "ib_write_bw",
        "-F",
        "-s",
        "1024",
        "-m",
        "1024",
        "-t",
        "512",
        "-u",
        "20",
        "-Q",
        "1",
    ];
    [&message[..], &["-f", "1", "-D", seconds, "-S", level]].concat()
}

#[test]
fn programs_of_verbs_get_the_slots_of_their_service_levels() {
    let fabric = bottleneck();
    // Four of ten slots, twice those of best effort.
    let promised = connect(&fabric, &["h1", "h4", "--rate", "800M"]);
    let slots = [2.0 * BEST_EFFORT, BEST_EFFORT];
    let levels = [service_level(&promised), "0".to_owned()];
    let _programs = [
        start_pair(&fabric, PROMISED, &writes(&levels[0], "600")),
        start_pair(&fabric, BESIDE, &writes(&levels[1], "600")),
    ];
    within(LIMIT, "both send", || {
        let sent = sent_slots(&fabric, &levels);
        match sent.iter().all(|slots| *slots > 2000.0) {
            true => Ok(()),
            false => Err(format!("{sent:?}")),
        }
    });
    assert_shares(&fabric, &levels, &slots);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// The bandwidth that a program of perftest prints, all of whose time another one sends on the other service level.
fn figure_beside(fabric: &Fabric, measured: ([&str; 2], &str), other: ([&str; 2], &str)) -> f64 {
    let _other = start_pair(fabric, other.0, &writes(other.1, "600"));
    let level = [other.1.to_owned()];
    within(LIMIT, "the other one sends", || {
        let sent = sent_slots(fabric, &level)[0];
        let now = sent_slots(fabric, &level)[0];
        (now > sent).then_some(()).ok_or_else(|| format!("{now}"))
    });
    let (mut server, mut client) = start_pair(fabric, measured.0, &writes(measured.1, "5"));
    let told = client.end().success().stdout;
    let _ = server.end().success();
    let mut rows = told.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(3)?.parse().ok().filter(|_| words[0] == "1024")
    });
    rows.next().unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn perftest_s_figures_are_the_shares_of_its_service_levels() {
    let fabric = bottleneck();
    let promised = connect(&fabric, &["h1", "h4", "--rate", "800M"]);
    let level = service_level(&promised);
    let (promised, beside) = ((PROMISED, level.as_str()), (BESIDE, "0"));
    let figures = [
        figure_beside(&fabric, promised, beside),
        figure_beside(&fabric, beside, promised),
    ];
    // Four of ten slots and two of ten.
    let share = figures[0] / figures.iter().sum::<f64>();
    assert_within_5_percent("the promised share", share, 2.0 / 3.0);
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
