//! Tables computed elsewhere, from the text of dump_fts ([`crate::dump`]).
//!
//! The owner of a LID is the one that the text names (`portguid`, and the LID on a switch's line).
//! Where it names none, the tables decide: a switch that keeps a LID for itself (port 0) owns it,
//! else the one host to whose port a switch sends it. LIDs without an owner stay in the tables and
//! are not verified.
//!
//! Such tables come without promises; [`crate::verify()`] checks them. Switches without hosts need
//! entries for base LIDs only: routing trees of Clos fabrics leave the others out.

mod levels;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Guid, Lid, Lmc, PortNum};

use crate::dump::{MftDump, SwitchDump};
use crate::engine::{Engine, Options};
use crate::error::{EngineError, RoutingError, Warning};
use crate::lids::{LidRange, Lids};
use crate::multicast::Mft;
use crate::network::{Network, port_guid, ports_by_guid};
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, Promises, Tables};
use crate::verify::{DeliveryFailure, Problem, verify};

pub use levels::{LevelError, give_levels};

/// Why tables that were given do not fit the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    /// No tables in the options.
    #[error("the engine file needs tables to take: give a file in the text of dump_fts")]
    NotGiven,
    /// A table of a switch that the fabric does not have.
    #[error("line {line}: the fabric has no switch {guid} ({name})")]
    NoSuchSwitch {
        /// The line, from 1.
        line: usize,
        /// Its name in the text.
        name: String,
        /// The GUID.
        guid: Guid,
    },
    /// A port that the switch does not have.
    #[error("line {line}: {switch} has ports 0 to {ports}, not {port}")]
    NoSuchPort {
        /// The line, from 1.
        line: usize,
        /// The switch.
        switch: String,
        /// The port.
        port: PortNum,
        /// How many external ports it has.
        ports: u8,
    },
    /// Two owners for one LID.
    #[error("line {line}: LID {lid} belongs to {other}, and to {owner} above")]
    TwoOwners {
        /// The line, from 1.
        line: usize,
        /// The LID.
        lid: Lid,
        /// The owner's port GUID, as said first.
        owner: Guid,
        /// As said here.
        other: Guid,
    },
    /// LIDs of a port that no base LID and LMC describe.
    #[error(
        "the port {guid} has {count} LIDs from {first} to {last}; it must have 1, 2, 4 .. 128 consecutive ones"
    )]
    Scattered {
        /// The port.
        guid: Guid,
        /// How many LIDs.
        count: usize,
        /// The first.
        first: Lid,
        /// The last.
        last: Lid,
    },
}

/// Why a live fabric cannot run on tables that were given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnusableTables {
    /// Base LIDs that InfiniBand has no LMC for.
    #[error(
        "{ports} ports have base LIDs that are no multiple of their number of LIDs, as InfiniBand \
         demands"
    )]
    Unaligned {
        /// How many.
        ports: usize,
    },
    /// Ports without LID, or packets between hosts that do not arrive, or that go round in a loop.
    #[error("{pairs} paths do not lead where they should, the first: {first}")]
    Broken {
        /// How many (switch, LID) pairs, and ports without LID.
        pairs: u64,
        /// One of them in words.
        first: String,
    },
}

/// Checks that a fabric can run on tables of unknown origin: every port has a LID, packets
/// between hosts arrive, none goes round in a loop. Returns what is worth a warning: packets of or
/// to switches that do not arrive, credit loops.
///
/// # Errors
/// [`UnusableTables`].
pub fn check(graph: &Graph, tables: &Tables) -> Result<Vec<String>, UnusableTables> {
    let unaligned = tables.warnings.iter().find_map(|warning| match warning {
        Warning::Unaligned { ports } => Some(*ports),
        _ => None,
    });
    if let Some(ports) = unaligned {
        return Err(UnusableTables::Unaligned { ports });
    }
    let report = verify(graph, tables, tables.promises);
    let in_words = |problem: &Problem| report.describe_problem(graph, problem);
    let is_bad = |problem: &&Problem| match problem {
        Problem::NoLid(_) => true,
        Problem::Unreachable { failure, from, lid } => {
            let owner = tables.lids.owner(*lid).and_then(|range| range.end);
            let to_host = owner.is_some_and(|end| graph.node(end.node).kind == NodeKind::Host);
            let mut behind = graph.cables(*from).map(|(_, peer)| peer.node);
            let from_host = behind.any(|node| graph.node(node).kind == NodeKind::Host);
            matches!(failure, DeliveryFailure::Loop(_)) || to_host && from_host
        }
        _ => false,
    };
    let without_lid = report.problem_count - report.hosts_unreachable - report.switches_unreachable;
    let pairs = without_lid + report.hosts_unreachable.max(report.loops);
    let first = report.problems.iter().find(is_bad);
    if pairs > 0 {
        let first = first.or(report.problems.first()).map(in_words);
        return Err(UnusableTables::Broken {
            pairs,
            first: first.unwrap_or_default(),
        });
    }
    let mut worth = Vec::new();
    if let Some(problem) = report.problems.first() {
        worth.push(format!(
            "packets of or to switches do not arrive on {} paths, the first: {}",
            report.switches_unreachable,
            in_words(problem)
        ));
    }
    worth.extend(report.credit_loops().map(|(packets, cycle)| {
        let cycle = report.describe_cycle(graph, cycle);
        format!("credit loop among {packets}: {cycle}")
    }));
    Ok(worth)
}

impl From<FileError> for RoutingError {
    fn from(error: FileError) -> Self {
        Self::Engine(EngineError::new(error))
    }
}

impl From<LevelError> for RoutingError {
    fn from(error: LevelError) -> Self {
        Self::Engine(EngineError::new(error))
    }
}

/// The engine.
pub(crate) struct File;

impl Engine for File {
    fn takes_lmc(&self) -> bool {
        false
    }

    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let dumps = options.given.as_deref().ok_or(FileError::NotGiven)?;
        let mut tables = tables(graph, network, dumps)?;
        if !options.given_levels.is_empty() {
            give_levels(
                graph,
                &mut tables,
                &options.given_levels,
                options.data_vls(),
            )?;
        }
        Ok(tables)
    }
}

/// Of tables that were given only what InfiniBand itself demands is asked: packets from hosts arrive on
/// every LID, those of switches without hosts on base LIDs.
const PROMISES: Promises = Promises {
    up_down: false,
    minimal: false,
    deadlock_free: false,
    from_hosts_only: true,
};

/// Tables as they were read.
///
/// # Errors
/// [`FileError`]; not for tables that lead nowhere, which [`crate::verify()`] is for.
pub fn tables(graph: &Graph, network: &Network, dumps: &[SwitchDump]) -> Result<Tables, FileError> {
    let mut lfts = vec![Lft::default(); graph.len()];
    let mut owners = Owners::default();
    for dump in dumps {
        let node = switch(graph, dump.line, dump.guid, &dump.name)?;
        check_ports(graph, node, dump)?;
        owners.add(dump)?;
        lfts[node.index()] = dump.lft.clone();
    }
    owners.infer(graph, &lfts);
    let lids = owners.into_lids(graph)?;
    let rows = network
        .switches()
        .iter()
        .map(|node| core::mem::take(&mut lfts[node.index()]))
        .collect();
    let mut tables = Tables::generic(RoutingEngine::File, network, lids, rows, PROMISES);
    tables.warnings = warnings(network, &tables, dumps);
    Ok(tables)
}

/// Multicast tables as they were read, by switch.
///
/// # Errors
/// [`FileError::NoSuchSwitch`], [`FileError::NoSuchPort`].
pub fn multicast_tables(
    graph: &Graph,
    dumps: &[MftDump],
) -> Result<BTreeMap<NodeId, Mft>, FileError> {
    let mut mfts = BTreeMap::new();
    for dump in dumps {
        let node = switch(graph, dump.line, dump.guid, &dump.name)?;
        let ports = graph.node(node).ports;
        for (mlid, row) in dump.mft.rows() {
            if let Some(port) = row.iter().find(|port| port.get() > ports) {
                return Err(FileError::NoSuchPort {
                    line: dump.lines.get(&mlid).copied().unwrap_or(dump.line),
                    switch: graph.node(node).name.clone(),
                    port,
                    ports,
                });
            }
        }
        mfts.insert(node, dump.mft.clone());
    }
    Ok(mfts)
}

fn switch(graph: &Graph, line: usize, guid: Guid, name: &str) -> Result<NodeId, FileError> {
    graph
        .find_guid(guid)
        .filter(|&node| graph.node(node).kind == NodeKind::Switch)
        .ok_or_else(|| FileError::NoSuchSwitch {
            line,
            name: name.to_owned(),
            guid,
        })
}

fn check_ports(graph: &Graph, node: NodeId, dump: &SwitchDump) -> Result<(), FileError> {
    let ports = graph.node(node).ports;
    for (&lid, &line) in &dump.lines {
        let port = dump.lft.get(lid);
        if port != PortNum::NONE && port.get() > ports {
            return Err(FileError::NoSuchPort {
                line,
                switch: graph.node(node).name.clone(),
                port,
                ports,
            });
        }
    }
    Ok(())
}

fn warnings(network: &Network, tables: &Tables, dumps: &[SwitchDump]) -> Vec<Warning> {
    let given: BTreeSet<Guid> = dumps.iter().map(|dump| dump.guid).collect();
    let switches = network.switch_guids().iter();
    let switches = switches.filter(|guid| !given.contains(guid)).count();
    let lids: BTreeSet<Lid> = dumps.iter().flat_map(|d| d.lines.keys().copied()).collect();
    let lids = lids
        .into_iter()
        .filter(|&lid| tables.lids.owner(lid).is_none_or(|r| r.end.is_none()))
        .count();
    let ports = tables
        .lids
        .iter()
        .filter(|range| !range.base.get().is_multiple_of(range.lmc.lids()))
        .count();
    [
        (switches > 0).then_some(Warning::NoTable { switches }),
        (lids > 0).then_some(Warning::NoOwner { lids }),
        (ports > 0).then_some(Warning::Unaligned { ports }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[derive(Default)]
struct Owners(BTreeMap<Lid, Guid>);

impl Owners {
    /// The owners that a dump names.
    ///
    /// # Errors
    /// [`FileError::TwoOwners`].
    fn add(&mut self, dump: &SwitchDump) -> Result<(), FileError> {
        let own = dump.lid.filter(|lid| lid.is_unicast());
        let named = dump
            .owners
            .iter()
            .map(|(&lid, &guid)| (lid, guid, dump.lines.get(&lid).copied()));
        let of_switch = own.map(|lid| (lid, dump.guid, None));
        for (lid, other, line) in of_switch.into_iter().chain(named) {
            let owner = *self.0.entry(lid).or_insert(other);
            if owner != other {
                return Err(FileError::TwoOwners {
                    line: line.unwrap_or(dump.line),
                    lid,
                    owner,
                    other,
                });
            }
        }
        Ok(())
    }

    /// The owners that the tables imply for LIDs which the text does not name.
    fn infer(&mut self, graph: &Graph, lfts: &[Lft]) {
        let mut takers: BTreeMap<Lid, BTreeSet<(NodeKind, Guid)>> = BTreeMap::new();
        for node in graph.switches() {
            let entries = (0_u16..).zip(lfts[node.index()].entries());
            for (lid, &port) in entries.filter(|&(_, &port)| port != PortNum::NONE) {
                let lid = Lid::new(lid);
                if self.0.contains_key(&lid) {
                    continue;
                }
                let taker = match graph.peer(Endpoint { node, port }) {
                    _ if port == PortNum::MANAGEMENT => (NodeKind::Switch, graph.node(node).guid),
                    Some(peer) if graph.node(peer.node).kind == NodeKind::Host => {
                        (NodeKind::Host, port_guid(graph, peer))
                    }
                    _ => continue,
                };
                takers.entry(lid).or_default().insert(taker);
            }
        }
        for (lid, takers) in takers {
            let of = |kind| {
                let mut of_kind = takers.iter().filter(move |taker| taker.0 == kind);
                of_kind.next().filter(|_| of_kind.next().is_none())
            };
            if let Some(&(_, guid)) = of(NodeKind::Switch).or_else(|| of(NodeKind::Host)) {
                self.0.insert(lid, guid);
            }
        }
    }

    fn into_lids(self, graph: &Graph) -> Result<Lids, FileError> {
        let ends = ports_by_guid(graph);
        let mut by_guid: BTreeMap<Guid, Vec<Lid>> = BTreeMap::new();
        for (lid, guid) in self.0 {
            by_guid.entry(guid).or_default().push(lid);
        }
        by_guid
            .into_iter()
            .map(|(guid, lids)| range(guid, &lids, ends.get(&guid).copied()))
            .collect::<Result<_, _>>()
            .map(Lids::new)
    }
}

fn range(guid: Guid, lids: &[Lid], end: Option<Endpoint>) -> Result<LidRange, FileError> {
    let (first, last) = match lids {
        [first, .., last] => (*first, *last),
        [one] => (*one, *one),
        [] => (Lid::ZERO, Lid::ZERO),
    };
    let count = lids.len();
    let lmc = u8::try_from(count.trailing_zeros())
        .ok()
        .and_then(|lmc| Lmc::new(lmc).ok())
        .filter(|_| count.is_power_of_two() && last.index() - first.index() == count - 1)
        .ok_or(FileError::Scattered {
            guid,
            count,
            first,
            last,
        })?;
    Ok(LidRange {
        guid,
        base: first,
        lmc,
        end,
    })
}
