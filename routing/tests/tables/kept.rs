//! Tables kept for a fabric that their engine cannot route any more.

use routing::dump;
use routing::file::{Unfit, check};
use routing::{Kept, Options, RoutingError, Tables, engine, keep, verify};
use topologies::{Endpoint, Graph, Node, NodeId, NodeKind};
use wire::{Lid, Lmc, PortNum};

use crate::support::{checked, fabric, rebuilt, route, shuffled};

/// A cable between two switches.
fn cable(graph: &Graph, number: usize) -> Endpoint {
    let is_switch = |node| graph.node(node).kind == NodeKind::Switch;
    let mut cables = graph
        .links()
        .filter(|(a, b)| is_switch(a.node) && is_switch(b.node));
    cables.nth(number).unwrap().0
}

fn without(graph: &Graph, end: Endpoint) -> Graph {
    let mut damaged = graph.clone();
    damaged.disconnect(end).unwrap();
    damaged
}

/// Every LID reaches its owner, nothing waits in a circle.
fn sound(graph: &Graph, kept: &Kept) {
    let report = verify(graph, &kept.tables, kept.tables.promises);
    assert!(report.is_ok(), "{}", report.describe(graph));
}

fn rows(graph: &Graph, tables: &Tables) -> Vec<(NodeId, Lid, PortNum)> {
    let lids = || tables.lids.iter().flat_map(|range| range.lids());
    let of = |switch| lids().map(move |lid| (switch, lid, tables.lft(switch).get(lid)));
    graph.switches().flat_map(of).collect()
}

#[test]
fn nothing_moves_while_all_lids_arrive() {
    let graph = fabric("mesh-3x3-1");
    let tables = checked(&graph, "dor", &Options::default());
    let kept = keep(&graph, &graph, &tables).unwrap();
    assert_eq!((kept.rerouted, kept.lids), (0, 18));
    assert_eq!(rows(&graph, &kept.tables), rows(&graph, &tables));
    assert_eq!(kept.tables.lids, tables.lids);
}

#[test]
fn a_mesh_that_has_lost_a_cable_keeps_all_lids_and_most_ways() {
    let graph = fabric("mesh-4x4-1");
    let options = Options {
        lmc: Some(Lmc::new(1).unwrap()),
        ..Options::default()
    };
    let tables = checked(&graph, "dor", &options);
    let mut mended = 0;
    for number in 0..24 {
        let damaged = without(&graph, cable(&graph, number));
        let refused = engine("dor").unwrap().route(&damaged, &options);
        assert!(matches!(refused, Err(RoutingError::NotGrid(_))));
        let kept = keep(&damaged, &graph, &tables).unwrap();
        sound(&damaged, &kept);
        assert_eq!(kept.tables.lids, tables.lids);
        assert!(kept.rerouted > 0 && kept.lids == 48);
        let pairs = rows(&graph, &tables)
            .into_iter()
            .zip(rows(&damaged, &kept.tables));
        let moved = pairs.filter(|(old, new)| old != new).count();
        let all = 16 * tables.lids.iter().flat_map(|range| range.lids()).count();
        match kept.tables.engine {
            "dor" => assert!(moved < all / 2, "cable {number}: {moved} of {all}"),
            engine => assert_eq!((engine, kept.rerouted), ("updn", kept.lids)),
        }
        mended += usize::from(kept.tables.engine == "dor");
    }
    assert!(
        mended > 0,
        "no way round goes together with dimension order"
    );
}

#[test]
fn levels_stay_with_the_ways_that_stay() {
    let graph = fabric("torus-5x5-1");
    let tables = checked(&graph, "dor", &Options::default());
    for number in 0..10 {
        let damaged = without(&graph, cable(&graph, number * 5));
        let kept = keep(&damaged, &graph, &tables).unwrap();
        sound(&damaged, &kept);
        let all = kept.tables.lanes.is_none();
        assert_eq!(all, kept.tables.engine == "updn", "cable {number}");
        assert!(all || kept.tables.lanes == tables.lanes);
    }
}

#[test]
fn ports_keep_lids_of_their_own_number_and_the_order_of_nodes_makes_no_difference() {
    let graph = fabric("irregular-8-2-3-1");
    let tables = checked(&graph, "path-selection", &Options::default());
    let damaged = without(&graph, cable(&graph, 3));
    let kept = keep(&damaged, &graph, &tables).unwrap();
    assert_eq!(kept.tables.lids, tables.lids);
    sound(&damaged, &kept);
    for seed in 0..3 {
        let other = shuffled(&damaged, seed);
        let again = keep(&other, &graph, &tables).unwrap();
        assert_eq!(
            dump::write(&other, &again.tables).len(),
            dump::write(&damaged, &kept.tables).len()
        );
        for switch in damaged.switches() {
            let there = other.find_guid(damaged.node(switch).guid).unwrap();
            assert_eq!(again.tables.lft(there), kept.tables.lft(switch));
        }
    }
}

#[test]
fn what_has_gone_keeps_its_lids_for_its_return_and_what_is_new_gets_some() {
    let graph = fabric("mesh-3x3-1");
    let gone = graph.hosts().next().unwrap();
    let order: Vec<NodeId> = graph.ids().filter(|&id| id != gone).collect();
    let smaller = rebuilt(&graph, &order, Node::clone, |end| Some(end.port));
    let of_smaller = route(&smaller, "dor", &Options::default());
    let tables = checked(&graph, "dor", &Options::default());

    let kept = keep(&smaller, &graph, &tables).unwrap();
    let range = tables.lids.of_node(gone).unwrap();
    assert!(kept.tables.lids.owner(range.base).unwrap().end.is_none());

    let grown = keep(&graph, &smaller, &of_smaller).unwrap();
    sound(&graph, &grown);
    assert_eq!(grown.rerouted, 1);
    let new = grown.tables.lids.of_node(gone).unwrap();
    assert!(of_smaller.lids.owner(new.base).is_none());
}

#[test]
fn tables_of_ones_own_are_refused_if_hosts_do_not_hear_each_other_or_packets_go_round() {
    let graph = fabric("ring-5-1");
    let good = route(&graph, "updn", &Options::default());
    assert_eq!(check(&graph, &good), Ok(Vec::new()));

    let host = graph.hosts().next().unwrap();
    let lid = good.lids.of_node(host).unwrap().base;
    let far = graph.switches().last().unwrap();
    let mut missing = good.clone();
    missing.lft_mut(far).unwrap().set(lid, PortNum::NONE);
    let Err(Unfit::Broken { pairs, first }) = check(&graph, &missing) else {
        panic!("a missing entry");
    };
    assert!(pairs > 0 && first.contains("has no entry"), "{first}");

    // To a switch's own LID: nobody but management misses the packets, but they never end.
    let (a, b) = graph
        .links()
        .find(|(a, b)| {
            [a, b]
                .iter()
                .all(|end| graph.node(end.node).kind == NodeKind::Switch)
        })
        .unwrap();
    let target = graph
        .switches()
        .find(|&s| s != a.node && s != b.node)
        .unwrap();
    let lid = good.lids.of_node(target).unwrap().base;
    let mut round = good.clone();
    round.lft_mut(a.node).unwrap().set(lid, a.port);
    round.lft_mut(b.node).unwrap().set(lid, b.port);
    let Err(Unfit::Broken { first, .. }) = check(&graph, &round) else {
        panic!("a loop");
    };
    assert!(first.contains("go round"), "{first}");

    let mut silent = good.clone();
    silent.lft_mut(a.node).unwrap().set(lid, PortNum::NONE);
    let worth = check(&graph, &silent).unwrap();
    assert!(worth[0].contains("of or to switches"), "{worth:?}");
}

#[test]
fn tables_of_ones_own_that_could_deadlock_are_taken_with_a_warning() {
    let graph = fabric("ring-6-1");
    let tables = route(&graph, "minhop", &Options::default());
    let worth = check(&graph, &tables).unwrap();
    assert!(
        worth.iter().any(|text| text.contains("wait in a circle")),
        "{worth:?}"
    );
}
