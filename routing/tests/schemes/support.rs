//! Fabrics for tests, and golden files.

use std::fmt::Write as _;
use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use routing::Tables;
use topologies::{Endpoint, Graph, NodeId, NodeKind, parse};

pub(crate) fn fabric(name: &str) -> Graph {
    parse(name).unwrap().graph
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

/// LIDs and tables in words: what must not depend on the order of the graph.
pub(crate) fn text(graph: &Graph, tables: &Tables) -> String {
    let mut text = String::new();
    for range in tables.lids.iter() {
        let name = range
            .end
            .map_or("-", |end| graph.node(end.node).name.as_str());
        writeln!(text, "lid {} lmc {} {name}", range.base, range.lmc).unwrap();
    }
    let mut switches: Vec<NodeId> = graph.switches().collect();
    switches.sort_by_key(|&id| graph.node(id).guid);
    for id in switches {
        let entries: Vec<String> = tables
            .lft(id)
            .entries()
            .iter()
            .map(|port| port.to_string())
            .collect();
        writeln!(text, "lft {} {}", graph.node(id).name, entries.join(" ")).unwrap();
    }
    let mut hosts: Vec<NodeId> = graph.hosts().collect();
    hosts.sort_by_key(|&id| graph.node(id).guid);
    for &from in &hosts {
        let dlids: Vec<String> = hosts
            .iter()
            .map(|&to| {
                tables
                    .dlid_between(from, to)
                    .map_or("-".into(), |lid| lid.to_string())
            })
            .collect();
        writeln!(text, "dlid {} {}", graph.node(from).name, dlids.join(" ")).unwrap();
    }
    text
}

/// Compares with `tests/golden/<name>`; `GOLDEN=write` in the environment writes it instead.
#[allow(
    clippy::disallowed_methods,
    reason = "golden files are read and, on request, written"
)]
pub(crate) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    let line = wanted.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(wanted == text, "{name} differs, first after line {line:?}");
}

pub(crate) fn is_switch(graph: &Graph, id: NodeId) -> bool {
    graph.node(id).kind == NodeKind::Switch
}
