use topologies::{NodeId, parse};

use super::*;
use crate::multicast::PortSet;

const MLID: Lid = Lid::MULTICAST_FIRST;

fn ring() -> (Graph, Vec<NodeId>, Vec<Endpoint>) {
    let graph = parse("ring-3-1").unwrap().graph;
    let switches = graph.switches().collect();
    let hosts = graph
        .hosts()
        .map(|node| Endpoint {
            node,
            port: PortNum::new(1),
        })
        .collect();
    (graph, switches, hosts)
}

/// Tables by switch; port 1 leads to the host, 2 and 3 to the neighbours in ascending order.
fn tables(switches: &[NodeId], rows: [&[u8]; 3]) -> BTreeMap<NodeId, Mft> {
    switches
        .iter()
        .zip(rows)
        .map(|(&switch, ports)| {
            let ports: PortSet = ports.iter().copied().map(PortNum::new).collect();
            let mut mft = Mft::default();
            mft.set(MLID, ports);
            (switch, mft)
        })
        .collect()
}

fn problems(rows: [&[u8]; 3], receivers: &[usize]) -> Vec<DeliveryProblem> {
    let (graph, switches, hosts) = ring();
    let mfts = tables(&switches, rows);
    let receivers = receivers.iter().map(|&host| hosts[host]).collect();
    let delivery = deliver(&graph, |switch| &mfts[&switch], hosts[0], MLID);
    check(&delivery, hosts[0], &receivers)
}

#[test]
fn a_tree_delivers_once_and_never_back() {
    // s0 with s1 (port 2) and s2 (port 3); s1 and s2 know s0 by port 2.
    assert_eq!(problems([&[1, 2, 3], &[1, 2], &[1, 2]], &[0, 1, 2]), []);
    assert_eq!(problems([&[1, 2, 3], &[1, 2], &[1, 2]], &[1, 2]), []);
}

#[test]
fn a_ring_of_ports_is_found_as_a_loop_with_its_ports() {
    let found = problems([&[1, 2, 3], &[1, 2, 3], &[1, 2, 3]], &[0, 1, 2]);
    let Some(DeliveryProblem::Loop(ports)) = found.first() else {
        panic!("{found:?}");
    };
    assert_eq!(ports.len(), 3);
    assert!(found.contains(&DeliveryProblem::Returned));
}

#[test]
fn a_missed_receiver_a_stray_copy_and_a_dead_port_are_told_apart() {
    let (_, switches, hosts) = ring();
    assert_eq!(
        problems([&[1, 2], &[1, 2], &[]], &[1, 2]),
        [DeliveryProblem::Missed(hosts[2])]
    );
    let dead_end = Endpoint {
        node: switches[0],
        port: PortNum::new(3),
    };
    assert_eq!(
        problems([&[1, 2, 3], &[1, 2], &[]], &[1]),
        [DeliveryProblem::Wasted(dead_end)]
    );
    assert_eq!(
        problems([&[1, 2, 3], &[1, 2], &[1, 2]], &[1]),
        [DeliveryProblem::Stray(hosts[2])]
    );
    let (mut graph, ..) = ring();
    let dead = Endpoint {
        node: switches[0],
        port: PortNum::new(3),
    };
    graph.disconnect(dead);
    let mfts = tables(&switches, [&[2, 3], &[1], &[1]]);
    let delivery = deliver(&graph, |switch| &mfts[&switch], hosts[0], MLID);
    assert_eq!(
        check(&delivery, hosts[0], &[hosts[1]].into()),
        [DeliveryProblem::Lost(dead)]
    );
}

#[test]
fn two_ways_to_one_receiver_are_a_repetition() {
    let (_, _, hosts) = ring();
    // s1 passes on to s2, which also hears from s0.
    let found = problems([&[2, 3], &[3], &[1]], &[2]);
    assert!(
        found.contains(&DeliveryProblem::Repeated(hosts[2], 2)),
        "{found:?}"
    );
}
