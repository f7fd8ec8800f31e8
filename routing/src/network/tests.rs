use topologies::{Node, NodeKind};

use super::*;

/// The same fabric with its nodes entered in another order.
pub(crate) fn shuffled(graph: &Graph, seed: u64) -> Graph {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    let mut order: Vec<NodeId> = graph.ids().collect();
    order.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    let mut other = Graph::new();
    for &id in &order {
        let node: Node = graph.node(id).clone();
        other.add(node).unwrap();
    }
    let moved = |end: Endpoint| Endpoint {
        node: other_id(graph, &other, end.node),
        port: end.port,
    };
    let links: Vec<_> = graph.links().map(|(a, b)| (moved(a), moved(b))).collect();
    for (a, b) in links.into_iter().rev() {
        other.connect(b, a).unwrap();
    }
    other
}

/// The node of the same GUID.
pub(crate) fn other_id(graph: &Graph, other: &Graph, id: NodeId) -> NodeId {
    other.find_guid(graph.node(id).guid).unwrap()
}

pub(crate) fn graph(name: &str) -> Graph {
    topologies::parse(name).unwrap().graph
}

#[test]
fn numbers_do_not_depend_on_the_order_of_the_graph() {
    let graph = graph("irregular-8-2-3-5");
    let other = shuffled(&graph, 9);
    let (a, b) = (Network::new(&graph), Network::new(&other));
    assert_eq!(a.channels(), b.channels());
    let at = |network: &Network| -> Vec<_> {
        let hosts = network.hosts().iter();
        hosts.map(|h| (h.guid, h.switch, h.port)).collect()
    };
    assert_eq!(at(&a), at(&b));
    let names = |graph: &Graph, nodes: &[NodeId]| -> Vec<String> {
        nodes
            .iter()
            .map(|&id| graph.node(id).name.clone())
            .collect()
    };
    let ends = |graph: &Graph, network: &Network| {
        let nodes: Vec<NodeId> = network.hosts().iter().map(|host| host.end.node).collect();
        names(graph, &nodes)
    };
    assert_eq!(names(&graph, a.switches()), names(&other, b.switches()));
    assert_eq!(ends(&graph, &a), ends(&other, &b));
}

#[test]
fn channels_come_in_pairs_and_are_found_by_their_port() {
    let network = Network::new(&graph("torus-2x3-1"));
    for (number, channel) in network.channels().iter().enumerate() {
        let back = network.channels()[channel.reverse];
        assert_eq!((back.from, back.to), (channel.to, channel.from));
        assert_eq!(back.reverse, number);
        assert_eq!(network.channel_at(network.endpoint(number)), Some(number));
    }
    assert_eq!(network.channel_at(network.hosts()[0].end), None);
}

#[test]
fn legal_paths_never_climb_after_a_descent_and_keep_to_their_length() {
    let network = Network::new(&graph("irregular-16-1-4-3"));
    let updown = UpDown::new(&network).unwrap();
    let limit = PathLimit {
        detour: 1,
        paths_max: 10_000,
    };
    for target in 0..16 {
        let hops = updown.hops_to(&network, target);
        let paths = LegalPaths::to(&network, &updown, target, limit).unwrap();
        for source in 0..16 {
            let shortest = hops.any[source].unwrap() as usize;
            assert_eq!(paths.from(source)[0].len(), shortest);
            for path in paths.from(source) {
                assert!(path.len() <= shortest + 1);
                let mut at = source;
                let mut descending = false;
                for &channel in path {
                    let channel = channel as usize;
                    assert_eq!(network.channels()[channel].from, at);
                    assert!(!(descending && updown.is_up(channel)));
                    descending |= !updown.is_up(channel);
                    at = network.channels()[channel].to;
                }
                assert_eq!(at, target);
            }
        }
    }
}

#[test]
fn a_network_in_two_parts_has_no_orientation() {
    let mut graph = graph("mesh-2-1");
    let cut = graph
        .links()
        .find(|(a, b)| {
            [a, b]
                .iter()
                .all(|end| graph.node(end.node).kind == NodeKind::Switch)
        })
        .unwrap();
    graph.disconnect(cut.0);
    assert_eq!(UpDown::new(&Network::new(&graph)), None);
}

#[test]
fn more_paths_than_the_limit_are_an_error_and_not_a_long_wait() {
    let network = Network::new(&graph("hypercube-4-1"));
    let updown = UpDown::from_root(&network, 0).unwrap();
    let limit = PathLimit {
        detour: 0,
        paths_max: 3,
    };
    assert_eq!(
        LegalPaths::to(&network, &updown, 15, limit),
        Err(PathsTooMany { paths_max: 3 })
    );
}
