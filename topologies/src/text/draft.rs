//! What the lines of a text say, and whether it is one sound description.
//!
//! Readers of all formats put nodes and ends of cables into a [`Draft`]; [`Draft::finish`] makes the graph. A
//! line that cannot be used is a warning if what remains is sound, that is if
//!
//! * every node that a line speaks of is described,
//! * no two lines contradict each other, and
//! * of a cable that only one of its ends names, which is left out, both ends are connected by others.
//!
//! Otherwise the first line that breaks this is the error.

use std::collections::{BTreeMap, BTreeSet};

use wire::convert::u64_of;
use wire::{Guid, LinkRate, PortNum};

use super::warnings::TextWarnings;
use crate::disjoint_sets::DisjointSets;
use crate::error::{NODES_MAX, TextError, TextProblem};
use crate::graph::{Endpoint, Graph, Node, NodeId, NodeKind};

/// The first of the GUIDs that nodes get whose own is not known; the others follow in steps of
/// [`MADE_UP_GUID_STEP`].
const FIRST_MADE_UP_GUID: u64 = 0x021b_e300_0000_0010;
/// Room for the GUIDs of 15 ports.
const MADE_UP_GUID_STEP: u64 = 0x10;

/// A node as its lines say it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The line that names it.
    pub(super) line: usize,
    /// What port lines call it; unique in the text.
    pub(super) id: String,
    /// Whether the id is the name, too; otherwise the description is, if no other node has the same.
    pub(super) is_named_by_id: bool,
    /// The node description, or nothing.
    pub(super) description: String,
    pub(super) kind: NodeKind,
    /// Nothing if the text does not say it.
    pub(super) guid: Option<Guid>,
    pub(super) ports: u8,
    pub(super) is_router: bool,
    pub(super) enhanced_port0: bool,
    pub(super) vendor_id: Option<u32>,
    pub(super) device_id: Option<u16>,
    pub(super) system_image_guid: Option<Guid>,
    /// By own port.
    pub(super) port_guids: BTreeMap<u8, Guid>,
    /// Ports that are said to be switched off; one with a cable all the same is not.
    pub(super) disabled_ports: BTreeSet<u8>,
    /// By own port.
    ends: BTreeMap<u8, End>,
}

/// One end of a cable as its line says it.
#[derive(Clone, Debug)]
struct End {
    line: usize,
    /// The id of the other node.
    peer: String,
    /// Its port.
    peer_port: u8,
    rate: Option<LinkRate>,
}

impl Record {
    /// A node of which nothing else is said.
    pub(super) fn new(line: usize, id: impl Into<String>, kind: NodeKind, ports: u8) -> Self {
        Self {
            line,
            id: id.into(),
            is_named_by_id: false,
            description: String::new(),
            kind,
            guid: None,
            ports,
            is_router: false,
            enhanced_port0: false,
            vendor_id: None,
            device_id: None,
            system_image_guid: None,
            port_guids: BTreeMap::new(),
            disabled_ports: BTreeSet::new(),
            ends: BTreeMap::new(),
        }
    }

    fn node(&self, name: String, guid: Guid) -> Node {
        let mut node = Node::new(name, self.kind, guid, self.ports);
        node.vendor_id = self.vendor_id.unwrap_or(node.vendor_id);
        node.device_id = self.device_id.unwrap_or(node.device_id);
        node.system_image_guid = self.system_image_guid.unwrap_or(node.system_image_guid);
        node.is_router = self.is_router;
        node.enhanced_port0 = self.enhanced_port0;
        let is_off = |port: &u8| *port <= self.ports && !self.ends.contains_key(port);
        node.disabled_ports = self.disabled_ports.iter().copied().filter(is_off).collect();
        if !self.description.is_empty() {
            node.description.clone_from(&self.description);
        }
        for (&port, &guid) in &self.port_guids {
            if node.port_guid(PortNum::new(port)) != guid {
                node.port_guids.insert(port, guid);
            }
        }
        node
    }

    /// Whether two lines name the same node in the same words.
    fn is_repeated_by(&self, other: &Self) -> bool {
        self.guid.is_some()
            && (self.guid, self.kind, self.ports) == (other.guid, other.kind, other.ports)
            && self.description == other.description
    }
}

/// Nodes and ends of cables, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) records: Vec<Record>,
    by_id: BTreeMap<String, usize>,
    warnings: TextWarnings,
    /// The first warning.
    first: Option<TextError>,
    /// The first line that says something about a node and could not be used.
    lost: Option<TextError>,
}

impl Draft {
    /// A line that says nothing about the fabric, or of which the other lines say the same.
    pub(super) fn warn(&mut self, line: usize, problem: TextProblem) {
        self.first.get_or_insert_with(|| TextError {
            line,
            problem: problem.clone(),
        });
        self.warnings.add(line, problem);
    }

    /// A line about a node that cannot be used: the node may be missing.
    pub(super) fn lose(&mut self, line: usize, problem: TextProblem) {
        self.lost.get_or_insert_with(|| TextError {
            line,
            problem: problem.clone(),
        });
        self.warn(line, problem);
    }

    /// The place of the node with that id.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// Takes a node; its place among the records.
    ///
    /// # Errors
    /// An id that means another node, more nodes than a subnet has.
    pub(super) fn node(&mut self, record: Record) -> Result<usize, TextProblem> {
        if let Some(first) = self.find(&record.id) {
            let problem = |line| TextProblem::IdTaken {
                id: record.id.clone(),
                first: line,
            };
            let known = &self.records[first];
            let problem = problem(known.line);
            if !known.is_repeated_by(&record) {
                return Err(problem);
            }
            self.warn(record.line, problem);
            return Ok(first);
        }
        if u64_of(self.records.len()) == NODES_MAX {
            return Err(TextProblem::TooManyNodes);
        }
        let place = self.records.len();
        self.by_id.insert(record.id.clone(), place);
        self.records.push(record);
        Ok(place)
    }

    /// Takes one end of a cable: port `port` of the node at `place` leads to `peer_port` of `peer`.
    ///
    /// # Errors
    /// A line before says that the port leads elsewhere.
    pub(super) fn end(
        &mut self,
        line: usize,
        (place, port): (usize, u8),
        (peer, peer_port): (&str, u8),
        rate: Option<LinkRate>,
    ) -> Result<(), TextProblem> {
        let record = &mut self.records[place];
        if let Some(known) = record.ends.get_mut(&port) {
            if (known.peer.as_str(), known.peer_port) == (peer, peer_port) {
                known.rate = known.rate.or(rate);
                return Ok(());
            }
            return Err(TextProblem::PortTaken {
                node: record.id.clone(),
                port,
                first: known.line,
            });
        }
        let end = End {
            line,
            peer: peer.to_owned(),
            peer_port,
            rate,
        };
        record.ends.insert(port, end);
        Ok(())
    }

    /// Takes both ends of a cable from a line that says both.
    ///
    /// # Errors
    /// A line before says that one of the ports leads elsewhere.
    pub(super) fn cable(
        &mut self,
        line: usize,
        (here, here_port): (usize, u8),
        (there, there_port): (usize, u8),
        rate: Option<LinkRate>,
    ) -> Result<(), TextProblem> {
        let ids = [here, there].map(|place| self.records[place].id.clone());
        let [here_id, there_id] = [ids[0].as_str(), ids[1].as_str()];
        self.end(line, (here, here_port), (there_id, there_port), rate)?;
        self.end(line, (there, there_port), (here_id, here_port), rate)
    }

    /// The graph, if what was read is sound; `lines` is how many lines the text has.
    ///
    /// # Errors
    /// The first line that makes it unsound.
    pub(super) fn finish(mut self, lines: usize) -> Result<(Graph, TextWarnings), TextError> {
        if self.records.is_empty() {
            return Err(self.first.unwrap_or(TextError {
                line: lines.max(1),
                problem: TextProblem::Empty,
            }));
        }
        let guids = self.guids();
        let mut graph = Graph::new();
        for ((record, name), guid) in self.records.iter().zip(self.names()).zip(guids) {
            let added = graph.add(record.node(name, guid));
            added.map_err(|error| TextError {
                line: record.line,
                problem: TextProblem::Refused(error),
            })?;
        }
        self.connect(&mut graph)?;
        Ok((graph, self.warnings))
    }

    /// GUIDs of all nodes; those that the text does not say are made up, with a warning.
    fn guids(&mut self) -> Vec<Guid> {
        let known: BTreeSet<Guid> = self
            .records
            .iter()
            .filter_map(|record| record.guid)
            .collect();
        let made_up = (0..).map(|step| Guid(FIRST_MADE_UP_GUID + step * MADE_UP_GUID_STEP));
        let mut made_up = made_up.filter(|guid| !known.contains(guid));
        let mut guids = Vec::with_capacity(self.records.len());
        for place in 0..self.records.len() {
            let record = &self.records[place];
            guids.push(match record.guid {
                Some(guid) => guid,
                None => {
                    let guid = made_up.next().unwrap_or(Guid(0));
                    let problem = TextProblem::GuidMadeUp {
                        node: record.id.clone(),
                        guid,
                    };
                    self.warn(self.records[place].line, problem);
                    guid
                }
            });
        }
        guids
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
        let name = |record: &Record| {
            let description = &record.description;
            let is_others = shared.contains(description)
                || (*description != record.id && self.by_id.contains_key(description));
            match record.is_named_by_id || description.is_empty() || is_others {
                true => record.id.clone(),
                false => description.clone(),
            }
        };
        self.records.iter().map(name).collect()
    }

    fn connect(&mut self, graph: &mut Graph) -> Result<(), TextError> {
        let mut parts = DisjointSets::new(self.records.len());
        let mut one_sided = Vec::new();
        for (index, record) in self.records.iter().enumerate() {
            for (&port, end) in &record.ends {
                let error = |problem| TextError {
                    line: end.line,
                    problem,
                };
                let other = self.find(&end.peer).ok_or_else(|| {
                    self.lost.clone().unwrap_or_else(|| {
                        error(TextProblem::NoSuchNode {
                            node: record.id.clone(),
                            port,
                            peer: end.peer.clone(),
                        })
                    })
                })?;
                let back = self.records[other].ends.get(&end.peer_port);
                let mutual = back.filter(|back| back.peer == record.id && back.peer_port == port);
                let Some(mutual) = mutual else {
                    let problem = TextProblem::NotMutual {
                        node: record.id.clone(),
                        port,
                        peer: end.peer.clone(),
                        peer_port: end.peer_port,
                        back: back
                            .map(|back| format!("port {} of {:?}", back.peer_port, back.peer)),
                    };
                    if back.is_some() {
                        return Err(error(problem));
                    }
                    one_sided.push((end.line, index, other, problem));
                    continue;
                };
                parts.join(index, other);
                let [here, there] = [(index, port), (other, end.peer_port)].map(endpoint);
                // The cable is made when the first of its two lines comes by.
                if graph.peer(here).is_none() {
                    let connected = graph.connect_at(here, there, end.rate.or(mutual.rate));
                    connected.map_err(|refused| error(TextProblem::Refused(refused)))?;
                }
            }
        }
        one_sided.sort_by_key(|&(line, ..)| line);
        for (line, here, there, problem) in one_sided {
            if parts.first(here) != parts.first(there) {
                return Err(TextError { line, problem });
            }
            self.warn(line, problem);
        }
        Ok(())
    }
}

fn endpoint((node, port): (usize, u8)) -> Endpoint {
    Endpoint {
        node: NodeId::from_index(node),
        port: PortNum::new(port),
    }
}
