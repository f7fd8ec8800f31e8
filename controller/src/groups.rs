//! Multicast groups: who is a member, which multicast LIDs and tables follow, and which answers wait
//! until the tables are written.
//!
//! A port that is no longer part of the subnet is no longer a member; when it comes back, its host is
//! asked to reregister (PortInfo:ClientReregister), and so joins again what it was in. A new manager
//! asks all hosts, and until they have answered keeps what the one before has left ([`memory`]).

mod memory;
mod names;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use link::Time;
use mad::local::MadMessage;
use routing::fat_tree::{FatTreeLabels, recognise};
use routing::multicast::{Mft, Mgid, Multicast, MulticastError, Options, Role, Scheme};
use topologies::NodeId;
use wire::attr::{MulticastForwardingTable, NodeType};
use wire::p_key::DEFAULT_PARTITION;
use wire::sa::McMemberRecord;
use wire::{Gid, Guid, Lid};

use names::{SCOPE_LINK_LOCAL, allocated_mgid, broadcast};
use rows::Rows;

pub(crate) use names::may_be_asked_for;

use crate::partitions::{Ipoib, Partitions};
use crate::plan::Plan;
use crate::subnet::{Index, Subnet};

/// Multicast LIDs of a block of a forwarding table.
const MFT_BLOCK_ROWS: u16 = 32;
/// Groups at most; further ones are refused.
const GROUPS_MAX: usize = 4096;
/// Answers that wait for tables at most.
const WAITING_MAX: usize = 8192;

/// A group's properties and members.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// What is the same for all members; no port, no multicast LID, no membership.
    pub(crate) record: McMemberRecord,
    /// JoinState by the GUID by which a port has joined: its own or an alias.
    pub(crate) members: BTreeMap<Guid, u8>,
    /// The ports of those that are aliases.
    by_alias: BTreeMap<Guid, Guid>,
    /// Members that another port has made members in their name (ProxyJoin).
    proxied: BTreeSet<Guid>,
    /// Whether it stays without members.
    well_known: bool,
}

impl Group {
    fn new(record: McMemberRecord, well_known: bool) -> Self {
        Self {
            record,
            members: BTreeMap::new(),
            by_alias: BTreeMap::new(),
            proxied: BTreeSet::new(),
            well_known,
        }
    }

    /// The port of a member.
    fn port_of(&self, member: Guid) -> Guid {
        self.by_alias.get(&member).copied().unwrap_or(member)
    }

    /// The ports with what their memberships by whatever GUID are together.
    fn ports(&self) -> BTreeMap<Guid, u8> {
        let mut ports = BTreeMap::new();
        for (&member, &state) in &self.members {
            *ports.entry(self.port_of(member)).or_default() |= state;
        }
        ports
    }

    fn clear(&mut self) {
        self.members.clear();
        self.by_alias.clear();
        self.proxied.clear();
    }

    fn retain(&mut self, is_there: impl Fn(Guid) -> bool) {
        let by_alias = &self.by_alias;
        let is_there = |member: &Guid| is_there(*by_alias.get(member).unwrap_or(member));
        self.members.retain(|member, _| is_there(member));
        self.proxied.retain(is_there);
        let members = &self.members;
        self.by_alias.retain(|alias, _| members.contains_key(alias));
    }
}

/// The groups of a subnet.
#[derive(Debug)]
pub(crate) struct Groups {
    scheme: Scheme,
    labels: Option<FatTreeLabels>,
    multicast: Option<Multicast>,
    /// Whether `multicast` is of the subnet as it is.
    in_force: bool,
    groups: BTreeMap<Gid, Group>,
    /// Whether tables may differ from what was last written.
    dirty: bool,
    /// Answers to who has joined or left, until the tables are written.
    waiting: Vec<MadMessage>,
    /// The first of them, while their tables are being written.
    being_written: usize,
    /// Hosts that need not be asked to reregister.
    registered: BTreeSet<Guid>,
    /// The number at the end of the MGID that was allocated last.
    last_mgid: u32,
    /// Multicast LIDs and their trees, of groups of the manager before.
    recalled_mlids: BTreeMap<Gid, Vec<(usize, Lid)>>,
    /// Members of the manager before that have not joined again.
    unconfirmed: BTreeSet<(Gid, Guid)>,
    /// When those are removed.
    rejoin_by: Option<Time>,
}

/// A group's GID as the routing crate has it.
pub(crate) fn mgid(gid: Gid) -> Mgid {
    Mgid(u128::from_be_bytes(gid.0))
}

/// The block of a forwarding table that a multicast LID is in; `None` for other LIDs.
pub(crate) fn block_of(mlid: Lid) -> Option<u16> {
    Mft::block_of(mlid).and_then(|block| u16::try_from(block).ok())
}

fn role(join_state: u8) -> Role {
    if join_state & (McMemberRecord::JOIN_FULL | McMemberRecord::JOIN_NON_MEMBER) == 0 {
        Role::SendsOnly
    } else {
        Role::Receives
    }
}

impl Groups {
    /// No groups but the well-known ones: the default partition's, or where partitions are given, of each
    /// that is for IP over InfiniBand.
    pub(crate) fn new(scheme: Scheme, partitions: Option<&Partitions>) -> Self {
        let of_default = || vec![broadcast(DEFAULT_PARTITION, Ipoib::default())];
        let records = partitions.map_or_else(of_default, |partitions| {
            let all = partitions.all().iter();
            all.filter_map(|one| Some(broadcast(one.number, one.ipoib?)))
                .collect()
        });
        let records = records.into_iter();
        let well_known = records.map(|record| (record.mgid, Group::new(record, true)));
        Self {
            scheme,
            labels: None,
            multicast: None,
            in_force: false,
            groups: well_known.collect(),
            dirty: false,
            waiting: Vec::new(),
            being_written: 0,
            registered: BTreeSet::new(),
            last_mgid: 0,
            recalled_mlids: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            rejoin_by: None,
        }
    }

    /// Computes the tables for a subnet that has changed. Returns warnings of what has no multicast.
    ///
    /// # Errors
    /// Why the scheme cannot be used, and what to do. That a tree is missing is no error: then there
    /// is no multicast.
    pub(crate) fn replan(&mut self, subnet: &Subnet, plan: &Plan) -> Result<Vec<String>, String> {
        let hosts = |device: &&crate::subnet::Device| device.info.node_type != NodeType::Switch;
        let present: BTreeSet<Guid> = subnet
            .devices
            .iter()
            .filter(hosts)
            .map(|device| device.end_port_guid())
            .collect();
        self.registered.retain(|guid| present.contains(guid));
        let states = match &self.multicast {
            Some(multicast) => multicast.group_states().collect(),
            None => self.group_states(),
        };
        let Rows {
            smallest,
            graph,
            mut warnings,
        } = rows::of(subnet, &plan.graph, &states);
        let options = Options {
            scheme: self.scheme,
            rows: smallest,
            labels: self.labels(plan)?,
        };
        let planned = Multicast::restore(&graph, &options, states);
        self.in_force = planned.is_ok();
        self.dirty = true;
        match planned {
            Ok(multicast) => {
                self.multicast = Some(multicast);
                self.recalled_mlids.clear();
            }
            Err(MulticastError::NoTree) => return Ok(warnings),
            Err(error) => return Err(explain(&error)),
        }
        warnings.extend(self.end_groups_without_room());
        for group in self.groups.values_mut() {
            group.retain(|port| present.contains(&port));
        }
        self.groups
            .retain(|_, group| group.well_known || !group.members.is_empty());
        // Those that the administrator defines are there, and have a multicast LID, before the first member joins.
        let well_known = self.groups.iter().filter(|(_, group)| group.well_known);
        if let Some(multicast) = &mut self.multicast {
            for (&gid, _) in well_known {
                let kept = multicast.keep(mgid(gid)).map_err(|error| explain(&error));
                warnings.extend(kept.err());
            }
        }
        Ok(warnings)
    }

    /// Groups for which the tables have no room lose their members; the warning of it.
    fn end_groups_without_room(&mut self) -> Option<String> {
        let served: BTreeSet<Mgid> = self.multicast.iter().flat_map(Multicast::groups).collect();
        let mut ended = 0usize;
        for (gid, group) in &mut self.groups {
            if !served.contains(&mgid(*gid)) && !group.members.is_empty() {
                group.clear();
                ended += 1;
            }
        }
        (ended > 0).then(|| {
            format!(
                "{ended} multicast groups have ended: the switches' tables have no room for them"
            )
        })
    }

    /// The labels of the fat tree that the fabric is or was, for cyclic trees.
    fn labels(&mut self, plan: &Plan) -> Result<Option<FatTreeLabels>, String> {
        if self.scheme != Scheme::Cyclic {
            return Ok(None);
        }
        let routed = plan.labels.clone();
        let known = self.labels.take();
        let known = known.filter(|labels| labels.fit(&plan.graph).is_ok());
        let labels = match routed.or(known) {
            Some(labels) => labels,
            None => recognise(&plan.graph)
                .map_err(|error| explain(&MulticastError::NotFatTree(error)))?,
        };
        self.labels = Some(labels.clone());
        Ok(Some(labels))
    }

    /// The subnet has changed: nothing can be joined until tables are computed anew.
    pub(crate) fn suspend(&mut self) {
        self.in_force = false;
    }

    /// Whether groups can be joined.
    pub(crate) fn in_force(&self) -> bool {
        self.in_force
    }

    /// JoinState of a member of a group, by the GUID by which it has joined; 0 if it has not.
    pub(crate) fn join_state(&self, gid: Gid, member: Guid) -> u8 {
        let group = self.groups.get(&gid);
        group
            .and_then(|group| group.members.get(&member))
            .copied()
            .unwrap_or(0)
    }

    /// Whether another port has made this member one in its name (ProxyJoin).
    pub(crate) fn is_proxied(&self, gid: Gid, member: Guid) -> bool {
        let group = self.groups.get(&gid);
        group.is_some_and(|group| group.proxied.contains(&member))
    }

    /// Notes of a member whether another port has made it one.
    pub(crate) fn set_proxied(&mut self, gid: Gid, member: Guid, is_proxied: bool) {
        let Some(group) = self.groups.get_mut(&gid) else {
            return;
        };
        if is_proxied && group.members.contains_key(&member) {
            group.proxied.insert(member);
        } else {
            group.proxied.remove(&member);
        }
    }

    /// The record of a membership in the group of `record`.
    pub(crate) fn member_record(
        &self,
        record: &McMemberRecord,
        member: Guid,
        join_state: u8,
    ) -> McMemberRecord {
        let group = self.groups.get(&record.mgid);
        let port = group.map_or(member, |group| group.port_of(member));
        McMemberRecord {
            port_gid: Gid::new(Gid::DEFAULT_PREFIX, member),
            mlid: self.mlid(record.mgid, Some(port)).unwrap_or_default(),
            join_state,
            proxy_join: self.is_proxied(record.mgid, member),
            ..*record
        }
    }

    /// A group.
    pub(crate) fn get(&self, gid: Gid) -> Option<&Group> {
        self.groups.get(&gid)
    }

    /// All groups in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Gid, &Group)> + '_ {
        self.groups.iter().map(|(&gid, group)| (gid, group))
    }

    /// The multicast LID to which a port sends for a group; the group's first for
    /// a port that has no tree of its own.
    pub(crate) fn mlid(&self, gid: Gid, port: Option<Guid>) -> Option<Lid> {
        let multicast = self.multicast.as_ref()?;
        port.and_then(|port| multicast.dlid(mgid(gid), port))
            .or_else(|| multicast.mlids(mgid(gid)).next().map(|(_, mlid)| mlid))
    }

    /// An MGID for a group that is created without one, of the scope that was asked for or, without any, of this
    /// subnet: the next that no group has. A host may have created a group by such a name of a wider scope itself.
    pub(crate) fn allocate_mgid(&mut self, scope: Option<u8>) -> Gid {
        loop {
            self.last_mgid = self.last_mgid.wrapping_add(1);
            let mgid = allocated_mgid(scope.unwrap_or(SCOPE_LINK_LOCAL), self.last_mgid);
            if !self.groups.contains_key(&mgid) {
                return mgid;
            }
        }
    }

    /// Creates a group without members. `false`: there are too many.
    pub(crate) fn create(&mut self, record: McMemberRecord) -> bool {
        if self.groups.len() >= GROUPS_MAX {
            return false;
        }
        self.groups.insert(record.mgid, Group::new(record, false));
        true
    }

    /// Removes a group that was created for a member that could not join.
    pub(crate) fn remove(&mut self, gid: Gid) {
        self.groups.remove(&gid);
    }

    /// The membership of a port in a group, by its own GUID or an alias (`member`), becomes `join_state`; 0 ends it.
    /// With its last full member a group ends. Returns whether it has.
    ///
    /// # Errors
    /// [`MulticastError`]; nothing changes then.
    pub(crate) fn set_member(
        &mut self,
        gid: Gid,
        (member, port): (Guid, Guid),
        join_state: u8,
    ) -> Result<bool, MulticastError> {
        self.unconfirmed.remove(&(gid, member));
        let (Some(multicast), Some(group)) = (&mut self.multicast, self.groups.get_mut(&gid))
        else {
            return Err(MulticastError::NoTree);
        };
        let same_port = |one: &Guid| *one != member && group.port_of(*one) == port;
        let others = group.members.iter().filter(|(one, _)| same_port(one));
        let together = others.fold(join_state, |all, (_, state)| all | state);
        let changes = match together {
            0 => multicast.leave(mgid(gid), port)?,
            state => multicast.join(mgid(gid), port, role(state))?.changes,
        };
        if join_state == 0 {
            group.members.remove(&member);
            group.proxied.remove(&member);
            group.by_alias.remove(&member);
        } else {
            group.members.insert(member, join_state);
            if member != port {
                group.by_alias.insert(member, port);
            }
        }
        self.dirty |= !changes.is_empty();
        let full = |state: &u8| state & McMemberRecord::JOIN_FULL != 0;
        if group.members.values().any(full) {
            return Ok(false);
        }
        for port in group.ports().into_keys() {
            self.dirty |= !multicast.leave(mgid(gid), port)?.is_empty();
        }
        group.clear();
        let ended = !group.well_known;
        if ended {
            self.groups.remove(&gid);
        }
        Ok(ended)
    }

    /// Ends all memberships by an alias.
    pub(crate) fn leave_by_alias(&mut self, alias: Guid) {
        let of_alias = self.groups.iter().filter_map(|(&gid, group)| {
            let port = group.by_alias.get(&alias).copied()?;
            Some((gid, port))
        });
        let memberships: Vec<(Gid, Guid)> = of_alias.collect();
        for (gid, port) in memberships {
            // The port may have left the trees meanwhile: then there is nothing to remove there.
            let _ = self.set_member(gid, (alias, port), 0);
        }
    }

    /// A block of a switch's table; `None` while there is no multicast.
    pub(crate) fn block(
        &self,
        switch: Index,
        block: u16,
        position: u8,
    ) -> Option<MulticastForwardingTable> {
        let multicast = self.multicast.as_ref().filter(|_| self.in_force)?;
        let mft = multicast.mft(NodeId::from_index(switch));
        let table = mft.block(usize::from(block), usize::from(position));
        Some(MulticastForwardingTable(table))
    }

    /// The last block of a switch's table with something in it.
    pub(crate) fn last_block(&self, switch: Index) -> Option<u16> {
        let multicast = self.multicast.as_ref().filter(|_| self.in_force)?;
        let mft = multicast.mft(NodeId::from_index(switch));
        let (mlid, _) = mft.rows().last()?;
        block_of(mlid)
    }

    /// MulticastFDBTop that a switch's table needs: the end of the last block with something in it, or the LID before
    /// the first multicast one; `None` while there is no multicast.
    pub(crate) fn multicast_top(&self, switch: Index) -> Option<Lid> {
        if !self.in_force {
            return None;
        }
        let blocks = self
            .last_block(switch)
            .map_or(0, |last| last.saturating_add(1));
        let rows = blocks.saturating_mul(MFT_BLOCK_ROWS);
        let top = Lid::UNICAST_LAST.get().saturating_add(rows);
        Some(Lid::new(top))
    }

    /// Defers an answer until the tables are written. `false`: nothing is to be written, or too many
    /// wait: it can be sent at once.
    pub(crate) fn defer_answer(&mut self, answer: &MadMessage) -> bool {
        let open = self.dirty || self.being_written > 0;
        let room = self.waiting.len() < WAITING_MAX;
        if open && room {
            self.waiting.push(answer.clone());
        }
        open && room
    }

    /// Whether tables are to be written.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The tables as they are now will be written.
    pub(crate) fn start_writing(&mut self) {
        self.dirty = false;
        self.being_written = self.waiting.len();
    }

    /// Writing them was aborted.
    pub(crate) fn writing_aborted(&mut self) {
        self.dirty = true;
        self.being_written = 0;
    }

    /// The tables have been written; the answers that were waiting for them.
    pub(crate) fn written(&mut self) -> Vec<MadMessage> {
        let count = core::mem::take(&mut self.being_written).min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }

    /// Whether a host has yet to be asked to reregister its memberships.
    pub(crate) fn must_reregister(&self, port: Guid) -> bool {
        !self.registered.contains(&port)
    }

    /// It has been asked.
    pub(crate) fn reregistered(&mut self, port: Guid) {
        self.registered.insert(port);
    }
}

fn explain(error: &MulticastError) -> String {
    match error {
        MulticastError::NotFatTree(_) => {
            format!("{error}; --multicast spanning-tree works on any fabric")
        }
        _ => format!("multicast: {error}"),
    }
}
