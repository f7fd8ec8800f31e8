//! Fabrics for the tests of both folders: by name, in another order, damaged.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use topologies::{Endpoint, Graph, Node, NodeId, NodeKind, parse};
use wire::PortNum;

pub(crate) fn fabric(name: &str) -> Graph {
    parse(name).unwrap().graph
}

pub(crate) fn is_switch(graph: &Graph, id: NodeId) -> bool {
    graph.node(id).kind == NodeKind::Switch
}

/// The same fabric with other nodes, in another order, with other ports: `order` lists the nodes
/// to keep, `change` may change each, `port` says where each cable goes, if anywhere.
pub(crate) fn rebuilt(
    graph: &Graph,
    order: &[NodeId],
    mut change: impl FnMut(&Node) -> Node,
    mut port: impl FnMut(Endpoint) -> Option<PortNum>,
) -> Graph {
    let mut copy = Graph::new();
    let mut moved = vec![None; graph.len()];
    for &id in order {
        moved[id.index()] = Some(copy.add(change(graph.node(id))).unwrap());
    }
    for (a, b) in graph.links() {
        let mut end = |end: Endpoint| {
            Some(Endpoint {
                node: moved[end.node.index()]?,
                port: port(end)?,
            })
        };
        if let (Some(a), Some(b)) = (end(a), end(b)) {
            copy.connect(a, b).unwrap();
        }
    }
    copy
}

/// The same fabric with its nodes in another order and its cables entered backwards.
pub(crate) fn shuffled(graph: &Graph, seed: u64) -> Graph {
    let mut order: Vec<NodeId> = graph.ids().collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut other = Graph::new();
    for &id in &order {
        other.add(graph.node(id).clone()).unwrap();
    }
    let moved = |end: Endpoint| Endpoint {
        node: other.find_guid(graph.node(end.node).guid).unwrap(),
        port: end.port,
    };
    let links: Vec<_> = graph.links().map(|(a, b)| (moved(b), moved(a))).collect();
    for (a, b) in links.into_iter().rev() {
        other.connect(a, b).unwrap();
    }
    other
}

/// The fabric without these nodes (and their cables) and without these cables, each named by one
/// of its ends.
pub(crate) fn without(graph: &Graph, nodes: &[NodeId], cables: &[Endpoint]) -> Graph {
    let gone: BTreeSet<NodeId> = nodes.iter().copied().collect();
    let cut: BTreeSet<Endpoint> = cables
        .iter()
        .flat_map(|&end| [Some(end), graph.peer(end)])
        .flatten()
        .collect();
    let order: Vec<NodeId> = graph.ids().filter(|id| !gone.contains(id)).collect();
    rebuilt(graph, &order, Node::clone, |end| {
        (!cut.contains(&end)).then_some(end.port)
    })
}
