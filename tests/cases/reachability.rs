//! Packets cross every fabric, over all transports, and the tables are those computed offline.

use e2e::{Fabric, Transport};

/// `up` itself verifies; `ping --all` asks once more, and the status must agree.
fn every_pair_answers(transport: Transport, topology: &str, hosts: usize, switches: usize) {
    let fabric = Fabric::up(transport, topology, &["--verify", "all"]);
    fabric.all_pairs().expect("every pair of hosts answers");
    let status = fabric.status();
    let devices = status["devices"].as_array().expect("devices");
    let of_kind = |kind: &str| {
        devices
            .iter()
            .filter(|device| device["kind"] == kind)
            .count()
    };
    assert_eq!(
        (of_kind("host"), of_kind("switch")),
        (hosts, switches),
        "{status:#}"
    );
    for device in devices {
        assert_eq!(
            device["ports_active"], device["ports_connected"],
            "{device:#}"
        );
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn every_pair_of_a_fat_tree_answers_over_veth() {
    every_pair_answers(Transport::Veth, "fat-tree-4-3", 16, 20);
}

#[test]
fn every_pair_of_a_fat_tree_answers_over_udp() {
    every_pair_answers(Transport::Udp, "fat-tree-4-3", 16, 20);
}

#[test]
fn every_pair_of_a_fat_tree_answers_in_shared_memory() {
    every_pair_answers(Transport::Shm, "fat-tree-4-3", 16, 20);
}

#[test]
fn every_pair_of_an_irregular_fabric_answers_in_shared_memory() {
    every_pair_answers(Transport::Shm, "irregular-8-2-4-7", 16, 8);
}

#[test]
fn every_pair_of_an_irregular_fabric_answers_over_veth() {
    every_pair_answers(Transport::Veth, "irregular-8-2-4-7", 16, 8);
}

#[test]
fn every_pair_of_an_irregular_fabric_answers_over_udp() {
    every_pair_answers(Transport::Udp, "irregular-8-2-4-7", 16, 8);
}

#[test]
fn every_kind_of_topology_comes_up() {
    for (topology, hosts, switches) in [
        ("star-3", 3, 1),
        ("clos-2-2-2-2", 4, 4),
        ("hypercube-2-1", 4, 4),
        ("mesh-2x2-1", 4, 4),
        ("torus-3x3-1", 9, 9),
        ("ring-5-1", 5, 5),
    ] {
        every_pair_answers(Transport::Udp, topology, hosts, switches);
    }
}

#[test]
fn two_fabrics_of_one_topology_stand_side_by_side() {
    let one = Fabric::up(Transport::Veth, "star-2", &[]);
    let other = Fabric::up(Transport::Veth, "star-2", &[]);
    one.all_pairs().expect("the first fabric");
    other.all_pairs().expect("the second fabric");
    one.down();
    other
        .all_pairs()
        .expect("the second fabric, after the first went down");
    other.down();
}

#[test]
fn each_of_a_hosts_lids_takes_its_own_way_to_it() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    let mut roots = std::collections::BTreeSet::new();
    for offset in ["0", "1", "2", "3"] {
        let ping = [
            "ping",
            "h0.0.0",
            "h3.0.0",
            "--count",
            "2",
            "--dlid-offset",
            offset,
        ];
        let _ = fabric.call(&ping).success();
        let path = ["path", "h0.0.0", "h3.0.0", "--dlid-offset", offset];
        let path = fabric.call(&path).success();
        let root = path
            .stdout
            .split_whitespace()
            .find(|word| word.starts_with("s0."))
            .unwrap_or_else(|| panic!("no root switch in {path}"));
        roots.insert(
            root.trim_end_matches(|c: char| !c.is_ascii_digit())
                .to_owned(),
        );
    }
    assert_eq!(
        roots.len(),
        4,
        "four LIDs, four roots (MLID04 figure 11): {roots:?}"
    );
    fabric.down();
}

#[test]
fn traffic_takes_the_lid_that_the_routing_has_chosen_for_its_source() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    // MLID04 4.2: the ranks 0 to 3 of gcpg(0, 1) select the LIDs 52 to 55 of P(300), aligned.
    for (source, dlid) in [
        ("h0.0.0", 52),
        ("h0.0.1", 53),
        ("h0.1.0", 54),
        ("h0.1.1", 55),
    ] {
        let perf = ["perf", source, "h3.0.0", "--count", "10", "--json"];
        let report = fabric.call(&perf).success().json();
        assert_eq!(report["flows"][0]["dlid"], dlid, "{report:#}");
        assert_eq!(report["total"]["delivered"], 10, "{report:#}");
    }
    fabric.down();
}

#[test]
fn nothing_is_lost_when_every_host_sends_to_every_other() {
    for transport in [Transport::Udp, Transport::Shm] {
        let fabric = Fabric::up(transport, "fat-tree-4-2", &["--unpaced"]);
        let perf = ["perf", "--all", "--size", "256", "--count", "500", "--json"];
        let report = fabric.call(&perf).success().json();
        let total = &report["total"];
        assert_eq!(total["offered"], total["delivered"], "{report:#}");
        assert_eq!(total["lost"], 0, "{report:#}");
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}
