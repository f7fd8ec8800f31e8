//! Traffic on a fabric of which something is missing, and the account of every packet.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, named, within};
use hostd::control::{FlowReport, FlowState, FlowsProgress, Reply, Request};
use serde_json::Value;
use wire::control::PortStatus;

/// How long a state of the fabric may take to come about.
const LIMIT: Duration = Duration::from_secs(20);

fn signal(name: &str, pid: u32) {
    let outcome = Outcome::of(Command::new("kill").args([name, &pid.to_string()]));
    assert_eq!(outcome.code, 0, "{outcome}");
}

fn pid(fabric: &Fabric, device: &str) -> u32 {
    u32::try_from(fabric.pid(device)).expect("a process id")
}

/// Packets that the flows of a host have delivered so far.
fn delivered(fabric: &Fabric, host: &str) -> Result<u64, String> {
    let flows = match fabric.ask_host(host, &Request::PerfReports { from: 0 }) {
        Reply::PerfAll(flows) => flows,
        other => panic!("{host}: {other:?}"),
    };
    let running = |flow: &FlowReport| flow.state == FlowState::Running && flow.delivered > 0;
    if !flows.is_empty() && flows.iter().all(running) {
        Ok(flows.iter().map(|flow| flow.delivered).sum())
    } else {
        Err(format!("{flows:?}"))
    }
}

/// Traffic between all hosts until it is interrupted.
fn all_to_all(fabric: &Fabric) -> Child {
    let mut perf = fabric.command(&["perf", "--all", "--seconds", "600", "--json"]);
    perf.stdout(Stdio::piped()).stderr(Stdio::piped());
    let perf = perf.spawn().expect("perf starts");
    within(LIMIT, "traffic runs", || delivered(fabric, "h1"));
    perf
}

/// Ends traffic once every flow of a host moves again, and returns the report.
fn end(fabric: &Fabric, perf: Child) -> Value {
    within(LIMIT, "all flows of h1 run again", || {
        let before = delivered(fabric, "h1")?;
        within(LIMIT, "packets arrive", || match delivered(fabric, "h1")? {
            now if now > before => Ok(()),
            now => Err(format!("{now} after {before}")),
        });
        Ok(())
    });
    signal("-INT", perf.id());
    let output = perf.wait_with_output().expect("perf ends");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

fn sum(reasons: &Value) -> u64 {
    reasons
        .as_object()
        .expect("reasons")
        .values()
        .map(number)
        .sum()
}

/// Asserts that every packet is delivered, or dropped at a port that says so, or was lost on the
/// cable between `lossy` ports, and that data lost is data dropped or lost there; returns how much
/// that is.
#[track_caller]
fn adds_up(report: &Value, lossy: &[&str]) -> u64 {
    let packets = &report["packets"];
    let mut unaccounted = 0;
    for kind in ["data", "query", "acknowledgement", "report"] {
        let sums = &packets["kinds"][kind];
        let dropped = sum(&sums["dropped"]);
        let rest = number(&sums["unaccounted"]);
        unaccounted += rest;
        let gone = number(&sums["delivered"]) + dropped + rest;
        assert_eq!(number(&sums["sent"]), gone, "{kind}: {packets:#}");
        // Who is told everything does not ask.
        let is_told = ["query", "report"].contains(&kind);
        assert!(is_told || number(&sums["sent"]) > 0, "{kind}: {packets:#}");
        assert_eq!(sums["under_way"], 0, "{kind}: {packets:#}");
        let drops = packets["drops"].as_array().expect("drops");
        let placed = drops.iter().filter(|at| at["kind"] == kind);
        let placed: u64 = placed.map(|at| number(&at["packets"])).sum();
        assert_eq!(placed, dropped, "{kind}: {packets:#}");
    }
    let cables = packets["on_cables"].as_array().expect("cables");
    let mut on_cables = 0;
    for cable in cables {
        let ends = [&cable["from"], &cable["to"]].map(|end| end.as_str().expect("a port"));
        assert!(ends.iter().all(|end| lossy.contains(end)), "{packets:#}");
        on_cables += number(&cable["packets"]);
    }
    // Management may have been lost there, too.
    assert!(unaccounted <= on_cables, "{packets:#}");
    let data = &packets["kinds"]["data"];
    let gone = sum(&data["dropped"]) + number(&data["unaccounted"]);
    assert_eq!(number(&report["total"]["lost"]), gone, "{report:#}");
    gone
}

#[test]
fn without_a_fault_every_packet_is_delivered() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &[]);
    let perf = fabric.call(&["perf", "--all", "--seconds", "0.5", "--json"]);
    let report = perf.success().json();
    assert_eq!(adds_up(&report, &[]), 0);
    assert_eq!(report["packets"]["drops"], Value::Array(Vec::new()));
    fabric.down();
}

#[test]
fn a_cable_pulled_under_load_loses_what_its_ports_count() {
    // What is in the socket of an interface when it goes down is lost.
    for (transport, lossy) in [
        (Transport::Udp, &[][..]),
        (Transport::Shm, &[][..]),
        (Transport::Veth, &["s0:2", "h1:1"]),
    ] {
        let fabric = Fabric::up(transport, "star-4", &[]);
        let perf = all_to_all(&fabric);
        // The second host's cable.
        let _ = fabric.call(&["link", "down", "s0:2"]).success();
        let _ = fabric.call(&["link", "up", "s0:2"]).success();
        let report = end(&fabric, perf);
        assert!(
            adds_up(&report, lossy) > 0,
            "packets were in queues: {report:#}"
        );
        fabric.down();
    }
}

#[test]
fn traffic_to_one_host_from_two_commands_is_counted_apart() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &[]);
    let mut first = fabric.command(&["perf", "h0", "h2", "--seconds", "600", "--json"]);
    first.stdout(Stdio::piped()).stderr(Stdio::piped());
    let first = first.spawn().expect("perf starts");
    within(LIMIT, "traffic runs", || delivered(&fabric, "h0"));
    let second = fabric.call(&["perf", "h1", "h2", "--count", "1000", "--json"]);
    assert_eq!(second.success().json()["total"]["delivered"], 1000);
    let before = delivered(&fabric, "h0").expect("the first one runs");
    within(LIMIT, "it goes on", || match delivered(&fabric, "h0")? {
        now if now > before => Ok(()),
        now => Err(format!("{now} after {before}")),
    });
    signal("-INT", first.id());
    let output = first.wait_with_output().expect("perf ends");
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["total"]["lost"], 0, "{report:#}");
    fabric.down();
}

/// A port that is Down and dropped packets: what its queues held when the link went, or, where they were empty then,
/// what was routed to it afterwards.
fn is_down_and_dropped(port: &PortStatus) -> Result<(), String> {
    let counters = named(port);
    let dropped = ["drop.link-down", "drop.output-inactive"];
    let has_dropped = dropped.iter().any(|drop| counters.contains_key(*drop));
    let is_gone = port.state == 1 && has_dropped;
    is_gone.then_some(()).ok_or_else(|| format!("{port:?}"))
}

#[test]
fn a_host_that_drains_slowly_loses_what_the_switch_counts() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &["--keepalive-ms", "100"]);
    let perf = all_to_all(&fabric);
    let stopped = pid(&fabric, "h1");
    signal("-STOP", stopped);
    within(LIMIT, "the switch hears nothing of the host", || {
        let ports = fabric.switch_ports("s0");
        let port = ports.iter().find(|port| port.port.get() == 2);
        let port = port.expect("port 2");
        is_down_and_dropped(port)
    });
    signal("-CONT", stopped);
    let report = end(&fabric, perf);
    assert!(
        adds_up(&report, &[]) > 0,
        "packets were in queues: {report:#}"
    );
    fabric.down();
}

#[test]
fn a_dead_host_is_left_out_by_verbs_for_all_hosts_and_ignored_by_those_for_others() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &["--sm-node", "h3"]);
    signal("-9", pid(&fabric, "h0"));
    within(LIMIT, "the switch sees that the host is gone", || {
        let ports = fabric.switch_ports("s0");
        let port = ports.iter().find(|port| port.port.get() == 1);
        let port = port.expect("port 1");
        if port.state == 1 {
            Ok(())
        } else {
            Err(format!("{port:?}"))
        }
    });

    let pair = fabric.call(&["perf", "h1", "h2", "--count", "1000", "--json"]);
    let report = pair.success().json();
    assert_eq!(report["total"]["delivered"], 1000, "{report:#}");
    assert_eq!(report["packets"]["silent"], serde_json::json!(["h0"]));
    let _ = fabric.call(&["ping", "h1", "h2"]).success();
    let _ = fabric.call(&["path", "h1", "h2"]).success();
    let _ = fabric.call(&["mcast", "groups"]).success();
    let _ = fabric.call(&["mcast", "tables"]).success();
    for named in [
        &["ping", "h0", "h1"][..],
        &["perf", "h1", "h0"],
        &["path", "h0", "h1"],
    ] {
        fabric.call(named).fails_with(1, "h0");
    }

    let all = fabric.call(&["perf", "--all", "--count", "100", "--json"]);
    all.fails_with(1, "h0");
    let report = all.json();
    assert_eq!(report["total"]["delivered"], 600, "{report:#}");
    assert_eq!(report["unreachable"][0]["name"], "h0", "{report:#}");

    let all = fabric.call(&["ping", "--all", "--json"]);
    all.fails_with(1, "h0");
    let report = all.json();
    assert_eq!(
        (&report["pairs"], &report["answered"]),
        (&6.into(), &6.into())
    );
    assert_eq!(report["unreachable"][0]["name"], "h0", "{report:#}");

    let all = fabric.call(&["mcast", "test", "--json"]);
    all.fails_with(1, "h0");
    let report = all.json();
    assert_eq!(
        (&report["members"], &report["wrong"]),
        (&3.into(), &serde_json::json!([]))
    );
    assert_eq!(report["unreachable"][0]["name"], "h0", "{report:#}");

    let in_words = fabric.call(&["ping", "--all"]);
    in_words.fails_with(1, "h0");
    assert!(in_words.stdout.contains("h0 is left out"), "{in_words}");
    assert!(in_words.stdout.contains("6 of 6 pairs"), "{in_words}");
    fabric.down();
}

#[test]
fn an_interrupt_of_traffic_between_all_hosts_prints_what_was_delivered() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    let mut perf = fabric.command(&["perf", "--all", "--seconds", "600"]);
    perf.stdout(Stdio::piped()).stderr(Stdio::piped());
    let perf = perf.spawn().expect("perf starts");
    for host in ["h0.0.0", "h1.0.1", "h2.1.0", "h3.1.1"] {
        within(LIMIT, "its flows deliver", || delivered(&fabric, host));
    }
    signal("-INT", perf.id());
    let output = perf.wait_with_output().expect("perf ends");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|out| String::from_utf8_lossy(out));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for line in ["240 flows between 16 hosts", "the flows were interrupted"] {
        assert!(stderr.contains(line), "{line}:\n{stderr}");
    }
    let total = stdout.lines().find(|line| line.starts_with("240 flows: "));
    let total = total.unwrap_or_else(|| panic!("{stdout}\n{stderr}"));
    assert!(!total.contains(" 0 delivered"), "{total}");
    assert!(stdout.contains("one-way latency: min "), "{stdout}");
    let nothing = Reply::PerfProgress(FlowsProgress::default());
    assert_eq!(fabric.ask_host("h2.1.0", &Request::PerfProgress), nothing);
    fabric.down();
}

#[test]
fn a_host_killed_under_load_loses_what_reports_account_for() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &["--no-ip", "--sm-node", "h3"]);
    let perf = all_to_all(&fabric);
    signal("-9", pid(&fabric, "h2"));
    within(LIMIT, "the switch sees that the host is gone", || {
        let ports = fabric.switch_ports("s0");
        let port = ports.iter().find(|port| port.port.get() == 3);
        let port = port.expect("port 3");
        is_down_and_dropped(port)
    });
    signal("-INT", perf.id());
    let output = perf.wait_with_output().expect("perf ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    let packets = &report["packets"];
    assert_eq!(packets["silent"], serde_json::json!(["h2"]), "{packets:#}");
    for sums in [&report["total"]]
        .into_iter()
        .chain(report["flows"].as_array().expect("flows"))
    {
        let parts = ["delivered", "lost", "unsent", "abandoned"].map(|key| number(&sums[key]));
        assert_eq!(
            number(&sums["offered"]),
            parts.iter().sum::<u64>(),
            "{sums:#}"
        );
    }
    // What other hosts sent each other is whole; what they sent to the dead one was dropped at ports that say so, or
    // went down with it, which is what is unaccounted for.
    let flows = report["flows"].as_array().expect("flows");
    assert!(
        flows.iter().all(|flow| flow["source"] != "h2"),
        "{report:#}"
    );
    for flow in flows.iter().filter(|flow| flow["destination"] != "h2") {
        assert_eq!(number(&flow["lost"]), 0, "{flow:#}");
    }
    let drops = packets["drops"].as_array().expect("drops");
    let data = drops.iter().filter(|at| at["kind"] == "data");
    let placed: u64 = data.map(|at| number(&at["packets"])).sum();
    assert_eq!(
        placed,
        sum(&packets["kinds"]["data"]["dropped"]),
        "{packets:#}"
    );
    assert!(number(&report["total"]["lost"]) > 0, "{report:#}");
    fabric.down();
}

#[test]
fn results_have_perftests_columns() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let perf = fabric.call(&[
        "perf",
        "h0",
        "h1",
        "--count",
        "2000",
        "--size",
        "1058",
        "--perftest",
    ]);
    let text = perf.success().stdout;
    let lines: Vec<&str> = text.lines().collect();
    let [rule, header, row, last] = lines[..] else {
        panic!("{text}");
    };
    assert_eq!(rule, last);
    // The program itself is the judge of its columns.
    let path = std::env::split_paths(&std::env::var_os("PATH").expect("a path"))
        .map(|folder| folder.join("ib_send_bw"))
        .find(|path| path.exists());
    let program = std::fs::read(path.expect("perftest is installed")).expect("a program");
    let has = |text: &str| {
        let text = text.as_bytes();
        program.windows(text.len()).any(|bytes| bytes == text)
    };
    assert!(has(header) && has(rule), "{text}");
    let cells: Vec<f64> = row
        .split_whitespace()
        .map(|cell| cell.parse().expect("a number"))
        .collect();
    assert_eq!(cells[..3], [1024.0, 2000.0, 0.0], "{row}");
    let average = cells[4] * 1e6 * 1024.0 / 1_048_576.0;
    assert!((cells[3] - average).abs() < 0.01, "{row}");
    fabric.down();
}

#[test]
fn an_interrupted_ping_prints_its_summary() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let interrupted = |arguments: &[&str]| {
        let mut ping = fabric.command(arguments);
        ping.stdout(Stdio::piped()).stderr(Stdio::piped());
        let ping = ping.spawn().expect("ping starts");
        let pings = || {
            named(&fabric.host_ports("h0")[0])
                .get("PortXmitPkts")
                .copied()
        };
        let before = pings();
        within(LIMIT, "requests are sent", || match pings() {
            now if now > before.map(|before| before + 20) => Ok(()),
            now => Err(format!("{now:?} after {before:?}")),
        });
        signal("-INT", ping.id());
        let output = ping.wait_with_output().expect("ping ends");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = interrupted(&["ping", "h0", "h1", "--count", "1000000", "--interval", "1"]);
    assert!(text.contains(" answered; interrupted"), "{text}");
    assert!(text.contains("round trip: min "), "{text}");
    let json = interrupted(&[
        "ping",
        "h0",
        "h1",
        "--count",
        "1000000",
        "--interval",
        "1",
        "--json",
    ]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["sent"], json["received"]);
    assert_eq!(json["rtt"]["samples"], json["received"]);
    let whole = fabric.call(&["ping", "h0", "h1", "--count", "7", "--json"]);
    let whole = whole.success().json();
    assert_eq!(
        (&whole["sent"], &whole["interrupted"]),
        (&7.into(), &false.into())
    );
    fabric.down();
}

#[test]
fn an_interrupt_before_the_first_flow_ends_at_once() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let stopped = pid(&fabric, "h1");
    signal("-STOP", stopped);
    let mut perf = fabric.command(&["perf", "--all"]);
    perf.stdout(Stdio::piped()).stderr(Stdio::piped());
    let perf = perf.spawn().expect("perf starts");
    within(LIMIT, "it listens to signals", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", perf.id()));
        let status = status.map_err(|error| error.to_string())?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // SIGINT is signal 2.
        match caught.is_some_and(|mask| mask & 2 != 0) {
            true => Ok(()),
            false => Err(status),
        }
    });
    signal("-INT", perf.id());
    let output = perf.wait_with_output().expect("perf ends");
    signal("-CONT", stopped);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("before the first flow"), "{stderr}");
    fabric.down();
}
