//! Forwarding tables as text, as infiniband-diags' `dump_fts` prints them and `opensm -R file -U`
//! reads them:
//!
//! ```text
//! Unicast lids [0x0-0x24] of switch Lid 17 guid 0x021be20000000010 (s0.0.0):
//!   Lid  Out   Destination
//!        Port     Info
//! 0x0001 003 : (Channel Adapter portguid 0x021be10000000011: 'h0.0.0')
//! 36 valid lids dumped
//! ```
//!
//! OpenSM's own dump (`opensm-lfts.dump`), which differs in punctuation, is read as well.

mod multicast;
mod service_levels;

use core::fmt::Write as _;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use topologies::{Graph, NODES_MAX, NodeId, NodeKind};
use wire::convert::hexadecimal;
use wire::convert::u64_of;
use wire::{Guid, Lid, PortNum};

use crate::tables::{Lft, Tables};

pub use multicast::{MftDump, read_mft, write_mft};
pub use service_levels::{
    LevelDump, LevelSource, Sl2VlDump, SlDump, read_levels, write_sl2vl, write_sls,
};

/// The table of one switch, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchDump {
    /// The line that names it, from 1.
    pub line: usize,
    /// The switch.
    pub guid: Guid,
    /// Its LID, if the line says it.
    pub lid: Option<Lid>,
    /// Its name, which may be empty.
    pub name: String,
    /// The entries.
    pub lft: Lft,
    /// Port GUIDs of owners, where the text names them.
    pub owners: BTreeMap<Lid, Guid>,
    /// The line of each entry, from 1.
    pub lines: BTreeMap<Lid, usize>,
}

/// Why a text is no dump, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct DumpError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: DumpProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DumpProblem {
    /// A switch line without GUID.
    #[error("\" guid 0x...\" is missing or is no GUID")]
    NoGuid,
    /// A switch that comes twice.
    #[error("switch {0} was dumped above already")]
    SwitchTwice(Guid),
    /// More switches than a subnet has.
    #[error("more than {NODES_MAX} switches: a subnet has no more LIDs")]
    TooManySwitches,
    /// An entry before any switch line.
    #[error("an entry without a switch above it")]
    NoSwitch,
    /// An entry whose LID is no unicast LID.
    #[error("{0:?} is not a unicast LID, 0x0001 to 0xbfff")]
    BadLid(String),
    /// An entry whose port is none.
    #[error("{0:?} is not a port, 0 to 255")]
    BadPort(String),
    /// A LID that comes twice in one table.
    #[error("LID {0} was given a port above already")]
    LidTwice(Lid),
    /// A row whose LID is no multicast LID.
    #[error("{0:?} is not a multicast LID, 0xc000 to 0xfffe")]
    BadMlid(String),
    /// Something in a row that is no cross under a port.
    #[error("{0:?} where an x under a port, or a blank, is expected")]
    BadCross(char),
    /// A service level that is none.
    #[error("{0:?} is not a service level, 0 to 15")]
    BadSl(String),
    /// A virtual lane that is none.
    #[error("{0:?} is not a VL, 0 to 15, where the VLs of 16 service levels are expected")]
    BadVl(String),
    /// A service level or a row of a table before any port.
    #[error("no line above says of which port this is")]
    NoPort,
    /// A dump of multicast tables.
    #[error("this is a dump of multicast tables")]
    Multicast,
    /// Anything else.
    #[error("not understood: {0:?}")]
    NotUnderstood(String),
    /// No switch at all.
    #[error("there is no table in it")]
    Empty,
}

/// All tables of a fabric, switches in the order of the graph.
#[must_use]
pub fn write(graph: &Graph, tables: &Tables) -> String {
    let mut out = String::new();
    for switch in graph.switches() {
        write_switch(&mut out, graph, tables, switch);
    }
    out
}

fn write_switch(out: &mut String, graph: &Graph, tables: &Tables, switch: NodeId) {
    let node = graph.node(switch);
    let lid = tables.lids.of_node(switch).map_or(Lid::ZERO, |r| r.base);
    let lft = tables.lft(switch);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "Unicast lids [0x0-{:#x}] of switch Lid {lid} guid {} ({}):",
        lft.entries().len().saturating_sub(1),
        node.guid,
        node.name
    );
    out.push_str("  Lid  Out   Destination\n       Port     Info\n");
    let mut count = 0;
    for (number, &port) in (0_u16..).zip(lft.entries()) {
        if port == PortNum::NONE {
            continue;
        }
        count += 1;
        let _ = write!(out, "{number:#06x} {:03} : (", port.get());
        let owner = tables.lids.owner(Lid::new(number));
        match owner.and_then(|range| Some((range.guid, graph.node(range.end?.node)))) {
            Some((guid, node)) => {
                let kind = match node.kind {
                    NodeKind::Switch => "Switch",
                    NodeKind::Host => "Channel Adapter",
                };
                let _ = writeln!(out, "{kind} portguid {guid}: '{}')", node.name);
            }
            None => out.push_str("unknown node and type)\n"),
        }
    }
    let _ = writeln!(out, "{count} valid lids dumped");
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

/// Reads what [`write()`], `dump_fts` or OpenSM wrote.
///
/// # Errors
/// [`DumpError`] with the line.
pub fn read(text: &str) -> Result<Vec<SwitchDump>, DumpError> {
    let mut dumps: Vec<SwitchDump> = Vec::new();
    let mut switches = Switches::default();
    each_line(text, |number, line| {
        read_line(&mut dumps, &mut switches, number, line.trim())
    })?;
    match dumps.is_empty() {
        true => Err(empty(text)),
        false => Ok(dumps),
    }
}

/// Hands each line of a text to `read`, with its number from 1.
///
/// # Errors
/// The first problem, with its line.
fn each_line(
    text: &str,
    mut read: impl FnMut(usize, &str) -> Result<(), DumpProblem>,
) -> Result<(), DumpError> {
    let mut lines = (1..).zip(text.lines());
    lines.try_for_each(|(line, text)| {
        read(line, text).map_err(|problem| DumpError { line, problem })
    })
}

/// The error of a text in which nothing was found.
fn empty(text: &str) -> DumpError {
    DumpError {
        line: text.lines().count().max(1),
        problem: DumpProblem::Empty,
    }
}

/// The switches whose tables a text has held so far.
#[derive(Default)]
struct Switches(BTreeSet<Guid>);

impl Switches {
    fn add(&mut self, guid: Guid) -> Result<(), DumpProblem> {
        if !self.0.insert(guid) {
            return Err(DumpProblem::SwitchTwice(guid));
        }
        match u64_of(self.0.len()) > NODES_MAX {
            true => Err(DumpProblem::TooManySwitches),
            false => Ok(()),
        }
    }
}

fn read_line(
    dumps: &mut Vec<SwitchDump>,
    switches: &mut Switches,
    number: usize,
    line: &str,
) -> Result<(), DumpProblem> {
    let is_heading = line.starts_with("Lid ") || line.starts_with("Port ");
    if line.is_empty() || line.starts_with('#') || is_heading || line.ends_with("lids dumped") {
        Ok(())
    } else if line.starts_with("Multicast mlids") {
        Err(DumpProblem::Multicast)
    } else if line.starts_with("Unicast lids") {
        let dump = read_switch(number, line)?;
        switches.add(dump.guid)?;
        dumps.push(dump);
        Ok(())
    } else if line.starts_with("0x") {
        let dump = dumps.last_mut().ok_or(DumpProblem::NoSwitch)?;
        let lid = read_entry(dump, line)?;
        dump.lines.insert(lid, number);
        Ok(())
    } else {
        let start = line.chars().take(60).collect();
        Err(DumpProblem::NotUnderstood(start))
    }
}

fn read_switch(number: usize, line: &str) -> Result<SwitchDump, DumpProblem> {
    let (guid, name) = read_switch_name(line)?;
    let lid = line
        .split_once(" guid ")
        .map_or("", |(head, _)| head)
        .rsplit_once("Lid ")
        .and_then(|(_, lid)| lid.parse().ok())
        .map(Lid::new);
    Ok(SwitchDump {
        line: number,
        guid,
        lid,
        name,
        lft: Lft::default(),
        owners: BTreeMap::new(),
        lines: BTreeMap::new(),
    })
}

/// GUID and name of a switch's line.
fn read_switch_name(line: &str) -> Result<(Guid, String), DumpProblem> {
    let (_, rest) = line.split_once(" guid 0x").ok_or(DumpProblem::NoGuid)?;
    let (digits, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let guid = hexadecimal(digits).ok_or(DumpProblem::NoGuid)?;
    let name = rest
        .trim_end_matches(':')
        .trim_start_matches('(')
        .trim_end_matches(')')
        .trim_matches('\'');
    Ok((Guid(guid), name.to_owned()))
}

fn read_entry(dump: &mut SwitchDump, line: &str) -> Result<Lid, DumpProblem> {
    let mut words = line.split_whitespace();
    let lid_word = words.next().unwrap_or_default();
    let lid = lid_word
        .strip_prefix("0x")
        .and_then(hexadecimal)
        .and_then(|lid| u16::try_from(lid).ok())
        .map(Lid::new)
        .filter(|lid| lid.is_unicast())
        .ok_or_else(|| DumpProblem::BadLid(lid_word.to_owned()))?;
    let port_word = words.next().unwrap_or_default();
    let port = port_word
        .parse()
        .map(PortNum::new)
        .map_err(|_| DumpProblem::BadPort(port_word.to_owned()))?;
    if dump.lines.contains_key(&lid) {
        return Err(DumpProblem::LidTwice(lid));
    }
    dump.lft.set(lid, port);
    if let Some((_, rest)) = line.split_once(" portguid 0x") {
        let digits = rest.split([':', ' ', ')']).next().unwrap_or_default();
        dump.owners
            .extend(hexadecimal(digits).map(|guid| (lid, Guid(guid))));
    }
    Ok(lid)
}
