//! Fat trees are recognised by their cables, and labels agree with those computed offline.

use routing::{LabelsDoNotFit, NotFatTree, Options, recognise};
use topologies::{FatTree, Graph, Node};
use wire::{Guid, PortNum};

use crate::support::{bytes, checked, fabric, rebuilt, recabled, shuffled, without};

const SHAPES: [(u64, u64); 10] = [
    (2, 1),
    (2, 3),
    (4, 1),
    (4, 2),
    (4, 3),
    (4, 4),
    (6, 2),
    (6, 3),
    (8, 2),
    (8, 3),
];

/// The same fabric with names that say nothing and GUIDs in another order.
fn anonymised(graph: &Graph) -> Graph {
    let order: Vec<_> = graph.ids().collect();
    let change = |node: &Node| Node {
        name: format!("node-{:x}", node.guid.0.reverse_bits()),
        guid: Guid(node.guid.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ..node.clone()
    };
    rebuilt(graph, &order, change, |end| Some(end.port))
}

#[test]
fn ports_that_follow_the_rule_give_every_label_whatever_names_guids_and_order() {
    for (m, n) in SHAPES {
        let tree = FatTree::new(m, n).unwrap();
        let graph = tree.graph().unwrap();
        for seed in 0..3 {
            let other = shuffled(&anonymised(&graph), seed);
            let labels = recognise(&other).unwrap();
            assert_eq!(labels.tree(), &tree);
            assert!(labels.follows_the_paper());
            // A node's name is hidden, but its GUID identifies it.
            for pid in 0..tree.hosts() {
                let guid = topologies::host_guid(pid as usize).0;
                let guid = Guid(guid.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                assert_eq!(labels.pid(guid), Some(pid));
            }
            for label in tree.labels() {
                let guid = topologies::switch_guid(tree.ordinal(label)).0;
                let guid = Guid(guid.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                assert_eq!(labels.switch(guid), Some(label));
            }
        }
    }
}

#[test]
fn a_live_fabric_gets_the_tables_computed_offline() {
    for name in ["fat-tree-4-3", "fat-tree-8-2"] {
        let offline = fabric(name);
        let wanted = bytes(&offline, &checked(&offline, "auto", &Options::default()));
        let live = shuffled(&offline, 11);
        let tables = checked(&live, "auto", &Options::default());
        assert_eq!(tables.engine, routing::RoutingEngine::Mlid);
        assert_eq!(bytes(&live, &tables), wanted);
    }
}

#[test]
fn with_cables_in_other_ports_names_decide_and_lids_stay() {
    // In smaller trees exchanged ports may follow the rule as well, and then come first.
    for (m, n) in SHAPES.into_iter().filter(|&(m, n)| m > 2 && n > 1) {
        let tree = FatTree::new(m, n).unwrap();
        let graph = recabled(&tree.graph().unwrap(), 5);
        let labels = recognise(&graph).unwrap();
        for pid in 0..tree.hosts() {
            assert_eq!(labels.pid(topologies::host_guid(pid as usize)), Some(pid));
        }
        for label in tree.labels() {
            let guid = topologies::switch_guid(tree.ordinal(label));
            assert_eq!(labels.switch(guid), Some(label));
        }
        checked(&graph, "slid", &Options::default());
    }
}

#[test]
fn without_ports_or_names_to_go_by_the_structure_is_enough() {
    for (m, n) in SHAPES {
        let tree = FatTree::new(m, n).unwrap();
        let graph = tree.graph().unwrap();
        for seed in 0..4 {
            let plain = anonymised(&recabled(&graph, seed));
            let labels = recognise(&plain).unwrap();
            assert_eq!(labels.tree(), &tree);
            let engine = if tree.half().is_power_of_two() {
                "mlid"
            } else {
                "slid"
            };
            let tables = checked(&plain, engine, &Options::default());
            let other = shuffled(&plain, seed + 100);
            assert_eq!(recognise(&other).unwrap(), labels);
            let shuffled = checked(&other, engine, &Options::default());
            assert_eq!(bytes(&other, &shuffled), bytes(&plain, &tables));
        }
    }
}

#[test]
fn switches_may_have_more_ports_than_cables() {
    let graph = fabric("fat-tree-4-3");
    let order: Vec<_> = graph.ids().collect();
    let larger = rebuilt(
        &graph,
        &order,
        |node| Node {
            ports: node.ports.max(3) * 3,
            ..node.clone()
        },
        |end| {
            let is_switch = crate::support::is_switch(&graph, end.node);
            Some(PortNum::new(end.port.get() + if is_switch { 7 } else { 0 }))
        },
    );
    let tables = checked(&larger, "mlid", &Options::default());
    assert!(!tables.labels.unwrap().follows_the_paper());
}

#[test]
fn what_is_no_fat_tree_is_refused_with_the_difference() {
    let refused = |graph: &Graph| recognise(graph).unwrap_err();
    assert!(matches!(
        refused(&fabric("ring-5-2")),
        NotFatTree::Count { .. }
    ));
    assert!(matches!(refused(&fabric("star-3")), NotFatTree::NoShape(_)));
    assert!(matches!(
        refused(&fabric("clos-3-2-2")),
        NotFatTree::DifferentPorts { .. }
    ));
    assert!(matches!(
        refused(&fabric("torus-4x4-4")),
        NotFatTree::Count { .. } | NotFatTree::WithinLevel { .. }
    ));
    assert_eq!(refused(&Graph::new()), NotFatTree::Empty);
    // Two cables exchanged: every number is right, the tree is not.
    let graph = fabric("fat-tree-4-3");
    let order: Vec<_> = graph.ids().collect();
    let mut crossed = rebuilt(&graph, &order, Node::clone, |end| Some(end.port));
    let end = |name: &str, port| topologies::Endpoint {
        node: crossed.find(name).unwrap(),
        port: PortNum::new(port),
    };
    let (a, b) = (end("s0.0.0", 1), end("s0.1.1", 2));
    let (far_a, far_b) = (crossed.peer(a).unwrap(), crossed.peer(b).unwrap());
    crossed.disconnect(a);
    crossed.disconnect(b);
    crossed.connect(a, far_b).unwrap();
    crossed.connect(b, far_a).unwrap();
    assert!(recognise(&crossed).is_err());
    let tables = checked(&crossed, "auto", &Options::default());
    assert_ne!(tables.engine, routing::RoutingEngine::Mlid);
    assert!(tables.because.unwrap().starts_with("not a fat tree: "));
}

#[test]
fn labels_fit_what_is_left_of_the_tree_and_nothing_else() {
    let graph = fabric("fat-tree-4-3");
    let labels = recognise(&graph).unwrap();
    let root = graph.find("s0.0.0").unwrap();
    labels.fit(&without(&graph, &[root], &[])).unwrap();
    let mut larger = graph.clone();
    larger
        .add(Node::new("new", topologies::NodeKind::Switch, Guid(1), 4))
        .unwrap();
    assert!(matches!(
        labels.fit(&larger),
        Err(LabelsDoNotFit::NewNode { .. })
    ));
    let other = recabled(&graph, 3);
    assert!(matches!(
        labels.fit(&other),
        Err(LabelsDoNotFit::NewCable { .. })
    ));
}
