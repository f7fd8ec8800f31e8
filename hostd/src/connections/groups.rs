//! Memberships of programs in multicast groups.

use std::net::IpAddr;

use link::Time;
use uverbs::cm::{DatagramParameters, EventParameters, EventReply};
use uverbs::{AddressAttributes, GlobalAttributes, errno};
use wire::Gid;
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::McMemberRecord;

use super::administration::Asker;
use super::commands::Done;
use super::events::event;
use super::{Connections, DATAGRAM_QKEY, IdState, Waiting};
use crate::clients::ClientId;
use crate::membership::{self, CREATES, NEEDED};

/// Memberships at most.
const MEMBERS_MAX: usize = 2048;
/// How long a join may take, milliseconds.
const PATIENCE_MS: u32 = 10_000;
/// A membership.
#[derive(Debug)]
pub(super) struct Member {
    /// The id that has joined.
    pub(super) id: u32,
    uid: u64,
    send_only: bool,
    record: McMemberRecord,
    /// Whether the join states what creates a group.
    creates: bool,
    /// It is one.
    joined: bool,
    /// Events that its program has been told.
    pub(super) reported: u32,
}

/// The group of an internet multicast address, as all of this service map it (RFC 4391 with the signature of
/// communication management in place of IP's, as Linux has it). Of other addresses: that GID itself.
pub(super) fn group_of(ip: IpAddr, pkey: u16) -> Gid {
    let [high, low] = (pkey | 0x8000).to_be_bytes();
    let mut gid = [0; 16];
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            gid[..6].copy_from_slice(&[0xff, 0x12, 0x40, 0x01, high, low]);
            gid[12..].copy_from_slice(&[a & 0x0f, b, c, d]);
        }
        // A GID of a group in the form of an address (`ff10:a01b::/32` and the like).
        IpAddr::V6(ip) if ip.octets()[1] & 0xf0 == 0x10 && ip.octets()[2..4] == [0xa0, 0x1b] => {
            gid = ip.octets();
        }
        IpAddr::V6(ip) => {
            let octets = ip.octets();
            gid[..6].copy_from_slice(&[0xff, 0x10 | octets[1] & 0x0f, 0x60, 0x01, high, low]);
            gid[6..].copy_from_slice(&octets[6..]);
        }
    }
    Gid(gid)
}

impl Connections {
    pub(super) fn join(
        &mut self,
        now: Time,
        number: u32,
        uid: u64,
        group: IpAddr,
        send_only: bool,
    ) -> Done {
        let id = self.id(number)?;
        let is_placed = id.on_device && !matches!(id.state, IdState::Idle | IdState::Closed);
        if !id.is_datagram || !is_placed || !group.is_multicast() {
            return Err(errno::EINVAL);
        }
        let qkey = id.qkey;
        if self.members.len() >= MEMBERS_MAX {
            return Err(errno::ENOMEM);
        }
        let member = self.next_number();
        let record = McMemberRecord {
            mgid: group_of(group, self.port.own_pkey),
            qkey: match qkey {
                0 => DATAGRAM_QKEY,
                qkey => qkey,
            },
            ..McMemberRecord::default()
        };
        let joining = Member {
            id: number,
            uid,
            send_only,
            record,
            creates: !send_only,
            joined: false,
            reported: 0,
        };
        self.members.insert(member, joining);
        if !self.ask_to_join(now, member) {
            self.members.remove(&member);
            return Err(errno::ENOMEM);
        }
        Ok(member.to_ne_bytes().to_vec())
    }

    fn ask_to_join(&mut self, now: Time, member: u32) -> bool {
        let Some(of) = self.members.get(&member) else {
            return true;
        };
        let mask = if of.creates { CREATES } else { NEEDED };
        let mad = self.membership(Method::SET, mask, &of.record, of.send_only);
        self.ask(now, Asker::Join(member), mad, PATIENCE_MS)
    }

    fn membership(&self, method: Method, mask: u64, of: &McMemberRecord, send_only: bool) -> Mad {
        let record = McMemberRecord {
            pkey: self.port.own_pkey,
            join_state: membership::join_state(send_only),
            ..*of
        };
        membership::request(method, mask, record, self.port.gid)
    }

    /// Whether an id needs a membership.
    pub(crate) fn holds(&self, mgid: Gid, join_state: u8) -> bool {
        let same = |of: &Member| {
            of.record.mgid == mgid && membership::join_state(of.send_only) == join_state
        };
        self.members.values().any(same)
    }

    pub(super) fn join_answered(&mut self, now: Time, member: u32, status: MadStatus, mad: &Mad) {
        let Some(of) = self.members.get_mut(&member) else {
            return;
        };
        if status == MadStatus::SA_REQUEST_INVALID && of.creates {
            // The group has other properties.
            of.creates = false;
            if !self.ask_to_join(now, member) {
                self.join_failed(member, -i32::from(errno::ENOMEM));
            }
            return;
        }
        let record = mad.sa_record::<McMemberRecord>();
        let (MadStatus::OK, Ok(record)) = (status, record) else {
            return self.join_failed(member, -i32::from(errno::EINVAL));
        };
        let was_joined = std::mem::replace(&mut of.joined, true);
        of.record = record;
        if was_joined {
            return;
        }
        let handle = AddressAttributes {
            global: Some(GlobalAttributes {
                dgid: record.mgid.0,
                flow_label: record.flow_label,
                sgid_index: 0,
                hop_limit: record.hop_limit,
                traffic_class: record.tclass,
            }),
            dlid: record.mlid.get(),
            sl: record.sl.get(),
            src_path_bits: 0,
            static_rate: 0,
            port_num: 1,
        };
        let parameters = DatagramParameters {
            qp_num: 0x00ff_ffff,
            qkey: record.qkey,
            handle,
            private_data: Vec::new(),
        };
        self.tell_of_member(member, (event::MULTICAST_JOIN, 0), parameters);
    }

    pub(super) fn join_failed(&mut self, member: u32, status: i32) {
        if self.members.get(&member).is_some_and(|of| !of.joined) {
            let parameters = DatagramParameters::default();
            self.tell_of_member(member, (event::MULTICAST_ERROR, status), parameters);
        }
    }

    fn tell_of_member(&mut self, member: u32, (event, status): (u32, i32), of: DatagramParameters) {
        let Some(of_id) = self.members.get(&member) else {
            return;
        };
        let id = of_id.id;
        let reply = EventReply {
            uid: of_id.uid,
            id: member,
            event,
            status,
            parameters: EventParameters::Datagram(Box::new(of)),
        };
        let Some(client) = self.ids.get(&id).map(|id| id.client) else {
            return;
        };
        let waiting = Waiting {
            reply,
            id,
            member: Some(member),
            child: None,
        };
        self.push_event(client, waiting);
    }

    pub(super) fn leave_by(&mut self, now: Time, client: ClientId, member: u32) -> Done {
        let of = self.members.get(&member).ok_or(errno::ENOENT)?;
        if self.ids.get(&of.id).map(|id| id.client) != Some(client) {
            return Err(errno::ENOENT);
        }
        Ok(self.leave(now, member).to_ne_bytes().to_vec())
    }

    /// Ends a membership; the events that its program was told of it.
    pub(super) fn leave(&mut self, now: Time, member: u32) -> u32 {
        let Some(of) = self.members.remove(&member) else {
            return 0;
        };
        self.queries
            .retain(|_, query| query.asker != Asker::Join(member));
        if let Some(client) = self.ids.get(&of.id).map(|id| id.client) {
            self.drop_events(client, |waiting| waiting.member == Some(member));
        }
        // Unless somebody else at the port needs it.
        if of.joined {
            let mad = self.membership(Method::DELETE, NEEDED, &of.record, of.send_only);
            // Without an answer subnet administration finds out by itself.
            let _ = self.ask(now, Asker::Leave, mad, PATIENCE_MS);
        }
        of.reported
    }

    /// The manager may have lost the port's memberships.
    pub(crate) fn rejoin(&mut self, now: Time) {
        let joined = self.members.iter().filter(|(_, of)| of.joined);
        let members: Vec<u32> = joined.map(|(&member, _)| member).collect();
        for member in members {
            self.ask_to_join(now, member);
        }
    }
}
