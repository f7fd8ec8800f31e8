use std::collections::BTreeSet;

use super::*;
use crate::graph::{Graph, NodeId, NodeKind};
use crate::kinds::tests::{graph, refused};

fn connected(graph: &Graph) -> bool {
    let mut seen = BTreeSet::new();
    let mut next: Vec<NodeId> = graph.ids().take(1).collect();
    while let Some(node) = next.pop() {
        if seen.insert(node) {
            next.extend(graph.cables(node).map(|(_, peer)| peer.node));
        }
    }
    seen.len() == graph.len()
}

fn between_switches(graph: &Graph) -> usize {
    let is_switch = |node| graph.node(node).kind == NodeKind::Switch;
    let links = graph.links();
    links
        .filter(|(a, b)| is_switch(a.node) && is_switch(b.node))
        .count()
}

#[test]
fn every_seed_gives_one_connected_fabric() {
    for seed in 0..200 {
        let plan = AsBuilt {
            failed_percent: 60,
            ..AsBuilt::new(6, 4, 4, 2, seed)
        };
        let fabric = plan.graph().unwrap();
        assert!(connected(&fabric), "{plan:?}");
        assert_eq!(fabric, plan.graph().unwrap());
    }
    assert_ne!(graph("as-built-6-4-4-2-1"), graph("as-built-6-4-4-2-2"));
}

#[test]
fn a_name_gives_some_of_every_irregularity() {
    let fabric = &graph("as-built-8-12-4-2-3");
    let count = |word: &str| {
        let named = fabric.ids().map(|id| &fabric.node(id).name);
        named.filter(|name| name.starts_with(word)).count()
    };
    assert_eq!(
        ["leaf", "spine", "core", "service", "aggregation"].map(count),
        [8, 4, 2, 2, 14]
    );
    let rails: BTreeSet<u8> = fabric.hosts().map(|h| fabric.node(h).ports).collect();
    assert_eq!(rails, [1, 2].into());
    let hosts = |switch: NodeId| {
        let peers = fabric.cables(switch);
        let hosts = peers.filter(|(_, peer)| fabric.node(peer.node).kind == NodeKind::Host);
        hosts.count()
    };
    let leaves = fabric.switches().take(8).map(hosts);
    assert!(leaves.collect::<BTreeSet<_>>().len() > 1);
    assert!(fabric.links().any(|(a, b)| a.node == b.node));
    let rates: BTreeSet<_> = fabric.links().map(|(a, _)| fabric.rate(a)).collect();
    assert!(rates.len() > 4, "{rates:?}");
    let service = fabric.find("service0").unwrap();
    let (_, at) = fabric.cables(service).next().unwrap();
    assert!(!fabric.node(at.node).name.starts_with("leaf"));
}

#[test]
fn no_cable_has_failed_unless_asked_and_a_spanning_tree_is_left_if_all_have() {
    let plan = AsBuilt {
        uplinks_max: 1,
        failed_percent: 0,
        loopbacks: 0,
        ..AsBuilt::new(4, 2, 2, 0, 1)
    };
    assert_eq!(between_switches(&plan.graph().unwrap()), 8);
    let plan = AsBuilt {
        failed_percent: 100,
        ..plan
    };
    assert_eq!(between_switches(&plan.graph().unwrap()), 5);
}

#[test]
fn impossible_numbers_are_refused_with_the_reason() {
    refused("as-built-0-4-2-2-1", "LEAVES is 0");
    refused("as-built-8-4-2-255-1", "CORES is 255");
    refused("as-built-8-254-254-0-1", "a leaf would need 381 ports");
    refused("as-built-200-254-8-0-1", "need");
    let plan = AsBuilt {
        failed_percent: 101,
        ..AsBuilt::new(2, 2, 2, 0, 1)
    };
    let message = plan.graph().unwrap_err().to_string();
    assert!(message.contains("failed cables is 101"), "{message}");
}
