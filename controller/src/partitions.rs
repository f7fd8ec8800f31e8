//! Partitions: which ports belong to which, and the P_Key tables that follow (IBA 10.9).
//!
//! The administrator gives them in the syntax of OpenSM's `partitions.conf` ([`Partitions::read`]).
//! Without any, every port is a full member of the default partition. With some, the manager's own port
//! is always a full member of it, and where no rule names it the others are limited ones.

mod file;

use std::collections::BTreeSet;

use topologies::NodeKind;
use wire::attr::{NodeType, PKeyTable};
use wire::p_key::{self, DEFAULT_PARTITION, FULL};
use wire::{Guid, PortNum};

use crate::subnet::{Device, Index, Subnet};

pub use file::PartitionsError;

/// Which partitions there are, in order of number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions(Vec<Partition>);

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name, for messages; may be empty.
    pub name: String,
    /// Its number, 1..=0x7fff.
    pub number: u16,
    /// The broadcast group of IP over InfiniBand, if it has one.
    pub ipoib: Option<Ipoib>,
    /// Who is in it; a port that several rules name has the membership of all of them.
    pub members: Vec<(Member, Membership)>,
}

/// The properties of a partition's broadcast group, as codes of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipoib {
    /// Rate.
    pub rate: u8,
    /// MTU.
    pub mtu: u8,
    /// Service level.
    pub sl: u8,
    /// Scope of its MGID.
    pub scope: u8,
}

impl Default for Ipoib {
    /// As OpenSM has it: 10 Gbit/s, 2048 bytes, service level 0, link-local.
    fn default() -> Self {
        Self {
            rate: 3,
            mtu: 4,
            sl: 0,
            scope: 2,
        }
    }
}

/// Whom a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The end port of this GUID.
    Port(Guid),
    /// All end ports.
    All,
    /// Those of channel adapters.
    ChannelAdapters,
    /// Those of switches.
    Switches,
    /// Those of routers: ibemu has none.
    Routers,
    /// The subnet manager's own.
    Own,
}

/// How a port belongs to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It hears full members.
    Limited,
    /// It hears all members.
    Full,
    /// It has both keys (OpenSM: allow_both_pkeys).
    Both,
}

impl Partitions {
    /// The partitions in order of number.
    #[must_use]
    pub fn all(&self) -> &[Partition] {
        &self.0
    }

    /// The keys of a device's end port: the default partition's first.
    fn keys(&self, subnet: &Subnet, index: Index) -> Vec<u16> {
        let Some(device) = subnet.devices.get(index) else {
            return Vec::new();
        };
        let is_own = index == subnet.own;
        let mut keys = Vec::new();
        let default = self.0.iter().filter(|one| one.number == DEFAULT_PARTITION);
        let others = self.0.iter().filter(|one| one.number != DEFAULT_PARTITION);
        for partition in default.chain(others) {
            let (mut full, mut limited) = (false, false);
            for (_, membership) in partition
                .members
                .iter()
                .filter(|(member, _)| names(*member, device, is_own))
            {
                full |= *membership != Membership::Limited;
                // A limited membership adds nothing to a full one, unless both are asked for.
                limited |= *membership == Membership::Both;
            }
            let is_named = partition
                .members
                .iter()
                .any(|(member, _)| names(*member, device, is_own));
            full |= is_own && partition.number == DEFAULT_PARTITION;
            if full {
                keys.push(partition.number | FULL);
            }
            if limited || (is_named && !full) {
                keys.push(partition.number);
            }
        }
        keys
    }
}

fn names(member: Member, device: &Device, is_own: bool) -> bool {
    match member {
        Member::Port(guid) => guid == device.end_port_guid(),
        Member::All => true,
        Member::ChannelAdapters => device.info.node_type == NodeType::ChannelAdapter,
        Member::Switches => device.kind == NodeKind::Switch,
        Member::Routers => device.info.node_type == NodeType::Router,
        Member::Own => is_own,
    }
}

/// The P_Key tables of a subnet's end ports, and what its switches enforce.
#[derive(Clone, Debug, Default)]
pub(crate) struct PKeyTables {
    /// By position of the device; `None` without partitions.
    tables: Option<Vec<PKeyTable>>,
    enforcement: PartitionEnforcement,
}

impl PKeyTables {
    /// The tables of `subnet`, and warnings of ports with more keys than fit.
    pub(crate) fn of(
        partitions: Option<&Partitions>,
        enforcement: PartitionEnforcement,
        subnet: &Subnet,
    ) -> (Self, Vec<String>) {
        let Some(partitions) = partitions else {
            return (Self::default(), Vec::new());
        };
        let mut warnings = Vec::new();
        let table = |index: Index| {
            let keys = partitions.keys(subnet, index);
            let mut table = PKeyTable::default();
            let room = table.0.len();
            if keys.len() > room {
                warnings.push(format!(
                    "{} is in partitions of {} keys, and its table holds {room}: the last are left out",
                    subnet.devices[index].label(),
                    keys.len(),
                ));
            }
            for (entry, key) in table.0.iter_mut().zip(keys) {
                *entry = key;
            }
            table
        };
        let tables = (0..subnet.devices.len()).map(table).collect();
        warnings.truncate(crate::control::LIST_MAX);
        let tables = Self {
            tables: Some(tables),
            enforcement,
        };
        (tables, warnings)
    }

    /// Whether partitions are given.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.tables.is_some()
    }

    /// The ports of a device whose tables are the manager's business: its end port (without partitions that
    /// of a host), and those at which packets of hosts are checked.
    pub(crate) fn ports<'a>(
        &'a self,
        subnet: &'a Subnet,
        index: Index,
    ) -> impl Iterator<Item = PortNum> + 'a {
        let device = subnet.devices.get(index);
        let own = device.filter(|device| self.is_partitioned() || device.kind == NodeKind::Host);
        let own = own.map(Device::end_port);
        let external = device
            .into_iter()
            .filter(|device| device.kind == NodeKind::Switch)
            .flat_map(Device::cables)
            .map(|(port, _)| port)
            .filter(move |&port| self.enforced(subnet, (index, port)) != (false, false));
        own.into_iter().chain(external)
    }

    /// The table that a port is to hold, where it is the manager's business. `held`: what it holds, if that
    /// is known.
    pub(crate) fn intended_table(
        &self,
        subnet: &Subnet,
        (index, port): (Index, PortNum),
        held: Option<&PKeyTable>,
    ) -> Option<PKeyTable> {
        let device = subnet.devices.get(index)?;
        let Some(tables) = &self.tables else {
            // Other keys are left as they are.
            let mut table = held.copied().unwrap_or_default();
            table.0[0] = PKeyTable::DEFAULT_FULL;
            return Some(table);
        };
        if port == device.end_port() {
            return tables.get(index).copied();
        }
        let (host, _) = device.ports.get(port.index())?.peer?;
        let mut table = *tables.get(host)?;
        // A limited member's own packets must pass: membership is for the hosts to check.
        for key in table.0.iter_mut().filter(|key| **key != 0) {
            *key |= FULL;
        }
        Some(table)
    }

    /// What a port enforces, inbound and outbound: only ports of switches do, towards hosts and towards
    /// switches that lead to no host, behind which no other port could enforce anything. So a host that
    /// reports itself as a switch, or several, gains nothing.
    pub(crate) fn enforced(
        &self,
        subnet: &Subnet,
        (index, port): (Index, PortNum),
    ) -> (bool, bool) {
        let is_towards_end = || {
            let device = subnet.devices.get(index)?;
            let can = device.switch?.partition_enforcement_cap > 0;
            let peer = device.ports.get(port.index())?.peer?;
            let is_host = subnet.devices.get(peer.0)?.kind == NodeKind::Host;
            Some(can && (is_host || !leads_to_host(subnet, peer)))
        };
        match self.is_partitioned() && is_towards_end() == Some(true) {
            true => self.enforcement.directions(),
            false => (false, false),
        }
    }

    /// The key with which one device's end port reaches another's; a port reaches itself.
    pub(crate) fn shared(&self, from: Index, to: Index) -> Option<u16> {
        let Some(tables) = &self.tables else {
            return Some(PKeyTable::DEFAULT_FULL);
        };
        let (from_keys, to_keys) = (&tables.get(from)?.0, &tables.get(to)?.0);
        if from == to {
            return from_keys.iter().copied().find(|&key| key != 0);
        }
        p_key::shared(from_keys, to_keys)
    }

    /// The key with which two devices talk in that partition, if they do.
    pub(crate) fn shared_in(&self, from: Index, to: Index, partition: u16) -> Option<u16> {
        let (from, to): (&[u16], &[u16]) = match &self.tables {
            None => (&[PKeyTable::DEFAULT_FULL], &[PKeyTable::DEFAULT_FULL]),
            Some(tables) => (&tables.get(from)?.0, &tables.get(to)?.0),
        };
        let own = p_key::own_key(from, partition)?;
        p_key::admits(to, own).then_some(own)
    }

    /// The key of a device's end port in that partition, if it is a member.
    pub(crate) fn key(&self, index: Index, partition: u16) -> Option<u16> {
        let table: &[u16] = match &self.tables {
            None => &[PKeyTable::DEFAULT_FULL],
            Some(tables) => &tables.get(index)?.0,
        };
        p_key::own_key(table, partition)
    }
}

/// Whether there is a host at or behind the device at this end of a cable, on other ways than back over the cable.
fn leads_to_host(subnet: &Subnet, end: (Index, PortNum)) -> bool {
    let is_host = |index: Index| {
        let device = subnet.devices.get(index);
        device.is_some_and(|device| device.kind == NodeKind::Host)
    };
    let mut seen = BTreeSet::new();
    let mut waiting = vec![end.0];
    while let Some(index) = waiting.pop() {
        if is_host(index) {
            return true;
        }
        let Some(device) = subnet.devices.get(index).filter(|_| seen.insert(index)) else {
            continue;
        };
        let peers = device.cables().filter(|&(port, _)| (index, port) != end);
        for (_, (peer, _)) in peers {
            // Next is what decides.
            if is_host(peer) {
                return true;
            }
            waiting.push(peer);
        }
    }
    false
}

/// Which packets switches check at the ports towards hosts (OpenSM: part_enforce).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumMessage,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum PartitionEnforcement {
    /// Those from hosts and those to hosts
    #[default]
    Both,
    /// Those from hosts
    In,
    /// Those to hosts
    Out,
    /// None: hosts check what they receive
    Off,
}
wire::choice!(PartitionEnforcement, "partition enforcement");

impl PartitionEnforcement {
    /// Whether packets from hosts are checked, and packets to hosts.
    pub(crate) fn directions(self) -> (bool, bool) {
        match self {
            Self::Both => (true, true),
            Self::In => (true, false),
            Self::Out => (false, true),
            Self::Off => (false, false),
        }
    }
}
