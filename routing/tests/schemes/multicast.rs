//! MCAST07: golden tables of whole groups.

use std::fmt::Write as _;

use routing::multicast::{Mgid, Multicast, Options, Role, Scheme};
use routing::port_guid;
use topologies::{Endpoint, Graph, NodeId};
use wire::{Guid, PortNum};

use crate::support::{fabric, golden, shuffled};

fn ports(graph: &Graph) -> Vec<(String, Guid)> {
    let port = PortNum::new(1);
    let mut ports: Vec<(String, Guid)> = graph
        .hosts()
        .map(|node| {
            let guid = port_guid(graph, Endpoint { node, port });
            (graph.node(node).name.clone(), guid)
        })
        .collect();
    ports.sort_by_key(|&(_, guid)| guid);
    ports
}

/// Group 1 is all hosts, group 2 every third host with the first as a sender only.
fn text(graph: &Graph, scheme: Scheme) -> String {
    let options = Options {
        scheme,
        ..Options::default()
    };
    let mut multicast = Multicast::new(graph, &options).unwrap();
    let ports = ports(graph);
    for (index, &(_, guid)) in ports.iter().enumerate() {
        multicast.join(Mgid(1), guid, Role::Receives).unwrap();
        if index % 3 == 0 {
            let role = if index == 0 {
                Role::SendsOnly
            } else {
                Role::Receives
            };
            multicast.join(Mgid(2), guid, role).unwrap();
        }
    }
    let mut text = String::new();
    let mut switches: Vec<NodeId> = graph.switches().collect();
    switches.sort_by_key(|&id| graph.node(id).guid);
    for id in switches {
        for (mlid, row) in multicast.mft(id).rows() {
            let row: Vec<String> = row.iter().map(|port| port.to_string()).collect();
            let name = &graph.node(id).name;
            writeln!(text, "{name} {:#x}: {}", mlid.get(), row.join(" ")).unwrap();
        }
    }
    for group in [Mgid(1), Mgid(2)] {
        for (name, guid) in &ports {
            if let Some(mlid) = multicast.dlid(group, *guid) {
                writeln!(text, "{name} sends to {} at {:#x}", group.0, mlid.get()).unwrap();
            }
        }
    }
    text
}

#[test]
fn tables_are_golden_and_the_same_whatever_the_order_of_the_graph() {
    for (scheme, word, names) in [
        (
            Scheme::Cyclic,
            "cyclic",
            ["fat-tree-4-2", "fat-tree-4-3", "fat-tree-6-2"],
        ),
        (
            Scheme::SpanningTree,
            "spanning-tree",
            ["fat-tree-4-2", "irregular-8-2-4-1", "torus-3x4-2"],
        ),
    ] {
        for name in names {
            let graph = fabric(name);
            let words = text(&graph, scheme);
            golden(&format!("{word}/{name}.txt"), &words);
            assert_eq!(words, text(&shuffled(&graph, 6), scheme));
        }
    }
}
