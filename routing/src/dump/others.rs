//! Multicast tables and LIDs as text.

use core::fmt::Write as _;

use topologies::{Graph, NodeId};
use wire::{Lid, PortNum};

use crate::multicast::{BLOCK_ROWS, Mft};
use crate::tables::Tables;

/// All multicast tables of a fabric as `dump_fts -M` prints them, switches in the order of the
/// graph: a row for each multicast LID, an `x` under each of its ports.
#[must_use]
pub fn write_mft<'a>(graph: &Graph, tables: &Tables, mft: impl Fn(NodeId) -> &'a Mft) -> String {
    let mut out = String::new();
    for switch in graph.switches() {
        let node = graph.node(switch);
        let mft = mft(switch);
        let blocks = mft.rows().last().and_then(|(mlid, _)| Mft::block_of(mlid));
        let rows = (blocks.unwrap_or(0) + 1) * BLOCK_ROWS;
        let lid = tables.lids.of_node(switch).map_or(Lid::ZERO, |r| r.base);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "Multicast mlids [{:#x}-{:#x}] of switch Lid {lid} guid {} ({}):",
            Lid::MULTICAST_FIRST.get(),
            Lid::MULTICAST_FIRST.index() + rows - 1,
            node.guid,
            node.name
        );
        let columns = |text: fn(u8) -> String| (0..=node.ports).map(text).collect::<String>();
        if node.ports > 9 {
            let tens = columns(|port| match port % 10 {
                0 => format!("{} ", port / 10 % 10),
                _ => "  ".to_owned(),
            });
            let _ = writeln!(out, "            {tens}");
        }
        let units = columns(|port| format!("{} ", port % 10));
        let _ = writeln!(out, "     Ports: {units}\n MLid");
        for (mlid, ports) in mft.rows() {
            let marks: String = (0..=node.ports)
                .map(|port| match ports.contains(PortNum::truncate(port)) {
                    true => "x ",
                    false => "  ",
                })
                .collect();
            let _ = writeln!(out, "{:#06x}      {marks}", mlid.get());
        }
        let _ = writeln!(out, "{} valid mlids dumped", mft.rows().len());
    }
    out
}

/// All LIDs as OpenSM keeps them in its file `guid2lid`: port GUID, first LID, last LID; in order of
/// LID.
#[must_use]
pub fn write_lids(tables: &Tables) -> String {
    let mut out = String::new();
    for range in tables.lids.iter() {
        let last = range.lids().last().unwrap_or(range.base);
        let _ = writeln!(
            out,
            "{} {:#06x} {:#06x}",
            range.guid,
            range.base.get(),
            last.get()
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use wire::Guid;

    use super::*;
    use crate::lids::port_guid;
    use crate::multicast::{Mgid, Multicast, Options, Role};

    fn routed(name: &str) -> (Graph, Tables) {
        let graph = topologies::parse(name).unwrap().graph;
        let tables = crate::engine("minhop")
            .unwrap()
            .route(&graph, &crate::Options::default())
            .unwrap();
        (graph, tables)
    }

    #[test]
    fn multicast_rows_have_a_cross_under_each_port() {
        let (graph, tables) = routed("star-12");
        let mut multicast = Multicast::new(&graph, &Options::default()).unwrap();
        let ports: Vec<Guid> = graph
            .hosts()
            .filter_map(|host| tables.lids.of_node(host))
            .map(|range| port_guid(&graph, range.end.unwrap()))
            .collect();
        for &port in [&ports[0], &ports[10]] {
            multicast.join(Mgid(1), port, Role::Receives).unwrap();
        }
        let text = write_mft(&graph, &tables, |switch| multicast.mft(switch));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("Multicast mlids [0xc000-0xc01f] of switch Lid 13 guid 0x"));
        assert_eq!(
            lines[1..],
            [
                "            0                   1     ",
                "     Ports: 0 1 2 3 4 5 6 7 8 9 0 1 2 ",
                " MLid",
                "0xc000        x                   x   ",
                "1 valid mlids dumped",
            ]
        );
    }

    #[test]
    fn lids_have_a_line_for_each_port() {
        let (graph, tables) = routed("star-2");
        let text = write_lids(&tables);
        let switch = graph.node(graph.switches().next().unwrap()).guid;
        assert_eq!(text.lines().count(), 3);
        assert_eq!(
            text.lines().last(),
            Some(&*format!("{switch} 0x0003 0x0003"))
        );
    }
}
