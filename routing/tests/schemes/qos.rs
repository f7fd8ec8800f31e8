//! VLARB01 over the paths of real tables.

use std::fmt::Write as _;

use routing::qos::{
    Admission, Band, Class, FillOptions, FillReport, Layout, Options, PortTables, Request, Table,
    audit, fill, link_rate, path,
};
use routing::{RoutingEngine, Tables};
use topologies::{Endpoint, Graph, NodeId};

use crate::support::{fabric, golden, shuffled};

fn tables(graph: &Graph) -> Tables {
    RoutingEngine::Updn
        .route(graph, &routing::Options::default())
        .unwrap()
}

/// Hosts in order of GUID.
fn hosts(graph: &Graph) -> Vec<NodeId> {
    let mut hosts: Vec<NodeId> = graph.hosts().collect();
    hosts.sort_by_key(|&id| graph.node(id).guid);
    hosts
}

/// A connection from every host to the next, of every class in turn.
fn connected(graph: &Graph, layout: Layout) -> Admission {
    let tables = tables(graph);
    let options = Options {
        layout,
        ..Options::default()
    };
    let mut fabric = Admission::new(graph, options, |_| link_rate::X1).unwrap();
    let rates = [64_000, 1_550_000, 64_000_000, 300_000_000];
    let hosts = hosts(graph);
    for (index, &from) in hosts.iter().enumerate() {
        for step in 1..4 {
            let to = hosts[(index + step) % hosts.len()];
            let band = (index + step) % 4;
            let class = if (index + step) % 3 == 0 {
                Class::TimeSensitive(Band::ALL[band])
            } else {
                Class::Dedicated(Band::ALL[band])
            };
            let path = path(graph, &tables, from, to).unwrap();
            let request = Request {
                class,
                rate_bps: rates[band],
                path: &path,
            };
            fabric.request(&request).unwrap();
        }
    }
    fabric
}

fn entries(table: &Table) -> String {
    let entry = |at: usize| {
        let entry = table.entries()[at];
        (entry.weight > 0).then(|| format!("{at}:{}/{}", entry.vl, entry.weight))
    };
    (0..64).filter_map(entry).collect::<Vec<_>>().join(" ")
}

fn text(graph: &Graph, fabric: &Admission) -> String {
    let mut lines: Vec<(u64, u8, String)> = fabric
        .links()
        .map(|(Endpoint { node, port }, link)| {
            let mut line = String::new();
            writeln!(
                line,
                "{} {port} used {} high [{}] low [{}]",
                graph.node(node).name,
                link.used(),
                entries(link.high()),
                entries(link.low())
            )
            .unwrap();
            (graph.node(node).guid.0, port.get(), line)
        })
        .collect();
    lines.sort();
    lines.into_iter().map(|(_, _, line)| line).collect()
}

#[test]
fn arbitration_tables_are_golden_and_the_same_whatever_the_order_of_the_graph() {
    for name in ["star-6", "mesh-2x2-2", "fat-tree-4-2"] {
        for (layout, word) in [
            (Layout::Contiguous, "contiguous"),
            (Layout::Interleaved, "interleaved"),
        ] {
            let graph = fabric(name);
            let words = text(&graph, &connected(&graph, layout));
            golden(&format!("qos/{name}.{word}.txt"), &words);
            let other = shuffled(&graph, 3);
            assert_eq!(words, text(&other, &connected(&other, layout)));
        }
    }
}

#[test]
fn tables_filled_over_a_fabric_are_what_its_connections_own() {
    let graph = fabric("fat-tree-4-3");
    let fabric = connected(&graph, Layout::Interleaved);
    let ports: Vec<PortTables> = fabric
        .links()
        .map(|(port, link)| PortTables::of(port, link))
        .collect();
    let connections = fabric.connections().map(|(_, connection)| connection);
    assert_eq!(audit(&fabric.options(), connections, &ports), []);
}

fn filled(name: &str, options: FillOptions) -> (FillReport, Admission) {
    let graph = fabric(name);
    let tables = tables(&graph);
    let hosts = hosts(&graph);
    let mut fabric = Admission::new(&graph, Options::default(), |_| link_rate::X1).unwrap();
    let way = |from: usize, to: usize| path(&graph, &tables, hosts[from], hosts[to]).unwrap();
    let report = fill(&mut fabric, hosts.len(), way, options).unwrap();
    (report, fabric)
}

#[test]
fn over_up_down_tables_16_switches_with_64_hosts_take_as_many_connections_as_in_table_2() {
    for name in ["irregular-16-4-4-1", "hypercube-4-4", "mesh-4x4-4"] {
        let (report, fabric) = filled(name, FillOptions::default());
        assert!(
            (2250..=2700).contains(&report.total()),
            "{name}: {report:?}"
        );
        assert_eq!(fabric.connections().len(), report.total() as usize);
        assert!(report.load_max <= 0.8);
    }
}
