//! CLOS04: routing trees, and the controller's connections on the live tables.

use std::collections::BTreeSet;

use proptest::prelude::*;
use routing::clos::{Clos, Controller, Mode, NonBlocking, NotClos, SpineEntries, tables};
use routing::network::Network;
use routing::{Options, RoutingEngine, RoutingError, Tables, verify};
use topologies::{Endpoint, Graph};
use wire::{Lmc, PortNum};

use crate::support::{fabric, golden, is_switch, shuffled, text};

const FABRICS: [&str; 4] = ["clos-4-4-4", "clos-4-4-2-2", "clos-3-2-3", "fat-tree-4-2"];

fn route(graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
    RoutingEngine::Clos.route(graph, options)
}

/// Both forms of the tables.
fn both(graph: &Graph) -> (Network, Clos, [Tables; 2]) {
    let network = Network::new(graph);
    let clos = Clos::recognise(graph, &network).unwrap();
    let [own, all] = [SpineEntries::OwnTrees, SpineEntries::AndBaseLids]
        .map(|spines| tables(&network, &clos, &Options::default(), spines).unwrap());
    (network, clos, [own, all])
}

#[test]
fn every_lid_of_a_host_leads_through_its_own_tree_and_no_other_spine_knows_it() {
    for name in FABRICS {
        let graph = fabric(name);
        let (network, clos, [own, _]) = both(&graph);
        for (host, port) in network.hosts().iter().enumerate() {
            let range = own.lids.of(port.end).unwrap();
            for (offset, lid) in range.lids().enumerate() {
                let tree = offset % clos.trees();
                for (source, from) in network.hosts().iter().enumerate() {
                    let (a, b) = (clos.leaf_of()[source], clos.leaf_of()[host]);
                    let path = own.path(&graph, from.end, lid);
                    assert!(path.arrives);
                    let between: Vec<Endpoint> = path.hops[1..path.hops.len() - 1]
                        .iter()
                        .map(|hop| Endpoint {
                            node: hop.node,
                            port: hop.exit,
                        })
                        .collect();
                    if a != b {
                        assert_eq!(between[..2], clos.path(&network, a, b, tree));
                    }
                }
                for (spine, &switch) in clos.spines().iter().enumerate() {
                    let entry = own.lft(network.switches()[switch]).get(lid);
                    assert_eq!(entry != PortNum::NONE, spine == clos.spine_of(tree));
                }
            }
        }
    }
}

#[test]
fn the_verifier_accepts_both_forms_by_their_promises_and_other_spines_reach_base_lids() {
    for name in FABRICS {
        let graph = fabric(name);
        let (network, clos, [own, all]) = both(&graph);
        let report = verify(&graph, &all, all.promises);
        assert!(report.is_ok(), "{name}: {}", report.describe(&graph));
        assert!(report.cycle.is_none());
        let report = verify(&graph, &own, own.promises);
        assert_eq!(report.hosts_unreachable, 0);
        let spines = clos.spines().len() as u64;
        let hosts = network.hosts().len() as u64;
        assert_eq!(report.switches_unreachable, (spines - 1) * hosts);
    }
}

#[test]
fn a_changed_entry_is_noticed() {
    let graph = fabric("clos-3-2-3");
    let tables = route(&graph, &Options::default()).unwrap();
    for range in tables.lids.iter() {
        let owner = range.end.unwrap().node;
        for id in graph.switches().filter(|&id| id != owner) {
            let was = tables.lft(id).get(range.base);
            let mut broken = tables.clone();
            broken.lft_mut(id).unwrap().set(range.base, PortNum::NONE);
            let found = verify(&graph, &broken, broken.promises);
            assert!(!found.is_ok(), "LID {} at {id:?} was {was}", range.base);
        }
    }
}

#[test]
fn tables_are_golden_and_the_same_whatever_the_order_of_the_graph() {
    for name in FABRICS {
        let graph = fabric(name);
        let words = text(&graph, &route(&graph, &Options::default()).unwrap());
        golden(&format!("clos/{name}.txt"), &words);
        let other = shuffled(&graph, 11);
        let tables = route(&other, &Options::default()).unwrap();
        assert_eq!(words, text(&other, &tables));
    }
}

#[test]
fn what_is_no_clos_fabric_or_has_too_many_trees_is_refused_by_its_reason() {
    let refused = |name: &str, lmc: Option<u8>| {
        let options = Options {
            lmc: lmc.map(Lmc::truncate),
            ..Options::default()
        };
        route(&fabric(name), &options).unwrap_err()
    };
    assert_eq!(refused("ring-4-1", None).reason(), Some(&NotClos::NoSpine));
    assert!(matches!(
        refused("fat-tree-4-3", None).reason(),
        Some(NotClos::WithinStage { .. })
    ));
    assert_eq!(
        refused("clos-2-2-43-3", None),
        RoutingError::TooManyTrees {
            trees: 129,
            trees_max: 128
        }
    );
    assert_eq!(
        refused("clos-2-2-3", Some(1)),
        RoutingError::LmcTooSmall {
            lmc: Lmc::constant(1),
            trees: 3
        }
    );
    let mut graph = fabric("clos-2-2-2-2");
    let cut = graph
        .links()
        .find(|(a, b)| is_switch(&graph, a.node) && is_switch(&graph, b.node))
        .unwrap();
    graph.disconnect(cut.0);
    let error = route(&graph, &Options::default()).unwrap_err();
    assert!(matches!(error.reason(), Some(NotClos::Uneven { .. })));
}

#[test]
fn it_is_trees_that_count_and_not_spines() {
    for (name, promise) in [
        ("clos-4-4-2-2", NonBlocking::Rearrangeably),
        ("clos-4-4-7", NonBlocking::Strictly),
        ("clos-4-4-6", NonBlocking::Rearrangeably),
        ("clos-4-4-3", NonBlocking::Not),
    ] {
        let graph = fabric(name);
        let clos = Clos::recognise(&graph, &Network::new(&graph)).unwrap();
        assert_eq!(clos.non_blocking(), promise, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn by_the_tables_no_link_carries_two_connections_of_a_window(
        fabric_index in 0..FABRICS.len(), seed: u64, windows in 1usize..4,
    ) {
        use rand::{SeedableRng, seq::SliceRandom};
        let graph = fabric(FABRICS[fabric_index]);
        let (network, clos, [own, _]) = both(&graph);
        let mut controller =
            Controller::new(clos.leaf_of().to_vec(), clos.trees(), Mode::Rearrange).unwrap();
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..windows {
            let mut to: Vec<usize> = (0..network.hosts().len()).collect();
            to.shuffle(&mut random);
            let requests: Vec<(usize, usize)> =
                to.into_iter().enumerate().filter(|(a, b)| a != b).collect();
            let window = controller.window(&requests).unwrap();
            prop_assert!(window.deferred.is_empty());
            let mut used = BTreeSet::new();
            for pair in window.admitted {
                let range = own.lids.of(network.hosts()[pair.destination].end).unwrap();
                let dlid = range.at_offset(u32::try_from(pair.tree).unwrap());
                let path = own.path(&graph, network.hosts()[pair.source].end, dlid);
                prop_assert!(path.arrives);
                for hop in &path.hops[..path.hops.len() - 1] {
                    prop_assert!(used.insert((hop.node, hop.exit)), "{:?}", hop);
                }
            }
        }
    }
}
