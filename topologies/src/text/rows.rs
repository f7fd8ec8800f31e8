//! Puts nodes together from texts that say a port a line: `ibnetdiscover -p` and `iblinkinfo`.
//!
//! Such texts know port GUIDs but no node GUIDs of hosts, and no numbers of ports. A host's GUID becomes that of
//! its first port, the largest port number that a line names counts as the number of ports.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Guid, LinkRate};

use super::draft::{Draft, Record};
use crate::error::{TextError, TextProblem};
use crate::graph::NodeKind;

/// A port, and what its cable leads to.
pub(super) struct Row {
    pub(super) line: usize,
    /// Rows of one number are of one node, if the text says which are.
    pub(super) group: Option<usize>,
    pub(super) own: Side,
    pub(super) peer: Option<Side>,
    pub(super) rate: Option<LinkRate>,
    /// Whether the port is switched off.
    pub(super) is_disabled: bool,
}

/// One end of a cable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Side {
    /// Nothing if the text does not say it.
    pub(super) kind: Option<NodeKind>,
    pub(super) is_router: bool,
    /// The port's; that of a switch is the same for all its ports.
    pub(super) guid: Option<Guid>,
    /// 0 for none.
    pub(super) lid: u16,
    pub(super) port: u8,
    pub(super) name: String,
}

/// A node in the making: the ends of cables that are its ports.
struct Group<'a> {
    line: usize,
    kind: NodeKind,
    sides: Vec<&'a Side>,
}

/// The nodes and cables that rows say.
pub(super) fn assemble(rows: &[Row], mut draft: Draft) -> Result<Draft, TextError> {
    let kinds = Kinds::of(rows);
    let (mut groups, own) = group(rows, &kinds);
    let mut index = Index::of(&groups);
    let mut peers = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(side) = &row.peer else {
            peers.push(None);
            continue;
        };
        let place = match index.find(side) {
            Some(place) => place,
            None if side.guid.is_none() && side.lid == 0 => {
                let problem = TextProblem::NoSuchNode {
                    node: row.own.name.clone(),
                    port: row.own.port,
                    peer: side.name.clone(),
                };
                return Err(at(row.line, problem));
            }
            None => {
                if !index.has_unlisted {
                    draft.warn(row.line, TextProblem::FromPeers(side.name.clone()));
                }
                index.has_unlisted = true;
                index.add(side, groups.len());
                groups.push(Group {
                    line: row.line,
                    kind: kinds.kind(side),
                    sides: Vec::new(),
                });
                groups.len() - 1
            }
        };
        groups[place].sides.push(side);
        peers.push(Some((place, side.port)));
    }
    let mut records = Vec::with_capacity(groups.len());
    for group in &groups {
        let added = draft.node(record(group));
        records.push(added.map_err(|problem| at(group.line, problem))?);
    }
    for ((row, own), peer) in rows.iter().zip(own).zip(peers) {
        if row.is_disabled {
            draft.records[records[own]]
                .disabled_ports
                .insert(row.own.port);
        }
        if let Some((place, port)) = peer {
            let (here, there) = ((records[own], row.own.port), (records[place], port));
            let done = draft.cable(row.line, here, there, row.rate);
            done.map_err(|problem| at(row.line, problem))?;
        }
    }
    Ok(draft)
}

fn at(line: usize, problem: TextProblem) -> TextError {
    TextError { line, problem }
}

/// Which GUIDs are switches': a host's port has one of its own, a switch's ports share theirs.
struct Kinds(BTreeSet<Guid>);

impl Kinds {
    fn of(rows: &[Row]) -> Self {
        let mut ports: BTreeMap<Guid, u8> = BTreeMap::new();
        let mut switches = BTreeSet::new();
        for side in rows
            .iter()
            .flat_map(|row| [Some(&row.own), row.peer.as_ref()])
        {
            let Some((side, guid)) = side.and_then(|side| Some((side, side.guid?))) else {
                continue;
            };
            if *ports.entry(guid).or_insert(side.port) != side.port {
                switches.insert(guid);
            }
        }
        Self(switches)
    }

    fn kind(&self, side: &Side) -> NodeKind {
        let has_shared_guid = side.guid.is_some_and(|guid| self.0.contains(&guid));
        side.kind.unwrap_or(match has_shared_guid {
            true => NodeKind::Switch,
            false => NodeKind::Host,
        })
    }
}

/// The nodes of rows that are about their own ports, and for each row which it is.
fn group<'a>(rows: &'a [Row], kinds: &Kinds) -> (Vec<Group<'a>>, Vec<usize>) {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut own = Vec::with_capacity(rows.len());
    let mut switches: BTreeMap<Guid, usize> = BTreeMap::new();
    let mut last: Option<&Row> = None;
    for row in rows {
        let kind = kinds.kind(&row.own);
        let goes_on = last.is_some_and(|last| match (row.group, kind) {
            (Some(group), _) => last.group == Some(group),
            (None, NodeKind::Switch) => last.own.guid == row.own.guid,
            // Adapters stand one after the other: one with a port that was there already is another.
            (None, NodeKind::Host) => {
                let sides = groups.last().map_or(&[][..], |group| &group.sides);
                kinds.kind(&last.own) == kind
                    && last.own.name == row.own.name
                    && sides.iter().all(|side| side.port != row.own.port)
            }
        });
        let known = match (kind, row.own.guid) {
            (NodeKind::Switch, Some(guid)) => switches.get(&guid).copied(),
            _ => None,
        };
        let place = match known {
            Some(place) => place,
            None if goes_on => groups.len() - 1,
            None => {
                groups.push(Group {
                    line: row.line,
                    kind,
                    sides: Vec::new(),
                });
                groups.len() - 1
            }
        };
        if let (NodeKind::Switch, Some(guid)) = (kind, row.own.guid) {
            switches.insert(guid, place);
        }
        groups[place].sides.push(&row.own);
        own.push(place);
        last = Some(row);
    }
    (groups, own)
}

/// Nodes by what their peers' lines say of them.
#[derive(Default)]
struct Index {
    guids: BTreeMap<Guid, usize>,
    lids: BTreeMap<u16, usize>,
    /// Nothing for a name that several nodes have.
    names: BTreeMap<String, Option<usize>>,
    has_unlisted: bool,
}

impl Index {
    fn of(groups: &[Group<'_>]) -> Self {
        let mut index = Self::default();
        for (place, group) in groups.iter().enumerate() {
            for side in &group.sides {
                index.add(side, place);
            }
        }
        index
    }

    fn add(&mut self, side: &Side, place: usize) {
        if let Some(guid) = side.guid {
            self.guids.insert(guid, place);
        }
        if side.lid != 0 {
            self.lids.insert(side.lid, place);
        }
        let named = self.names.entry(side.name.clone()).or_insert(Some(place));
        if *named != Some(place) {
            *named = None;
        }
    }

    fn find(&self, side: &Side) -> Option<usize> {
        match side.guid {
            Some(guid) => self.guids.get(&guid).copied(),
            None if side.lid != 0 => self.lids.get(&side.lid).copied(),
            None => self.names.get(&side.name).copied().flatten(),
        }
    }
}

fn record(group: &Group<'_>) -> Record {
    let ports = group.sides.iter().map(|side| side.port).max().unwrap_or(1);
    let first = group.sides.iter().filter(|side| side.guid.is_some());
    let guid = first
        .min_by_key(|side| side.port)
        .and_then(|side| side.guid);
    let side = group.sides.first();
    let is_router = side.is_some_and(|side| side.is_router);
    let letter = match group.kind {
        NodeKind::Switch => 'S',
        NodeKind::Host if is_router => 'R',
        NodeKind::Host => 'H',
    };
    let name = side.map_or("", |side| side.name.as_str());
    let id = match guid {
        Some(guid) => format!("{letter}-{:016x}", guid.0),
        None => format!("{name} LID {}", side.map_or(0, |side| side.lid)),
    };
    let mut record = Record::new(group.line, id, group.kind, ports);
    record.guid = guid;
    record.description = name.to_owned();
    record.is_router = is_router;
    if group.kind == NodeKind::Host {
        let guids = group
            .sides
            .iter()
            .filter_map(|side| Some((side.port, side.guid?)));
        record.port_guids = guids.collect();
    }
    record
}
