//! Subnet administration (SA): answers to the queries and requests of programs on the hosts
//! (IBA 15.2).
//!
//! Get and GetTable of NodeRecord, PortInfoRecord, SwitchInfoRecord, LinkRecord, SMInfoRecord, GUIDInfoRecord,
//! SLtoVLMappingTableRecord, VLArbitrationTableRecord, P_KeyTableRecord, LinearForwardingTableRecord,
//! MulticastForwardingTableRecord, PathRecord, MCMemberRecord, InformInfoRecord and ServiceRecord; GetMulti of
//! MultiPathRecord; Get of ClassPortInfo; Set and Delete of MCMemberRecord, ServiceRecord and GUIDInfoRecord; Set of InformInfo. A
//! table travels by RMPP. A join or leave is answered when the forwarding tables that it changes have been written.

mod aliases;
mod members;
mod path;
mod port_records;
mod records;
mod services;
mod subscriptions;
mod transfers;

use link::Time;
use mad::local::MadMessage;
use mad::rmpp;
use wire::attr::{Notice, SmInfo, trap};
use wire::pma::{ClassPortInfo, capability};
use wire::sa::{DATA_LEN, InformInfo, MultiPathRecord, PathRecord, SaHeader, SaRecord};
use wire::{AttributeId, Format as _, Mad, MadHeader, MadStatus, Method, SaKey};

use crate::aliases::Aliases;
use crate::fabric::Fabric;
use crate::groups::Groups;
use crate::outbox::Outbox;
use crate::port_settings::LIFE_TIME;
use crate::smp;
use crate::subnet::Device;
use crate::writer::Mirrors;
use members::MemberRequest;
use services::{Asker, Services};
use subscriptions::Subscriptions;
use transfers::Transfers;

/// Subnet administration: the tables on their way to requesters, and the subscribers to traps.
#[derive(Debug, Default)]
pub(crate) struct Administration {
    /// The SM_Key of trusted requests.
    sa_key: SaKey,
    transfers: Transfers,
    subscriptions: Subscriptions,
    services: Services,
    requests: u64,
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

/// The records that match, as they stand in an answer, and the AttributeOffset between them.
struct Records {
    bytes: Vec<u8>,
    count: usize,
    attribute_offset: u16,
}

impl Records {
    fn of<R: SaRecord>(records: &[R]) -> Self {
        // A record without AttributeOffset is never part of a table.
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

/// The data that queries are answered from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    /// The devices and their LIDs and tables.
    pub(crate) fabric: &'a Fabric,
    /// The multicast groups.
    pub(crate) groups: &'a Groups,
    /// The alias GUIDs of ports.
    pub(crate) aliases: &'a Aliases,
    /// The known contents of the devices.
    pub(crate) mirrors: &'a Mirrors,
    /// Whether the request has the SM_Key of trusted ones (IBA 15.4.1).
    pub(crate) is_trusted: bool,
    /// This manager's SMInfo.
    pub(crate) sm_info: Option<SmInfo>,
}

/// The state that a request works on.
pub(crate) struct Context<'a> {
    /// The devices and their LIDs and tables.
    pub(crate) fabric: &'a Fabric,
    /// The known contents of the devices.
    pub(crate) mirrors: &'a Mirrors,
    /// The multicast groups.
    pub(crate) groups: &'a mut Groups,
    /// The alias GUIDs of ports.
    pub(crate) aliases: &'a mut Aliases,
    /// This manager's SMInfo, once it has met its own host.
    pub(crate) sm_info: Option<SmInfo>,
    /// Where answers go.
    pub(crate) outbox: &'a mut Outbox,
}

impl Context<'_> {
    fn answer(&mut self, to: &MadMessage, answer: &Mad) {
        self.outbox.send(smp::answer(to, answer));
    }

    fn records(
        &self,
        from: &MadMessage,
        request: &Mad,
        is_trusted: bool,
    ) -> Result<Records, MadStatus> {
        let view = View {
            fabric: self.fabric,
            groups: self.groups,
            aliases: self.aliases,
            mirrors: self.mirrors,
            is_trusted,
            sm_info: self.sm_info,
        };
        view.records(from, request)
    }
}

impl Administration {
    /// An administration without any state. `sa_key`: the SM_Key of trusted requests.
    pub(crate) fn new(sa_key: SaKey) -> Self {
        Self {
            sa_key,
            ..Self::default()
        }
    }

    /// How many requests have come.
    pub(crate) const fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether a request is a trusted one.
    fn trusts(&self, request: &Mad) -> bool {
        let header = request.sa_header();
        header.is_ok_and(|header| header.sm_key == self.sa_key.get())
    }

    /// Whether a request gives an SM_Key that is not this administration's: it is not answered (IBA C15-0.1.5).
    fn has_wrong_key(&self, request: &Mad) -> bool {
        let header = request.sa_header();
        header.is_ok_and(|header| header.sm_key != 0 && header.sm_key != self.sa_key.get())
    }

    /// A program on some host asks.
    pub(crate) fn request(
        &mut self,
        now: Time,
        from: &MadMessage,
        request: &Mad,
        context: &mut Context<'_>,
    ) {
        if self.has_wrong_key(request) {
            return;
        }
        if rmpp::is_control(request) {
            return self.transfers.receive(now, from, request);
        }
        self.requests += 1;
        // Several paths may be asked for by a transfer, which one segment holds (IBA 13.6.3.2).
        let is_multi_path = (request.method(), request.attr_id())
            == (Method::GET_MULTI, AttributeId::MULTI_PATH_RECORD);
        let plain;
        let request = if is_multi_path && rmpp::header(request).is_some() {
            let (progress, back) = rmpp::Receiver::new(now, 1).receive(now, request);
            if let Some(back) = back {
                context.answer(from, &back);
            }
            if progress != rmpp::Progress::Done {
                return;
            }
            plain = rmpp::without(request);
            &plain
        } else {
            request
        };
        if request.header().class_version != 2 {
            let answer = answer_header(request, MadStatus::BAD_VERSION);
            return context.answer(from, &answer);
        }
        let answer = match (request.method(), request.attr_id()) {
            (Method::GET, _) => match self.records(now, from, request, context) {
                Ok(records) => single_record(request, &records),
                Err(status) => answer_header(request, status),
            },
            (Method::GET_TABLE, _) | (Method::GET_MULTI, AttributeId::MULTI_PATH_RECORD) => {
                match self.start_table(now, from, request, context) {
                    Ok(()) => return,
                    Err(status) => answer_header(request, status),
                }
            }
            (Method::SET | Method::DELETE, AttributeId::SERVICE_RECORD) => {
                let asker = self.asker(from, request, context.fabric);
                match self.services.write(now, request, asker) {
                    Ok(record) => single_record(request, &Records::of(&[record])),
                    Err(status) => answer_header(request, status),
                }
            }
            (Method::SET | Method::DELETE, AttributeId::GUID_INFO_RECORD) => {
                let asker = self.asker(from, request, context.fabric);
                return alias_request(from, request, asker, context);
            }
            (Method::SET | Method::DELETE, AttributeId::MC_MEMBER_RECORD) => {
                return self.member_request(from, request, context);
            }
            (Method::SET, AttributeId::INFORM_INFO) => {
                self.subscribe(from, request, context.fabric)
            }
            (Method::SET | Method::DELETE, _) => {
                answer_header(request, MadStatus::BAD_METHOD_ATTRIBUTE)
            }
            _ => answer_header(request, MadStatus::BAD_METHOD),
        };
        context.answer(from, &answer);
    }

    /// The port that asks, and whether it is trusted.
    fn asker(&self, from: &MadMessage, request: &Mad, fabric: &Fabric) -> Asker {
        Asker {
            port: fabric.port_guid(from.lid),
            is_trusted: self.trusts(request),
        }
    }

    /// An answer to something that the administrator has sent.
    pub(crate) fn response(&mut self, mad: &Mad) {
        if mad.method() == Method::REPORT_RESP {
            self.subscriptions.answered(mad.tid());
        }
    }

    /// What is due: segments of tables, then reports.
    pub(crate) fn poll(&mut self, now: Time) -> impl Iterator<Item = MadMessage> {
        let segments = self.transfers.poll(now);
        let reports = self.subscriptions.poll(now);
        segments.into_iter().chain(reports)
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let transfers = self.transfers.deadline();
        let reports = self.subscriptions.deadline();
        transfers.into_iter().chain(reports).min()
    }

    /// Reports a trap to its subscribers.
    pub(crate) fn report(&mut self, notice: &Notice) {
        self.subscriptions.report(notice);
    }

    /// The records that a query asks for.
    fn records(
        &self,
        now: Time,
        from: &MadMessage,
        request: &Mad,
        context: &Context<'_>,
    ) -> Result<Records, MadStatus> {
        let is_trusted = self.trusts(request);
        let header = request.sa_header();
        let mask = header
            .map_err(|_| MadStatus::SA_REQUEST_INVALID)?
            .component_mask;
        match request.attr_id() {
            AttributeId::SERVICE_RECORD => {
                let data = request.sa_data();
                let found = self.services.find(now, mask, data, is_trusted)?;
                Ok(Records::of(&found))
            }
            AttributeId::INFORM_INFO_RECORD => {
                // Others than the manager's administrator see their own.
                let port = context.fabric.port_guid(from.lid);
                let shown = |guid| is_trusted || port == Some(guid);
                let found = self.subscriptions.records(mask, request.sa_data(), shown)?;
                Ok(Records::of(&found))
            }
            _ => context.records(from, request, is_trusted),
        }
    }

    fn start_table(
        &mut self,
        now: Time,
        from: &MadMessage,
        request: &Mad,
        context: &Context<'_>,
    ) -> Result<(), MadStatus> {
        let records = self.records(now, from, request, context)?;
        let mut template = answer_header(request, MadStatus::OK);
        set_attribute_offset(&mut template, records.attribute_offset);
        self.transfers.start(from, &template, records.bytes)
    }

    fn member_request(&mut self, from: &MadMessage, request: &Mad, context: &mut Context<'_>) {
        let mut member = MemberRequest {
            fabric: context.fabric,
            groups: context.groups,
            aliases: context.aliases,
        };
        let changed = match member.apply(from, request) {
            Ok(changed) => changed,
            Err(status) => return context.answer(from, &answer_header(request, status)),
        };
        let answer = single_record(request, &Records::of(&[changed.record]));
        let message = smp::answer(from, &answer);
        if !context.groups.defer_answer(&message) {
            context.outbox.send(message);
        }
        let traps = [
            (changed.created, trap::MULTICAST_GROUP_CREATED),
            (changed.ended, trap::MULTICAST_GROUP_DELETED),
        ];
        for (mgid, number) in traps {
            if let Some(mgid) = mgid {
                let sm_lid = context.fabric.sm_lid();
                self.subscriptions.report_gid(sm_lid, number, mgid);
            }
        }
    }

    /// Ends the subscriptions of ports that have left the subnet, and tells the others who has come and gone.
    pub(crate) fn subnet_changed(&mut self, fabric: &Fabric) {
        self.subscriptions
            .retain(|port, lid| fabric.has_port(port, lid));
        self.services
            .retain(|port| fabric.subnet.find_end_port(port).is_some());
        let devices = fabric.subnet.devices.iter();
        let ports = devices.map(Device::end_port_guid).collect();
        self.subscriptions.set_ports(fabric.sm_lid(), ports);
    }

    fn subscribe(&mut self, from: &MadMessage, request: &Mad, fabric: &Fabric) -> Mad {
        let Ok(info) = request.sa_record::<InformInfo>() else {
            return answer_header(request, MadStatus::SA_REQUEST_INVALID);
        };
        // Only a port of the subnet can be told anything, and leave it.
        let Some(port) = fabric.port_guid(from.lid) else {
            return answer_header(request, MadStatus::SA_REQUEST_INVALID);
        };
        match self.subscriptions.set(port, (from.lid, from.qpn), &info) {
            true => single_record(request, &Records::of(&[info])),
            false if info.subscribe => answer_header(request, MadStatus::SA_NO_RESOURCES),
            false => answer_header(request, MadStatus::SA_REQUEST_INVALID),
        }
    }
}

/// Alias GUIDs of a port are set or deleted; the answer waits until the port has them.
fn alias_request(from: &MadMessage, request: &Mad, asker: Asker, context: &mut Context<'_>) {
    let answer = match aliases::write(context, request, asker) {
        Ok(record) => single_record(request, &Records::of(&[record])),
        Err(status) => answer_header(request, status),
    };
    let answer = smp::answer(from, &answer);
    if !context.aliases.defer_answer(&answer) {
        context.outbox.send(answer);
    }
}

impl View<'_> {
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
                let asker = self.fabric.owner(from.lid);
                Records::of(&self.paths(&path, query.mask, open, asker)?)
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
            AttributeId::MULTI_PATH_RECORD if request.method() == Method::GET_MULTI => {
                let asked: MultiPathRecord = request.sa_record().map_err(|_| invalid)?;
                let asker = self.fabric.owner(from.lid);
                Records::of(&self.multi_paths(&asked, query.mask, asker)?)
            }
            AttributeId::GUID_INFO_RECORD => Records::of(&self.guid_infos(&query)?),
            AttributeId::SL_TO_VL_TABLE_RECORD => Records::of(&self.sl_to_vl_tables(&query)?),
            AttributeId::VL_ARB_TABLE_RECORD => Records::of(&self.vl_arbitration_tables(&query)?),
            AttributeId::PKEY_TABLE_RECORD => Records::of(&self.pkey_tables(&query)?),
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

/// The answer to a request, with that status and without a record.
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

/// An answer of exactly one record.
fn single_record(request: &Mad, records: &Records) -> Mad {
    match records.count {
        0 => return answer_header(request, MadStatus::SA_NO_RECORDS),
        1 => {}
        _ => return answer_header(request, MadStatus::SA_TOO_MANY_RECORDS),
    }
    let mut answer = answer_header(request, MadStatus::OK);
    set_attribute_offset(&mut answer, records.attribute_offset);
    let len = records.bytes.len().min(DATA_LEN);
    answer.sa_data_mut()[..len].copy_from_slice(&records.bytes[..len]);
    answer
}
