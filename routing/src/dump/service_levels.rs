//! Service levels and SL-to-VL tables as text.
//!
//! Service levels are read from what OpenSM's plugin for path records writes (`opensm-path-records.dump`), from what
//! `saquery PR` prints, and from [`write_sls`], which writes the plugin's text without its last columns:
//!
//! ```text
//! Channel Adapter 0x021be10000000011, base LID 1, "h0", port 1
//! # LID  : SL : MTU : RATE
//! 0x0002 : 1  : 4   : 3
//! ```
//!
//! SL-to-VL tables are read from OpenSM's `opensm-sl2vl.dump`, which [`write_sl2vl`] writes as well: under a switch a
//! line for each pair of input and output ports, and by service level the VL.
//!
//! ```text
//! Switch 0x021be20000000010, base LID 5, "s0"
//! #in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
//! 1   2   : 0  1  0  0  0  0  0  0  0  0  0  0  0  0  0  0
//! ```

use core::fmt::Write as _;

use topologies::{Endpoint, Graph, NodeKind};
use wire::{Guid, Lid, PortNum, Sl, Vl};

use super::{DumpError, DumpProblem, each_line, empty, hexadecimal};
use crate::network::port_guid;
use crate::tables::Tables;
use crate::vl_assignment::{SlToVl, VlAssignment};

/// Whose packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelSource {
    /// The port of that GUID.
    Guid(Guid),
    /// The port of that LID.
    Lid(Lid),
}

/// The service levels of one port's packets, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlDump {
    /// The line that names the port, from 1.
    pub line: usize,
    /// The port.
    pub source: LevelSource,
    /// By destination.
    pub sls: Vec<(Lid, Sl)>,
}

/// A row of a switch's SL-to-VL tables, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sl2VlDump {
    /// The line, from 1.
    pub line: usize,
    /// The switch.
    pub guid: Guid,
    /// Input and output port.
    pub ports: (PortNum, PortNum),
    /// By service level.
    pub vls: SlToVl,
}

/// What a text says of service levels and VLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelDump {
    /// Service levels, ports in the order of the text.
    pub sls: Vec<SlDump>,
    /// SL-to-VL tables of switches.
    pub sl2vl: Vec<Sl2VlDump>,
}

/// Reads any of the texts.
///
/// # Errors
/// [`DumpError`] with the line.
pub fn read_levels(text: &str) -> Result<LevelDump, DumpError> {
    let mut reader = Reader::default();
    each_line(text, |number, line| reader.line(number, line.trim()))?;
    if reader.dump.sls.is_empty() && reader.dump.sl2vl.is_empty() {
        return Err(empty(text));
    }
    Ok(reader.dump)
}

#[derive(Default)]
struct Reader {
    dump: LevelDump,
    /// What the lines are about.
    about: About,
}

#[derive(Default)]
enum About {
    #[default]
    Nothing,
    /// A port: the line that names it, and whether it is a switch's.
    Port {
        line: usize,
        guid: Guid,
        is_switch: bool,
    },
    /// A path record: LIDs of source and destination as far as they were said.
    Record {
        slid: Option<Lid>,
        dlid: Option<Lid>,
    },
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), DumpProblem> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let kinds = ["Channel Adapter 0x", "Router 0x", "Switch 0x"];
        if let Some((kind, rest)) = kinds
            .iter()
            .find_map(|kind| Some((kind, line.strip_prefix(kind)?)))
        {
            let digits = rest.split([',', ' ']).next().unwrap_or_default();
            self.about = About::Port {
                line: number,
                guid: Guid(hexadecimal(digits).ok_or(DumpProblem::NoGuid)?),
                is_switch: kind.starts_with("Switch"),
            };
            return Ok(());
        }
        if line.starts_with("PathRecord dump") {
            let (slid, dlid) = (None, None);
            self.about = About::Record { slid, dlid };
            return Ok(());
        }
        if line.starts_with("0x") {
            return self.level(line);
        }
        match (&mut self.about, line.split_once("..")) {
            (About::Record { .. }, Some((key, value))) => {
                self.component(number, key, value.trim_matches('.'))
            }
            _ if line.starts_with(|c: char| c.is_ascii_digit()) => self.row(number, line),
            _ => Err(DumpProblem::NotUnderstood(line.chars().take(60).collect())),
        }
    }

    /// `0x0002 : 1  : 4   : 3`.
    fn level(&mut self, line: &str) -> Result<(), DumpProblem> {
        let About::Port { line: at, guid, .. } = self.about else {
            return Err(DumpProblem::NoPort);
        };
        let mut words = line.split(':').map(str::trim);
        let word = words.next().unwrap_or_default();
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let lid = hexadecimal(digits).and_then(|lid| u16::try_from(lid).ok());
        let lid = lid.map(Lid::new);
        let lid = lid.filter(|lid| lid.is_unicast());
        let lid = lid.ok_or_else(|| DumpProblem::BadLid(word.to_owned()))?;
        let word = words.next().unwrap_or_default();
        if word != "UNREACHABLE" {
            let sl = read_sl(word)?;
            self.record(at, LevelSource::Guid(guid), lid, sl);
        }
        Ok(())
    }

    /// `sl......................0x1`.
    fn component(&mut self, number: usize, key: &str, value: &str) -> Result<(), DumpProblem> {
        let About::Record { slid, dlid } = &mut self.about else {
            return Ok(());
        };
        match key {
            "slid" => *slid = Some(read_lid(value)?),
            "dlid" => *dlid = Some(read_lid(value)?),
            "sl" => {
                let (Some(slid), Some(dlid)) = (*slid, *dlid) else {
                    return Err(DumpProblem::NoPort);
                };
                let sl = read_sl(value)?;
                // Records of multicast groups are among them.
                if slid.is_unicast() && dlid.is_unicast() {
                    self.record(number, LevelSource::Lid(slid), dlid, sl);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a service level of the source whose line this is.
    fn record(&mut self, line: usize, source: LevelSource, lid: Lid, sl: Sl) {
        match self.dump.sls.last_mut() {
            Some(last) if last.source == source => last.sls.push((lid, sl)),
            _ => self.dump.sls.push(SlDump {
                line,
                source,
                sls: vec![(lid, sl)],
            }),
        }
    }

    /// `1   2   : 0  1 ..`.
    fn row(&mut self, line: usize, text: &str) -> Result<(), DumpProblem> {
        let bad = || DumpProblem::NotUnderstood(text.chars().take(60).collect());
        let (ports, vls) = text.split_once(':').ok_or_else(bad)?;
        let mut ports = ports.split_whitespace();
        let mut port = || {
            let word = ports.next().unwrap_or_default();
            let port = word.parse().map(PortNum::new);
            port.map_err(|_| DumpProblem::BadPort(word.to_owned()))
        };
        let ports = (port()?, port()?);
        let mut table = SlToVl::default();
        let mut words = vls.split_whitespace();
        for vl in &mut table {
            let word = words.next().unwrap_or_default();
            let number = word.parse().ok().and_then(|number| Vl::new(number).ok());
            *vl = number.ok_or_else(|| DumpProblem::BadVl(word.to_owned()))?;
        }
        match self.about {
            About::Port {
                guid,
                is_switch: true,
                ..
            } => self.dump.sl2vl.push(Sl2VlDump {
                line,
                guid,
                ports,
                vls: table,
            }),
            // A host's table is about its own link, which no packet waits for.
            About::Port { .. } => {}
            _ => return Err(DumpProblem::NoPort),
        }
        Ok(())
    }
}

/// A number, decimal or hexadecimal behind `0x`.
fn number(word: &str) -> Option<u16> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u16::try_from(hexadecimal(digits)?).ok(),
        None => word.parse().ok(),
    }
}

fn read_sl(word: &str) -> Result<Sl, DumpProblem> {
    let number = number(word).and_then(|number| u8::try_from(number).ok());
    let sl = number.and_then(|number| Sl::new(number).ok());
    sl.ok_or_else(|| DumpProblem::BadSl(word.to_owned()))
}

fn read_lid(word: &str) -> Result<Lid, DumpProblem> {
    let lid = number(word).map(Lid::new);
    lid.ok_or_else(|| DumpProblem::BadLid(word.to_owned()))
}

/// The service level of packets from every port to every LID of others, ports in the order of LIDs.
#[must_use]
pub fn write_sls(graph: &Graph, tables: &Tables) -> String {
    let single = VlAssignment::single(graph);
    let assignment = tables.vl_assignment.as_ref().unwrap_or(&single);
    let mut out = String::new();
    for source in tables.lids.iter() {
        let Some(end) = source.end else { continue };
        write_port(&mut out, graph, end, source.base);
        let port = end.port;
        // Writing to a String cannot fail.
        let _ = write!(out, ", port {port}\n# LID  : SL\n");
        let others = tables.lids.iter().filter(|other| other.end != Some(end));
        for lid in others.flat_map(|other| other.lids()) {
            let sl = assignment.sl_from(graph, end, lid).get();
            let _ = writeln!(out, "{:#06x} : {sl}", lid.get());
        }
        out.push('\n');
    }
    out
}

/// The SL-to-VL tables of every switch, for ports with cables and port 0 as input, in the order of the graph.
#[must_use]
pub fn write_sl2vl(graph: &Graph, tables: &Tables) -> String {
    let single = VlAssignment::single(graph);
    let assignment = tables.vl_assignment.as_ref().unwrap_or(&single);
    let mut out = String::new();
    for switch in graph.switches() {
        let end = Endpoint {
            node: switch,
            port: PortNum::MANAGEMENT,
        };
        let lid = tables.lids.of_node(switch).map_or(Lid::ZERO, |r| r.base);
        write_port(&mut out, graph, end, lid);
        out.push_str("\n#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15\n");
        let ports: Vec<PortNum> = graph.cables(switch).map(|(port, _)| port).collect();
        for &exit in &ports {
            for &entry in [PortNum::MANAGEMENT].iter().chain(&ports) {
                // Writing to a String cannot fail.
                let _ = write!(out, "{:<3} {:<3} :", entry.get(), exit.get());
                for vl in assignment.table(switch, entry, exit) {
                    let _ = write!(out, " {:<2}", vl.get());
                }
                out.truncate(out.trim_end().len());
                out.push('\n');
            }
        }
        out.push('\n');
    }
    out
}

fn write_port(out: &mut String, graph: &Graph, end: Endpoint, lid: Lid) {
    let node = graph.node(end.node);
    let kind = match node.kind {
        NodeKind::Switch => "Switch",
        NodeKind::Host if node.is_router => "Router",
        NodeKind::Host => "Channel Adapter",
    };
    let guid = port_guid(graph, end);
    // Writing to a String cannot fail.
    let _ = write!(out, "{kind} {guid}, base LID {lid}, \"{}\"", node.name);
}
