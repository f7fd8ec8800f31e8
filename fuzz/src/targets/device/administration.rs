//! Subnet administration as a host meets it: the requests that it has sent, and answers to them, sound ones and others.

use std::collections::{BTreeSet, VecDeque};

use wire::mad::{Mad, MadStatus, MgmtClass};
use wire::sa::{McMemberRecord, PathRecord};
use wire::{AttributeId, Gid, Guid, Lid, Mtu, Sl};

use super::{LIDS, OWN};
use crate::fields::Fields;

/// Requests that wait for an answer at most; the oldest gives way.
const WAITING_MAX: usize = 64;
/// The LID of the subnet manager.
pub(super) const MANAGER: Lid = LIDS[1];
/// GUIDs of ports: the host's own and those of others.
pub(super) const PORTS: [Guid; 4] = [Guid(2), Guid(0x21), Guid(0x31), Guid(0x41)];

/// The GID of a port: the manager of the bench sets no prefix.
pub(super) fn gid(guid: Guid) -> Gid {
    Gid::new(0, guid)
}

/// The administrator.
#[derive(Debug, Default)]
pub(super) struct Administration {
    waiting: VecDeque<Mad>,
    /// The LIDs that its answers have named.
    pub(super) named: BTreeSet<Lid>,
}

impl Administration {
    /// Takes a datagram that the host has sent, if it is a request.
    pub(super) fn take(&mut self, mad: Mad) {
        if mad.class() != MgmtClass::SUBN_ADM || mad.method().is_response() {
            return;
        }
        self.waiting.push_back(mad);
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
    }

    /// An answer to one of the requests that wait, which may go on waiting: sound, busy, a refusal, or with a record of
    /// other bytes.
    pub(super) fn answer(&mut self, fields: &mut Fields<'_>) -> Option<Mad> {
        if self.waiting.is_empty() {
            return None;
        }
        let place = usize::from(fields.byte()) % self.waiting.len();
        let (how, ends) = (fields.byte() % 5, fields.flag());
        let request = match ends {
            true => self.waiting.remove(place)?,
            false => *self.waiting.get(place)?,
        };
        let mut answer = sound(&request, fields);
        match how {
            1 => answer.set_status(MadStatus::BUSY),
            2 => answer.set_status(MadStatus(0x0300)),
            3 | 4 => {
                let at = usize::from(fields.byte()) % 64;
                let record = answer.sa_data_mut();
                for (to, &byte) in record[at..].iter_mut().zip(fields.rest()) {
                    *to = if how == 3 { *to ^ byte } else { byte };
                }
            }
            _ => {}
        }
        self.named.extend(lid_of(&answer));
        Some(answer)
    }

    /// Sound answers to all requests that wait.
    pub(super) fn answer_all(&mut self) -> Vec<Mad> {
        let waiting = core::mem::take(&mut self.waiting);
        let answers = waiting
            .iter()
            .map(|request| sound(request, &mut Fields::of(&[])));
        let answers: Vec<Mad> = answers.collect();
        self.named.extend(answers.iter().filter_map(lid_of));
        answers
    }
}

/// The LID that an answer names.
fn lid_of(answer: &Mad) -> Option<Lid> {
    match answer.attr_id() {
        AttributeId::PATH_RECORD => Some(answer.sa_record::<PathRecord>().ok()?.dlid),
        AttributeId::MC_MEMBER_RECORD => Some(answer.sa_record::<McMemberRecord>().ok()?.mlid),
        _ => None,
    }
}

/// The answer to a request as it should be: a path to the port of the GID, or the group.
fn sound(request: &Mad, fields: &mut Fields<'_>) -> Mad {
    let mut answer = *request;
    answer.answer(MadStatus::OK);
    if let (AttributeId::PATH_RECORD, Ok(record)) = (answer.attr_id(), request.sa_record()) {
        let record: PathRecord = record;
        let port = PORTS.iter().position(|&guid| record.dgid.guid() == guid);
        answer.set_sa_record(&PathRecord {
            dlid: port.map_or(LIDS[2], |port| LIDS[port]),
            slid: OWN,
            mtu: Mtu::Mtu256.code(),
            rate: 3,
            reversible: true,
            sl: Sl::truncate(fields.byte()),
            ..record
        });
    }
    if let (AttributeId::MC_MEMBER_RECORD, Ok(record)) = (answer.attr_id(), request.sa_record()) {
        let record: McMemberRecord = record;
        answer.set_sa_record(&McMemberRecord {
            mlid: Lid::new(0xc000 | u16::from(fields.byte() & 3)),
            qkey: wire::ipoib::BROADCAST_QKEY,
            mtu: Mtu::Mtu256.code(),
            pkey: 0xffff,
            ..record
        });
    }
    answer
}
