//! Multicast tables as text.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use topologies::{Graph, NodeId};
use wire::convert::hexadecimal;
use wire::{Guid, Lid, PortNum};

use super::{DumpError, DumpProblem, Switches, each_line, empty, read_switch_name};
use crate::multicast::{BLOCK_ROWS, Mft, PortSet};
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
                .map(|port| match ports.contains(PortNum::new(port)) {
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

/// The multicast table of one switch, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MftDump {
    /// The line that names it, from 1.
    pub line: usize,
    /// The switch.
    pub guid: Guid,
    /// Its name, which may be empty.
    pub name: String,
    /// The rows.
    pub mft: Mft,
    /// The line of each row, from 1.
    pub lines: BTreeMap<Lid, usize>,
}

/// Where the crosses begin in a row: behind the multicast LID and six blanks.
const CROSSES_AT: usize = 12;

/// Reads what [`write_mft`] or `dump_fts -M` wrote.
///
/// # Errors
/// [`DumpError`] with the line.
pub fn read_mft(text: &str) -> Result<Vec<MftDump>, DumpError> {
    let mut dumps: Vec<MftDump> = Vec::new();
    let mut switches = Switches::default();
    each_line(text, |number, line| {
        read_line(&mut dumps, &mut switches, number, line.trim_end())
    })?;
    match dumps.is_empty() {
        true => Err(empty(text)),
        false => Ok(dumps),
    }
}

fn read_line(
    dumps: &mut Vec<MftDump>,
    switches: &mut Switches,
    number: usize,
    line: &str,
) -> Result<(), DumpProblem> {
    let words = line.trim_start();
    let is_heading = words.starts_with("MLid") || words.starts_with("Ports:");
    // The tens above the ports' units.
    let is_tens = words.chars().all(|c| c.is_ascii_digit() || c == ' ');
    if is_tens || is_heading || words.starts_with('#') || words.ends_with("mlids dumped") {
        Ok(())
    } else if line.starts_with("Multicast mlids") {
        let (guid, name) = read_switch_name(line)?;
        switches.add(guid)?;
        dumps.push(MftDump {
            line: number,
            guid,
            name,
            mft: Mft::default(),
            lines: BTreeMap::new(),
        });
        Ok(())
    } else if line.starts_with("0x") {
        let dump = dumps.last_mut().ok_or(DumpProblem::NoSwitch)?;
        let mlid = read_row(&mut dump.mft, line)?;
        match dump.lines.insert(mlid, number) {
            None => Ok(()),
            Some(_) => Err(DumpProblem::LidTwice(mlid)),
        }
    } else {
        Err(DumpProblem::NotUnderstood(line.chars().take(60).collect()))
    }
}

fn read_row(mft: &mut Mft, line: &str) -> Result<Lid, DumpProblem> {
    let (word, crosses) = line.split_at_checked(CROSSES_AT).unwrap_or((line, ""));
    let word = word.trim_end();
    let mlid = word
        .strip_prefix("0x")
        .and_then(hexadecimal)
        .and_then(|mlid| u16::try_from(mlid).ok())
        .map(Lid::new)
        .filter(|mlid| mlid.is_multicast())
        .ok_or_else(|| DumpProblem::BadMlid(word.to_owned()))?;
    let mut ports = PortSet::default();
    for (column, mark) in crosses.chars().enumerate() {
        match (mark, column % 2, u8::try_from(column / 2)) {
            ('x', 0, Ok(port)) => ports.insert(PortNum::new(port)),
            (' ', ..) => {}
            _ => return Err(DumpProblem::BadCross(mark)),
        }
    }
    mft.set(mlid, ports);
    Ok(mlid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicast::{Mgid, Multicast, Options, Role};
    use crate::{RoutingEngine, port_guid};

    fn routed(name: &str) -> (Graph, Tables) {
        let graph = topologies::parse(name).unwrap().graph;
        let tables = RoutingEngine::Minhop
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
    fn rows_read_back_with_their_lines_and_wrong_ones_are_named() {
        let (graph, tables) = routed("star-12");
        let mut multicast = Multicast::new(&graph, &Options::default()).unwrap();
        for host in graph.hosts() {
            let guid = tables.lids.of_node(host).unwrap().guid;
            multicast.join(Mgid(1), guid, Role::Receives).unwrap();
        }
        let text = write_mft(&graph, &tables, |switch| multicast.mft(switch));
        let [dump] = &read_mft(&text).unwrap()[..] else {
            panic!("one switch")
        };
        let switch = graph.switches().next().unwrap();
        assert_eq!((dump.line, dump.guid), (1, graph.node(switch).guid));
        assert_eq!(&dump.mft, multicast.mft(switch));
        assert_eq!(dump.lines.get(&Lid::MULTICAST_FIRST), Some(&5));

        let head = "Multicast mlids [0xc000-0xc01f] of switch Lid 1 guid 0x10 (s0):\n";
        let c000 = Lid::MULTICAST_FIRST;
        for (text, line, problem) in [
            (String::new(), 1, DumpProblem::Empty),
            ("0xc000      x".to_owned(), 1, DumpProblem::NoSwitch),
            (
                format!("{head}{head}"),
                2,
                DumpProblem::SwitchTwice(Guid(16)),
            ),
            (
                format!("{head}0x0001      x"),
                2,
                DumpProblem::BadMlid("0x0001".to_owned()),
            ),
            (
                format!("{head}0xc000      x y"),
                2,
                DumpProblem::BadCross('y'),
            ),
            (
                format!("{head}0xc000       x"),
                2,
                DumpProblem::BadCross('x'),
            ),
            (
                format!("{head}0xc000\n0xc000"),
                3,
                DumpProblem::LidTwice(c000),
            ),
            (
                format!("{head}hello"),
                2,
                DumpProblem::NotUnderstood("hello".to_owned()),
            ),
        ] {
            let error = read_mft(&text).unwrap_err();
            assert_eq!((error.line, error.problem), (line, problem), "{text}");
        }
    }
}
