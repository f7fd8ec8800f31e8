//! Circles of lanes: what one lane closes, several break.

use routing::{Lanes, Options, Problem, Promises, Tables, verify};
use topologies::{Graph, NodeId};
use wire::{PortNum, Sl, Vl};

use crate::support::{fabric, route};

/// Everything clockwise on a ring: the least that deadlocks.
fn clockwise(graph: &Graph) -> Tables {
    let mut tables = route(graph, "minhop", &Options::default());
    let switches: Vec<NodeId> = graph.switches().collect();
    let ranges: Vec<_> = tables.lids.iter().cloned().collect();
    for (place, &switch) in switches.iter().enumerate() {
        let next = switches[(place + 1) % switches.len()];
        let (port, _) = graph
            .cables(switch)
            .find(|(_, peer)| peer.node == next)
            .unwrap();
        for range in &ranges {
            let end = range.end.unwrap();
            let at_home = end.node == switch || graph.peer(end).is_some_and(|p| p.node == switch);
            if !at_home {
                let lft = tables.lft_mut(switch).unwrap();
                lft.set(range.base, port);
            }
        }
    }
    tables
}

const DEMANDED: Promises = Promises {
    up_down: false,
    minimal: false,
    deadlock_free: true,
    from_hosts_only: false,
};

#[test]
fn a_ring_on_one_lane_is_a_circle_of_that_lane() {
    let graph = fabric("ring-5-1");
    let mut tables = clockwise(&graph);
    let report = verify(&graph, &tables, DEMANDED);
    let cycle = report.cycle.clone().unwrap();
    assert_eq!(cycle.len(), 5);
    assert!(matches!(&report.problems[..], [Problem::Deadlock(_)]));
    assert!(report.not_minimal > 0);

    tables.lanes = Some(Lanes::single(&graph));
    let laned = verify(&graph, &tables, DEMANDED);
    assert_eq!(laned.cycle.unwrap().len(), 5);
}

#[test]
fn levels_on_lanes_of_their_own_break_the_circle() {
    let graph = fabric("ring-5-1");
    let mut tables = clockwise(&graph);
    let mut lanes = Lanes::identity(&graph, 4);
    // On each level some channel of the ring is not used, or not waited for.
    let level = |from: usize, home: usize| match (from, home) {
        _ if from < home => 0,
        (3.., ..=2) => 1,
        (..=2, _) => 2,
        _ => 3,
    };
    let switches: Vec<NodeId> = graph.switches().collect();
    let place = |node: NodeId| switches.iter().position(|&switch| switch == node);
    for range in tables.lids.iter() {
        let end = range.end.unwrap();
        let Some(home) = graph.peer(end).and_then(|peer| place(peer.node)) else {
            continue;
        };
        for (from, &switch) in switches.iter().enumerate() {
            lanes.set_level(switch, range.base, Sl::truncate(level(from, home)));
        }
    }
    tables.lanes = Some(lanes.clone());
    assert!(verify(&graph, &tables, DEMANDED).is_ok());

    // All levels on one lane: the circle is back, on that lane.
    lanes.sl2vl = [Vl::truncate(1); 16];
    tables.lanes = Some(lanes);
    let report = verify(&graph, &tables, DEMANDED);
    let cycle = report.cycle.clone().unwrap();
    assert!(cycle.iter().all(|channel| channel.vl == Vl::truncate(1)));
    let words = report.describe(&graph).to_string();
    assert!(
        words.contains("port") && words.contains("VL 1 -> "),
        "{words}"
    );
}

#[test]
fn a_table_of_two_ports_may_move_packets_to_another_lane() {
    let graph = fabric("ring-5-1");
    let mut tables = clockwise(&graph);
    let mut lanes = Lanes::identity(&graph, 2);
    // At the first switch, what comes from the last one goes on on lane 1, and stays there by the
    // next switches' tables.
    let switches: Vec<NodeId> = graph.switches().collect();
    let to = |from: NodeId, to: NodeId| -> PortNum {
        let found = graph.cables(from).find(|(_, peer)| peer.node == to);
        found.unwrap().0
    };
    let (first, second, last) = (switches[0], switches[1], switches[4]);
    lanes.by_ports.insert(
        (first, to(first, last), to(first, second)),
        [Vl::truncate(1); 16],
    );
    tables.lanes = Some(lanes);
    // The circle is a spiral now: lane 0 up to the last switch, then lane 1 for one hop, then
    // lane 0 again, which closes it still.
    let report = verify(&graph, &tables, DEMANDED);
    let cycle = report.cycle.unwrap();
    assert!(cycle.iter().any(|channel| channel.vl == Vl::truncate(1)));
}
