//! Windows without interference (CLOS04): permutations on ways that share no link, as the port
//! counters of the switches say.

use std::collections::BTreeSet;

use e2e::{Fabric, Transport, within};
use serde_json::Value;
use std::time::Duration;

const PACKETS: u64 = 500;

fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value[name].as_array();
    list.unwrap_or_else(|| panic!("no list {name} in {value:#}"))
}

/// The leaf of a host: four hosts a leaf, in order.
fn leaf(name: &Value) -> usize {
    let number = name.as_str().and_then(|name| name.strip_prefix('h'));
    let number = number.and_then(|number| number.parse::<usize>().ok());
    number.unwrap_or_else(|| panic!("{name} is no host")) / 4
}

/// All pairs of a round were served, and each link between switches carried one of them or none.
fn check(round: &Value) {
    let pairs = array(round, "pairs");
    assert!(pairs.len() >= 8, "{round:#}");
    let (mut up, mut down) = (BTreeSet::new(), BTreeSet::new());
    for pair in pairs {
        assert_eq!(pair["delivered"], PACKETS, "{pair:#}");
        let (from, to) = (leaf(&pair["source"]), leaf(&pair["destination"]));
        if from != to {
            let tree = pair["tree"].as_u64().expect("a tree");
            assert!(up.insert((from, tree)), "{round:#}");
            assert!(down.insert((to, tree)), "{round:#}");
        }
    }
    // LRH to ICRC.
    let flow_bytes = PACKETS * 2080;
    let mut used = 0;
    for link in array(round, "links") {
        let bytes = link["bytes"].as_u64().expect("a number");
        let quiet = bytes < flow_bytes / 10;
        let alone = (flow_bytes..flow_bytes * 11 / 10).contains(&bytes);
        assert!(quiet || alone, "{link:#}");
        used += usize::from(alone);
    }
    assert_eq!(used, up.len() + down.len(), "each way uses two links");
}

#[test]
fn random_permutations_share_no_link() {
    let fabric = Fabric::up(Transport::Udp, "clos-4-4-4", &["--routing", "clos"]);
    let packets = PACKETS.to_string();
    let run = ["clos", "run", "--count", "6", "--seed", "11"];
    let run: Vec<&str> = run
        .iter()
        .chain(&["--packets", &packets, "--json"])
        .copied()
        .collect();
    let report = fabric.call(&run).success().json();
    assert_eq!(report["state"]["trees"], 4, "{report:#}");
    assert_eq!(report["state"]["blocked"], 0, "{report:#}");
    for round in array(&report, "rounds") {
        check(round);
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn parallel_cables_are_trees_too_and_every_shift_is_served() {
    let fabric = Fabric::up(
        Transport::Udp,
        "clos-4-4-2-2",
        &["--routing", "clos", "--windows", "200"],
    );
    let packets = PACKETS.to_string();
    let run = ["clos", "run", "--permutation", "shift", "--count", "5"];
    let run: Vec<&str> = run
        .iter()
        .chain(&["--packets", &packets, "--json"])
        .copied()
        .collect();
    let report = fabric.call(&run).success().json();
    assert_eq!(report["state"]["windows_per_s"], 200);
    for round in array(&report, "rounds") {
        assert_eq!(array(round, "pairs").len(), 16);
        check(round);
    }
    fabric.down();
}

#[test]
fn packets_go_round_a_pulled_cable_and_windows_return_with_it() {
    let fabric = Fabric::up(Transport::Udp, "clos-2-2-2", &["--routing", "clos"]);
    let engine = |wanted: &'static str| {
        within(Duration::from_secs(20), wanted, || {
            let status = fabric.status();
            let engine = status["sm"]["engine"].as_str().unwrap_or_default();
            match engine.starts_with(wanted) && status["sm"]["phase"] == "up" {
                true => Ok(()),
                false => Err(status["sm"].to_string()),
            }
        });
    };
    let _ = fabric.call(&["clos", "run", "--packets", "100"]).success();
    let port = fabric
        .call(&["path", "h0", "h2", "--json"])
        .success()
        .json();
    let hop = &port["hops"][1];
    let cable = format!("{}:{}", hop["node"].as_str().expect("a name"), hop["out"]);
    let _ = fabric.call(&["link", "down", &cable]).success();
    engine("updn");
    fabric.all_pairs().expect("round the cable");
    let refused = fabric.call(&["clos", "run", "--packets", "100"]);
    refused.fails_with(1, "no routing trees");
    let _ = fabric.call(&["link", "up", &cable]).success();
    engine("clos");
    let _ = fabric.call(&["clos", "run", "--packets", "100"]).success();
    fabric.down();
}
