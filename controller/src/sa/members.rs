//! MCMemberRecord (IBA 15.2.5.17): joining and leaving multicast groups, and who is in them.
//!
//! A port joins by its own GID or by that of an alias, of which it has memberships of their own: its multicast LIDs are
//! in the tables as long as one of them is there. They end with the alias.
//!
//! A full member that joins a group which does not exist makes it, if it states what a group needs:
//! P_Key, Q_Key, SL, FlowLabel and TClass. A port of the group's partition may make another one a member in
//! its name (ProxyJoin), and end what was made so; what a port has joined itself only that port changes
//! (o15-0.2.1). A trusted query gets all members, others only the groups of the asker's partitions.
//!
//! The answer to a join names the multicast LID to send to. With cyclic trees (MCAST07) that is one of
//! several of the group, which IBA does not foresee.

use mad::local::MadMessage;
use wire::p_key::{FULL, PARTITION};
use wire::sa::{McMemberRecord, Selector, mc_member_component as component};
use wire::{Gid, Guid, LinkRate, Mad, MadStatus, Method};

use routing::multicast::MulticastError;

use super::View;
use super::aliases::end_port;
use super::path::mtu_within;
use crate::aliases::Aliases;
use crate::fabric::Fabric;
use crate::groups::{self, Group, Groups};
use crate::port_settings::LIFE_TIME;
use crate::subnet::{Device, Index};

/// What every join and leave must state.
const NEEDED: u64 = component::MGID | component::PORT_GID | component::JOIN_STATE;
/// What the first member of a group must state besides.
const NEEDED_TO_CREATE: u64 =
    component::PKEY | component::QKEY | component::SL | component::FLOW_LABEL | component::TCLASS;
/// The greatest code of a lifetime.
const LIFE_TIME_MAX: u8 = 63;
/// The bits of JoinState.
const JOIN_STATES: u8 =
    McMemberRecord::JOIN_FULL | McMemberRecord::JOIN_NON_MEMBER | McMemberRecord::JOIN_SEND_ONLY;

/// The result of a change of a membership.
pub(super) struct Changed {
    /// The membership as it is now.
    pub(super) record: McMemberRecord,
    /// A group that was made.
    pub(super) created: Option<Gid>,
    /// A group that has ended.
    pub(super) ended: Option<Gid>,
}

/// A port that joins or leaves, and the one that asks for it.
#[derive(Clone, Copy)]
struct Member {
    index: Index,
    /// The GUID by which it joins: its own or an alias.
    guid: Guid,
    /// Its own GUID.
    port: Guid,
    requester: Index,
}

impl Member {
    /// Whether another port asks (ProxyJoin).
    fn is_proxied(self) -> bool {
        self.index != self.requester
    }
}

/// A request to join or leave, with what it works on.
pub(super) struct MemberRequest<'a> {
    /// The devices and their LIDs.
    pub(super) fabric: &'a Fabric,
    /// The groups.
    pub(super) groups: &'a mut Groups,
    /// Alias GUIDs of ports.
    pub(super) aliases: &'a Aliases,
}

impl MemberRequest<'_> {
    /// A port joins (Set) or leaves (Delete) a group.
    pub(super) fn apply(&mut self, from: &MadMessage, request: &Mad) -> Result<Changed, MadStatus> {
        let header = request
            .sa_header()
            .map_err(|_| MadStatus::SA_REQUEST_INVALID)?;
        let asked: McMemberRecord = request
            .sa_record()
            .map_err(|_| MadStatus::SA_REQUEST_INVALID)?;
        let mask = header.component_mask;
        if mask & NEEDED != NEEDED {
            return Err(MadStatus::SA_INSUFFICIENT_COMPONENTS);
        }
        // Bit 3, a full member that only sends, is not supported: who asks for it besides is what it asks for else.
        let state = asked.join_state & JOIN_STATES;
        if state == 0 {
            return Err(MadStatus::SA_REQUEST_INVALID);
        }
        // A manager that has just started does not know the port yet.
        if !self.groups.in_force() {
            return Err(MadStatus::BUSY);
        }
        let guid = asked.port_gid.guid();
        let index = end_port(self.fabric, self.aliases, asked.port_gid)
            .filter(|_| asked.port_gid == Gid::new(Gid::DEFAULT_PREFIX, guid))
            .ok_or(MadStatus::SA_INVALID_GID)?;
        let device = &self.fabric.subnet.devices[index];
        let member = Member {
            index,
            guid,
            port: device.end_port_guid(),
            requester: (self.fabric.owner(from.lid)).ok_or(MadStatus::SA_REQUEST_INVALID)?,
        };
        if request.method() == Method::DELETE {
            return self.leave(&asked, member, state);
        }
        let (record, created) = match self.groups.get(asked.mgid) {
            Some(group) => {
                self.check_partition(index, group.record.pkey)?;
                self.check_requester(member, &group.record)?;
                (joined(group, device, &asked, mask)?, None)
            }
            None => {
                let record = created(device, &asked, mask)?;
                self.check_partition(index, record.pkey)?;
                self.check_requester(member, &record)?;
                let scope = (mask & component::SCOPE != 0).then_some(asked.scope);
                let mgid = match asked.mgid == Gid::default() {
                    true => self.groups.allocate_mgid(scope),
                    false => asked.mgid,
                };
                let scope = mgid.0[1] & 0x0f;
                let record = McMemberRecord {
                    mgid,
                    scope,
                    ..record
                };
                if !self.groups.create(record) {
                    return Err(MadStatus::SA_NO_RESOURCES);
                }
                (record, Some(mgid))
            }
        };
        let mgid = record.mgid;
        let before = self.groups.join_state(mgid, guid);
        let state = before | state;
        if let Err(error) = (self.groups).set_member(mgid, (guid, member.port), state) {
            if created.is_some() {
                self.groups.remove(mgid);
            }
            return Err(status(&error));
        }
        self.groups.set_proxied(mgid, guid, member.is_proxied());
        Ok(Changed {
            record: self.groups.member_record(&record, guid, state),
            created,
            ended: None,
        })
    }

    /// A port joins groups of its partitions only (IBA 15.2.5.17).
    fn check_partition(&self, index: Index, pkey: u16) -> Result<(), MadStatus> {
        let key = self.fabric.plan.pkeys.key(index, pkey);
        key.map(|_| ()).ok_or(MadStatus::SA_REQUEST_INVALID)
    }

    /// A membership that a port has made itself is its own. One that another has made in its name, and a new one,
    /// are those of any port of the group's partition (o15-0.2.1).
    fn check_requester(&self, member: Member, group: &McMemberRecord) -> Result<(), MadStatus> {
        let is_member = self.groups.join_state(group.mgid, member.guid) != 0;
        let is_own = is_member && !self.groups.is_proxied(group.mgid, member.guid);
        if is_own && member.is_proxied() {
            return Err(MadStatus::SA_REQUEST_INVALID);
        }
        self.check_partition(member.requester, group.pkey)
    }

    fn leave(
        &mut self,
        asked: &McMemberRecord,
        member: Member,
        state: u8,
    ) -> Result<Changed, MadStatus> {
        let guid = member.guid;
        let before = self.groups.join_state(asked.mgid, guid);
        // All that is given up has to be there (IBA 15.2.5.17.2, o15-0.1.14).
        let record = match self.groups.get(asked.mgid) {
            Some(group) if before & state == state => group.record,
            _ => return Err(MadStatus::SA_REQUEST_INVALID),
        };
        self.check_requester(member, &record)?;
        let after = before & !state;
        let left = self.groups.member_record(&record, guid, after);
        let ended = self
            .groups
            .set_member(asked.mgid, (guid, member.port), after)
            .map_err(|error| status(&error))?;
        Ok(Changed {
            record: left,
            created: None,
            ended: ended.then_some(asked.mgid),
        })
    }
}

impl View<'_> {
    /// The groups or memberships that match.
    pub(super) fn memberships(
        &self,
        from: &MadMessage,
        request: &Mad,
    ) -> Result<Vec<McMemberRecord>, MadStatus> {
        let invalid = MadStatus::SA_REQUEST_INVALID;
        let header = request.sa_header().map_err(|_| invalid)?;
        let asked: McMemberRecord = request.sa_record().map_err(|_| invalid)?;
        let asks = |bit: u64| header.component_mask & bit != 0;
        let asker_index = self.fabric.owner(from.lid);
        let asker = asker_index.and_then(|index| self.fabric.subnet.devices.get(index));
        let asker = asker.map(Device::end_port_guid);
        let mut records = Vec::new();
        let hears = |pkey: u16| {
            let pkeys = &self.fabric.plan.pkeys;
            let key = asker_index.and_then(|index| pkeys.key(index, pkey));
            key.is_some() || !pkeys.is_partitioned()
        };
        for (mgid, group) in self.groups.iter() {
            // Groups of other partitions are shown to those only who show themselves trusted.
            if !self.is_trusted && !hears(group.record.pkey) {
                continue;
            }
            if self.is_trusted && !group.members.is_empty() {
                let members = group.members.iter();
                records.extend(
                    members.map(|(&port, &state)| {
                        self.groups.member_record(&group.record, port, state)
                    }),
                );
            } else {
                records.push(McMemberRecord {
                    mlid: self.groups.mlid(mgid, asker).unwrap_or_default(),
                    join_state: group.members.values().fold(0, |all, state| all | state),
                    ..group.record
                });
            }
        }
        records.retain(|record| {
            (!asks(component::MGID) || record.mgid == asked.mgid)
                && (!asks(component::PORT_GID) || record.port_gid == asked.port_gid)
                && (!asks(component::MLID) || record.mlid == asked.mlid)
                && (!asks(component::QKEY) || record.qkey == asked.qkey)
                && (!asks(component::PKEY) || record.pkey == asked.pkey)
                && (!asks(component::SL) || record.sl == asked.sl)
                && (!asks(component::SCOPE) || record.scope == asked.scope)
                && (!asks(component::JOIN_STATE) || record.join_state & asked.join_state != 0)
        });
        Ok(records)
    }
}

fn status(error: &MulticastError) -> MadStatus {
    match error {
        MulticastError::NoSuchPort(_) => MadStatus::SA_INVALID_GID,
        MulticastError::NotAMember(_) => MadStatus::SA_REQUEST_INVALID,
        MulticastError::TableFull { .. }
        | MulticastError::NoTree
        | MulticastError::NotFatTree(_) => MadStatus::SA_NO_RESOURCES,
    }
}

/// The properties of a group that a port joins, if they suit it.
fn joined(
    group: &Group,
    device: &Device,
    asked: &McMemberRecord,
    mask: u64,
) -> Result<McMemberRecord, MadStatus> {
    let asks = |bits: u64| mask & bits == bits;
    let record = group.record;
    let mtu = device.end_port_info().and_then(|info| info.neighbor_mtu);
    let exact = |have: u8, selector: Selector, asked: u8| match selector {
        Selector::GreaterThan => have > asked,
        Selector::LessThan => have < asked,
        Selector::Exactly => have == asked,
        Selector::Largest => true,
    };
    let suits = mtu.is_none_or(|mtu| mtu.code() >= record.mtu)
        && (!asks(component::QKEY) || record.qkey == asked.qkey)
        && (!asks(component::PKEY) || record.pkey & PARTITION == asked.pkey & PARTITION)
        && (!asks(component::SL) || record.sl == asked.sl)
        && (!asks(component::MTU | component::MTU_SELECTOR)
            || exact(record.mtu, asked.mtu_selector, asked.mtu))
        && (!asks(component::RATE | component::RATE_SELECTOR)
            || exact(record.rate, asked.rate_selector, asked.rate));
    if suits {
        Ok(record)
    } else {
        Err(MadStatus::SA_REQUEST_INVALID)
    }
}

/// The properties of a group that a port makes.
fn created(
    device: &Device,
    asked: &McMemberRecord,
    mask: u64,
) -> Result<McMemberRecord, MadStatus> {
    let asks = |bits: u64| mask & bits == bits;
    if asked.join_state & McMemberRecord::JOIN_FULL == 0 {
        return Err(MadStatus::SA_REQUEST_INVALID);
    }
    if !asks(NEEDED_TO_CREATE) {
        return Err(MadStatus::SA_INSUFFICIENT_COMPONENTS);
    }
    let named = asked.mgid != Gid::default();
    if named && !groups::may_be_asked_for(asked.mgid) || asked.pkey & PARTITION == 0 {
        return Err(MadStatus::SA_REQUEST_INVALID);
    }
    let info = device.end_port_info().ok_or(MadStatus::SA_INVALID_GID)?;
    let have = info.neighbor_mtu.map_or(1, wire::Mtu::code);
    let mtu = if asks(component::MTU | component::MTU_SELECTOR) {
        mtu_within(have, asked.mtu_selector, asked.mtu).ok_or(MadStatus::SA_REQUEST_INVALID)?
    } else {
        have
    };
    let own = info.width().zip(info.speed());
    let own = own.and_then(|(width, speed)| LinkRate { width, speed }.code());
    let invalid = MadStatus::SA_REQUEST_INVALID;
    let rate = match own {
        Some(own) if asks(component::RATE | component::RATE_SELECTOR) => {
            rate_within(own, asked.rate_selector, asked.rate).ok_or(invalid)?
        }
        own => own.unwrap_or_default(),
    };
    let packet_life_time =
        if asks(component::PACKET_LIFE_TIME | component::PACKET_LIFE_TIME_SELECTOR) {
            life_time_within(asked.packet_life_time_selector, asked.packet_life_time)
                .ok_or(invalid)?
        } else {
            LIFE_TIME
        };
    Ok(McMemberRecord {
        mtu_selector: Selector::Exactly,
        mtu,
        rate_selector: Selector::Exactly,
        rate,
        packet_life_time_selector: Selector::Exactly,
        packet_life_time,
        scope: asked.mgid.0[1] & 0x0f,
        port_gid: Gid::default(),
        mlid: wire::Lid::ZERO,
        join_state: 0,
        proxy_join: false,
        // Full members hear limited ones, too.
        pkey: asked.pkey | FULL,
        ..*asked
    })
}

/// The rate of a group that a port of the rate `have` makes, as codes.
fn rate_within(have: u8, selector: Selector, asked: u8) -> Option<u8> {
    let (own, wanted) = (
        LinkRate::nominal_of_code(have)?,
        LinkRate::nominal_of_code(asked),
    );
    match selector {
        Selector::GreaterThan => (own > wanted?).then_some(have),
        Selector::LessThan => LinkRate::code_below(asked, have),
        Selector::Exactly => (own >= wanted?).then_some(asked),
        Selector::Largest => Some(have),
    }
}

/// The lifetime of packets to a group, as codes.
fn life_time_within(selector: Selector, asked: u8) -> Option<u8> {
    match selector {
        Selector::GreaterThan => (asked < LIFE_TIME_MAX).then(|| LIFE_TIME.max(asked + 1)),
        Selector::LessThan => asked.checked_sub(1).map(|below| LIFE_TIME.min(below)),
        Selector::Exactly => Some(asked),
        Selector::Largest => Some(LIFE_TIME),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of 2.5, 40 and 300 Gbit/s.
    const SDR_1X: u8 = 2;
    const QDR_4X: u8 = 7;
    const EDR_12X: u8 = 18;

    #[test]
    fn a_group_has_a_rate_that_its_first_member_has_and_that_is_asked_for() {
        let of_qdr = |selector, asked| rate_within(QDR_4X, selector, asked);
        assert_eq!(of_qdr(Selector::GreaterThan, EDR_12X), None);
        assert_eq!(of_qdr(Selector::GreaterThan, 63), None, "no such code");
        assert_eq!(of_qdr(Selector::GreaterThan, SDR_1X), Some(QDR_4X));
        assert_eq!(of_qdr(Selector::LessThan, SDR_1X), None);
        assert_eq!(of_qdr(Selector::LessThan, EDR_12X), Some(QDR_4X));
        let (gbit_10, gbit_14) = (3, 11);
        assert_eq!(of_qdr(Selector::LessThan, gbit_14), Some(gbit_10));
        assert_eq!(of_qdr(Selector::Exactly, EDR_12X), None);
        assert_eq!(of_qdr(Selector::Exactly, SDR_1X), Some(SDR_1X));
        assert_eq!(of_qdr(Selector::Largest, 0), Some(QDR_4X));
    }

    #[test]
    fn a_group_has_a_lifetime_that_is_asked_for() {
        assert_eq!(life_time_within(Selector::LessThan, 0), None);
        assert_eq!(life_time_within(Selector::GreaterThan, 63), None);
        assert_eq!(life_time_within(Selector::LessThan, 1), Some(0));
        assert_eq!(life_time_within(Selector::Exactly, 20), Some(20));
        assert_eq!(life_time_within(Selector::LessThan, 63), Some(LIFE_TIME));
        assert_eq!(life_time_within(Selector::GreaterThan, 0), Some(LIFE_TIME));
    }
}
