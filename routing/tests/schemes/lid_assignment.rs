//! LID07: tables realise exactly the paths that were computed.

use routing::lid_assignment::{Assignment, PathScheme, Scheme, tables};
use routing::network::{Network, UpDown};
use routing::{Options, RoutingEngine, Tables, verify};
use strum::VariantArray as _;
use topologies::{Endpoint, Graph};
use wire::{Lid, PortNum};

use crate::support::{fabric, golden, is_switch, shuffled, text};

const FABRICS: [&str; 5] = [
    "irregular-8-2-4-1",
    "irregular-16-2-8-3",
    "torus-3x4-2",
    "fat-tree-4-3",
    "clos-3-2-2-2",
];

const ENGINES: [&str; 4] = [
    "path-selection",
    "shortest-widest",
    "renaming",
    "fully-explicit",
];

/// The output ports between switches that a packet takes by the tables.
fn walked(graph: &Graph, tables: &Tables, from: Endpoint, to: Endpoint) -> Vec<Endpoint> {
    let dlid = tables.dlid_between(from.node, to.node).unwrap();
    let path = tables.path(graph, from, dlid);
    assert!(path.arrives);
    path.hops
        .windows(2)
        .filter(|pair| is_switch(graph, pair[0].node) && is_switch(graph, pair[1].node))
        .map(|pair| Endpoint {
            node: pair[0].node,
            port: pair[0].exit,
        })
        .collect()
}

#[test]
fn tables_realise_exactly_the_paths_given() {
    for name in FABRICS {
        let graph = fabric(name);
        let network = Network::new(&graph);
        let updown = UpDown::new(&network).unwrap();
        for &paths in PathScheme::VARIANTS {
            let routes = paths.routes(&network, &updown).unwrap();
            for &scheme in Scheme::VARIANTS {
                let assignment = Assignment::new(&network, &routes, scheme).unwrap();
                let tables = tables(
                    RoutingEngine::PathSelection,
                    (&network, &updown),
                    (&routes, &assignment),
                    &Options::default(),
                )
                .unwrap();
                for (source, from) in network.hosts().iter().enumerate() {
                    for (destination, to) in network.hosts().iter().enumerate() {
                        if source == destination {
                            continue;
                        }
                        let wanted: Vec<Endpoint> = routes
                            .path(source, destination)
                            .iter()
                            .map(|&channel| network.endpoint(channel as usize))
                            .collect();
                        assert_eq!(walked(&graph, &tables, from.end, to.end), wanted);
                    }
                }
            }
        }
    }
}

#[test]
fn every_lid_arrives_from_everywhere_and_selected_paths_never_turn_upwards() {
    for name in FABRICS {
        let graph = fabric(name);
        for engine_name in ENGINES {
            let tables = engine_name
                .parse::<RoutingEngine>()
                .unwrap()
                .route(&graph, &Options::default())
                .unwrap();
            let report = verify(&graph, &tables, tables.promises);
            assert!(
                report.is_ok(),
                "{name} {engine_name}: {}",
                report.describe(&graph)
            );
        }
    }
}

#[test]
fn base_lids_are_aligned_to_their_own_size_and_switches_stand_behind() {
    let graph = fabric("irregular-8-4-4-2");
    let tables = RoutingEngine::PathSelection
        .route(&graph, &Options::default())
        .unwrap();
    let mut last = Lid::ZERO;
    let mut switches = false;
    for range in tables.lids.iter() {
        assert_eq!(range.base.get() % range.lmc.lids(), 0);
        assert!(range.base > last);
        last = range.lids().last().unwrap();
        let is_switch = is_switch(&graph, range.end.unwrap().node);
        assert!(is_switch || !switches);
        switches |= is_switch;
    }
}

#[test]
fn a_single_changed_entry_on_a_selected_path_is_noticed() {
    let graph = fabric("irregular-8-2-4-1");
    let tables = RoutingEngine::PathSelection
        .route(&graph, &Options::default())
        .unwrap();
    let network = Network::new(&graph);
    let (from, to) = (network.hosts()[0].end, network.hosts()[15].end);
    let dlid = tables.dlid_between(from.node, to.node).unwrap();
    for hop in walked(&graph, &tables, from, to) {
        for port in [PortNum::NONE, PortNum::MANAGEMENT, from.port] {
            let mut broken = tables.clone();
            broken.lft_mut(hop.node).unwrap().set(dlid, port);
            assert!(!verify(&graph, &broken, broken.promises).is_ok());
        }
    }
}

#[test]
fn tables_are_golden_and_the_same_whatever_the_order_of_the_graph() {
    for name in ["irregular-8-2-4-1", "torus-3x4-2", "fat-tree-4-2"] {
        let graph = fabric(name);
        for engine_name in ENGINES {
            let engine = engine_name.parse::<RoutingEngine>().unwrap();
            let tables = engine.route(&graph, &Options::default()).unwrap();
            let words = text(&graph, &tables);
            golden(&format!("{engine_name}/{name}.txt"), &words);
            let other = shuffled(&graph, 5);
            let tables = engine.route(&other, &Options::default()).unwrap();
            assert_eq!(words, text(&other, &tables));
        }
    }
}

#[test]
fn ports_keep_the_lids_that_they_are_known_by_when_a_cable_fails() {
    let mut graph = fabric("irregular-8-2-4-1");
    let engine = RoutingEngine::PathSelection;
    let before = engine.route(&graph, &Options::default()).unwrap();
    let cut = graph
        .links()
        .find(|(a, b)| is_switch(&graph, a.node) && is_switch(&graph, b.node))
        .unwrap();
    graph.disconnect(cut.0);
    let options = Options {
        known: before.lids.known(),
        ..Options::default()
    };
    let after = engine.route(&graph, &options).unwrap();
    let report = verify(&graph, &after, after.promises);
    assert!(report.is_ok(), "{}", report.describe(&graph));
    let mut changed = 0;
    for range in after.lids.iter() {
        let had = before.lids.of_guid(range.guid).unwrap();
        if (range.base, range.lmc) != (had.base, had.lmc) {
            // Only a port that needs more LIDs than it had moves.
            assert!(range.lmc > had.lmc);
            changed += 1;
        }
    }
    let warned = after.warnings.iter().any(
        |warning| matches!(warning, routing::Warning::LidsChanged { ports } if *ports == changed),
    );
    assert_eq!(warned, changed > 0);
}

#[test]
fn who_is_new_gets_no_lid_of_one_that_is_away() {
    let graph = fabric("ring-4-1");
    for engine_name in ENGINES {
        let engine: RoutingEngine = engine_name.parse().unwrap();
        let whole = engine.route(&graph, &Options::default()).unwrap().lids;
        let host = |lids: &routing::Lids, index: usize| {
            let id = graph.hosts().nth(index).expect("four hosts");
            let port = PortNum::new(1);
            lids.of(Endpoint { node: id, port })
                .expect("a range")
                .clone()
        };
        // The second host is away and the third is new.
        let (away, new) = (host(&whole, 1), host(&whole, 2));
        let left = graph.without(&["h1".to_owned()]);
        let mut known = whole.known();
        known.remove(&new.guid);
        let options = Options {
            known,
            ..Options::default()
        };
        let after = engine.route(&left, &options).unwrap().lids;
        let taken = (0..away.lmc.lids()).map(|offset| Lid::new(away.base.get() + offset));
        for lid in taken {
            assert_eq!(after.owner(lid), None, "{engine_name}: {lid}");
        }
        assert!(after.of_guid(new.guid).is_some(), "{engine_name}");
    }
}

#[test]
fn large_random_fabrics_need_no_entry_that_turns_packets_upwards() {
    for seed in 1..=6 {
        let graph = fabric(&format!("irregular-32-1-4-{seed}"));
        for engine_name in ENGINES {
            let tables = engine_name
                .parse::<RoutingEngine>()
                .unwrap()
                .route(&graph, &Options::default())
                .unwrap();
            assert_eq!(tables.warnings, [], "{engine_name}, seed {seed}");
            assert!(verify(&graph, &tables, tables.promises).is_ok());
        }
    }
}
