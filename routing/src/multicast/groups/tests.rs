use proptest::prelude::*;
use topologies::{Endpoint, parse};

use super::super::{DeliveryProblem, check, deliver};
use super::*;
use crate::multicast::PortSet;
use crate::network::port_guid;
use crate::network::tests::shuffled;
use crate::routing_engine::RoutingEngine;

const GROUP: Mgid = Mgid(0xff12_401b_ffff_0000_0000_0000_ffff_ffff);

fn fabric(name: &str) -> Graph {
    parse(name).unwrap().graph
}

fn multicast(graph: &Graph, scheme: Scheme) -> Multicast {
    let options = Options {
        scheme,
        ..Options::default()
    };
    Multicast::new(graph, &options).unwrap()
}

/// The port of the host of that name.
fn port(graph: &Graph, name: &str) -> (Endpoint, Guid) {
    let node = graph.find(name).unwrap();
    let (port, _) = graph.cables(node).next().unwrap();
    let end = Endpoint { node, port };
    (end, port_guid(graph, end))
}

fn ports(graph: &Graph) -> Vec<(Endpoint, Guid)> {
    graph
        .hosts()
        .map(|id| port(graph, &graph.node(id).name))
        .collect()
}

/// Every member sends; what is wrong with the deliveries.
fn problems(graph: &Graph, multicast: &Multicast, group: Mgid) -> Vec<DeliveryProblem> {
    let by_guid: BTreeMap<Guid, Endpoint> = ports(graph).into_iter().map(|(e, g)| (g, e)).collect();
    let receivers: BTreeSet<Endpoint> = multicast
        .members(group)
        .filter(|&(_, role)| role == Role::Receives)
        .map(|(guid, _)| by_guid[&guid])
        .collect();
    multicast
        .members(group)
        .flat_map(|(guid, _)| {
            let mlid = multicast.dlid(group, guid).unwrap();
            let delivery = deliver(graph, |switch| multicast.mft(switch), by_guid[&guid], mlid);
            check(&delivery, by_guid[&guid], &receivers)
        })
        .collect()
}

#[test]
fn from_all_sources_of_a_fat_tree_each_member_gets_one_copy() {
    for name in [
        "fat-tree-4-2",
        "fat-tree-4-3",
        "fat-tree-8-2",
        "fat-tree-6-2",
    ] {
        let graph = fabric(name);
        for scheme in [Scheme::Cyclic, Scheme::SpanningTree] {
            let mut multicast = multicast(&graph, scheme);
            for (_, guid) in ports(&graph) {
                multicast.join(GROUP, guid, Role::Receives).unwrap();
            }
            assert_eq!(problems(&graph, &multicast, GROUP), [], "{name} {scheme:?}");
        }
    }
}

#[test]
fn a_group_has_a_multicast_lid_for_each_offset_and_each_tree_a_root_of_its_own() {
    let graph = fabric("fat-tree-4-3");
    let mut multicast = multicast(&graph, Scheme::Cyclic);
    for (_, guid) in ports(&graph) {
        multicast.join(GROUP, guid, Role::Receives).unwrap();
    }
    let mlids: Vec<(usize, Lid)> = multicast.mlids(GROUP).collect();
    assert_eq!(mlids.len(), 4);
    for (tree, mlid) in mlids {
        let roots: Vec<&str> = graph
            .switches()
            .filter(|&id| !multicast.mft(id).get(mlid).is_empty())
            .map(|id| graph.node(id).name.as_str())
            .filter(|name| name.starts_with("s0."))
            .collect();
        assert_eq!(roots.len(), 1, "tree {tree}: {roots:?}");
    }
    // Sources 000 and 100 share a tree, 001 has another.
    let of = |name| multicast.dlid(GROUP, port(&graph, name).1).unwrap();
    assert_eq!(of("h0.0.0"), of("h1.0.0"));
    assert_ne!(of("h0.0.0"), of("h0.0.1"));
}

#[test]
fn figure_7_group_2_heard_from_000() {
    let graph = fabric("fat-tree-4-3");
    let mut multicast = multicast(&graph, Scheme::Cyclic);
    let (_, source) = port(&graph, "h0.0.0");
    let mlid = multicast.join(GROUP, source, Role::SendsOnly).unwrap().mlid;
    for name in ["h2.0.0", "h2.0.1", "h2.1.0", "h2.1.1"] {
        multicast
            .join(GROUP, port(&graph, name).1, Role::Receives)
            .unwrap();
    }
    let row = |name: &str| -> Vec<u8> {
        let ports = multicast.mft(graph.find(name).unwrap()).get(mlid);
        ports.iter().map(|port| port.get()).collect()
    };
    assert_eq!(row("s2.0.0"), [3]);
    assert_eq!(row("s1.0.0"), [3]);
    assert_eq!(row("s0.0.0"), [3]);
    // SW<20, 1> and its leaf switches also lead up for sources that are members themselves.
    assert_eq!(row("s1.2.0"), [1, 2]);
    assert_eq!(row("s2.2.0"), [1, 2, 3]);
    assert_eq!(row("s2.2.1"), [1, 2, 3]);
}

/// Section 3.3.2 as it is written: in every switch the union of the unicast ports, by the LIDs that
/// the source would choose.
fn literal_union(graph: &Graph, source: &str, group: &[&str]) -> BTreeMap<NodeId, Mft> {
    let tables = RoutingEngine::Mlid
        .route(graph, &Default::default())
        .unwrap();
    let (_, from) = port(graph, source);
    graph
        .switches()
        .map(|switch| {
            let union: PortSet = group
                .iter()
                .filter_map(|name| tables.dlid_for(from, port(graph, name).1))
                .map(|lid| tables.lft(switch).get(lid))
                .collect();
            let mut mft = Mft::default();
            mft.set(Lid::MULTICAST_FIRST, union);
            (switch, mft)
        })
        .collect()
}

#[test]
fn the_union_of_the_paper_loops_where_the_common_prefix_cuts_the_offset() {
    let graph = fabric("fat-tree-4-3");
    let group = ["h0.0.0", "h2.0.0"];
    let mfts = literal_union(&graph, "h0.1.0", &group);
    let (source, guid) = port(&graph, "h0.1.0");
    let delivery = deliver(&graph, |id| &mfts[&id], source, Lid::MULTICAST_FIRST);
    let found = delivery.forwarding_loop.expect("a loop");
    assert!(found.len() >= 4, "{found:?}");
    // Our tables for the same source and group.
    let mut multicast = multicast(&graph, Scheme::Cyclic);
    multicast.join(GROUP, guid, Role::SendsOnly).unwrap();
    for name in group {
        multicast
            .join(GROUP, port(&graph, name).1, Role::Receives)
            .unwrap();
    }
    assert_eq!(problems(&graph, &multicast, GROUP), []);
}

#[test]
fn a_join_changes_only_the_branch_to_the_new_member_in_the_spanning_tree() {
    let graph = fabric("torus-3x4-2");
    let mut multicast = multicast(&graph, Scheme::SpanningTree);
    for name in ["h0", "h7"] {
        multicast
            .join(GROUP, port(&graph, name).1, Role::Receives)
            .unwrap();
    }
    let (_, guid) = port(&graph, "h1");
    // h1 is on the switch of h0, which is on the tree already.
    let joined = multicast.join(GROUP, guid, Role::Receives).unwrap();
    assert_eq!(joined.changes.len(), 1);
    assert!(
        multicast
            .join(GROUP, guid, Role::Receives)
            .unwrap()
            .changes
            .is_empty()
    );
    assert_eq!(multicast.leave(GROUP, guid).unwrap(), joined.changes);
    assert_eq!(
        multicast.leave(GROUP, guid),
        Err(MulticastError::NotAMember(guid))
    );
}

#[test]
fn when_the_last_member_leaves_nothing_is_left_and_the_lid_is_free_again() {
    let graph = fabric("fat-tree-4-2");
    let mut multicast = multicast(&graph, Scheme::Cyclic);
    let (_, guid) = port(&graph, "h1.0");
    let mlid = multicast.join(GROUP, guid, Role::Receives).unwrap().mlid;
    assert_eq!(multicast.group_of(mlid), Some(GROUP));
    multicast.leave(GROUP, guid).unwrap();
    assert_eq!(multicast.groups().len(), 0);
    assert!(
        graph
            .switches()
            .all(|id| multicast.mft(id).rows().len() == 0)
    );
    assert_eq!(
        multicast.join(Mgid(1), guid, Role::Receives).unwrap().mlid,
        mlid
    );
}

#[test]
fn a_full_table_and_unknown_ports_are_refused_and_nothing_changes() {
    let graph = fabric("fat-tree-4-2");
    let options = Options {
        scheme: Scheme::Cyclic,
        rows: 1,
        labels: None,
    };
    let mut multicast = Multicast::new(&graph, &options).unwrap();
    multicast
        .join(GROUP, port(&graph, "h0.0").1, Role::Receives)
        .unwrap();
    let refused = multicast.join(GROUP, port(&graph, "h0.1").1, Role::Receives);
    assert_eq!(refused, Err(MulticastError::TableFull { rows: 1 }));
    assert_eq!(multicast.members(GROUP).count(), 1);
    assert_eq!(
        multicast.join(GROUP, Guid(5), Role::Receives),
        Err(MulticastError::NoSuchPort(Guid(5)))
    );
    assert!(matches!(
        Multicast::new(
            &fabric("ring-4-1"),
            &Options {
                scheme: Scheme::Cyclic,
                ..Options::default()
            }
        ),
        Err(MulticastError::NotFatTree(_))
    ));
}

#[test]
fn sources_of_a_broken_tree_take_the_next_that_is_whole_and_keep_their_multicast_lid() {
    let mut graph = fabric("fat-tree-4-3");
    let labels = recognise(&graph).unwrap();
    let options = Options {
        scheme: Scheme::Cyclic,
        labels: Some(labels),
        ..Options::default()
    };
    let mut whole = Multicast::new(&graph, &options).unwrap();
    for (_, guid) in ports(&graph) {
        whole.join(GROUP, guid, Role::Receives).unwrap();
    }
    let mlids: Vec<(usize, Lid)> = whole.mlids(GROUP).collect();
    // The cable between SW<00, 2> and SW<00, 1>: trees 0 and 2 climb over it.
    let leaf = graph.find("s2.0.0").unwrap();
    let cut = |graph: &mut Graph, port: u8| {
        graph.disconnect(Endpoint {
            node: leaf,
            port: wire::PortNum::new(port),
        });
    };
    let cable = graph.peer(Endpoint {
        node: leaf,
        port: wire::PortNum::new(3),
    });
    cut(&mut graph, 3);
    let degraded = whole.moved_to(&graph, &options).unwrap();
    assert_eq!(degraded.mlids(GROUP).collect::<Vec<_>>(), mlids);
    assert_eq!(problems(&graph, &degraded, GROUP), []);
    let (even, odd) = (mlids[0].1, mlids[1].1);
    for switch in graph.switches() {
        let mft = degraded.mft(switch);
        assert_eq!(mft.get(even), mft.get(odd), "both travel on tree 1");
    }
    graph
        .connect(
            Endpoint {
                node: leaf,
                port: wire::PortNum::new(3),
            },
            cable.unwrap(),
        )
        .unwrap();
    let repaired = degraded.moved_to(&graph, &options).unwrap();
    assert_eq!(repaired.mfts, whole.mfts);
}

#[test]
fn where_no_cyclic_tree_is_whole_the_spanning_tree_carries_all() {
    let mut graph = fabric("fat-tree-4-2");
    let options = Options {
        scheme: Scheme::Cyclic,
        labels: Some(recognise(&graph).unwrap()),
        ..Options::default()
    };
    for (leaf, port) in [("s1.0", 3), ("s1.1", 4)] {
        let node = graph.find(leaf).unwrap();
        let port = wire::PortNum::new(port);
        graph.disconnect(Endpoint { node, port }).unwrap();
    }
    let mut multicast = Multicast::new(&graph, &options).unwrap();
    for (_, guid) in ports(&graph) {
        multicast.join(GROUP, guid, Role::Receives).unwrap();
    }
    assert_eq!(problems(&graph, &multicast, GROUP), []);
}

#[test]
fn tables_do_not_depend_on_the_order_of_the_graph() {
    let graph = fabric("fat-tree-4-3");
    let other = shuffled(&graph, 4);
    for scheme in [Scheme::Cyclic, Scheme::SpanningTree] {
        let rows = |graph: &Graph| -> BTreeMap<Guid, Vec<(Lid, PortSet)>> {
            let mut multicast = multicast(graph, scheme);
            for name in ["h0.0.1", "h2.1.0", "h3.0.0", "h3.1.1"] {
                multicast
                    .join(GROUP, port(graph, name).1, Role::Receives)
                    .unwrap();
            }
            let rows = |id| multicast.mft(id).rows().collect();
            graph
                .switches()
                .map(|id| (graph.node(id).guid, rows(id)))
                .collect()
        };
        assert_eq!(rows(&graph), rows(&other));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whoever_joins_and_leaves_copies_come_once_and_changes_are_exactly_the_blocks_that_differ(
        cyclic: bool,
        fabric_index in 0usize..4,
        steps in prop::collection::vec((0usize..16, 0u8..4, 0u128..2), 1..40),
    ) {
        let names = if cyclic {
            ["fat-tree-4-3", "fat-tree-4-2", "fat-tree-6-2", "fat-tree-8-2"]
        } else {
            ["irregular-8-2-3-1", "fat-tree-4-3", "mesh-3x3-2", "ring-8-2"]
        };
        let graph = fabric(names[fabric_index]);
        let ports = ports(&graph);
        let mut multicast =
            multicast(&graph, if cyclic { Scheme::Cyclic } else { Scheme::SpanningTree });
        for (host, what, group) in steps {
            let (_, guid) = ports[host % ports.len()];
            let before = multicast.mfts.clone();
            let changes = match what {
                0 => multicast.leave(Mgid(group), guid).unwrap_or_default(),
                1 => multicast.join(Mgid(group), guid, Role::SendsOnly).unwrap().changes,
                _ => multicast.join(Mgid(group), guid, Role::Receives).unwrap().changes,
            };
            let mut differing = BTreeSet::new();
            for switch in graph.switches() {
                let old = before.get(&switch).cloned().unwrap_or_default();
                for block in 0..8 {
                    for position in 0..16 {
                        let new = multicast.mft(switch).block(block, position);
                        if old.block(block, position) != new {
                            differing.insert(BlockChange { switch, block, position });
                        }
                    }
                }
            }
            prop_assert_eq!(changes, differing);
            for group in 0..2 {
                prop_assert_eq!(problems(&graph, &multicast, Mgid(group)), vec![]);
            }
        }
    }

    #[test]
    fn a_wrong_row_is_noticed(host in 0usize..16, switch in 0usize..20, flip in 1u8..5) {
        let graph = fabric("fat-tree-4-3");
        let ports = ports(&graph);
        let mut multicast = multicast(&graph, Scheme::Cyclic);
        for (_, guid) in &ports {
            multicast.join(GROUP, *guid, Role::Receives).unwrap();
        }
        let id = graph.switches().nth(switch).unwrap();
        let mlid = multicast.dlid(GROUP, ports[host].1).unwrap();
        let row = multicast.mft(id).get(mlid);
        // A switch off this tree is never reached, whatever is in its row.
        prop_assume!(!row.is_empty());
        let port = wire::PortNum::new(flip);
        let changed: PortSet = (1..5)
            .map(wire::PortNum::new)
            .filter(|&other| row.contains(other) != (other == port))
            .collect();
        multicast.mfts.get_mut(&id).unwrap().set(mlid, changed);
        // A tree serves any source, so whatever port is wrong, some host finds out.
        let receivers: BTreeSet<Endpoint> = ports.iter().map(|&(end, _)| end).collect();
        let wrong = ports.iter().any(|&(source, _)| {
            let delivery = deliver(&graph, |switch| multicast.mft(switch), source, mlid);
            !check(&delivery, source, &receivers).is_empty()
        });
        prop_assert!(wrong);
    }
}
