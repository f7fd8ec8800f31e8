//! Routing engines on live fabrics: what stock programs read back from the switches is what is
//! computed offline, and packets take it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{Fabric, Outcome, Station, Transport, diags, ibemu_command, within};
use serde_json::Value;
use topologies::Graph;
use wire::{Guid, Lid, PortNum};

/// By switch and LID the port.
pub(crate) type Tables = BTreeMap<Guid, BTreeMap<Lid, PortNum>>;

fn offline(topology: &str, routing: &str, output: &[&str]) -> Outcome {
    let mut arguments = vec!["route", topology, "--routing", routing];
    arguments.extend(output);
    Outcome::of(&mut ibemu_command(&arguments)).success()
}

fn tables(dump: &str) -> Tables {
    let dumps = routing::dump::read(dump).unwrap_or_else(|error| panic!("{error} in {dump}"));
    let entries = |dump: &routing::dump::SwitchDump| {
        let lids = dump.lines.keys();
        lids.map(|&lid| (lid, dump.lft.get(lid))).collect()
    };
    dumps
        .iter()
        .map(|dump| (dump.guid, entries(dump)))
        .collect()
}

/// The tables of all switches, read by stock `dump_fts` beside `host`.
pub(crate) fn read_back(fabric: &Fabric, host: &str) -> Tables {
    tables(&diags(fabric, host, &["dump_fts"]).success().stdout)
}

fn graph(topology: &str) -> Graph {
    topologies::parse(topology).expect("a topology").graph
}

/// The status once it is as wanted.
fn status_with(fabric: &Fabric, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    within(Duration::from_secs(20), what, || {
        let status = fabric.status()["sm"].clone();
        match status["phase"] == "up" && wanted(&status) {
            true => Ok(status),
            false => Err(format!("{status:#}")),
        }
    })
}

/// Asserts that stock `smpquery` reads the VLs of `route --json` from every pair of connected
/// ports of every switch.
fn assert_vls(fabric: &Fabric, host: &str, topology: &str, sl2vl: &Value) {
    let graph = graph(topology);
    let row = |value: &Value| -> Vec<u64> {
        let vls = value.as_array().expect("VLs by level");
        vls.iter().filter_map(Value::as_u64).collect()
    };
    let listed = |node: &str, input: u64, output: u64| {
        let ports = sl2vl["ports"].as_array().expect("pairs of ports");
        let own = ports
            .iter()
            .find(|pair| pair["node"] == node && pair["in"] == input && pair["out"] == output);
        row(own.map_or(&sl2vl["all"], |pair| &pair["vl"]))
    };
    let mut station = Station::beside(fabric, host);
    for switch in graph.switches() {
        let name = &graph.node(switch).name;
        let lid = fabric.switch_ports(name)[0].lid;
        for (output, _) in graph.cables(switch) {
            let output = u64::from(output.get());
            let query = format!("smpquery sl2vl {lid} {output}");
            let printed = station.run(&query).success().stdout;
            let rows = printed.lines().filter_map(|line| {
                let (ports, vls) = line.strip_prefix("ports: in ")?.split_once(": |")?;
                let (input, _) = ports.split_once(',')?;
                let vls = vls.split('|').filter_map(|vl| vl.trim().parse().ok());
                Some((input.trim().parse::<u64>().ok()?, vls.collect::<Vec<u64>>()))
            });
            let connected: Vec<u64> = graph
                .cables(switch)
                .map(|(port, _)| u64::from(port.get()))
                .chain([0])
                .collect();
            let mut seen = 0;
            for (input, vls) in rows.filter(|(input, _)| connected.contains(input)) {
                assert_eq!(
                    vls,
                    listed(name, input, output),
                    "{name} {input} to {output}"
                );
                seen += 1;
            }
            assert_eq!(seen, connected.len(), "{printed}");
        }
    }
}

/// Asserts that path records name the DLID and the level of the engine, and returns the levels.
fn assert_levels(fabric: &Fabric, topology: &str, routing: &str) -> Vec<u64> {
    let graph = graph(topology);
    let hosts: Vec<&str> = graph
        .hosts()
        .map(|id| graph.node(id).name.as_str())
        .collect();
    let mut levels = Vec::new();
    for from in &hosts {
        for to in hosts.iter().filter(|&to| to != from) {
            let pair = format!("{from},{to}");
            let wanted = offline(topology, routing, &["--path", &pair, "--json"]).json();
            let path = fabric.call(&["path", from, to, "--json"]).success().json();
            assert_eq!(
                (&path["dlid"], &path["sl"]),
                (&wanted["dlid"], &wanted["sl"]),
                "{pair}"
            );
            levels.push(path["sl"].as_u64().expect("a level"));
        }
    }
    levels
}

#[test]
fn dfsssp_carries_traffic_both_ways_round_a_ring_on_levels_and_vls_of_its_own() {
    let topology = "ring-6-1";
    let fabric = Fabric::up(Transport::Veth, topology, &["--routing", "dfsssp"]);
    let report = offline(topology, "dfsssp", &["--json"]).json();
    assert_vls(&fabric, "h1", topology, &report["sl2vl"]);
    let levels = assert_levels(&fabric, topology, "dfsssp");
    assert!(levels.contains(&0) && levels.contains(&1), "{levels:?}");
    assert_eq!(
        read_back(&fabric, "h3"),
        tables(&offline(topology, "dfsssp", &["--dump", "lft"]).stdout)
    );
    fabric.all_pairs().expect("every pair answers on its level");
    let perf = [
        "perf", "--all", "--size", "2048", "--count", "300", "--json",
    ];
    let perf = fabric.call(&perf).success().json();
    assert_eq!(perf["total"]["delivered"], 30 * 300, "{perf:#}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn nue_and_lash_carry_traffic_on_levels_and_vls_of_their_own() {
    let topology = "ring-5-1";
    for (transport, routing) in [(Transport::Veth, "nue"), (Transport::Udp, "lash")] {
        let fabric = Fabric::up(transport, topology, &["--routing", routing]);
        let report = offline(topology, routing, &["--json"]).json();
        assert_vls(&fabric, "h1", topology, &report["sl2vl"]);
        let levels = assert_levels(&fabric, topology, routing);
        assert!(levels.contains(&0) && levels.contains(&1), "{levels:?}");
        assert_eq!(read_back(&fabric, "h1"), dumped(topology, routing));
        fabric.all_pairs().expect("every pair answers on its level");
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

/// The tables that are computed offline, as `route --dump` writes them.
fn dumped(topology: &str, routing: &str) -> Tables {
    tables(&offline(topology, routing, &["--dump", "lft"]).stdout)
}

#[test]
fn ftree_carries_traffic_on_a_tree_that_lacks_cables_and_has_more_hosts_than_uplinks() {
    // Two cores, aggregation nodes, hosts with two cables, cables that failed.
    let topology = "as-built-4-3-2-2-1";
    let fabric = Fabric::up(Transport::Veth, topology, &["--routing", "ftree"]);
    assert_eq!(read_back(&fabric, "h1"), dumped(topology, "ftree"));
    fabric.all_pairs().expect("every pair answers");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn torus_2qos_carries_traffic_on_both_levels_of_service_with_and_without_a_cable() {
    let topology = "torus-5x3-1";
    let options = ["--routing", "torus-2qos", "--vls", "8"];
    let fabric = Fabric::up(Transport::Udp, topology, &options);
    let whole = dumped_with_eight_vls(topology);
    assert_eq!(read_back(&fabric, "h0"), whole);
    let on_both_levels = || {
        fabric.all_pairs().expect("every pair answers");
        let path = fabric.call(&["path", "h1", "h13", "--json"]).success();
        let level = path.json()["sl"].as_u64().expect("a level");
        let second = (level + u64::from(routing::SECOND_LEVEL)).to_string();
        let ping = ["ping", "h1", "h13", "--count", "2", "--sl", &second];
        let _ = fabric.call(&ping).success();
    };
    on_both_levels();
    let cable = cable_between(topology, ["s1", "s2"]);
    let _ = fabric.call(&["link", "down", &cable]).success();
    status_with(&fabric, "the cable is missed", |status| {
        status["degraded"] == true
    });
    assert_ne!(read_back(&fabric, "h0"), whole);
    on_both_levels();
    let status = fabric.status();
    assert_eq!(status["sm"]["warnings"], serde_json::json!([]));
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// The end of the cable from one node to another, as `ibemu link` takes it.
fn cable_between(topology: &str, [from, to]: [&str; 2]) -> String {
    let graph = graph(topology);
    let [one, other] = [from, to].map(|name| graph.find(name).expect("a node"));
    let mut cables = graph.cables(one);
    let cable = cables.find(|(_, peer)| peer.node == other);
    format!("{from}:{}", cable.expect("a cable").0)
}

/// The same of torus-2qos on ports of eight data VLs.
fn dumped_with_eight_vls(topology: &str) -> Tables {
    let options = ["--vls", "8", "--dump", "lft"];
    tables(&offline(topology, "torus-2qos", &options).stdout)
}

#[test]
fn up_tells_what_the_fabric_is_built_of() {
    let fabric = Fabric::planned(Transport::Udp);
    let up = fabric.try_up("dragonfly-3-3-1", &[]).success();
    let line = "  structure 3 groups of 3 switches, joined as in a dragonfly";
    assert!(up.stdout.lines().any(|printed| printed == line), "{up}");
    fabric.all_pairs().expect("every pair answers");
    fabric.down();
}

#[test]
fn dimension_order_has_a_vl_for_each_side_of_the_dateline_of_each_dimension() {
    let topology = "torus-5x5-1";
    let fabric = Fabric::up(
        Transport::Udp,
        topology,
        &["--routing", "dor", "--vls", "2", "--verify", "sample"],
    );
    let report = offline(topology, "dor", &["--json"]).json();
    assert_vls(&fabric, "h7", topology, &report["sl2vl"]);
    assert_eq!(
        read_back(&fabric, "h0"),
        tables(&offline(topology, "dor", &["--dump", "lft"]).stdout)
    );
    fabric.all_pairs().expect("every pair answers");
    fabric.down();
}

#[test]
fn dimension_order_on_a_hypercube_outlives_a_cable_by_tables_that_are_repaired() {
    let topology = "hypercube-3-1";
    let fabric = Fabric::up(Transport::Udp, topology, &["--routing", "dor"]);
    let whole = tables(&offline(topology, "dor", &["--dump", "lft"]).stdout);
    assert_eq!(read_back(&fabric, "h2"), whole);
    let warned = |status: &Value| status["warnings"].to_string().contains("--routing dor: ");

    let _ = fabric.call(&["link", "down", "s0:4"]).success();
    let status = status_with(&fabric, "the damage is reported", warned);
    assert!(
        status["warnings"].to_string().contains("rerouted"),
        "{status:#}"
    );
    assert_eq!(status["degraded"], true);
    fabric.all_pairs().expect("round the cable");
    let repaired = read_back(&fabric, "h2");
    let count = |tables: &Tables| tables.values().flatten().count();
    let moved = whole.iter().map(|(guid, old)| {
        let new = &repaired[guid];
        old.iter()
            .filter(|(lid, port)| new.get(lid) != Some(port))
            .count()
    });
    assert!(
        moved.sum::<usize>() < count(&whole) / 2,
        "most entries stay"
    );
    let log = std::fs::read_to_string(fabric.dir().join("log/controller.log")).expect("a log");
    assert!(log.contains("--routing dor: "), "{log}");
    let status = fabric.call(&["status"]).success().stdout;
    assert!(status.contains("--routing dor: "), "{status}");

    // A manager that starts on the damaged fabric comes to the same.
    let _ = fabric.call(&["restart", "controller"]).success();
    status_with(&fabric, "the damage is reported again", warned);
    assert_eq!(read_back(&fabric, "h2"), repaired);

    let _ = fabric.call(&["link", "up", "s0:4"]).success();
    status_with(&fabric, "the cube is whole", |status| {
        status["degraded"] == false && !warned(status)
    });
    assert_eq!(read_back(&fabric, "h2"), whole);
    fabric.all_pairs().expect("as before");
    fabric.down();
}

#[test]
fn paths_of_lid07_are_on_the_fabric_with_as_many_lids_as_they_take() {
    let topology = "irregular-8-2-3-7";
    for (transport, routing) in [
        (Transport::Veth, "path-selection"),
        (Transport::Udp, "shortest-widest"),
    ] {
        let fabric = Fabric::up(transport, topology, &["--routing", routing]);
        let report = offline(topology, routing, &["--json"]).json();
        assert!(report["lmc"].as_u64() > Some(0), "{report:#}");
        for node in report["nodes"].as_array().expect("nodes") {
            let device = fabric.device(node["name"].as_str().expect("a name"));
            assert_eq!(
                (&device["lid"], &device["lmc"]),
                (&node["lid"], &node["lmc"]),
                "{node}"
            );
        }
        let live = read_back(&fabric, "h3");
        let graph = graph(topology);
        for switch in graph.switches() {
            let node = graph.node(switch);
            let wanted = report["lft"][&node.name].as_object().expect("a table");
            let held: BTreeMap<String, u64> = live[&node.guid]
                .iter()
                .map(|(lid, port)| (lid.get().to_string(), u64::from(port.get())))
                .collect();
            assert_eq!(
                serde_json::json!(held),
                Value::Object(wanted.clone()),
                "{}",
                node.name
            );
        }
        // To the LID that the scheme has for the pair, and to the first one.
        fabric.all_pairs().expect("every pair answers");
        let _ = fabric
            .call(&["ping", "--all", "--count", "1", "--dlid-offset", "0"])
            .success();
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("tables.txt");
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn tables_of_ones_own_are_installed_as_they_are_and_read_back_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let topology = "irregular-8-2-3-7";
    let text = offline(topology, "path-selection", &["--dump", "lft"]).stdout;
    let path = file(folder.path(), &text);
    let own = [
        "--routing",
        "file",
        "--tables",
        path.to_str().expect("UTF-8"),
    ];
    let fabric = Fabric::up(Transport::Veth, topology, &own);
    assert_eq!(read_back(&fabric, "h3"), tables(&text));
    // One switch, by the program for one switch.
    let lid = fabric.device("s2")["lid"].to_string();
    let one = tables(&diags(&fabric, "h5", &["ibroute", &lid]).success().stdout);
    assert_eq!(one.len(), 1);
    assert!(
        one.iter()
            .all(|(guid, table)| tables(&text)[guid] == *table)
    );
    fabric.all_pairs().expect("every pair answers");

    // The controller has a copy of its own.
    std::fs::remove_file(&path).expect("the file goes");
    let _ = fabric.call(&["restart", "controller"]).success();
    let status = status_with(&fabric, "the controller is back", |status| {
        status["engine"] == "file"
    });
    assert_eq!(status["warnings"], serde_json::json!([]));

    // What a stock program has dumped from this fabric serves for the next one.
    let dumped = diags(&fabric, "h3", &["dump_fts"]).success().stdout;
    fabric.down();
    let path = file(folder.path(), &dumped);
    let own = [
        "--routing",
        "file",
        "--tables",
        path.to_str().expect("UTF-8"),
    ];
    let fabric = Fabric::up(Transport::Udp, topology, &own);
    assert_eq!(read_back(&fabric, "h3"), tables(&text));
    fabric.down();
}

#[test]
fn tables_of_ones_own_have_the_service_levels_that_are_given_with_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let topology = "ring-5-1";
    let written = |kind: &str| {
        let text = offline(topology, "dfsssp", &["--dump", kind]).stdout;
        let path = folder.path().join(kind);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (tables, levels) = (written("lft"), written("sl"));
    let own = ["--routing", "file", "--tables", &tables, "--sls", &levels];
    let fabric = Fabric::planned(Transport::Udp);
    let up = fabric.try_up(topology, &own).success();
    assert!(!up.stderr.contains("no service levels"), "{up}");
    let is_safe = |status: &Value| {
        let warnings = status["warnings"].to_string();
        !warnings.contains("credit loop among packets between hosts:")
    };
    // The controller reads copies of its own when it starts anew.
    for path in [&tables, &levels] {
        std::fs::remove_file(path).expect("the file goes");
    }
    let _ = fabric.call(&["restart", "controller"]).success();
    let status = status_with(&fabric, "the controller is back", |status| {
        status["engine"] == "file"
    });
    assert!(is_safe(&status), "{status:#}");
    fabric.all_pairs().expect("every pair answers");
    let records = diags(&fabric, "h3", &["saquery", "PR"]).success().stdout;
    let answered = folder.path().join("records");
    std::fs::write(&answered, &records).expect("a file");
    let (tables, levels) = (written("lft"), written("sl"));
    let answered = answered.to_str().expect("UTF-8");
    let verify = |sls: &[&str]| {
        let line = [&["verify", topology, "--tables", &tables], sls].concat();
        Outcome::of(&mut ibemu_command(&line))
    };
    let _ = verify(&["--sls", &levels]).success();
    let _ = verify(&["--sls", answered]).success();
    let on_one_vl = verify(&[]);
    on_one_vl.fails_with(1, "there is 1 problem");
    assert!(
        on_one_vl.stdout.contains("deadlock: credit loop"),
        "{on_one_vl}"
    );
    fabric.assert_no_errors_logged();
    fabric.down();

    // Without them it says what was judged, and what follows.
    let fabric = Fabric::planned(Transport::Udp);
    let up = fabric.try_up(topology, &["--routing", "file", "--tables", &tables]);
    let up = up.success();
    assert!(up.stderr.contains("no service levels are given"), "{up}");
    assert!(!is_safe(&status_with(&fabric, "it is up", |_| true)));
    fabric.down();

    // More than ports have, or of a port that is not there.
    for (options, text, reason) in [
        (&["--vls", "1"][..], None, "ports have 1 data VLs"),
        (&[], Some("nonsense"), "line 1"),
    ] {
        if let Some(text) = text {
            std::fs::write(&levels, text).expect("a file");
        }
        let own = ["--routing", "file", "--tables", &tables, "--sls", &levels];
        let fabric = Fabric::planned(Transport::Udp);
        let refused = fabric.try_up(topology, &[&own, options].concat());
        refused.fails_with(2, reason);
        refused.fails_with(2, &levels);
        fabric.assert_gone();
    }
}

#[test]
fn tables_that_do_not_serve_the_fabric_are_refused_with_their_line_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = offline("ring-5-1", "updn", &["--dump", "lft"]).stdout;
    let line = |number: usize| good.lines().nth(number - 1).expect("a line").to_owned();
    let replaced = |number: usize, by: &str| good.replacen(&line(number), by, 1);
    let other_guid = replaced(
        1,
        "Unicast lids of switch Lid 6 guid 0x00000000000000ff (x):",
    );
    let without_entry = replaced(6, "#");
    for (text, reasons) in [
        (replaced(5, "0x0002 009 : ()"), ["line 5", "ports 0 to"]),
        (replaced(5, "0xc002 001 : ()"), ["line 5", "unicast LID"]),
        (replaced(5, "0x0001 001 : ()"), ["line 5", "above already"]),
        (replaced(4, "nonsense"), ["line 4", "not understood"]),
        (other_guid, ["line 1", "no switch 0x00000000000000ff"]),
        (without_entry, ["s0", "has no entry"]),
        (String::new(), ["line 1", "no table"]),
    ] {
        let path = file(folder.path(), &text);
        let fabric = Fabric::planned(Transport::Udp);
        let path = path.to_str().expect("UTF-8");
        let refused = fabric.try_up("ring-5-1", &["--routing", "file", "--tables", path]);
        for reason in reasons {
            refused.fails_with(2, reason);
        }
        refused.fails_with(2, path);
        fabric.assert_gone();
    }
    let fabric = Fabric::planned(Transport::Udp);
    let refused = fabric.try_up("ring-5-1", &["--routing", "updn", "--tables", "x"]);
    refused.fails_with(2, "--routing file");
    fabric.assert_gone();
}

#[test]
fn an_engine_that_needs_more_vls_than_links_have_says_so() {
    let fabric = Fabric::planned(Transport::Udp);
    let refused = fabric.try_up("ring-6-1", &["--routing", "dfsssp", "--vls", "1"]);
    refused.fails_with(2, "needs 2 data VLs");
    fabric.assert_gone();
}
