//! `nue`: paths on the channel dependency graph, with any number of VLs.

use proptest::prelude::*;
use routing::quality::{Pattern, link_loads};
use routing::{Options, RoutingEngine, Tables, verify};
use topologies::Graph;
use wire::Lmc;

use crate::credit_loops::{dependencies, has_cycle};
use crate::support::{cabled, dragonfly, drawn, fabric, shuffled, text};

fn with_vls(vls: u8) -> Options {
    Options {
        data_vls: Some(vls),
        ..Options::default()
    }
}

/// Tables that the verifier and the second opinion have nothing against.
fn checked(name: &str, graph: &Graph, options: &Options) -> Tables {
    let tables = RoutingEngine::Nue.route(graph, options).unwrap();
    let report = verify(graph, &tables, tables.promises);
    assert!(report.is_ok(), "{name}: {}", report.describe(graph));
    assert!(tables.promises.deadlock_free);
    assert!(!has_cycle(dependencies(graph, &tables)), "{name}");
    let used = tables.vl_assignment.as_ref().map_or(1, |one| one.data_vls);
    assert!(used <= options.data_vls(), "{name}");
    tables
}

fn minhop(graph: &Graph) -> Tables {
    RoutingEngine::Minhop
        .route(graph, &Options::default())
        .unwrap()
}

fn busiest(graph: &Graph, tables: &Tables) -> u64 {
    link_loads(graph, tables, Pattern::AllToAll).max
}

#[test]
fn it_serves_every_kind_of_fabric_with_any_number_of_vls() {
    let named = [
        "fat-tree-4-3",
        "fat-tree-6-2",
        "torus-5x5-1",
        "torus-3x4x3-1",
        "ring-7-2",
        "mesh-4x5-1",
        "hypercube-4-1",
        "irregular-16-2-3-4",
        "irregular-20-1-7-2",
        "clos-4-4-2-2",
        "star-4",
    ];
    let mut fabrics: Vec<(String, Graph)> = named
        .iter()
        .map(|&name| (name.to_owned(), fabric(name)))
        .collect();
    fabrics.push(("dragonfly 4,1,2".to_owned(), dragonfly(4, 1, 2)));
    // Switches without hosts, parallel cables, a switch on a stalk.
    let odd = [
        (0, 1),
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 0),
        (2, 5),
        (1, 4),
    ];
    fabrics.push(("odd".to_owned(), cabled(&[2, 0, 1, 1, 0, 3], &odd)));
    for (name, graph) in &fabrics {
        for vls in [1, 2, 3, 8] {
            checked(name, graph, &with_vls(vls));
        }
    }
}

#[test]
fn parts_that_no_cable_joins_are_served_each_for_itself() {
    let cables = [
        (0, 1),
        (1, 2),
        (2, 0),
        (3, 4),
        (4, 5),
        (5, 6),
        (6, 7),
        (7, 3),
    ];
    let graph = cabled(&[1, 2, 0, 1, 1, 1, 1, 1, 2], &cables);
    for vls in [1, 2, 3, 8] {
        let tables = RoutingEngine::Nue.route(&graph, &with_vls(vls)).unwrap();
        let report = verify(&graph, &tables, tables.promises);
        assert!(report.is_ok(), "{}", report.describe(&graph));
    }
}

#[test]
fn one_vl_is_enough_where_shortest_paths_deadlock_and_without_its_layers_it_would_too() {
    for name in ["ring-6-2", "torus-5x5-1", "irregular-16-4-4-3"] {
        let graph = fabric(name);
        assert!(has_cycle(dependencies(&graph, &minhop(&graph))), "{name}");
        let tables = checked(name, &graph, &with_vls(1));
        assert!(tables.vl_assignment.is_none());
        assert!(!tables.promises.minimal, "{name} has detours on one VL");
        let mut tables = checked(name, &graph, &with_vls(8));
        assert!(tables.vl_assignment.take().is_some());
        assert!(has_cycle(dependencies(&graph, &tables)), "{name}");
        assert!(verify(&graph, &tables, tables.promises).cycle.is_some());
    }
}

#[test]
fn where_shortest_paths_close_no_cycle_one_layer_has_them_all() {
    for name in ["fat-tree-4-3", "fat-tree-8-2", "clos-4-4-4"] {
        let graph = fabric(name);
        let tables = checked(name, &graph, &Options::default());
        assert!(
            tables.promises.minimal && tables.vl_assignment.is_none(),
            "{name}"
        );
        assert_eq!(busiest(&graph, &tables), busiest(&graph, &minhop(&graph)));
    }
}

#[test]
fn four_vls_are_enough_for_loads_near_those_of_shortest_paths_that_may_deadlock() {
    // What the busiest cable carries under shortest paths that are balanced without rounds, but for the
    // hypercube: answers take the VLs of what they answer, and 96 do not fit.
    for (name, most) in [
        ("torus-5x5-2", 80),
        ("mesh-4x4-2", 76),
        ("hypercube-5-2", 100),
        ("irregular-32-4-6-1", 248),
    ] {
        let graph = fabric(name);
        let tables = checked(name, &graph, &with_vls(4));
        assert!(busiest(&graph, &tables) <= most, "{name}");
        let dfsssp = RoutingEngine::Dfsssp.route(&graph, &with_vls(4)).unwrap();
        assert!(
            busiest(&graph, &tables) <= busiest(&graph, &dfsssp),
            "{name}"
        );
    }
}

#[test]
fn packets_of_switches_own_ports_are_layered_too_where_every_switch_has_hosts() {
    for name in ["torus-5x5-1", "irregular-16-2-3-4", "hypercube-4-1"] {
        let graph = fabric(name);
        for vls in [1, 4] {
            let tables = checked(name, &graph, &with_vls(vls));
            let report = verify(&graph, &tables, tables.promises);
            assert_eq!(report.switch_cycle, None, "{name}");
        }
    }
}

#[test]
fn packets_of_switches_without_hosts_close_no_cycle_in_trees() {
    for name in [
        "fat-tree-4-3",
        "fat-tree-6-3",
        "clos-4-4-4",
        "as-built-8-6-4-0-1",
        "as-built-12-9-6-3-3",
    ] {
        let graph = fabric(name);
        for vls in [1, 4] {
            let tables = checked(name, &graph, &with_vls(vls));
            let report = verify(&graph, &tables, tables.promises);
            assert_eq!(report.switch_cycle, None, "{name} on {vls}");
        }
    }
}

#[test]
fn every_lid_of_a_host_gets_paths_of_its_own() {
    let options = Options {
        lmc: Some(Lmc::constant(2)),
        ..with_vls(3)
    };
    checked("irregular-8-2-3-2", &fabric("irregular-8-2-3-2"), &options);
}

#[test]
fn a_single_vl_gives_the_same_tables_whatever_the_order_of_the_graph() {
    for name in ["torus-3x5-2", "irregular-8-2-4-1"] {
        let graph = fabric(name);
        let wanted = text(&graph, &checked(name, &graph, &with_vls(1)));
        let other = shuffled(&graph, 8);
        assert_eq!(text(&other, &checked(name, &other, &with_vls(1))), wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn it_takes_any_fabric_in_any_number_of_layers(
        (hosts, cables) in drawn(),
        vls in 1u8..9,
    ) {
        checked("drawn", &cabled(&hosts, &cables), &with_vls(vls));
    }
}
