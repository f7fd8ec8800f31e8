//! Stock programs, which are not part of this project, judge the management plane.

use std::collections::BTreeSet;

use e2e::{Fabric, OpenSm, Transport, ibnetdiscover};
use topologies::Graph;

/// Cables as pairs of (name, port), whatever the order of nodes.
fn cables(graph: &Graph) -> BTreeSet<[(String, u8); 2]> {
    graph
        .links()
        .map(|(a, b)| {
            let mut ends = [a, b].map(|end| (graph.node(end.node).name.clone(), end.port.get()));
            ends.sort();
            ends
        })
        .collect()
}

/// Asserts that what `ibnetdiscover` lists is the fabric that was asked for.
fn lists_what_was_asked_for(fabric: &Fabric, host: &str, topology: &str) {
    let text = ibnetdiscover(fabric, host);
    let seen = topologies::read_text(&text).expect("ibnetdiscover's text is readable");
    let asked = topologies::parse(topology).expect("a topology").graph;
    assert_eq!(cables(&seen), cables(&asked));
    assert_eq!(seen.len(), asked.len());
}

#[test]
fn stock_opensm_brings_a_fat_tree_up_without_an_error_and_its_tables_reach_every_pair() {
    for transport in [Transport::Veth, Transport::Udp, Transport::Shm] {
        let fabric = Fabric::up(transport, "fat-tree-4-3", &["--sm", "none"]);
        let sm = OpenSm::start(&fabric, "h0.0.0", &[]);
        fabric
            .all_pairs()
            .expect("OpenSM's tables reach every pair");
        lists_what_was_asked_for(&fabric, "h1.0.0", "fat-tree-4-3");
        sm.assert_no_errors();
        drop(sm);
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn stock_opensm_manages_an_irregular_fabric_with_several_lids_a_port() {
    let fabric = Fabric::up(Transport::Udp, "irregular-8-2-4-7", &["--sm", "none"]);
    let sm = OpenSm::start(&fabric, "h3", &["--lmc", "2"]);
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");
    sm.assert_no_errors();
    drop(sm);
    fabric.down();
}

#[test]
fn stock_ibnetdiscover_lists_the_fabric_under_our_own_controller() {
    for (transport, topology, host) in [
        (Transport::Veth, "fat-tree-4-3", "h2.1.0"),
        (Transport::Udp, "irregular-8-2-4-7", "h5"),
    ] {
        let fabric = Fabric::up(transport, topology, &[]);
        lists_what_was_asked_for(&fabric, host, topology);
        fabric.down();
    }
}

#[test]
fn a_fabric_drawn_by_ibnetdiscover_comes_up_again_from_that_text() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &[]);
    let text = ibnetdiscover(&fabric, "h0.0");
    fabric.down();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("copy.topo");
    std::fs::write(&path, text).expect("a file");
    let copy = Fabric::up(Transport::Udp, path.to_str().expect("UTF-8"), &[]);
    copy.all_pairs().expect("every pair of the copy answers");
    copy.down();
}
