//! Checked tables, fabrics in other ports, loads of links.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use routing::{Options, Report, RoutingEngine, Tables, verify};
use topologies::{Endpoint, Graph, Node, NodeId};
use wire::PortNum;

pub(crate) use crate::fabrics::{fabric, is_switch, rebuilt, shuffled, without};

pub(crate) fn route(graph: &Graph, name: &str, options: &Options) -> Tables {
    name.parse::<RoutingEngine>()
        .unwrap()
        .route(graph, options)
        .unwrap()
}

/// Tables of that engine, after the verifier found nothing wrong with them.
pub(crate) fn checked(graph: &Graph, name: &str, options: &Options) -> Tables {
    let tables = route(graph, name, options);
    let report = checked_report(graph, &tables);
    assert!(report.is_ok(), "{name}: {}", report.describe(graph));
    if tables.promises.deadlock_free && tables.vl_assignment.is_none() {
        let text = report.describe(graph);
        assert_eq!(report.switch_cycle, None, "{name}: {text}");
    }
    tables
}

pub(crate) fn checked_report(graph: &Graph, tables: &Tables) -> Report {
    verify(graph, tables, tables.promises)
}

/// The same fabric with every switch's cables in other ports.
pub(crate) fn recabled(graph: &Graph, seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let ports: Vec<Vec<PortNum>> = graph
        .ids()
        .map(|id| {
            let mut ports: Vec<PortNum> = (1..=graph.node(id).ports).map(PortNum::new).collect();
            ports.shuffle(&mut random);
            ports
        })
        .collect();
    let order: Vec<NodeId> = graph.ids().collect();
    rebuilt(graph, &order, Node::clone, |end| {
        Some(ports[end.node.index()][end.port.index() - 1])
    })
}

/// Every table as bytes, by GUID, and every LID: what must not depend on order.
pub(crate) fn bytes(graph: &Graph, tables: &Tables) -> Vec<(u64, Vec<u8>)> {
    let mut all: Vec<(u64, Vec<u8>)> = graph
        .ids()
        .map(|id| {
            let node = graph.node(id);
            let mut bytes: Vec<u8> = tables.lft(id).entries().iter().map(|p| p.get()).collect();
            if let Some(range) = tables.lids.of_node(id) {
                bytes.extend(range.base.get().to_be_bytes());
                bytes.push(range.lmc.get());
            }
            (node.guid.0, bytes)
        })
        .collect();
    all.sort();
    all
}

/// The host end of a host.
pub(crate) fn host_end(graph: &Graph, name: &str) -> Endpoint {
    let node = graph.find(name).unwrap();
    let (port, _) = graph.cables(node).next().unwrap();
    Endpoint { node, port }
}

/// How many flows each direction of each cable between switches carries: (upwards most,
/// downwards most) for packets between the hosts given, by the tables' own path selection.
pub(crate) fn loads(graph: &Graph, tables: &Tables, pairs: &[(NodeId, NodeId)]) -> (u32, u32) {
    let mut loads = std::collections::BTreeMap::new();
    for &(from, to) in pairs {
        let dlid = tables.dlid_between(from, to).unwrap();
        let (port, _) = graph.cables(from).next().unwrap();
        let path = tables.path(graph, Endpoint { node: from, port }, dlid);
        assert!(path.arrives);
        for pair in path.hops.windows(2) {
            let (a, b) = (pair[0].node, pair[1].node);
            if is_switch(graph, a) && is_switch(graph, b) {
                let up = tables.order(b) < tables.order(a);
                *loads.entry((up, a, pair[0].exit)).or_insert(0) += 1;
            }
        }
    }
    let most = |wanted| {
        loads
            .iter()
            .filter(|((up, ..), _)| *up == wanted)
            .map(|(_, &load)| load)
            .max()
            .unwrap_or(0)
    };
    (most(true), most(false))
}
