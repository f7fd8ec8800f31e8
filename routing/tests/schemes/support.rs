//! Tables in words, fabrics by their cables, and golden files.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use routing::Tables;
use topologies::{Endpoint, Graph, Node, NodeId, NodeKind, host_guid, switch_guid};
use wire::PortNum;

pub(crate) use crate::fabrics::{fabric, is_switch, shuffled, without};

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

/// A fabric of switches that are cabled like this, with so many hosts each. Cables take the ports in
/// order, behind the hosts'.
pub(crate) fn cabled(hosts: &[u8], cables: &[(usize, usize)]) -> Graph {
    let mut graph = Graph::new();
    let mut ports = vec![0u8; hosts.len()];
    for &(a, b) in cables {
        ports[a] += 1;
        ports[b] += 1;
    }
    let switches: Vec<NodeId> = hosts
        .iter()
        .zip(&ports)
        .enumerate()
        .map(|(number, (hosts, ports))| {
            let name = format!("s{number}");
            let guid = switch_guid(number);
            let node = Node::new(name, NodeKind::Switch, guid, hosts + ports);
            graph.add(node).unwrap()
        })
        .collect();
    let mut used = vec![0u8; hosts.len()];
    let mut port = |switch: usize| {
        used[switch] += 1;
        Endpoint {
            node: switches[switch],
            port: PortNum::new(used[switch]),
        }
    };
    let mut number = 0;
    for (switch, &hosts) in hosts.iter().enumerate() {
        for _ in 0..hosts {
            let name = format!("h{number}");
            let node = graph.add(Node::new(name, NodeKind::Host, host_guid(number), 1));
            number += 1;
            let end = Endpoint {
                node: node.unwrap(),
                port: PortNum::new(1),
            };
            graph.connect(end, port(switch)).unwrap();
        }
    }
    for &(a, b) in cables {
        graph.connect(port(a), port(b)).unwrap();
    }
    graph
}

/// Hosts and cables for [`cabled`]: any connected fabric of 2 to 13 switches.
pub(crate) fn drawn() -> impl Strategy<Value = (Vec<u8>, Vec<(usize, usize)>)> {
    let hosts = prop::collection::vec(0u8..3, 2..14);
    let parents = prop::collection::vec(0usize..14, 13);
    let others = prop::collection::vec((0usize..14, 0usize..14), 0..20);
    (hosts, parents, others).prop_map(|(hosts, parents, others)| {
        let count = hosts.len();
        let tree = (1..count).map(|switch| (switch, parents[switch - 1] % switch));
        let others = others.into_iter().map(|(a, b)| (a % count, b % count));
        let cables = tree.chain(others.filter(|(a, b)| a != b)).collect();
        (hosts, cables)
    })
}

/// A dragonfly: groups of `a` switches, all cabled to each other, each with `p` hosts and `h` cables to
/// other groups, one between any two of the `a h + 1` groups.
pub(crate) fn dragonfly(a: usize, p: u8, h: usize) -> Graph {
    let groups = a * h + 1;
    let mut cables = Vec::new();
    for group in 0..groups {
        for one in 0..a {
            cables.extend((one + 1..a).map(|other| (group * a + one, group * a + other)));
        }
        for other in group + 1..groups {
            let (from, to) = (other - group - 1, groups - 1 - (other - group));
            cables.push((group * a + from / h, other * a + to / h));
        }
    }
    cabled(&vec![p; groups * a], &cables)
}
