//! Multicast groups of the interface: the one of all interfaces of the partition (RFC 4391, 4 and 5), those that programs
//! have joined, and those that are only sent to.
//!
//! ```text
//!  Idle --port Active--> Joining --answer--> Member --left, or unused--> Leaving --> gone
//!                          ^  | refused: again after 5 s    |
//!                          |  +---->                        |
//!                          +--------------------------------+ register anew, port Active again
//! ```
//!
//! The group of all is made if the administrator has none and lets it be made; groups of programs are made with its
//! properties.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use link::Time;
use wire::ipoib::{BROADCAST_QKEY, broadcast_gid, ipv4_group_gid, ipv6_group_gid};
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::{McMemberRecord, SaHeader, Selector, mc_member_component as component};
use wire::{AttributeId, Gid, Lid};

use super::agenda::Agenda;
use super::{ATTEMPTS, PortView, answer_timeout_ns};
use crate::membership;

/// Groups besides that of all interfaces at most.
const GROUPS_MAX: usize = 256;
/// How long after a refusal the administrator is asked again.
const AGAIN_NS: u64 = 5_000_000_000;
/// How long a request that was answered as busy rests.
const BUSY_NS: u64 = 50_000_000;
/// How long a group that is only sent to stays without packets.
const UNUSED_NS: u64 = 300_000_000_000;
/// Packets that wait until a group can be sent to at most.
const WAITING_MAX: usize = 16;
/// The scope of groups of this subnet.
const SCOPE_SUBNET: u8 = 2;
/// Components that name a group and a membership.
const NAMED: u64 = component::MGID | component::PORT_GID | component::JOIN_STATE;
/// Components that make a group.
const MADE: u64 = component::QKEY
    | component::PKEY
    | component::TCLASS
    | component::SL
    | component::FLOW_LABEL
    | component::MTU_SELECTOR
    | component::MTU;

/// Which group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Of all interfaces of the partition.
    Broadcast,
    /// Of a multicast address.
    Of(IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Joining,
    Member,
    Leaving,
}

#[derive(Debug)]
struct Membership {
    state: State,
    /// Whether packets are wanted, or only sent.
    receives: bool,
    /// What the administrator has said of the group.
    record: Option<McMemberRecord>,
    /// Whether the next join may make it.
    makes: bool,
    attempts: u32,
    tid: Option<u32>,
    last_used: Time,
    waiting: VecDeque<Vec<u8>>,
}

/// How packets are sent to a group now.
#[derive(Debug)]
pub(super) enum Route {
    /// So.
    To(McMemberRecord),
    /// They wait, or the oldest that does is dropped.
    Waits {
        /// Whether one was dropped.
        dropped: bool,
    },
    /// Not at all.
    None,
}

/// All groups of a port.
#[derive(Debug)]
pub(super) struct Groups {
    pkey: u16,
    all: BTreeMap<Group, Membership>,
    agenda: Agenda<Group>,
    by_gid: BTreeMap<Gid, Group>,
    /// Whether other groups may be heard than [`Groups::take_heard`] has told, or by other keys.
    is_changed: bool,
}

impl Membership {
    fn new(now: Time, receives: bool) -> Self {
        Self {
            state: State::Idle,
            receives,
            record: None,
            makes: false,
            attempts: 0,
            tid: None,
            last_used: now,
            waiting: VecDeque::new(),
        }
    }

    fn start(&mut self, state: State) {
        self.state = state;
        self.attempts = 0;
        self.tid = None;
    }
}

impl Groups {
    pub(super) fn new(pkey: u16) -> Self {
        let mut groups = Self {
            pkey,
            all: BTreeMap::new(),
            agenda: Agenda::default(),
            by_gid: BTreeMap::new(),
            is_changed: true,
        };
        groups.insert(Time::ZERO, Group::Broadcast, true);
        groups
    }

    /// The GID of a group.
    fn gid(&self, group: Group) -> Gid {
        match group {
            Group::Broadcast => broadcast_gid(self.pkey, SCOPE_SUBNET),
            Group::Of(IpAddr::V4(address)) => ipv4_group_gid(address, self.pkey, SCOPE_SUBNET),
            Group::Of(IpAddr::V6(address)) => ipv6_group_gid(address, self.pkey, SCOPE_SUBNET),
        }
    }

    fn insert(&mut self, now: Time, group: Group, receives: bool) {
        self.is_changed = true;
        self.by_gid.insert(self.gid(group), group);
        self.all.insert(group, Membership::new(now, receives));
    }

    fn remove(&mut self, group: Group) -> usize {
        self.is_changed = true;
        self.agenda.clear(group);
        self.by_gid.remove(&self.gid(group));
        self.all.remove(&group).map_or(0, |gone| gone.waiting.len())
    }

    /// The record of the group of all interfaces, if the port is a member.
    pub(super) fn broadcast(&self) -> Option<&McMemberRecord> {
        self.all.get(&Group::Broadcast)?.record.as_ref()
    }

    /// Whether the interface needs a membership.
    pub(super) fn holds(&self, mgid: Gid, join_state: u8) -> bool {
        let found = self.by_gid.get(&mgid).and_then(|group| self.all.get(group));
        found.is_some_and(|one| {
            one.state != State::Leaving && membership::join_state(!one.receives) == join_state
        })
    }

    /// The groups whose packets are taken, with their queue keys.
    pub(super) fn heard(&self) -> impl Iterator<Item = (Gid, u32)> {
        self.by_gid.iter().filter_map(|(&mgid, group)| {
            let membership = self.all.get(group)?;
            let record = membership.record.as_ref()?;
            membership.receives.then_some((mgid, record.qkey))
        })
    }

    /// What [`Self::take_changed`] would tell.
    pub(super) const fn has_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether [`Self::heard`] may have changed since this was called.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The port is in another partition: all groups have other names.
    pub(super) fn set_pkey(&mut self, pkey: u16) {
        if self.pkey == pkey {
            return;
        }
        self.pkey = pkey;
        self.is_changed = true;
        self.by_gid.clear();
        let names: Vec<Group> = self.all.keys().copied().collect();
        for group in names {
            self.by_gid.insert(self.gid(group), group);
        }
        for membership in self.all.values_mut() {
            membership.record = None;
        }
    }

    /// The port is no longer Active: nobody answers.
    pub(super) fn rest(&mut self) {
        self.agenda.clear_all();
        self.is_changed = true;
        self.all.retain(|_, one| one.state != State::Leaving);
        let all = &self.all;
        self.by_gid.retain(|_, group| all.contains_key(group));
        for membership in self.all.values_mut() {
            membership.start(State::Idle);
        }
    }

    /// The administrator may have lost the memberships: all are asked for again.
    pub(super) fn rejoin(&mut self, now: Time) {
        for (&group, membership) in &mut self.all {
            if membership.state != State::Leaving {
                membership.start(State::Joining);
                self.agenda.set(group, now);
            }
        }
    }

    /// A group is gone, as the administrator reports.
    pub(super) fn deleted(&mut self, now: Time, mgid: Gid) -> usize {
        let Some(&group) = self.by_gid.get(&mgid) else {
            return 0;
        };
        match self.all.get_mut(&group) {
            Some(membership) if membership.receives => {
                membership.start(State::Joining);
                self.agenda.set(group, now);
                0
            }
            _ => self.remove(group),
        }
    }

    /// A program listens to a group. `false`: there are too many.
    pub(super) fn join(&mut self, now: Time, address: IpAddr) -> bool {
        let group = Group::Of(address);
        let is_full = self.all.len() > GROUPS_MAX;
        self.is_changed = true;
        match self.all.get_mut(&group) {
            Some(known) if known.receives && known.state != State::Leaving => return true,
            Some(known) => known.receives = true,
            None if is_full => return false,
            None => self.insert(now, group, true),
        }
        self.start_if_joined(now, group);
        true
    }

    /// No program listens to a group any more.
    pub(super) fn leave(&mut self, now: Time, address: IpAddr) {
        let group = Group::Of(address);
        if let Some(known) = self.all.get_mut(&group)
            && known.receives
        {
            known.receives = false;
            self.is_changed = true;
            known.start(State::Leaving);
            self.agenda.set(group, now);
        }
    }

    /// Begins to join a group, if the one of all interfaces is joined: else that comes first.
    fn start_if_joined(&mut self, now: Time, group: Group) {
        let is_joined = self.broadcast().is_some();
        if let Some(membership) = self.all.get_mut(&group)
            && is_joined
        {
            membership.start(State::Joining);
            self.agenda.set(group, now);
        }
    }

    /// How a packet for a multicast address is sent. Takes it if it has to wait.
    pub(super) fn route(&mut self, now: Time, address: IpAddr, packet: &mut Vec<u8>) -> Route {
        let group = Group::Of(address);
        if !self.all.contains_key(&group) {
            if self.all.len() > GROUPS_MAX && !self.evict(now) {
                return Route::None;
            }
            self.insert(now, group, false);
            self.start_if_joined(now, group);
        }
        let Some(membership) = self.all.get_mut(&group) else {
            return Route::None;
        };
        membership.last_used = now;
        if let Some(record) = membership.record {
            return Route::To(record);
        }
        if membership.state != State::Joining {
            return Route::None;
        }
        membership.waiting.push_back(std::mem::take(packet));
        let dropped = membership.waiting.len() > WAITING_MAX;
        if dropped {
            membership.waiting.pop_front();
        }
        Route::Waits { dropped }
    }

    /// Ends a group that is only sent to and was not for long. Whether there was one.
    fn evict(&mut self, now: Time) -> bool {
        let unused = |(_, one): &(&Group, &Membership)| {
            !one.receives && now.since_ns(one.last_used) > UNUSED_NS
        };
        let Some((&group, _)) = self.all.iter().find(unused) else {
            return false;
        };
        self.remove(group);
        true
    }

    /// Takes a packet that waited until its group could be sent to, with how.
    pub(super) fn take_waiting(&mut self, group: Group) -> Option<(McMemberRecord, Vec<u8>)> {
        let membership = self.all.get_mut(&group)?;
        let record = membership.record?;
        Some((record, membership.waiting.pop_front()?))
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.agenda.first()
    }

    /// The next request that is due, with that transaction id.
    pub(super) fn poll(&mut self, now: Time, tid: u32, port: &PortView) -> Option<Mad> {
        let group = self.agenda.take_due(now)?;
        let mgid = self.gid(group);
        let properties = self.properties(group, port);
        let membership = self.all.get_mut(&group)?;
        if membership.attempts >= ATTEMPTS {
            if membership.state == State::Leaving {
                self.remove(group);
                return None;
            }
            membership.attempts = 0;
        }
        self.agenda
            .set(group, now + answer_timeout_ns(membership.attempts));
        membership.attempts += 1;
        membership.tid = Some(tid);
        let leaves = membership.state == State::Leaving;
        let method = if leaves { Method::DELETE } else { Method::SET };
        let id = AttributeId::MC_MEMBER_RECORD;
        let mut mad = Mad::sa(method, id, 0, u64::from(tid));
        let makes = !leaves && membership.makes;
        let send_only = !(membership.receives || leaves);
        mad.set_sa_header(&SaHeader {
            component_mask: if makes {
                NAMED | MADE
            } else {
                NAMED | component::PKEY
            },
            ..SaHeader::default()
        });
        mad.set_sa_record(&McMemberRecord {
            mgid,
            port_gid: port.gid,
            join_state: membership::join_state(send_only),
            ..properties
        });
        Some(mad)
    }

    /// The properties with which a group is made: those of the group of all interfaces, which has what other
    /// implementations choose.
    fn properties(&self, group: Group, port: &PortView) -> McMemberRecord {
        match self.broadcast() {
            Some(record) if group != Group::Broadcast => McMemberRecord {
                mlid: Lid::ZERO,
                mtu_selector: Selector::Exactly,
                proxy_join: false,
                ..*record
            },
            _ => McMemberRecord {
                qkey: BROADCAST_QKEY,
                pkey: self.pkey,
                mtu_selector: Selector::Exactly,
                mtu: port.mtu.min(wire::Mtu::Mtu2048).code(),
                scope: SCOPE_SUBNET,
                ..McMemberRecord::default()
            },
        }
    }

    /// Takes in an answer. Which group it is of, and how many packets were dropped; `None` if it was not asked for.
    pub(super) fn answered(&mut self, now: Time, mad: &Mad) -> Option<(Group, usize)> {
        let is_asked = |one: &Membership| one.tid.map(u64::from) == Some(mad.tid());
        let found = self.all.iter_mut().find(|(_, one)| is_asked(one));
        let (&group, membership) = found?;
        membership.tid = None;
        self.is_changed = true;
        self.agenda.clear(group);
        if membership.state == State::Leaving {
            return Some((group, self.remove(group)));
        }
        if mad.status() == MadStatus::BUSY {
            self.agenda.set(group, now + BUSY_NS);
            return None;
        }
        let record: Option<McMemberRecord> = mad.sa_record().ok();
        let record =
            record.filter(|record| mad.status() == MadStatus::OK && record.mlid.is_multicast());
        if let Some(record) = record {
            membership.record = Some(record);
            membership.state = State::Member;
            if group == Group::Broadcast {
                self.start_others(now);
            }
            return Some((group, 0));
        }
        if membership.receives && !membership.makes {
            membership.makes = true;
            self.agenda.set(group, now);
            return None;
        }
        if !membership.receives {
            // A group without listeners: asked for when the next packet comes.
            return Some((group, self.remove(group)));
        }
        membership.record = None;
        membership.makes = false;
        membership.attempts = 0;
        self.agenda.set(group, now + AGAIN_NS);
        let dropped = membership.waiting.len();
        membership.waiting.clear();
        Some((group, dropped))
    }

    /// What has waited for the group of all interfaces is joined now.
    fn start_others(&mut self, now: Time) {
        for (&group, membership) in &mut self.all {
            if membership.state == State::Idle {
                membership.start(State::Joining);
                self.agenda.set(group, now);
            }
        }
    }
}

/// Whether packets to a multicast address go to the group of all interfaces: those that every host listens to, and those by
/// which the owner of an IPv6 address is asked.
pub(super) fn is_for_all(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address == Ipv4Addr::new(224, 0, 0, 1) || address.is_broadcast(),
        IpAddr::V6(address) => {
            let segments = address.segments();
            let is_node = segments[..5] == [0xff02, 0, 0, 0, 0] && segments[5] == 1;
            segments == [0xff02, 0, 0, 0, 0, 0, 0, 1] || is_node && segments[6] >> 8 == 0xff
        }
    }
}
