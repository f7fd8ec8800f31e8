//! Director switches and groups as in a dragonfly, and what `updn` and `auto` make of them.

use routing::network::Network;
use routing::quality::{Pattern, link_loads};
use routing::structure::Structure;
use routing::{Options, Tables};
use topologies::{AsBuilt, Endpoint, Graph, Node, NodeKind};
use wire::{Guid, PortNum};

use crate::support::{checked, checked_report, fabric, route, shuffled};

fn structure(graph: &Graph) -> Structure {
    Structure::of(graph, &Network::new(graph))
}

/// Names of switches by number.
fn names(graph: &Graph, switches: &[usize]) -> Vec<String> {
    let network = Network::new(graph);
    let name = |&switch: &usize| graph.node(network.switches()[switch]).name.clone();
    switches.iter().map(name).collect()
}

#[test]
fn a_chassis_is_told_into_its_leaf_and_spine_boards() {
    let graph = fabric("directors-12-4-2-6-3");
    let found = structure(&graph);
    assert_eq!(
        found.to_string(),
        "2 director switches of 6 leaf and 3 spine boards"
    );
    let spines: Vec<String> = found
        .directors
        .iter()
        .flat_map(|one| names(&graph, &one.spine_boards))
        .collect();
    assert_eq!(
        spines,
        [
            "spine6", "spine7", "spine8", "spine15", "spine16", "spine17"
        ]
    );
    let shuffled = structure(&shuffled(&graph, 3));
    assert_eq!(shuffled, found);
}

#[test]
fn a_leaf_board_without_cables_to_the_outside_is_none_of_the_spine_boards() {
    let mut graph = fabric("directors-12-4-1-6-3");
    let idle = graph.find("spine2").unwrap();
    let ports: Vec<PortNum> = graph
        .cables(idle)
        .filter(|(_, peer)| graph.node(peer.node).name.starts_with("leaf"))
        .map(|(port, _)| port)
        .collect();
    for port in ports {
        graph.disconnect(Endpoint { node: idle, port });
    }
    let found = structure(&graph);
    assert!(names(&graph, &found.directors[0].leaf_boards).contains(&"spine2".to_owned()));
}

#[test]
fn two_switches_of_one_image_and_switches_of_different_ones_are_no_director() {
    for name in ["fat-tree-4-3", "clos-4-2-2", "torus-4x4-1", "star-3"] {
        assert!(structure(&fabric(name)).is_plain(), "{name}");
    }
    assert!(
        structure(&AsBuilt::new(8, 4, 4, 2, 1).graph().unwrap())
            .directors
            .is_empty()
    );
    let mut graph = fabric("clos-2-2-1");
    let (one, other) = (graph.find("leaf0").unwrap(), graph.find("leaf1").unwrap());
    let image = graph.node(one).guid;
    graph.set_system_image(other, image);
    assert_eq!(structure(&graph).directors, []);
}

#[test]
fn groups_of_a_dragonfly_are_found_and_those_of_other_fabrics_are_not() {
    for (name, groups, switches) in [
        ("dragonfly-5-4-2", 5, 4),
        ("dragonfly-9-4-2", 9, 4),
        ("dragonfly-9-8-2-2", 9, 8),
        ("dragonfly-3-3-1", 3, 3),
    ] {
        let graph = fabric(name);
        let found = structure(&graph);
        assert_eq!(
            found.to_string(),
            format!("{groups} groups of {switches} switches, joined as in a dragonfly"),
            "{name}"
        );
        assert_eq!(names(&graph, &found.groups[1])[0], format!("s{switches}"));
    }
    for name in [
        "fat-tree-4-3",
        "fat-tree-8-2",
        "clos-8-4-4",
        "torus-4x4-1",
        "torus-5x5x5-1",
        "mesh-4x4-1",
        "hypercube-4-1",
        "ring-9-1",
        "irregular-16-2-4-1",
        "directors-12-4-2-6-3",
        "as-built-8-4-4-2-1",
    ] {
        assert_eq!(
            structure(&fabric(name)).groups,
            [] as [Vec<usize>; 0],
            "{name}"
        );
    }
}

/// Groups of leaf and spine switches, whose spines are joined to those of the other groups.
fn dragonfly_plus(groups: usize, leaves: usize, spines: usize) -> Graph {
    let mut graph = Graph::new();
    let mut count = 0;
    let mut add = |graph: &mut Graph, name: String, kind| {
        count += 0x100;
        graph
            .add(Node::new(name, kind, Guid(0x1000 + count), 60))
            .unwrap()
    };
    let mut switches = Vec::new();
    for group in 0..groups {
        for leaf in 0..leaves + spines {
            let switch = add(&mut graph, format!("g{group}s{leaf}"), NodeKind::Switch);
            switches.push(switch);
            if leaf < leaves {
                let host = add(&mut graph, format!("g{group}h{leaf}"), NodeKind::Host);
                let (host, switch) = (end(host, 1), end(switch, 1));
                graph.connect(host, switch).unwrap();
            }
        }
    }
    let at = |group: usize, place: usize| switches[group * (leaves + spines) + place];
    for group in 0..groups {
        for leaf in 0..leaves {
            for spine in 0..spines {
                let above = at(group, leaves + spine);
                graph
                    .connect(end(at(group, leaf), 2 + spine), end(above, 2 + leaf))
                    .unwrap();
            }
        }
        for other in group + 1..groups {
            for spine in 0..spines {
                let (a, b) = (at(group, leaves + spine), at(other, leaves + spine));
                graph
                    .connect(end(a, 20 + other), end(b, 20 + group))
                    .unwrap();
            }
        }
    }
    graph
}

fn end(node: topologies::NodeId, port: usize) -> Endpoint {
    Endpoint {
        node,
        port: PortNum::new(u8::try_from(port).unwrap()),
    }
}

#[test]
fn spines_belong_to_the_group_of_their_leaves() {
    let graph = dragonfly_plus(4, 4, 4);
    let found = structure(&graph);
    assert_eq!(found.groups.len(), 4, "{found}");
    assert!(found.groups.iter().all(|group| group.len() == 8));
}

fn busiest(graph: &Graph, tables: &Tables) -> u64 {
    link_loads(graph, tables, Pattern::AllToAll).max
}

#[test]
fn a_fabric_of_directors_is_routed_over_their_spine_boards() {
    // A service host on a spine board makes no leaf of it.
    let mut graph = fabric("directors-12-4-2-6-3");
    let board = graph.find("spine6").unwrap();
    let service = Node::new("service", NodeKind::Host, Guid(0x77), 1);
    let service = graph.add(service).unwrap();
    let free = usize::from(graph.node(board).ports);
    assert!(
        graph
            .connect(end(service, 1), end(board, free + 1))
            .is_err()
    );
    let port = graph.cables(board).next().unwrap().0;
    graph.disconnect(Endpoint { node: board, port });
    graph
        .connect(end(service, 1), Endpoint { node: board, port })
        .unwrap();
    let tables = checked(&graph, "updn", &Options::default());
    let any = route(&graph, "minhop", &Options::default());
    let (own, least) = (busiest(&graph, &tables), busiest(&graph, &any));
    assert!(own * 100 <= least * 125, "{own} against {least}");
}

#[test]
fn every_engine_that_auto_may_take_serves_groups_and_directors() {
    for name in ["dragonfly-5-4-2", "directors-12-4-2-6-3"] {
        let graph = fabric(name);
        for engine in ["auto", "updn"] {
            checked(&graph, engine, &Options::default());
        }
        // These order the packets of hosts. On one VL those of switches' own ports can close a cycle with
        // them; `auto` leaves such tables out.
        for engine in ["dfsssp", "nue"] {
            let tables = route(&graph, engine, &Options::default());
            assert!(checked_report(&graph, &tables).is_ok(), "{engine}: {name}");
        }
    }
}
