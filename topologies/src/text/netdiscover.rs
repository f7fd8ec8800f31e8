//! Reads ibnetdiscover's text and ibsim's, which are one language; see the module above.
//!
//! ibsim's files may have modules: `module="east"` makes `east#sw1` of the id `sw1` from there on. A port may have an
//! alias (`@[3] "up"`), which is `east@up`, and a line further down may lead to that instead of to a node and
//! its port; within the module `@up` will do.
//!
//! A GUID in the id of a node (`"S-0008f10400410015"`) is the node's; else the lines `switchguid=` and so on
//! before it count as ibsim counts them.

use std::collections::BTreeMap;

use wire::convert::hexadecimal;
use wire::{Guid, LinkRate};

use super::draft::{Draft, Record};
use super::words::{self, NAME_CHARACTERS_MAX};
use crate::error::{TextError, TextProblem};
use crate::graph::NodeKind;

/// Where ibsim starts to count when no line gives a GUID.
const FIRST_HOST_GUID: u64 = 0x10_0000;
const FIRST_SWITCH_GUID: u64 = 0x20_0000;

/// The longest name of a module (ibsim's `NODEPREFIX`).
const MODULE_CHARACTERS_MAX: usize = 20;

/// Lines with these beginnings say nothing about what is connected to what.
const SKIPPED: [&str; 12] = [
    "#",
    "width",
    "speed",
    "extspeed",
    "pdebug",
    "do ",
    "Chassis ",
    "Non-Chassis Nodes",
    "Hostname: ",
    "Spine Nodes",
    "Line Nodes",
    "DR path",
];

/// What stands in the file of one of the formats that this module reads.
pub(super) fn read(text: &str) -> Result<Draft, TextError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.number = index + 1;
        reader.line(line.trim()).map_err(|problem| TextError {
            line: index + 1,
            problem,
        })?;
    }
    Ok(reader.draft)
}

#[derive(Default)]
struct Reader {
    draft: Draft,
    /// The node whose port lines follow.
    node: Current,
    hosts: GuidCounter,
    switches: GuidCounter,
    header: NodeHeader,
    /// The module that lines belong to; empty for none.
    module: String,
    /// Ports by alias, module in front: line, record, port.
    aliases: BTreeMap<String, (usize, usize, u8)>,
    /// The line, from 1.
    number: usize,
}

/// What port lines belong to.
#[derive(Clone, Copy, Default)]
enum Current {
    #[default]
    None,
    /// A node whose line could not be used.
    Lost,
    /// A node of the draft.
    Node(usize),
}

/// What the lines above a node line say of it.
#[derive(Clone, Copy, Default)]
struct NodeHeader {
    vendor_id: Option<u32>,
    device_id: Option<u16>,
    system_image_guid: Option<Guid>,
}

/// How ibsim numbers nodes: from an absolute base, or relative to the last absolute one.
#[derive(Clone, Copy, Default)]
struct GuidCounter {
    /// Nothing before the first line that sets it.
    base: Option<u64>,
    next: u64,
    /// Whether a line has set the next GUID.
    is_set: bool,
    /// Whether that line has it blanked out.
    is_redacted: bool,
}

impl GuidCounter {
    fn set(&mut self, line: &str, first: u64) -> Result<(), TextProblem> {
        let bad = || TextProblem::BadGuid(words::excerpt(line));
        let at = line.find(['=', '+']).ok_or_else(bad)?;
        let (sign, value) = line[at..].split_at(1);
        let digits = value.split(['(', ' ', '\t']).next().unwrap_or_default();
        if words::is_redacted(digits) {
            self.is_redacted = true;
            return Ok(());
        }
        let number = match digits.strip_prefix("0x") {
            Some(hex) => hexadecimal(hex),
            None => digits.parse().ok(),
        };
        let number = number.ok_or_else(|| TextProblem::BadGuid(words::excerpt(digits)))?;
        (self.is_set, self.is_redacted) = (true, false);
        if sign == "=" {
            (self.base, self.next) = (Some(number), number);
        } else {
            self.next = self
                .base
                .unwrap_or(first)
                .checked_add(number)
                .ok_or_else(bad)?;
            self.base.get_or_insert(first);
        }
        Ok(())
    }

    /// The next GUID; nothing if it is blanked out.
    fn take(&mut self, first: u64, count: u64, id: &str) -> Option<Guid> {
        let is_set = std::mem::take(&mut self.is_set);
        if std::mem::take(&mut self.is_redacted) || (words::is_redacted(id) && !is_set) {
            return None;
        }
        if self.base.is_none() {
            (self.base, self.next) = (Some(first), first);
        }
        let guid = self.next;
        self.next = self.next.wrapping_add(count);
        Some(Guid(guid))
    }
}

impl Reader {
    /// An error ends the reading; what is only a warning goes into the draft.
    fn line(&mut self, line: &str) -> Result<(), TextProblem> {
        if let Some(problem) = words::control_character(line) {
            self.draft.lose(self.number, problem);
            return Ok(());
        }
        let first = line.split([' ', '\t', '=', '+']).next().unwrap_or_default();
        let done = match first {
            _ if line.starts_with('[') => return self.port(line),
            _ if line.starts_with("@[") => return self.alias(line),
            "switchguid" => self.switches.set(line, FIRST_SWITCH_GUID),
            "caguid" | "hcaguids" | "rtguid" => self.hosts.set(line, FIRST_HOST_GUID),
            "vendid" | "devid" | "sysimgguid" => self.state(first, line),
            "Switch" => return self.node(NodeKind::Switch, line),
            "Hca" | "Ca" | "Rt" => return self.node(NodeKind::Host, line),
            "module" => return self.begin_module(line),
            "include" => return Err(TextProblem::NoInclusion),
            _ if line.is_empty() || SKIPPED.iter().any(|word| line.starts_with(word)) => Ok(()),
            _ => {
                let problem = TextProblem::NotUnderstood(words::excerpt(line));
                self.draft.warn(self.number, problem);
                Ok(())
            }
        };
        if let Err(problem) = done {
            self.draft.lose(self.number, problem);
        }
        Ok(())
    }

    fn state(&mut self, what: &str, line: &str) -> Result<(), TextProblem> {
        let text = line.split_once('=').map_or("", |(_, text)| text);
        let text = text.split([' ', '\t', '#']).next().unwrap_or_default();
        let number = |what, digits| words::hexadecimal(what, text, digits);
        if words::is_redacted(text) {
            return Ok(());
        }
        let header = &mut self.header;
        match what {
            "vendid" => header.vendor_id = u32::try_from(number("vendor number", 6)?).ok(),
            "devid" => header.device_id = u16::try_from(number("device number", 4)?).ok(),
            _ => header.system_image_guid = Some(Guid(number("system image GUID", 16)?)),
        }
        Ok(())
    }

    fn node(&mut self, kind: NodeKind, line: &str) -> Result<(), TextProblem> {
        self.node = Current::Lost;
        let record = match self.record(kind, line) {
            Ok(record) => record,
            Err(problem) => {
                self.draft.lose(self.number, problem);
                return Ok(());
            }
        };
        self.node = Current::Node(self.draft.node(record)?);
        Ok(())
    }

    fn record(&mut self, kind: NodeKind, line: &str) -> Result<Record, TextProblem> {
        let (head, id, rest) = quoted(line).ok_or(TextProblem::NoId)?;
        let digits = head.trim_start_matches(|c: char| !c.is_ascii_digit());
        let digits = digits.trim_end_matches(|c: char| !c.is_ascii_digit());
        let ports: u8 = digits.parse().map_err(|_| TextProblem::NoPorts)?;
        if ports == 0 || ports == u8::MAX {
            return Err(TextProblem::NoPorts);
        }
        let description = description(rest, guid_of(id).is_some());
        let key = self.in_module(key(id, description));
        let mut record = Record::new(self.number, key, kind, ports);
        let counted = match kind {
            NodeKind::Switch => self.switches.take(FIRST_SWITCH_GUID, 1, id),
            NodeKind::Host => self.hosts.take(FIRST_HOST_GUID, u64::from(ports) + 1, id),
        };
        record.guid = guid_of(id).or(counted);
        record.description = description.to_owned();
        record.is_router = kind == NodeKind::Host && line.starts_with("Rt");
        record.enhanced_port0 =
            kind == NodeKind::Switch && behind(rest).contains("enhanced port 0");
        let header = std::mem::take(&mut self.header);
        record.vendor_id = header.vendor_id;
        record.device_id = header.device_id;
        record.system_image_guid = header.system_image_guid;
        Ok(record)
    }

    fn begin_module(&mut self, line: &str) -> Result<(), TextProblem> {
        let name = line.split('"').nth(1).unwrap_or_default();
        let is_name = !name.contains(['#', '@'])
            && line.matches('"').count() > 1
            && name.chars().count() <= MODULE_CHARACTERS_MAX;
        if !is_name {
            return Err(TextProblem::BadModule);
        }
        name.clone_into(&mut self.module);
        Ok(())
    }

    /// The id of a node with the name of its module.
    fn in_module(&self, id: String) -> String {
        match self.module.is_empty() || id.contains('#') {
            true => id,
            false => format!("{}#{id}", self.module),
        }
    }

    /// Gives a port an alias.
    fn alias(&mut self, line: &str) -> Result<(), TextProblem> {
        let Current::Node(place) = self.node else {
            self.draft.lose(self.number, TextProblem::PortWithoutNode);
            return Ok(());
        };
        let record = &self.draft.records[place];
        let own = bracketed(&line[1..]).unwrap_or_default();
        let port = own.trim().parse().ok();
        let port = port.filter(|port| (1..=record.ports).contains(port));
        let name = quoted(line).map(|(_, name, _)| name);
        let (Some(port), Some(name)) = (port, name.filter(|name| !name.contains(['#', '@'])))
        else {
            let problem = TextProblem::NotUnderstood(words::excerpt(line));
            self.draft.lose(self.number, problem);
            return Ok(());
        };
        let alias = format!("{}@{name}", self.module);
        match self.aliases.get(&alias) {
            Some(&(first, ..)) => Err(TextProblem::AliasTaken { alias, first }),
            None => {
                self.aliases.insert(alias, (self.number, place, port));
                Ok(())
            }
        }
    }

    /// The record and port that an alias means.
    fn aliased(&self, peer: &str) -> Option<(usize, u8)> {
        let alias = match peer.starts_with('@') {
            true => self.aliases.get(&format!("{}{peer}", self.module)),
            false => self.aliases.get(peer),
        };
        alias.map(|&(_, place, port)| (place, port))
    }

    fn port(&mut self, line: &str) -> Result<(), TextProblem> {
        let own = bracketed(line).unwrap_or_default();
        if own.contains([' ', '@']) {
            let problem = TextProblem::NotUnderstood(words::excerpt(line));
            self.draft.warn(self.number, problem);
            return Ok(());
        }
        let place = match self.node {
            Current::Node(place) => place,
            // The line of the node has a warning already.
            Current::Lost => return Ok(()),
            Current::None => {
                self.draft.lose(self.number, TextProblem::PortWithoutNode);
                return Ok(());
            }
        };
        let record = &mut self.draft.records[place];
        let Some((head, peer, rest)) = quoted(line) else {
            self.draft.warn(self.number, TextProblem::NoId);
            return Ok(());
        };
        let port = match own.trim().parse() {
            Ok(port) if port > 0 && port <= record.ports => port,
            _ => {
                let problem = TextProblem::NoSuchPort {
                    node: record.id.clone(),
                    port: words::excerpt(own),
                    ports: record.ports,
                };
                self.draft.warn(self.number, problem);
                return Ok(());
            }
        };
        if let Some(guid) = own_guid(head).filter(|_| record.kind == NodeKind::Host) {
            record.port_guids.insert(port, guid);
        }
        // ibsim takes port 1 where none is written.
        let peer_port = match bracketed(rest.trim_start()) {
            None => 1,
            Some(digits) => digits.trim().parse().unwrap_or(0),
        };
        let rate = rate(rest);
        if let Some(there) = self.aliased(peer) {
            return self.draft.cable(self.number, (place, port), there, rate);
        }
        let peer = self.in_module(key(peer, description(rest, true)));
        self.draft
            .end(self.number, (place, port), (&peer, peer_port), rate)
    }
}

/// The text before, in and after the first pair of double quotes.
fn quoted(line: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = line.split_once('"')?;
    let (id, rest) = rest.split_once('"')?;
    (!id.is_empty() && id.len() <= NAME_CHARACTERS_MAX).then_some((head, id, rest))
}

/// What a node is known by: its id, and where GUIDs are blanked out its description as well.
fn key(id: &str, description: &str) -> String {
    if words::is_redacted(id) {
        format!("{id} {description}").trim_end().to_owned()
    } else {
        id.to_owned()
    }
}

/// The GUID in an id such as `S-0008f10400410015`.
pub(super) fn guid_of(id: &str) -> Option<Guid> {
    let digits = id.strip_prefix(['S', 'H', 'R'])?.strip_prefix('-')?;
    let number = hexadecimal(digits);
    number.filter(|_| digits.len() == 16).map(Guid)
}

/// The text in brackets at the very beginning.
fn bracketed(text: &str) -> Option<&str> {
    Some(text.strip_prefix('[')?.split_once(']')?.0)
}

/// The port GUID in parentheses behind the brackets at the very beginning.
fn own_guid(head: &str) -> Option<Guid> {
    let inside = head.split_once("](")?.1.split_once(')')?.0;
    hexadecimal(inside).map(Guid)
}

/// The description behind a `#`: between the first and the last double quote, since a description may hold
/// more of them. Versions before 2007 wrote no quotes; that is taken into account for lines that a program wrote.
fn description(rest: &str, is_by_program: bool) -> &str {
    let Some((_, comment)) = rest.split_once('#') else {
        return "";
    };
    let text = match comment
        .split_once('"')
        .map(|(_, text)| text.rsplit_once('"'))
    {
        Some(Some((text, _))) => text,
        _ if !is_by_program => "",
        _ => {
            let ends = [" enhanced port ", " base port ", " port ", " lid ", " lmc "];
            let end = ends.iter().filter_map(|end| comment.find(end)).min();
            comment[..end.unwrap_or(comment.len())].trim()
        }
    };
    words::name(text)
}

/// What stands behind the last double quote.
fn behind(rest: &str) -> &str {
    rest.rsplit_once('"').map_or(rest, |(_, behind)| behind)
}

/// Width and speed as in `4xHDR` behind the description, or by ibsim's options `w=`, `s=` and `e=`;
/// nothing where nothing is said about them.
fn rate(rest: &str) -> Option<LinkRate> {
    let Some((options, comment)) = rest.split_once('#') else {
        return options_rate(rest);
    };
    let mut words = behind(comment).split_whitespace();
    words
        .find_map(words::rate)
        .or_else(|| options_rate(options))
}

/// ibsim's options: masks of enabled widths and speeds, of which the highest runs.
fn options_rate(options: &str) -> Option<LinkRate> {
    let numbers: BTreeMap<&str, u8> = options
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .filter_map(|(option, mask)| Some((option, mask.parse().ok()?)))
        .collect();
    let mask = |option: &str| numbers.get(option).copied().unwrap_or(0);
    if mask("s") == 0 && mask("e") == 0 {
        return None;
    }
    words::rate_of_masks(mask("w"), mask("s"), mask("e"))
}

/// Whether a line names a node; if so, whether its id is as ibnetdiscover makes them.
pub(super) fn is_node(line: &str) -> Option<bool> {
    let word = line.split([' ', '\t']).next()?;
    if !matches!(word, "Switch" | "Hca" | "Ca" | "Rt") {
        return None;
    }
    let (_, id, _) = quoted(line)?;
    Some(guid_of(id).is_some() || words::is_redacted(id))
}
