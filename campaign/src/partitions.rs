//! Hosts in partitions: their membership, and which of them receive each other's packets.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use controller::Partitions;
use hostd::control::{PingRequest, Reply, Request};
use sim::Twin;
use topologies::{Graph, NodeId};
use wire::{Guid, Lid, Sl, p_key};

use crate::bed::{Bed, DATAGRAM_BYTES};
use crate::managers;
use crate::outcome::{Failure, FailureKind};
use crate::schedule::Division;

/// The number of the first partition.
const FIRST: u16 = 0x100;
/// Every how manieth host is a limited member of a second partition.
const LIMITED_EVERY: usize = 3;
/// How long a host waits for answers that are not to come, milliseconds.
const SILENCE_MS: u32 = 20;

/// The P_Keys of a host, by its place among all hosts, without that of the default partition.
pub(crate) fn keys(division: Division, at: usize) -> Vec<u16> {
    let count = usize::from(division.count);
    let number = |at: usize| FIRST + u16::try_from(at % count.max(1)).unwrap_or_default();
    let mut keys = vec![number(at) | p_key::FULL];
    if at.is_multiple_of(LIMITED_EVERY) && count > 1 {
        keys.push(number(at + 1));
    }
    keys
}

/// What the managers are given, as an administrator writes it.
pub(crate) fn given(division: Division, graph: &Graph, hosts: &[NodeId]) -> Partitions {
    let mut text = String::new();
    for partition in FIRST..FIRST + u16::from(division.count) {
        let mut members = Vec::new();
        for (at, &host) in hosts.iter().enumerate() {
            let port = Guid(graph.node(host).guid.0 + 1);
            for key in keys(division, at) {
                if key & p_key::PARTITION == partition {
                    let membership = match key & p_key::FULL {
                        0 => "limited",
                        _ => "full",
                    };
                    members.push(format!("{:#x}={membership}", port.0));
                }
            }
        }
        // Writing to a text does not fail.
        let _ = writeln!(text, "={partition:#x}: {};", members.join(", "));
    }
    Partitions::read(&text).unwrap_or_default()
}

/// From now on it is a violation that a packet comes to a port where switches do not let it.
pub(crate) fn watch(division: Division, hosts: &[NodeId], twin: &mut Twin) {
    use controller::PartitionEnforcement::{Both, In, Off, Out};
    if matches!(division.enforcement, In | Off) {
        return;
    }
    debug_assert!(matches!(division.enforcement, Both | Out));
    let tables = hosts.iter().enumerate();
    let tables = tables.map(|(at, &host)| (host, keys(division, at)));
    twin.check_partitions(&tables.collect());
}

/// The keys with which hosts reach each other.
#[derive(Debug)]
pub(crate) struct Reach {
    tables: Option<BTreeMap<NodeId, Vec<u16>>>,
}

impl Reach {
    /// As it is to be when all is quiet: the master's host is a full member of the default partition.
    pub(crate) fn of(bed: &Bed<'_>) -> Self {
        let master = managers::master_host(bed);
        let tables = bed.schedule.partitions.map(|division| {
            let table = |(at, &host): (usize, &NodeId)| {
                let full = match Some(host) == master {
                    true => p_key::FULL,
                    false => 0,
                };
                let mut table = vec![p_key::DEFAULT_PARTITION | full];
                table.extend(keys(division, at));
                (host, table)
            };
            bed.hosts.iter().enumerate().map(table).collect()
        });
        Self { tables }
    }

    /// Whether hosts are in partitions.
    pub(crate) fn is_divided(&self) -> bool {
        self.tables.is_some()
    }

    /// The key with which one host reaches another, 0 for the first of its own; `None` if it does not.
    pub(crate) fn key(&self, from: NodeId, to: NodeId) -> Option<u16> {
        let Some(tables) = &self.tables else {
            return Some(0);
        };
        p_key::shared(tables.get(&from)?, tables.get(&to)?)
    }
}

/// Hosts without a common partition receive none of each other's packets, whatever key the sender takes.
/// `owners`: the hosts by LID.
pub(crate) fn check(
    bed: &mut Bed<'_>,
    reach: &Reach,
    owners: &BTreeMap<Lid, NodeId>,
) -> Result<(), Failure> {
    let Some(tables) = &reach.tables else {
        return Ok(());
    };
    let hosts: Vec<NodeId> = bed.hosts.clone();
    for host in hosts {
        let foreign = owners
            .iter()
            .filter(|&(_, &owner)| owner != host && reach.key(host, owner).is_none());
        let targets: Vec<Lid> = foreign.map(|(&lid, _)| lid).collect();
        let is_there = owners.values().any(|&owner| owner == host);
        if targets.is_empty() || !is_there {
            continue;
        }
        for &pkey in tables.get(&host).into_iter().flatten() {
            let request = Request::Ping(PingRequest {
                targets: targets.clone(),
                count: 1,
                interval_us: 10,
                size: DATAGRAM_BYTES,
                sl: Sl::default(),
                pkey,
                timeout_ms: SILENCE_MS,
            });
            let Some(Reply::Ping(results)) = bed.ask(host, request) else {
                continue;
            };
            if let Some(heard) = results.iter().find(|result| result.received > 0) {
                let name = &bed.graph.node(host).name;
                let what = format!("{name} is answered with P_Key {pkey:#06x}: {heard:?}");
                return bed.fail(FailureKind::Partitions, what);
            }
            bed.pass(1)?;
        }
    }
    Ok(())
}
