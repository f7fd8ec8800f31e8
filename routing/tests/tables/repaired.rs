//! Tables repaired for a fabric that their engine cannot route any more.

use routing::dor::NotGrid;
use routing::dump;
use routing::file::{UnusableTables, check};
use routing::{KnownLids, Options, Repair, RoutingEngine, Tables, repair, verify};
use topologies::{Endpoint, Graph, Node, NodeId, NodeKind};
use wire::{Guid, Lid, Lmc, PortNum};

use crate::support::{checked, fabric, rebuilt, route, shuffled, without};

/// A cable between two switches.
fn cable(graph: &Graph, number: usize) -> Endpoint {
    let is_switch = |node| graph.node(node).kind == NodeKind::Switch;
    let mut cables = graph
        .links()
        .filter(|(a, b)| is_switch(a.node) && is_switch(b.node));
    cables.nth(number).unwrap().0
}

/// Every LID reaches its owner, and there is no credit loop.
fn sound(graph: &Graph, repaired: &Repair) {
    let report = verify(graph, &repaired.tables, repaired.tables.promises);
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
    let repaired = repair(&graph, &graph, &tables, &KnownLids::new()).unwrap();
    assert_eq!((repaired.rerouted, repaired.lids), (0, 18));
    assert_eq!(rows(&graph, &repaired.tables), rows(&graph, &tables));
    assert_eq!(repaired.tables.lids, tables.lids);
}

#[test]
fn a_mesh_that_has_lost_a_cable_keeps_all_lids_and_most_entries() {
    let graph = fabric("mesh-4x4-1");
    let options = Options {
        lmc: Some(Lmc::new(1).unwrap()),
        ..Options::default()
    };
    let tables = checked(&graph, "dor", &options);
    let mut dimension_ordered = 0;
    for number in 0..24 {
        let damaged = without(&graph, &[], &[cable(&graph, number)]);
        let refused = RoutingEngine::Dor.route(&damaged, &options);
        assert!(refused.unwrap_err().reason::<NotGrid>().is_some());
        let repaired = repair(&damaged, &graph, &tables, &KnownLids::new()).unwrap();
        sound(&damaged, &repaired);
        assert_eq!(repaired.tables.lids, tables.lids);
        assert!(repaired.rerouted > 0 && repaired.lids == 48);
        let pairs = rows(&graph, &tables)
            .into_iter()
            .zip(rows(&damaged, &repaired.tables));
        let moved = pairs.filter(|(old, new)| old != new).count();
        let all = 16 * tables.lids.iter().flat_map(|range| range.lids()).count();
        match repaired.tables.engine {
            RoutingEngine::Dor => assert!(moved < all / 2, "cable {number}: {moved} of {all}"),
            engine => assert_eq!(
                (engine, repaired.rerouted),
                (RoutingEngine::Updn, repaired.lids)
            ),
        }
        dimension_ordered += usize::from(repaired.tables.engine == RoutingEngine::Dor);
    }
    assert!(
        dimension_ordered > 0,
        "no repaired table keeps dimension order"
    );
}

#[test]
fn service_levels_stay_with_the_paths_that_stay() {
    let graph = fabric("torus-5x5-1");
    let tables = checked(&graph, "dor", &Options::default());
    for number in 0..10 {
        let damaged = without(&graph, &[], &[cable(&graph, number * 5)]);
        let repaired = repair(&damaged, &graph, &tables, &KnownLids::new()).unwrap();
        sound(&damaged, &repaired);
        let all = repaired.tables.vl_assignment.is_none();
        assert_eq!(
            all,
            repaired.tables.engine == RoutingEngine::Updn,
            "cable {number}"
        );
        assert!(all || repaired.tables.vl_assignment == tables.vl_assignment);
    }
}

#[test]
fn ports_keep_lids_of_their_own_number_and_the_order_of_nodes_makes_no_difference() {
    let graph = fabric("irregular-8-2-3-1");
    let tables = checked(&graph, "path-selection", &Options::default());
    let damaged = without(&graph, &[], &[cable(&graph, 3)]);
    let repaired = repair(&damaged, &graph, &tables, &KnownLids::new()).unwrap();
    assert_eq!(repaired.tables.lids, tables.lids);
    sound(&damaged, &repaired);
    for seed in 0..3 {
        let other = shuffled(&damaged, seed);
        let again = repair(&other, &graph, &tables, &KnownLids::new()).unwrap();
        assert_eq!(
            dump::write(&other, &again.tables).len(),
            dump::write(&damaged, &repaired.tables).len()
        );
        for switch in damaged.switches() {
            let there = other.find_guid(damaged.node(switch).guid).unwrap();
            assert_eq!(again.tables.lft(there), repaired.tables.lft(switch));
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

    let repaired = repair(&smaller, &graph, &tables, &KnownLids::new()).unwrap();
    let range = tables.lids.of_node(gone).unwrap();
    assert!(
        repaired
            .tables
            .lids
            .owner(range.base)
            .unwrap()
            .end
            .is_none()
    );

    let grown = repair(&graph, &smaller, &of_smaller, &KnownLids::new()).unwrap();
    sound(&graph, &grown);
    assert_eq!(grown.rerouted, 1);
    let new = grown.tables.lids.of_node(gone).unwrap();
    assert!(of_smaller.lids.owner(new.base).is_none());
}

#[test]
fn what_was_away_gets_the_lids_that_it_is_known_to_have_had_unless_they_are_anothers() {
    let graph = fabric("mesh-3x3-1");
    let gone = graph.hosts().next().unwrap();
    let order: Vec<NodeId> = graph.ids().filter(|&id| id != gone).collect();
    let smaller = rebuilt(&graph, &order, Node::clone, |end| Some(end.port));
    let options = Options {
        lmc: Some(Lmc::constant(1)),
        ..Options::default()
    };
    let tables = route(&smaller, "dor", &options);
    let guid = graph.node(gone).port_guid(PortNum::new(1));
    let had = (Lid::new(64), Lmc::constant(1));
    assert!(tables.lids.top() < had.0);
    let grown = repair(&graph, &smaller, &tables, &[(guid, had)].into()).unwrap();
    sound(&graph, &grown);
    let range = grown.tables.lids.of_guid(guid).unwrap();
    assert_eq!((range.base, range.lmc), had);

    let other = tables.lids.iter().next().unwrap();
    let known = [(guid, (other.base, other.lmc))].into();
    let grown = repair(&graph, &smaller, &tables, &known).unwrap();
    sound(&graph, &grown);
    assert_eq!(
        grown.tables.lids.of_guid(other.guid).unwrap().base,
        other.base
    );
    assert_ne!(grown.tables.lids.of_guid(guid).unwrap().base, other.base);

    // A port whose GUID is another one now, as where an adapter was exchanged, has the LIDs of the one before.
    let tables = route(&graph, "dor", &options);
    let before = tables.lids.of_node(gone).unwrap().clone();
    let renamed = |node: &Node| match node.guid == graph.node(gone).guid {
        true => Node {
            guid: Guid(0x99),
            port_guids: [(1, Guid(0x9a))].into(),
            ..node.clone()
        },
        false => node.clone(),
    };
    let all: Vec<NodeId> = graph.ids().collect();
    let exchanged = rebuilt(&graph, &all, renamed, |end| Some(end.port));
    let known = [(Guid(0x9a), (before.base, before.lmc))].into();
    let repaired = repair(&exchanged, &graph, &tables, &known).unwrap();
    sound(&exchanged, &repaired);
    let range = repaired.tables.lids.of_guid(Guid(0x9a)).unwrap();
    assert_eq!((range.base, range.lmc), (before.base, before.lmc));
}

#[test]
fn given_tables_are_refused_if_hosts_do_not_reach_each_other_or_packets_loop() {
    let graph = fabric("ring-5-1");
    let good = route(&graph, "updn", &Options::default());
    assert_eq!(check(&graph, &good), Ok(Vec::new()));

    let host = graph.hosts().next().unwrap();
    let lid = good.lids.of_node(host).unwrap().base;
    let far = graph.switches().last().unwrap();
    let mut missing = good.clone();
    missing.lft_mut(far).unwrap().set(lid, PortNum::NONE);
    let Err(UnusableTables::Broken { pairs, first }) = check(&graph, &missing) else {
        panic!("a missing entry");
    };
    assert!(pairs > 0 && first.contains("has no entry"), "{first}");

    // To a switch's own LID: only management misses the packets, but they never end.
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
    let Err(UnusableTables::Broken { first, .. }) = check(&graph, &round) else {
        panic!("a loop");
    };
    assert!(first.contains("go round"), "{first}");

    let mut silent = good.clone();
    silent.lft_mut(a.node).unwrap().set(lid, PortNum::NONE);
    let worth = check(&graph, &silent).unwrap();
    assert!(worth[0].contains("of or to switches"), "{worth:?}");
}

#[test]
fn given_tables_that_could_deadlock_are_taken_with_a_warning() {
    let graph = fabric("ring-6-1");
    let tables = route(&graph, "minhop", &Options::default());
    let worth = check(&graph, &tables).unwrap();
    assert!(
        worth[0].starts_with("credit loop among packets between hosts: "),
        "{worth:?}"
    );
}
