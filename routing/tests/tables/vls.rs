//! Credit loops: what is one on a single VL is none on several.

use routing::{Options, Problem, Promises, Tables, VlAssignment, verify};
use topologies::{Graph, NodeId};
use wire::{PortNum, Sl, Vl};

use crate::support::{fabric, route, without};

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
            let is_last = end.node == switch || graph.peer(end).is_some_and(|p| p.node == switch);
            if !is_last {
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
fn a_ring_on_one_vl_is_a_credit_loop_of_that_vl() {
    let graph = fabric("ring-5-1");
    let mut tables = clockwise(&graph);
    let report = verify(&graph, &tables, DEMANDED);
    let cycle = report.cycle.clone().unwrap();
    assert_eq!(cycle.len(), 5);
    assert!(matches!(&report.problems[..], [Problem::Deadlock(_)]));
    assert!(report.not_minimal > 0);

    tables.vl_assignment = Some(VlAssignment::single(&graph));
    let with_vls = verify(&graph, &tables, DEMANDED);
    assert_eq!(with_vls.cycle.unwrap().len(), 5);
}

#[test]
fn service_levels_on_vls_of_their_own_break_the_credit_loop() {
    let graph = fabric("ring-5-1");
    let mut tables = clockwise(&graph);
    let mut assignment = VlAssignment::identity(&graph, 4);
    // On each SL some channel of the ring is not used, or not waited for.
    let sl = |from: usize, last: usize| match (from, last) {
        _ if from < last => 0,
        (3.., ..=2) => 1,
        (..=2, _) => 2,
        _ => 3,
    };
    let switches: Vec<NodeId> = graph.switches().collect();
    let place = |node: NodeId| switches.iter().position(|&switch| switch == node);
    for range in tables.lids.iter() {
        let end = range.end.unwrap();
        let Some(last) = graph.peer(end).and_then(|peer| place(peer.node)) else {
            continue;
        };
        for (from, &switch) in switches.iter().enumerate() {
            assignment.set_sl(switch, range.base, Sl::constant(sl(from, last)));
        }
    }
    tables.vl_assignment = Some(assignment.clone());
    assert!(verify(&graph, &tables, DEMANDED).is_ok());

    // All SLs on one VL: the credit loop is back, on that VL.
    assignment.sl2vl = [Vl::constant(1); 16];
    tables.vl_assignment = Some(assignment);
    let report = verify(&graph, &tables, DEMANDED);
    let cycle = report.cycle.clone().unwrap();
    assert!(cycle.iter().all(|channel| channel.vl == Vl::constant(1)));
    let words = report.describe(&graph).to_string();
    assert!(
        words.contains("port") && words.contains("VL 1 -> "),
        "{words}"
    );
}

#[test]
fn one_definition_holds_with_and_without_service_levels_and_switches_are_judged_apart() {
    // Hosts at the two ends of a cable only: their packets cross one channel each way.
    let graph = fabric("ring-5-1");
    let host = |name: &str| graph.find(name).unwrap();
    let far: Vec<NodeId> = ["h2", "h3", "h4"].map(host).into();
    let graph = without(&graph, &far, &[]);
    let mut tables = clockwise(&graph);
    for data_vls in [None, Some(1), Some(2)] {
        tables.vl_assignment = data_vls.map(|vls| VlAssignment::identity(&graph, vls));
        let report = verify(&graph, &tables, DEMANDED);
        // Between the two hosts packets go round, but never all the way on one another's channels.
        assert_eq!(report.cycle, None, "{data_vls:?}");
        assert!(report.is_ok(), "{}", report.describe(&graph));
        // Packets of switches' own ports do.
        let cycle = report.switch_cycle.clone().unwrap();
        assert_eq!(cycle.len(), 5, "{data_vls:?}");
        let words = report.describe(&graph).to_string();
        assert!(words.contains("packets of switches' port 0: s"), "{words}");
    }
}

#[test]
fn a_table_of_two_ports_may_move_packets_to_another_vl() {
    let graph = fabric("ring-5-1");
    let mut tables = clockwise(&graph);
    let mut assignment = VlAssignment::identity(&graph, 2);
    // At the first switch, what comes from the last one goes on on VL 1, and stays there by the
    // next switches' tables.
    let switches: Vec<NodeId> = graph.switches().collect();
    let to = |from: NodeId, to: NodeId| -> PortNum {
        let found = graph.cables(from).find(|(_, peer)| peer.node == to);
        found.unwrap().0
    };
    let (first, second, last) = (switches[0], switches[1], switches[4]);
    assignment.by_ports.insert(
        (first, to(first, last), to(first, second)),
        [Vl::constant(1); 16],
    );
    tables.vl_assignment = Some(assignment);
    // The cycle is a spiral now: VL 0 up to the last switch, then VL 1 for one hop, then
    // VL 0 again, which closes it still.
    let report = verify(&graph, &tables, DEMANDED);
    let cycle = report.cycle.unwrap();
    assert!(cycle.iter().any(|channel| channel.vl == Vl::constant(1)));
}
