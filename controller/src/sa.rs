//! Subnet administration: answers to what programs on the hosts ask and set (IBA 15.2).
//!
//! Get and GetTable of NodeRecord, PortInfoRecord, SwitchInfoRecord, LinkRecord, SMInfoRecord,
//! LinearForwardingTableRecord, MulticastForwardingTableRecord, PathRecord and MCMemberRecord; Get
//! of ClassPortInfo; Set and Delete of MCMemberRecord; Set of InformInfo. A table travels by RMPP. A
//! join or leave is answered when the forwarding tables that it changes have been written.

mod members;
mod path;
mod records;
mod subscriptions;
mod transfers;

use link::Time;
use mad::local::MadMessage;
use mad::rmpp;
use wire::attr::{Notice, trap};
use wire::pma::{ClassPortInfo, capability};
use wire::sa::{DATA_LEN, InformInfo, PathRecord, SaHeader, SaRecord};
use wire::{AttributeId, Format as _, Gid, Mad, MadHeader, MadStatus, Method};

use crate::port_settings::{LIFE_TIME, sm_lid};
use crate::sm::Sm;
use crate::smp::message;
use subscriptions::Subscriptions;
use transfers::Transfers;

/// What is under way between the administrator and those who asked.
#[derive(Debug, Default)]
pub(crate) struct Administration {
    transfers: Transfers,
    subscriptions: Subscriptions,
}

/// A query by components.
struct Query<'a> {
    mask: u64,
    attr_mod: u32,
    data: &'a [u8; DATA_LEN],
}

impl Query<'_> {
    fn asks(&self, bit: u64) -> bool {
        self.mask & bit != 0
    }
}

/// The records that match, as they stand in an answer, and their distance.
struct Records {
    bytes: Vec<u8>,
    count: usize,
    attribute_offset: u16,
}

impl Records {
    fn of<R: SaRecord>(records: &[R]) -> Self {
        // One without distance never stands in a table.
        let stride = match usize::from(R::ATTRIBUTE_OFFSET) * 8 {
            0 => R::LEN,
            stride => stride,
        };
        let mut bytes = vec![0; records.len() * stride];
        for (record, room) in records.iter().zip(bytes.chunks_exact_mut(stride.max(1))) {
            record.emit(room);
        }
        Self {
            bytes,
            count: records.len(),
            attribute_offset: R::ATTRIBUTE_OFFSET,
        }
    }
}

impl Sm {
    /// A program on some host asks.
    pub(crate) fn administration_request(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        if rmpp::is_control(request) {
            return self.sa.transfers.receive(now, from, request);
        }
        if request.header().class_version != 2 {
            let answer = error_answer(request, MadStatus::BAD_VERSION);
            return self.answer(from, &answer);
        }
        match (request.method(), request.attr_id()) {
            (Method::GET, _) => {
                let answer = match self.records(from, request) {
                    Ok(records) => single_record(request, &records),
                    Err(status) => error_answer(request, status),
                };
                self.answer(from, &answer);
            }
            (Method::GET_TABLE, _) => self.answer_table(from, request),
            (Method::SET | Method::DELETE, AttributeId::MC_MEMBER_RECORD) => {
                self.membership_request(now, from, request);
            }
            (Method::SET, AttributeId::INFORM_INFO) => {
                let answer = self.subscribe(from, request);
                self.answer(from, &answer);
            }
            (Method::SET | Method::DELETE, _) => {
                let answer = error_answer(request, MadStatus::BAD_METHOD_ATTRIBUTE);
                self.answer(from, &answer);
            }
            _ => {
                let answer = error_answer(request, MadStatus::BAD_METHOD);
                self.answer(from, &answer);
            }
        }
    }

    /// An answer to something that the administrator has sent.
    pub(crate) fn administration_response(&mut self, mad: &Mad) {
        if mad.method() == Method::REPORT_RESP {
            self.sa.subscriptions.answered(mad.tid());
        }
    }

    /// Sends what is due: segments of tables, reports.
    pub(crate) fn administer(&mut self, now: Time) {
        let segments = self.sa.transfers.poll(now);
        let reports = self.sa.subscriptions.poll(now);
        for message in segments.into_iter().chain(reports) {
            self.send(message);
        }
    }

    /// When something of it is due.
    pub(crate) fn administration_deadline(&self) -> Option<Time> {
        let transfers = self.sa.transfers.deadline();
        let reports = self.sa.subscriptions.deadline();
        transfers.into_iter().chain(reports).min()
    }

    /// Tells subscribers of a trap.
    pub(crate) fn report_notice(&mut self, now: Time, notice: &Notice) {
        self.sa.subscriptions.report(now, notice);
    }

    /// The tables of who has joined or left are written.
    pub(crate) fn release_answers(&mut self) {
        for answer in self.groups.written() {
            self.send(answer);
        }
    }

    fn answer(&mut self, to: &MadMessage, answer: &Mad) {
        self.send(message(to.lid, to.qpn, answer));
    }

    fn answer_table(&mut self, from: &MadMessage, request: &Mad) {
        let records = match self.records(from, request) {
            Ok(records) => records,
            Err(status) => return self.answer(from, &error_answer(request, status)),
        };
        let mut template = answer_header(request, MadStatus::OK);
        set_attribute_offset(&mut template, records.attribute_offset);
        let to = (from.lid, from.qpn);
        if let Err(status) = self.sa.transfers.start(to, &template, records.bytes) {
            self.answer(from, &error_answer(request, status));
        }
    }

    fn membership_request(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        let changed = match self.change_membership(from, request) {
            Ok(changed) => changed,
            Err(status) => return self.answer(from, &error_answer(request, status)),
        };
        let answer = single_record(request, &Records::of(&[changed.record]));
        let message = message(from.lid, from.qpn, &answer);
        if !self.groups.defer_answer(&message) {
            self.send(message);
        }
        let news = [
            (changed.created, trap::MULTICAST_GROUP_CREATED),
            (changed.ended, trap::MULTICAST_GROUP_DELETED),
        ];
        for (mgid, number) in news {
            if let Some(mgid) = mgid {
                let notice = self.group_notice(number, mgid);
                self.report_notice(now, &notice);
            }
        }
    }

    /// Trap 66 or 67: a group was made or has ended (IBA 14.2.5.1).
    fn group_notice(&self, number: u16, mgid: Gid) -> Notice {
        let mut details = [0; 54];
        details[6..22].copy_from_slice(&mgid.0);
        Notice {
            is_generic: true,
            notice_type: Notice::TYPE_SUBNET_MANAGEMENT,
            producer_type: Notice::PRODUCER_CLASS_MANAGER,
            trap_number: number,
            issuer_lid: sm_lid(&self.subnet, &self.plan),
            toggle: false,
            count: 0,
            details,
        }
    }

    fn subscribe(&mut self, from: &MadMessage, request: &Mad) -> Mad {
        let Ok(info) = request.sa_record::<InformInfo>() else {
            return error_answer(request, MadStatus::SA_REQUEST_INVALID);
        };
        match self.sa.subscriptions.set((from.lid, from.qpn), &info) {
            true => single_record(request, &Records::of(&[info])),
            false if info.subscribe => error_answer(request, MadStatus::SA_NO_RESOURCES),
            false => error_answer(request, MadStatus::SA_REQUEST_INVALID),
        }
    }

    fn records(&self, from: &MadMessage, request: &Mad) -> Result<Records, MadStatus> {
        let invalid = MadStatus::SA_REQUEST_INVALID;
        let query = Query {
            mask: request.sa_header().map_err(|_| invalid)?.component_mask,
            attr_mod: request.attr_mod(),
            data: request.sa_data(),
        };
        Ok(match request.attr_id() {
            AttributeId::CLASS_PORT_INFO if request.method() == Method::GET => class_port_info(),
            AttributeId::PATH_RECORD => {
                let path: PathRecord = request.sa_record().map_err(|_| invalid)?;
                let open = request.method() == Method::GET_TABLE;
                Records::of(&self.paths(&path, query.mask, open)?)
            }
            AttributeId::NODE_RECORD => Records::of(&self.nodes(&query)?),
            AttributeId::PORT_INFO_RECORD => Records::of(&self.ports(&query)?),
            AttributeId::SWITCH_INFO_RECORD => Records::of(&self.switches(&query)?),
            AttributeId::LINK_RECORD => Records::of(&self.links(&query)?),
            AttributeId::SM_INFO_RECORD => Records::of(&self.managers(&query)?),
            AttributeId::LINEAR_FORWARDING_TABLE_RECORD => {
                Records::of(&self.linear_tables(&query)?)
            }
            AttributeId::MULTICAST_FORWARDING_TABLE_RECORD => {
                Records::of(&self.multicast_tables(&query)?)
            }
            AttributeId::MC_MEMBER_RECORD => Records::of(&self.memberships(from, request)?),
            _ => return Err(MadStatus::BAD_METHOD_ATTRIBUTE),
        })
    }
}

fn class_port_info() -> Records {
    let mut bytes = vec![0; ClassPortInfo::LEN];
    let info = ClassPortInfo {
        base_version: 1,
        class_version: 2,
        // Bit 9: UD multicast (IBA 15.2.4.1).
        capability_mask: capability::TRAP | 1 << 9,
        resp_time_value: LIFE_TIME,
        ..ClassPortInfo::default()
    };
    info.emit(&mut bytes);
    Records {
        bytes,
        count: 1,
        attribute_offset: 0,
    }
}

fn answer_header(request: &Mad, status: MadStatus) -> Mad {
    let mut header = request.header();
    // The answer to Set is a GetResp (IBA 13.4.5).
    header.method = match header.method {
        Method::SET => Method::GET_RESP,
        method => Method(method.0 | 0x80),
    };
    header.status = status;
    let mut answer = Mad::new(&MadHeader {
        class_specific: 0,
        ..header
    });
    if let Ok(asked) = request.sa_header() {
        answer.set_sa_header(&SaHeader {
            component_mask: asked.component_mask,
            ..SaHeader::default()
        });
    }
    answer
}

fn set_attribute_offset(answer: &mut Mad, attribute_offset: u16) {
    if let Ok(header) = answer.sa_header() {
        answer.set_sa_header(&SaHeader {
            attribute_offset,
            ..header
        });
    }
}

fn error_answer(request: &Mad, status: MadStatus) -> Mad {
    answer_header(request, status)
}

/// An answer of exactly one record.
fn single_record(request: &Mad, records: &Records) -> Mad {
    match records.count {
        0 => return error_answer(request, MadStatus::SA_NO_RECORDS),
        1 => {}
        _ => return error_answer(request, MadStatus::SA_TOO_MANY_RECORDS),
    }
    let mut answer = answer_header(request, MadStatus::OK);
    set_attribute_offset(&mut answer, records.attribute_offset);
    let len = records.bytes.len().min(DATA_LEN);
    answer.sa_data_mut()[..len].copy_from_slice(&records.bytes[..len]);
    answer
}
