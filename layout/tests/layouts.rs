//! Maps of all kinds of fabrics.

use layout::{Arrangement, Layout, Place};
use proptest::prelude::*;
use topologies::Graph;

/// Of every kind.
const TOPOLOGIES: [&str; 14] = [
    "fat-tree-4-3",
    "fat-tree-8-2",
    "clos-4-3-2-2",
    "hypercube-4-1",
    "mesh-4x3-2",
    "torus-4x4-2",
    "torus-3x3x3-1",
    "ring-7-2",
    "irregular-20-2-4-1",
    "dragonfly-5-4-2",
    "directors-6-4-2-4-2",
    "as-built-8-6-4-2-1",
    "star-9",
    "star-1",
];

fn map(name: &str) -> (Graph, Layout) {
    let graph = topologies::parse(name).expect("a topology").graph;
    let layout = layout::of(&graph);
    (graph, layout)
}

fn place(graph: &Graph, layout: &Layout, name: &str) -> Place {
    layout.places[graph.find(name).expect("a node").index()]
}

#[test]
fn a_fat_tree_has_a_row_a_level_and_hosts_below() {
    let (graph, layout) = map("fat-tree-4-3");
    assert_eq!(layout.arrangement, Arrangement::Levels);
    let row = |prefix: &str| {
        let mut rows: Vec<f64> = graph
            .switches()
            .filter(|&id| graph.node(id).name.starts_with(prefix))
            .map(|id| layout.places[id.index()].y)
            .collect();
        rows.dedup();
        assert_eq!(rows.len(), 1, "{prefix}: {rows:?}");
        rows[0]
    };
    let (roots, middle, leaves) = (row("s0."), row("s1."), row("s2."));
    assert!(roots < middle && middle < leaves);
    for host in graph.hosts() {
        assert!(layout.places[host.index()].y > leaves);
    }
}

#[test]
fn hosts_stand_nearer_to_their_own_leaf_than_to_any_other() {
    for name in ["fat-tree-4-3", "clos-4-3-2-2", "fat-tree-8-2"] {
        let (graph, layout) = map(name);
        let away = |a: usize, b: usize| {
            let (a, b) = (layout.places[a], layout.places[b]);
            (a.x - b.x).hypot(a.y - b.y)
        };
        for host in graph.hosts() {
            let (_, own) = graph.cables(host).next().unwrap();
            let own = away(host.index(), own.node.index());
            let nearest = graph.switches().map(|id| away(host.index(), id.index()));
            assert!(nearest.fold(f64::MAX, f64::min) >= own, "{name}");
        }
    }
}

#[test]
fn a_mesh_has_equal_steps_and_a_torus_bends_the_cables_round_it() {
    let (graph, layout) = map("mesh-4x3-1");
    assert_eq!(layout.arrangement, Arrangement::Grid);
    let mut steps: Vec<(f64, f64)> = graph
        .links()
        .filter(|(a, b)| {
            let is_switch = |id| graph.node(id).kind == topologies::NodeKind::Switch;
            is_switch(a.node) && is_switch(b.node)
        })
        .map(|(a, b)| {
            let (a, b) = (layout.places[a.node.index()], layout.places[b.node.index()]);
            ((b.x - a.x).abs(), (b.y - a.y).abs())
        })
        .collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    steps.dedup();
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(layout.bends.iter().all(|&bend| bend == 0.0));
    let (_, torus) = map("torus-5x5-1");
    assert_eq!(torus.bends.iter().filter(|&&bend| bend != 0.0).count(), 10);
}

#[test]
fn a_ring_is_round() {
    let (graph, layout) = map("ring-7-2");
    let radius = |name: &str| {
        let place = place(&graph, &layout, name);
        place.x.hypot(place.y)
    };
    for switch in 1..7 {
        assert!((radius(&format!("s{switch}")) - radius("s0")).abs() < 0.05);
    }
}

#[test]
fn no_two_devices_cover_each_other_and_parallel_cables_are_apart() {
    for name in TOPOLOGIES {
        let (graph, layout) = map(name);
        assert_eq!(layout.places.len(), graph.len(), "{name}");
        for (number, a) in layout.places.iter().enumerate() {
            for (other, b) in layout.places.iter().enumerate().skip(number + 1) {
                let away = (a.x - b.x).abs().max((a.y - b.y).abs());
                assert!(
                    away >= 1.0,
                    "{name}: {number} and {other} at {a:?} and {b:?}"
                );
            }
        }
        let mut drawn: Vec<_> = graph
            .links()
            .zip(&layout.bends)
            .map(|((a, b), bend)| (a.node, b.node, bend.to_bits()))
            .collect();
        let count = drawn.len();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), count, "{name}");
    }
}

#[test]
fn a_thousand_devices_have_a_place_each() {
    for (name, devices) in [("fat-tree-16-3", 1344), ("irregular-320-3-6-1", 1280)] {
        let (graph, layout) = map(name);
        assert_eq!(graph.len(), devices);
        let mut places = layout.places.clone();
        places.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
        places.dedup();
        assert_eq!(places.len(), devices, "{name}");
    }
}

#[test]
fn hosts_without_a_switch_have_a_place_of_their_own() {
    let mut graph = Graph::new();
    for (name, guid) in [("a", 1), ("b", 2), ("c", 3)] {
        let host = topologies::Node::new(name, topologies::NodeKind::Host, wire::Guid(guid), 1);
        graph.add(host).unwrap();
    }
    let layout = layout::of(&graph);
    let [a, b, c] = layout.places[..] else {
        panic!("{layout:?}");
    };
    assert!(a != b && b != c && a != c);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_same_graph_has_the_same_finite_map(
        switches in 4usize..40, hosts in 0usize..4, degree in 2usize..4, seed in 0u64..100,
    ) {
        let switches = switches * 2;
        let name = format!("irregular-{switches}-{hosts}-{degree}-{seed}");
        let Ok(topology) = topologies::parse(&name) else { return Ok(()) };
        let layout = layout::of(&topology.graph);
        prop_assert!(layout.places.iter().all(|place| place.x.is_finite() && place.y.is_finite()));
        prop_assert_eq!(&layout, &layout::of(&topology.graph));
    }
}
