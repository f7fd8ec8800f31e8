//! `lash`: layered shortest paths, one service level both ways.

use proptest::prelude::*;
use routing::{Options, RoutingEngine, RoutingError, Tables, verify};
use topologies::Graph;
use wire::Sl;

use crate::credit_loops::{dependencies, has_cycle};
use crate::support::{cabled, dragonfly, drawn, fabric};

/// Tables that the verifier and the second opinion have nothing against.
fn checked(name: &str, graph: &Graph, vls: u8) -> Tables {
    let options = Options {
        data_vls: Some(vls),
        ..Options::default()
    };
    let tables = RoutingEngine::Lash.route(graph, &options).unwrap();
    let report = verify(graph, &tables, tables.promises);
    assert!(report.is_ok(), "{name}: {}", report.describe(graph));
    assert!(tables.promises.deadlock_free && tables.promises.minimal);
    assert!(!has_cycle(dependencies(graph, &tables)), "{name}");
    assert_same_both_ways(name, graph, &tables);
    tables
}

/// Packets between two hosts have one SL, whichever sends.
fn assert_same_both_ways(name: &str, graph: &Graph, tables: &Tables) {
    let Some(assignment) = &tables.vl_assignment else {
        return;
    };
    let hosts = || {
        tables.lids.iter().filter(|range| {
            range
                .end
                .is_some_and(|end| graph.hosts().any(|host| host == end.node))
        })
    };
    for one in hosts() {
        for other in hosts() {
            let there = assignment.sl_from(graph, one.end.unwrap(), other.base);
            let back = assignment.sl_from(graph, other.end.unwrap(), one.base);
            assert_eq!(there, back, "{name}");
        }
    }
}

#[test]
fn it_serves_every_kind_of_fabric_with_the_vls_that_it_takes() {
    for (name, vls) in [
        ("fat-tree-4-2", 1),
        ("clos-4-4-2-2", 1),
        ("mesh-1x6-1", 1),
        ("ring-5-1", 2),
        ("ring-8-2", 2),
        ("mesh-4x4-1", 2),
        ("torus-5x5-1", 4),
        ("hypercube-4-1", 3),
    ] {
        let graph = fabric(name);
        let tables = checked(name, &graph, 15);
        let used = tables.vl_assignment.as_ref().map_or(1, |one| one.data_vls);
        assert!(used <= vls, "{name} takes {used}");
    }
    checked("dragonfly 4,1,2", &dragonfly(4, 1, 2), 15);
}

#[test]
fn all_packets_are_layered_those_of_switches_own_ports_too() {
    for name in ["fat-tree-4-3", "ring-7-1", "torus-4x5-1"] {
        let graph = fabric(name);
        let tables = checked(name, &graph, 15);
        let report = verify(&graph, &tables, tables.promises);
        assert_eq!(report.switch_cycle, None, "{name}");
    }
}

#[test]
fn switches_without_hosts_never_make_it_fail() {
    let graph = fabric("fat-tree-4-3");
    for vls in [1, 4] {
        let tables = checked("fat-tree-4-3", &graph, vls);
        assert_eq!(tables.vl_assignment.is_some(), vls > 1);
        let report = verify(&graph, &tables, tables.promises);
        assert_eq!(report.switch_cycle, None);
    }
}

#[test]
fn a_ring_of_five_has_the_last_pair_of_its_round_in_another_layer() {
    let graph = fabric("ring-5-1");
    let tables = checked("ring-5-1", &graph, 2);
    let assignment = tables.vl_assignment.as_ref().unwrap();
    let levels = graph.switches().flat_map(|switch| {
        let lids = tables.lids.iter().filter(|range| {
            graph
                .switches()
                .all(|id| Some(id) != range.end.map(|end| end.node))
        });
        lids.map(move |range| assignment.sl(switch, range.base))
    });
    let second = levels.filter(|&sl| sl == Sl::constant(1)).count();
    assert!(second > 0 && second % 2 == 0, "{second}");
    let mut single = tables.clone();
    single.vl_assignment = None;
    assert!(has_cycle(dependencies(&graph, &single)));
    assert!(verify(&graph, &single, single.promises).cycle.is_some());
}

#[test]
fn too_few_vls_are_an_error_that_tells_how_many_would_do() {
    let options = Options {
        data_vls: Some(1),
        ..Options::default()
    };
    assert_eq!(
        RoutingEngine::Lash
            .route(&fabric("ring-6-2"), &options)
            .unwrap_err(),
        RoutingError::VlsExhausted {
            engine: RoutingEngine::Lash,
            needed: 2,
            have: 1
        }
    );
}

#[test]
fn parallel_cables_are_taken_in_turn() {
    let graph = cabled(&[4, 4], &[(0, 1), (0, 1), (0, 1), (0, 1)]);
    let tables = checked("parallel", &graph, 1);
    for switch in graph.switches() {
        let mut ports: Vec<u8> = tables
            .lids
            .iter()
            .map(|range| tables.lft(switch).get(range.base).get())
            .filter(|&port| port > 4)
            .collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports, [5, 6, 7, 8]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn it_takes_any_fabric((hosts, cables) in drawn()) {
        checked("drawn", &cabled(&hosts, &cables), 15);
    }
}
