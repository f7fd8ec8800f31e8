//! The reader: nodes and port lines first, then the cables, so that lines may come in any order.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Guid, PortNum};

use crate::error::{NODES_MAX, TextError, TextProblem};
use crate::graph::{Endpoint, Graph, Node, NodeId, NodeKind};

/// Where ibsim starts to count when no line gives a GUID.
const FIRST_HOST_GUID: u64 = 0x10_0000;
const FIRST_SWITCH_GUID: u64 = 0x20_0000;

/// Lines with these beginnings say nothing about what is connected to what.
const SKIPPED: [&str; 9] = [
    "vendid",
    "devid",
    "sysimgguid",
    "width",
    "speed",
    "pdebug",
    "do ",
    "Chassis",
    "DR path",
];

/// Reads ibnetdiscover or ibsim text.
///
/// # Errors
/// [`TextError`] with the line: text that is not understood, ids or ports used twice, cables of
/// which one end is missing or leads elsewhere.
pub fn read_text(text: &str) -> Result<Graph, TextError> {
    let mut reader = Reader::new();
    for (index, line) in text.lines().enumerate() {
        reader.line(line.trim_end()).map_err(|problem| TextError {
            line: index + 1,
            problem,
        })?;
    }
    reader.finish()
}

struct Reader {
    records: Vec<Record>,
    by_id: BTreeMap<String, usize>,
    hosts: GuidCounter,
    switches: GuidCounter,
    line: usize,
}

/// A node line and its port lines.
struct Record {
    line: usize,
    id: String,
    description: String,
    kind: NodeKind,
    guid: Guid,
    ports: u8,
    /// By own port: the line, and the peer's id and port.
    cables: BTreeMap<u8, (usize, String, u8)>,
}

/// How ibsim numbers nodes: from an absolute base, or relative to the last absolute one.
struct GuidCounter {
    base: u64,
    next: u64,
}

impl GuidCounter {
    fn from(base: u64) -> Self {
        Self { base, next: base }
    }

    fn set(&mut self, line: &str) -> Result<(), TextProblem> {
        let bad = || TextProblem::BadGuid(line.to_owned());
        let at = line.find(['=', '+']).ok_or_else(bad)?;
        let (sign, value) = line[at..].split_at(1);
        let digits = value.split(['(', ' ', '\t']).next().unwrap_or_default();
        let number = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        }
        .map_err(|_| TextProblem::BadGuid(digits.to_owned()))?;
        if sign == "=" {
            *self = Self::from(number);
        } else {
            self.next = self.base.checked_add(number).ok_or_else(bad)?;
        }
        Ok(())
    }

    fn take(&mut self, count: u64) -> Guid {
        let guid = self.next;
        self.next = self.next.wrapping_add(count);
        Guid(guid)
    }
}

impl Reader {
    fn new() -> Self {
        Self {
            records: Vec::new(),
            by_id: BTreeMap::new(),
            hosts: GuidCounter::from(FIRST_HOST_GUID),
            switches: GuidCounter::from(FIRST_SWITCH_GUID),
            line: 0,
        }
    }

    fn line(&mut self, line: &str) -> Result<(), TextProblem> {
        self.line += 1;
        // Names end up on terminals and in logs.
        let mut characters = (1..).zip(line.chars());
        if let Some((column, character)) = characters.find(|&(_, c)| c.is_control() && c != '\t') {
            return Err(TextProblem::ControlCharacter { column, character });
        }
        let starts = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
        if line.is_empty() || line.starts_with('#') {
            Ok(())
        } else if line.starts_with('[') {
            self.port(line)
        } else if starts(&["switchguid"]) {
            self.switches.set(line)
        } else if starts(&["caguid", "hcaguids", "rtguid"]) {
            self.hosts.set(line)
        } else if starts(&["Switch"]) {
            self.node(NodeKind::Switch, line)
        } else if starts(&["Hca", "Ca", "Rt"]) {
            self.node(NodeKind::Host, line)
        } else if line.starts_with('@') {
            Err(TextProblem::Unsupported("@alias"))
        } else if starts(&["module"]) {
            Err(TextProblem::Unsupported("module"))
        } else if starts(&["include"]) {
            Err(TextProblem::Unsupported("include"))
        } else if starts(&SKIPPED) {
            Ok(())
        } else {
            Err(TextProblem::NotUnderstood(line.chars().take(60).collect()))
        }
    }

    fn node(&mut self, kind: NodeKind, line: &str) -> Result<(), TextProblem> {
        let (head, id, rest) = quoted(line).ok_or(TextProblem::NoId)?;
        let digits: String = head
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        let ports: u8 = digits.parse().map_err(|_| TextProblem::NoPorts)?;
        if ports == 0 || ports == u8::MAX {
            return Err(TextProblem::NoPorts);
        }
        if let Some(&first) = self.by_id.get(id) {
            return Err(TextProblem::IdTaken {
                id: id.to_owned(),
                first: self.records[first].line,
            });
        }
        if self.records.len() as u64 == NODES_MAX {
            return Err(TextProblem::TooManyNodes);
        }
        let guid = match kind {
            NodeKind::Switch => self.switches.take(1),
            NodeKind::Host => self.hosts.take(u64::from(ports) + 1),
        };
        self.by_id.insert(id.to_owned(), self.records.len());
        self.records.push(Record {
            line: self.line,
            id: id.to_owned(),
            description: description(rest).to_owned(),
            kind,
            guid,
            ports,
            cables: BTreeMap::new(),
        });
        Ok(())
    }

    fn port(&mut self, line: &str) -> Result<(), TextProblem> {
        let record = self
            .records
            .last_mut()
            .ok_or(TextProblem::PortWithoutNode)?;
        let (head, peer, rest) = quoted(line).ok_or(TextProblem::NoId)?;
        let own = bracketed(head).unwrap_or_default();
        let port = match own.trim().parse() {
            Ok(port) if port > 0 && port <= record.ports => port,
            _ => {
                return Err(TextProblem::NoSuchPort {
                    node: record.id.clone(),
                    port: own.to_owned(),
                    ports: record.ports,
                });
            }
        };
        // ibsim takes port 1 where none is written.
        let peer_port = match bracketed(rest) {
            None => 1,
            Some(digits) => digits.trim().parse().unwrap_or(0),
        };
        if let Some(&(first, ..)) = record.cables.get(&port) {
            return Err(TextProblem::PortTaken {
                node: record.id.clone(),
                port,
                first,
            });
        }
        record
            .cables
            .insert(port, (self.line, peer.to_owned(), peer_port));
        Ok(())
    }

    fn finish(self) -> Result<Graph, TextError> {
        if self.records.is_empty() {
            return Err(TextError {
                line: self.line.max(1),
                problem: TextProblem::Empty,
            });
        }
        let mut graph = Graph::new();
        for (record, name) in self.records.iter().zip(self.names()) {
            graph
                .add(Node {
                    name,
                    kind: record.kind,
                    guid: record.guid,
                    ports: record.ports,
                })
                .map_err(|error| TextError {
                    line: record.line,
                    problem: TextProblem::Refused(error),
                })?;
        }
        for (index, record) in self.records.iter().enumerate() {
            for (&port, (line, peer, peer_port)) in &record.cables {
                self.connect(&mut graph, (index, port), (peer, *peer_port))
                    .map_err(|problem| TextError {
                        line: *line,
                        problem,
                    })?;
            }
        }
        Ok(graph)
    }

    /// A node is called by its description if no other has the same, else by its id.
    fn names(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut shared = BTreeSet::new();
        for record in &self.records {
            if !seen.insert(&record.description) {
                shared.insert(&record.description);
            }
        }
        self.records
            .iter()
            .map(|record| {
                if record.description.is_empty() || shared.contains(&record.description) {
                    record.id.clone()
                } else {
                    record.description.clone()
                }
            })
            .collect()
    }

    fn connect(
        &self,
        graph: &mut Graph,
        (index, port): (usize, u8),
        (peer, peer_port): (&str, u8),
    ) -> Result<(), TextProblem> {
        let record = &self.records[index];
        let Some(&other) = self.by_id.get(peer) else {
            return Err(TextProblem::NoSuchNode {
                node: record.id.clone(),
                port,
                peer: peer.to_owned(),
            });
        };
        let back = self.records[other].cables.get(&peer_port);
        if !back.is_some_and(|(_, id, own)| *id == record.id && *own == port) {
            return Err(TextProblem::NotMutual {
                node: record.id.clone(),
                port,
                peer: peer.to_owned(),
                peer_port,
                back: back.map(|(_, id, own)| format!("port {own} of {id:?}")),
            });
        }
        // The cable is made when the first of its two lines comes by.
        let (here, there) = (end(index, port), end(other, peer_port));
        if graph.peer(here).is_some() {
            return Ok(());
        }
        graph.connect(here, there).map_err(TextProblem::Refused)
    }
}

fn end(node: usize, port: u8) -> Endpoint {
    Endpoint {
        node: NodeId::from_index(node),
        port: PortNum::new(port),
    }
}

/// The text before, in and after the first pair of double quotes.
fn quoted(line: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = line.split_once('"')?;
    let (id, rest) = rest.split_once('"')?;
    (!id.is_empty()).then_some((head, id, rest))
}

/// The text in brackets at the very beginning.
fn bracketed(text: &str) -> Option<&str> {
    Some(text.strip_prefix('[')?.split_once(']')?.0)
}

/// The description in quotes behind a `#`.
fn description(rest: &str) -> &str {
    let inside = || {
        let comment = rest.split_once('#')?.1.trim_start().strip_prefix('"')?;
        Some(comment.split_once('"')?.0)
    };
    inside().unwrap_or_default()
}
