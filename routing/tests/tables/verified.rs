//! The verifier finds what is wrong.

use std::collections::BTreeSet;

use routing::{DeliveryFailure, Options, Problem, Promises, Tables, verify};
use topologies::{Endpoint, Graph, NodeId};
use wire::{Lid, PortNum};

use crate::support::{checked, checked_report, fabric, route, without};

const ALL: Promises = Promises {
    up_down: true,
    minimal: true,
    deadlock_free: true,
    from_hosts_only: false,
};

fn tree() -> (Graph, Tables) {
    let graph = fabric("fat-tree-4-3");
    let tables = checked(&graph, "mlid", &Options::default());
    (graph, tables)
}

fn set(graph: &Graph, tables: &mut Tables, switch: &str, lid: Lid, port: u8) -> NodeId {
    let id = graph.find(switch).unwrap();
    let lft = tables.lft_mut(id).unwrap();
    lft.set(lid, PortNum::new(port));
    id
}

fn base(graph: &Graph, tables: &Tables, name: &str) -> Lid {
    tables.lids.of_node(graph.find(name).unwrap()).unwrap().base
}

/// The switches that packets from hosts to this LID cross.
fn from_hosts(graph: &Graph, tables: &Tables, lid: Lid) -> BTreeSet<NodeId> {
    graph
        .hosts()
        .flat_map(|node| {
            let (port, _) = graph.cables(node).next().unwrap();
            tables.path(graph, Endpoint { node, port }, lid).hops
        })
        .map(|hop| hop.node)
        .collect()
}

#[test]
fn any_single_wrong_entry_for_a_host_is_caught_or_is_another_legal_path() {
    let (graph, tables) = tree();
    for switch in graph.switches() {
        for lid in (4..4 + 64).map(Lid::new) {
            let right = tables.lft(switch).get(lid);
            for port in [0, 1, 2, 3, 4, 5, 255].map(PortNum::new) {
                let mut wrong = tables.clone();
                wrong.lft_mut(switch).unwrap().set(lid, port);
                let report = verify(&graph, &wrong, ALL);
                // Upwards any parent leads to any host; and what only a switch's own packets meet
                // need be no shortest path.
                let also_upwards = right.get() > 2 && (3..=4).contains(&port.get());
                if report.is_ok() {
                    let crossed = from_hosts(&graph, &tables, lid).contains(&switch);
                    assert!(port == right || also_upwards || !crossed);
                } else {
                    assert_ne!(port, right);
                    let text = report.describe(&graph).to_string();
                    assert!(text.lines().count() > 1, "{text}");
                }
            }
        }
    }
}

#[test]
fn a_missing_entry_a_dead_port_and_a_wrong_host_are_told_apart() {
    let (graph, tables) = tree();
    let lid = base(&graph, &tables, "h0.0.0");
    for (port, failure) in [
        (255, DeliveryFailure::NoEntry(graph.find("s2.0.0").unwrap())),
        (2, DeliveryFailure::NotOwner(graph.find("s2.0.0").unwrap())),
        (0, DeliveryFailure::NotOwner(graph.find("s2.0.0").unwrap())),
        (
            77,
            DeliveryFailure::DeadPort(graph.find("s2.0.0").unwrap(), PortNum::new(77)),
        ),
    ] {
        let mut wrong = tables.clone();
        set(&graph, &mut wrong, "s2.0.0", lid, port);
        let report = verify(&graph, &wrong, ALL);
        // Every switch sends packets for this host to its leaf switch.
        assert_eq!(report.problem_count, 20);
        assert_eq!(
            (report.hosts_unreachable, report.switches_unreachable),
            (8, 12)
        );
        assert!(report.problems.iter().all(|problem| matches!(
            problem,
            Problem::Unreachable { failure: found, .. } if *found == failure
        )));
    }
}

#[test]
fn a_loop_is_shown_with_the_switches_it_goes_round() {
    let (graph, mut tables) = tree();
    let lid = base(&graph, &tables, "h3.0.0");
    let root = set(&graph, &mut tables, "s0.0.0", lid, 1);
    let report = checked_report(&graph, &tables);
    let below = graph.find("s1.0.0").unwrap();
    let looped = |problem: &Problem| match problem {
        Problem::Unreachable {
            failure: DeliveryFailure::Loop(nodes),
            ..
        } => nodes.contains(&root) && nodes.contains(&below) && nodes.len() == 2,
        _ => false,
    };
    assert!(report.problems.iter().any(looped));
    assert!(report.describe(&graph).to_string().contains("go round s"));
}

#[test]
fn a_detour_breaks_the_promises_of_shortest_paths_and_of_no_turn_upwards() {
    let (graph, mut tables) = tree();
    // From s2.0.0 up to s1.0.0, down to s2.0.1, and up again to another root.
    let lid = base(&graph, &tables, "h3.0.0");
    let at = set(&graph, &mut tables, "s1.0.0", lid, 2);
    set(&graph, &mut tables, "s2.0.1", lid, 4);
    let report = checked_report(&graph, &tables);
    assert!(report.problems.iter().any(|problem| matches!(
        problem,
        Problem::NotMinimal {
            hops: 6,
            shortest: 4,
            ..
        }
    )));
    let turn = graph.find("s2.0.1").unwrap();
    assert!(
        report
            .problems
            .contains(&Problem::UpAfterDown { at: turn, lid })
    );
    assert_eq!(report.hosts_unreachable, 0);
    assert!(at != turn);
}

#[test]
fn minhop_on_a_ring_of_five_can_deadlock_and_the_credit_loop_is_printed() {
    for switches in [5, 6, 9] {
        let graph = fabric(&format!("ring-{switches}-1"));
        let tables = route(&graph, "minhop", &Options::default());
        let promises = Promises {
            deadlock_free: true,
            ..tables.promises
        };
        let report = verify(&graph, &tables, promises);
        assert_eq!(report.problem_count, 1);
        let cycle = report.cycle.clone().unwrap();
        assert_eq!(cycle.len(), switches, "once around");
        // Each channel ends where the next begins.
        for (index, channel) in cycle.iter().enumerate() {
            let next = cycle[(index + 1) % cycle.len()];
            let end = Endpoint {
                node: channel.switch,
                port: channel.port,
            };
            assert_eq!(graph.peer(end).unwrap().node, next.switch);
        }
        let text = report.describe(&graph).to_string();
        assert!(text.contains("credit loop: s"), "{text}");
        assert!(text.contains("port 2 VL 0 -> "), "{text}");

        let updn = checked(&graph, "updn", &Options::default());
        assert_eq!(checked_report(&graph, &updn).cycle, None);
    }
}

#[test]
fn minhop_on_a_torus_can_deadlock_and_updn_cannot() {
    let graph = fabric("torus-5x5-1");
    let minhop = checked_report(&graph, &route(&graph, "minhop", &Options::default()));
    assert!(minhop.is_ok(), "it promises shortest paths only");
    assert!(minhop.cycle.is_some());
    assert!(
        minhop
            .describe(&graph)
            .to_string()
            .contains("deadlock possible")
    );
    let updn = checked_report(&graph, &checked(&graph, "updn", &Options::default()));
    assert_eq!(updn.cycle, None);
}

#[test]
fn parts_that_no_cable_joins_are_not_held_against_the_tables() {
    let graph = fabric("ring-6-2");
    let cut: Vec<_> = [("s0", "s1"), ("s3", "s4")]
        .iter()
        .map(|(from, to)| {
            let node = graph.find(from).unwrap();
            let to = graph.find(to).unwrap();
            let (port, _) = graph
                .cables(node)
                .find(|(_, peer)| peer.node == to)
                .unwrap();
            Endpoint { node, port }
        })
        .collect();
    let graph = without(&graph, &[], &cut);
    for engine in ["updn", "minhop", "auto"] {
        let tables = checked(&graph, engine, &Options::default());
        let report = checked_report(&graph, &tables);
        // Three switches and six hosts in each part.
        assert_eq!(report.pairs, 2 * 3 * 9);
    }
}

#[test]
fn fabrics_without_switches_hosts_or_anything_have_tables_too() {
    let mut graph = Graph::new();
    for engine in ["updn", "minhop", "auto"] {
        assert_eq!(
            checked(&graph, engine, &Options::default()).top(),
            Lid::ZERO
        );
    }
    let two = "Ca 1 \"a\"\n[1] \"b\"[1]\nCa 1 \"b\"\n[1] \"a\"[1]\n";
    graph = topologies::read_text(two).unwrap();
    for engine in ["updn", "minhop", "auto"] {
        assert_eq!(checked(&graph, engine, &Options::default()).top().get(), 2);
    }
    graph = topologies::read_text("Switch 4 \"s\"\nSwitch 4 \"t\"\n").unwrap();
    for engine in ["updn", "minhop", "auto"] {
        assert_eq!(checked(&graph, engine, &Options::default()).top().get(), 2);
    }
}
