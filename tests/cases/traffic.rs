//! Traffic by patterns and plans.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use e2e::{Fabric, Transport, ibemu_command, within};
use hostd::control::{Reply, Request};
use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value}"))
}

/// Source, destination and offered packets of each flow.
fn flows(report: &Value) -> Vec<(&str, &str, u64)> {
    let all = array(&report["flows"]).iter();
    all.map(|flow| {
        let name = |key: &str| flow[key].as_str().expect("a name");
        (
            name("source"),
            name("destination"),
            number(&flow["offered"]),
        )
    })
    .collect()
}

/// That every packet of each kind was delivered.
#[track_caller]
fn is_whole(report: &Value) {
    for kind in ["data", "query", "acknowledgement", "report"] {
        let sums = &report["packets"]["kinds"][kind];
        assert_eq!(sums["sent"], sums["delivered"], "{kind}: {report:#}");
    }
    assert_eq!(report["total"]["lost"], 0, "{report:#}");
}

#[test]
fn patterns_and_plans_send_what_they_say() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &[]);

    let shift = ["traffic", "shift-1", "--count", "50", "--json"];
    let shift = fabric.call(&shift).success().json();
    is_whole(&shift);
    let ring = [("h0", "h1"), ("h1", "h2"), ("h2", "h3"), ("h3", "h0")];
    let expected = ring.map(|(from, to)| (from, to, 50));
    assert_eq!(flows(&shift), expected);
    assert_eq!(shift["total"]["fairness"], 1.0);
    assert_eq!(shift["total"]["latency"]["samples"], 200);
    assert_eq!(shift["groups"][0]["name"], "shift-1");

    // 290 bytes are 2,320 bits: 464,000 bit/s are 200 packets a second of each host.
    let centric = fabric.call(&[
        "traffic",
        "centric-50",
        "--target",
        "h2",
        "--rate",
        "464k",
        "--seconds",
        "1",
        "--json",
    ]);
    let centric = centric.success().json();
    is_whole(&centric);
    for (from, to, offered) in flows(&centric) {
        let share = match (from, to) {
            ("h2", _) => 67,
            (_, "h2") => 100,
            _ => 50,
        };
        assert!(offered.abs_diff(share) <= 1, "{from} {to}: {offered}");
    }

    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let text = "warmup = 0.2\n\
                [[flows]]\nname = 'background'\npattern = 'permutation'\nrate = 464000\nseconds = 0.5\n\
                [[flows]]\nname = 'bulk'\nfrom = ['h0', 'h1']\nto = ['h3']\ncount = 300\nsize = 1026\n\
                start = 0.1\n";
    fs::write(&plan, text).expect("a plan");
    let plan = plan.to_str().expect("a path");
    let planned = fabric.call(&["traffic", plan, "--json"]).success().json();
    is_whole(&planned);
    let groups = array(&planned["groups"]);
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0]["name"], "background");
    assert!(
        number(&groups[0]["offered"]).abs_diff(4 * 100) <= 4,
        "{planned:#}"
    );
    assert_eq!(groups[1]["delivered"], 600);
    assert_eq!(groups[1]["latency"]["samples"], 600);
    assert_eq!(number(&groups[1]["bytes_delivered"]), 600 * 1026);
    // The warm-up is sent and not measured: 0.2 s at 200 packets a second of each host, less what a host that did
    // not run in time has left out.
    let sent = number(&planned["packets"]["kinds"]["data"]["sent"]);
    let measured = number(&planned["total"]["sent"]);
    assert!(
        (measured + 1..=measured + 4 * 41).contains(&sent),
        "{planned:#}"
    );

    let table = fabric.call(&["traffic", plan, "--size", "98", "--count", "10"]);
    let table = table.success().stdout;
    assert!(table.contains("GROUP"), "{table}");
    assert!(table.contains("60 delivered, 0 lost"), "{table}");

    for (arguments, wrong) in [
        (vec!["shift-4"], "shift-4 among 4 hosts: shift-1 to shift-3"),
        (vec!["circle"], "there is no pattern \"circle\""),
        (vec!["no/plan.toml"], "no/plan.toml: No such file"),
        (
            vec![plan, "--hosts", "h*"],
            "--hosts and --target belong to a pattern",
        ),
        (vec!["uniform", "--window", "0"], "window 0 needs a rate"),
    ] {
        let mut all = vec!["traffic"];
        all.extend(&arguments);
        let refused = fabric.call(&all);
        assert_ne!(refused.code, 0, "{refused}");
        assert!(refused.stderr.contains(wrong), "{refused}");
    }
    fabric.down();
}

/// Figures of a report's only collective operation.
fn collective(report: &Value) -> (u64, Vec<u64>, u64, u64) {
    let one = &report["collectives"][0];
    assert_eq!(one["incomplete"], 0, "{report:#}");
    let iterations = array(&one["iteration_ns"]).iter().map(number).collect();
    let bandwidth = |key: &str| number(&one[key]);
    (
        number(&one["time_ns"]),
        iterations,
        bandwidth("algbw_bytes_per_second"),
        bandwidth("busbw_bytes_per_second"),
    )
}

#[test]
fn collectives_carry_their_bytes_in_their_steps_live_and_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let fabric = Fabric::up(
        Transport::Udp,
        "star-4",
        &["--no-ip", "--time-scale", "1000"],
    );
    // 4x QDR carries 32 Gbit/s of data: at a thousandth 4,000,000 bytes a second.
    let rate = 4_000_000;
    let bytes = 393_216;
    for (name, transfers, of_a_rank) in [
        ("ring-allreduce", 2 * 3 * 4, 2 * bytes * 3 / 4),
        ("tree-allreduce", 2 * 8 * 2 * 3, 0),
        ("alltoall", 3 * 4, bytes * 3 / 4),
    ] {
        let text =
            format!("[[flows]]\npattern = '{name}'\nbytes = '384k'\niterations = 2\nsize = 2082\n");
        fs::write(&plan, text).expect("a plan");
        let plan = plan.to_str().expect("a path");
        let live = fabric.call(&["traffic", plan, "--json"]).success().json();
        let arguments = [
            "sim",
            "traffic",
            "star-4",
            plan,
            "--json",
            "--time-scale",
            "1000",
        ];
        let simulated = ibemu_command(&arguments).output().expect("virtual time");
        assert!(simulated.status.success(), "{simulated:?}");
        let simulated: Value = serde_json::from_slice(&simulated.stdout).expect("a report");
        for report in [&live, &simulated] {
            is_whole(report);
            assert_eq!(
                report["collectives"][0]["transfers"], transfers,
                "{report:#}"
            );
            assert_eq!(report["total"]["flows"], 2 * transfers);
            let (time_ns, iterations, algbw, busbw) = collective(report);
            assert_eq!(iterations.len(), 2);
            assert!(iterations.iter().sum::<u64>().abs_diff(2 * time_ns) <= 1);
            assert!(algbw.abs_diff(bytes * 1_000_000_000 / time_ns) <= 1);
            let factor = if name == "alltoall" { (3, 4) } else { (6, 4) };
            assert!(busbw.abs_diff(algbw * factor.0 / factor.1) <= 1);
            if of_a_rank > 0 {
                let sent = flows(report).into_iter().filter(|&(from, ..)| from == "h1");
                let packets: u64 = sent.map(|(.., packets)| packets).sum();
                assert_eq!(packets, 2 * of_a_rank / 2048, "{name}");
            }
        }
        assert_eq!(
            live["packets"]["kinds"]["data"],
            simulated["packets"]["kinds"]["data"]
        );
        // No rank's link can carry its bytes in less time, and in virtual time nothing but steps takes more:
        // the trees wait for each other's pieces.
        let least = |of_a_rank: u64| of_a_rank * 1_000_000_000 / rate;
        let (time_ns, ..) = collective(&simulated);
        let bound = least(if of_a_rank > 0 {
            of_a_rank
        } else {
            2 * bytes * 3 / 4
        });
        assert!(time_ns >= bound, "{name}: {time_ns} below {bound}");
        let slower = if of_a_rank > 0 { 120 } else { 250 };
        assert!(
            time_ns <= bound * slower / 100,
            "{name}: {time_ns} after {bound}"
        );
    }
    let table = fabric.call(&[
        "traffic",
        "ring-allreduce",
        "--bytes",
        "64k",
        "--iterations",
        "3",
    ]);
    let table = table.success().stdout;
    for word in ["BUSBW", "ring-allreduce", "65536", "MB/s"] {
        assert!(table.contains(word), "{table}");
    }
    fabric.down();
}

/// That all packets that were asked for are somewhere.
#[track_caller]
fn is_accounted_for(report: &Value) {
    for sums in std::iter::once(&report["total"]).chain(array(&report["flows"])) {
        let parts = ["delivered", "lost", "unsent", "abandoned"].map(|key| number(&sums[key]));
        let all = parts.iter().sum::<u64>();
        assert_eq!(number(&sums["offered"]), all, "{sums:#}");
    }
}

/// Ends a host without warning while another sends, and returns the report and what was wrong.
fn killed_under(
    fabric: &Fabric,
    (host, sender): (&str, &str),
    traffic: &[&str],
) -> (Value, String) {
    let mut running = fabric.command(traffic);
    running.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = running.spawn().expect("traffic starts");
    let limit = Duration::from_secs(20);
    within(limit, "packets are sent", || {
        match fabric.ask_host(sender, &Request::PerfProgress) {
            Reply::PerfProgress(progress) if progress.sent > 100 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    fabric.kill(host);
    let output = running.wait_with_output().expect("traffic ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["interrupted"], false, "{report:#}");
    is_accounted_for(&report);
    (report, stderr)
}

#[test]
fn a_collective_that_loses_a_rank_ends_and_says_how_much_is_missing() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &["--no-ip"]);
    let ring = ["traffic", "ring-allreduce", "--bytes", "64M"];
    let ring = [&ring[..], &["--iterations", "20", "--json"]].concat();
    let (report, stderr) = killed_under(&fabric, ("h1", "h2"), &ring);
    let operation = &report["collectives"][0];
    let incomplete = number(&operation["incomplete"]);
    // At least those of the rank that is gone, and those to it.
    assert!((1..=480).contains(&incomplete), "{report:#}");
    let says = format!("{incomplete} of 480 transfers did not arrive whole");
    assert!(stderr.contains(&says), "{stderr}");
    assert_eq!(operation["time_ns"], Value::Null, "{report:#}");
    assert_eq!(report["unreachable"][0]["name"], "h1", "{report:#}");
    fabric.down();
}

#[test]
fn a_counted_flow_to_a_host_that_dies_ends_and_accounts_for_all_of_its_packets() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let perf = ["perf", "h0", "h1", "--count", "100000000", "--json"];
    let (report, stderr) = killed_under(&fabric, ("h1", "h0"), &perf);
    assert!(stderr.contains("1 of 1 flows were abandoned"), "{stderr}");
    let flow = &report["flows"][0];
    assert_eq!(flow["state"], "abandoned");
    assert_eq!(flow["offered"], 100_000_000);
    assert_eq!(flow["unsent"], 0, "{flow:#}");
    assert!(number(&flow["lost"]) > 0, "{flow:#}");
    fabric.down();
}

#[test]
fn multicast_from_several_hosts_comes_once_to_each_live_and_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let text = "[[flows]]\nname = 'news'\npattern = 'multicast'\nsenders = ['h0.*']\nrate = '464k'\ncount = 40\n\
                [[flows]]\nname = 'few'\npattern = 'multicast'\nhosts = ['h*.0']\ncount = 30\nsize = 1026\n\
                [[flows]]\nname = 'background'\npattern = 'shift-1'\ncount = 50\n";
    fs::write(&plan, text).expect("a plan");
    let plan = plan.to_str().expect("a path");
    let topology = "fat-tree-4-2";
    let fabric = Fabric::up(Transport::Udp, topology, &["--no-ip"]);
    let live = fabric.call(&["traffic", plan, "--json"]).success().json();
    let groups = fabric.call(&["mcast", "groups", "--json"]).success().json();
    for group in array(&groups) {
        assert_eq!(group["members"], serde_json::json!([]), "all have left");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
    let simulated = ibemu_command(&["sim", "traffic", topology, plan, "--json"]).output();
    let simulated = simulated.expect("virtual time");
    assert!(simulated.status.success(), "{simulated:?}");
    let simulated: Value = serde_json::from_slice(&simulated.stdout).expect("a report");
    for report in [&live, &simulated] {
        is_whole(report);
        is_accounted_for(report);
        assert_eq!(report["total"]["duplicates"], 0, "{report:#}");
        // Two senders to seven others each; four to three.
        for (group, (flows, packets, bytes)) in [(14, 40, 290), (12, 30, 1026)].iter().enumerate() {
            let sums = &report["groups"][group];
            assert_eq!(sums["flows"], *flows);
            for key in ["offered", "delivered"] {
                assert_eq!(sums[key], flows * packets, "{sums:#}");
            }
            assert_eq!(sums["latency"]["samples"], flows * packets);
            assert_eq!(sums["bytes_delivered"], flows * packets * bytes);
        }
        let few = array(&report["flows"]).iter();
        let few = few.filter(|flow| flow["group"] == "few");
        for flow in few {
            assert_ne!(flow["source"], flow["destination"]);
            assert_eq!(flow["latency"]["samples"], 30, "{flow:#}");
            let dlid = number(&flow["dlid"]);
            assert!(dlid >= 0xc000, "a multicast LID: {flow:#}");
        }
    }
    assert_eq!(flows(&live), flows(&simulated));
}

#[test]
fn a_calibration_says_at_which_time_scale_links_are_kept_up_with() {
    let calibrate = ["traffic", "shift-1", "--seconds", "1", "--calibrate"];
    let json = [&calibrate[..], &["--json"]].concat();
    // 4x QDR at a 20,000th is 1.6 Mbit/s: 690 packets a second of each host.
    let slow = Fabric::up(
        Transport::Udp,
        "star-2",
        &["--no-ip", "--time-scale", "20000"],
    );
    let report = slow.call(&json).success().json();
    let found = &report["calibration"];
    assert_eq!(found["fabric_time_scale"], 20_000.0, "{found:#}");
    assert_eq!(found["keeps_pace"], true, "{found:#}");
    assert_eq!(found["time_scale"], 20_000.0, "{found:#}");
    assert_eq!(found["bits_per_second"], report["total"]["bits_per_second"]);
    // Two hosts that send all that their links carry, beside acknowledgements.
    let reference = number(&found["reference_bits_per_second"]);
    assert!((2_000_000..=3_200_000).contains(&reference), "{found:#}");
    let text = slow.call(&calibrate).success().stdout;
    assert!(
        text.contains("at --time-scale 20000: this machine keeps the pace"),
        "{text}"
    );
    slow.down();
    let unpaced = Fabric::up(Transport::Udp, "star-2", &["--no-ip", "--unpaced"]);
    let report = unpaced.call(&json).success().json();
    let found = &report["calibration"];
    assert_eq!(found["fabric_time_scale"], Value::Null, "{found:#}");
    assert_eq!(found["keeps_pace"], Value::Null, "{found:#}");
    let [live, reference] =
        ["bits_per_second", "reference_bits_per_second"].map(|key| found[key].as_f64().expect(key));
    let scale = found["time_scale"].as_f64().expect("a time scale");
    assert!((scale - 110.0 * reference / live).abs() < 1e-3, "{found:#}");
    unpaced.down();
    let refused = ibemu_command(&["sim", "traffic", "star-2", "shift-1", "--calibrate"]).output();
    assert_eq!(refused.expect("a refusal").status.code(), Some(2));
}

#[test]
fn multicast_to_a_host_that_dies_is_lost_there_alone() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &["--no-ip"]);
    let multicast = ["traffic", "multicast", "--rate", "464k", "--count", "600"];
    let multicast = [&multicast[..], &["--json"]].concat();
    let (report, stderr) = killed_under(&fabric, ("h3", "h0"), &multicast);
    assert!(stderr.contains("h3"), "{stderr}");
    for flow in array(&report["flows"]) {
        assert_eq!(
            (&flow["offered"], &flow["sent"]),
            (&600.into(), &600.into())
        );
        let lost = if flow["destination"] == "h3" { 600 } else { 0 };
        assert_eq!(flow["lost"], lost, "{flow:#}");
        assert_eq!(flow["duplicates"], 0, "{flow:#}");
    }
    assert_eq!(report["total"]["flows"], 9, "those of h3 went down with it");
    fabric.down();
}

#[test]
fn connections_of_constant_rate_keep_their_times_and_the_report_has_plots() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    // At a time scale of 1000, 64 Mbit/s of a full link are 64 kbit/s: a packet of 98 bytes every 12.25 ms.
    let text = "[[flows]]\nname = 'voice'\npattern = 'shift-1'\nclass = 'dbts'\nrate = '64M'\nsize = 98\n\
                count = 50\ndeadline = 0.5\n\
                [[flows]]\nname = 'video'\npattern = 'shift-2'\nclass = 'db'\nrate = '300M'\nsize = 1026\ncount = 50\n";
    fs::write(&plan, text).expect("a plan");
    let plan = plan.to_str().expect("a path");
    let (live_folder, folder) = (folder.path().join("live"), folder.path().join("virtual"));
    let [live_folder, folder] = [&live_folder, &folder].map(|path| path.to_str().expect("a path"));
    let scale = ["--time-scale", "1000"];
    let fabric = Fabric::up(Transport::Udp, "star-4", &["--no-ip", scale[0], scale[1]]);
    let live = fabric.call(&["traffic", plan, "--json", "--report", live_folder]);
    let live = live.success().json();
    fabric.down();
    let arguments = [
        "sim", "traffic", "star-4", plan, "--json", "--report", folder,
    ];
    let simulated = ibemu_command(&arguments).args(scale).output();
    let simulated = simulated.expect("virtual time");
    assert!(simulated.status.success(), "{simulated:?}");
    let simulated: Value = serde_json::from_slice(&simulated.stdout).expect("a report");
    for report in [&live, &simulated] {
        is_whole(report);
        let [voice, video] = [0, 1].map(|at| &report["constant_rate"][at]);
        assert_eq!(
            (&voice["group"], &voice["class"]),
            (&"voice".into(), &"dbts".into())
        );
        // The third band of DBTS and the fourth of DB, behind best effort on 0.
        assert_eq!((&voice["sl"], &video["sl"]), (&7.into(), &4.into()));
        assert_eq!(voice["rate_bits_per_second"], 64_000);
        assert_eq!(
            (&voice["interval_ns"], &voice["packets"]),
            (&12_250_000.into(), &200.into())
        );
        assert_eq!(video["interval_ns"], 27_360_000, "{report:#}");
        let all = array(&voice["delays"]).last().expect("delays");
        assert_eq!(all["intervals"], 1.0);
    }
    // Two packets at most meet at a port, which takes 0.28 ms: in virtual time nothing is late.
    for group in array(&simulated["constant_rate"]) {
        assert_eq!(group["late"], 0, "{group:#}");
        for kind in ["delays", "jitter"] {
            let shares = array(&group[kind]).iter();
            let within: Vec<f64> = shares.map(|one| one["percent"].as_f64().unwrap()).collect();
            assert!(
                within.is_sorted() && within.last() == Some(&100.0),
                "{group:#}"
            );
        }
    }
    for folder in [live_folder, folder] {
        let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).expect(name);
        let flows = read("flows.csv");
        assert_eq!(flows.lines().count(), 1 + 8, "{flows}");
        assert!(flows.contains("h0,h1,voice,"), "{flows}");
        let latencies = read("latency.csv");
        let packets = latencies.lines().skip(1).map(|line| {
            let packets = line.rsplit(',').next().expect("a count");
            packets.parse::<u64>().expect("a number")
        });
        assert_eq!(packets.sum::<u64>(), 400, "{latencies}");
        let page = read("traffic.html");
        assert!(page.matches("<svg").count() >= 4, "{page}");
        assert!(
            page.contains("400 offered = 400 delivered + 0 lost + 0 not sent + 0 abandoned"),
            "{page}"
        );
    }
}

#[test]
fn a_plan_offers_and_delivers_the_same_live_and_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let text = "seed = 5\n\
                [[flows]]\npattern = 'permutation'\nrate = '2M'\ncount = 40\n\
                [[flows]]\npattern = 'centric-50'\ntarget = 'h2.1'\nrate = '1M'\ncount = 10\nsize = 1024\nstart = 0.1\n";
    fs::write(&plan, text).expect("a plan");
    let plan = plan.to_str().expect("a path");

    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &["--no-ip"]);
    let live = fabric.call(&["traffic", plan, "--json"]).success().json();
    let arguments = ["sim", "traffic", "fat-tree-4-2", plan, "--json"];
    let simulated = ibemu_command(&arguments).output().expect("virtual time");
    assert!(simulated.status.success(), "{simulated:?}");
    let simulated: Value = serde_json::from_slice(&simulated.stdout).expect("a report");
    is_whole(&live);
    is_whole(&simulated);
    let all = |report: &Value| -> Vec<Value> {
        let keys = [
            "source",
            "destination",
            "group",
            "dlid",
            "size",
            "offered",
            "sent",
            "delivered",
        ];
        let flows = array(&report["flows"]).iter();
        let kept = |flow: &Value| keys.map(|key| flow[key].clone()).into();
        flows.map(kept).collect()
    };
    assert_eq!(all(&live).len(), 8 + 8 * 7);
    assert_eq!(all(&live), all(&simulated));
    assert_eq!(
        live["packets"]["kinds"]["data"],
        simulated["packets"]["kinds"]["data"]
    );
}
