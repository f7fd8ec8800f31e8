//! Subnet administration: answers to what hosts ask about paths, nodes and ports (IBA 15.2).
//!
//! Get and GetTable of PathRecord, NodeRecord and PortInfoRecord, and Get of ClassPortInfo. A path
//! goes to the LID that the routing scheme's path selection gives, unless the query names one; its
//! MTU and rate are the least along the way that the tables give it. A query is answered in one
//! datagram; where the records need more, the answer is "no resources". Rates are compared only
//! for equality.

use mad::local::MadMessage;
use topologies::{Endpoint, NodeId, NodeKind};
use wire::attr::{NodeDescription, NodeInfo, NodeType};
use wire::pma::ClassPortInfo;
use wire::sa::{
    DATA_LEN, NodeRecord, PathRecord, PortInfoRecord, Rmpp, RmppKind, SaHeader, SaRecord, Selector,
    path_component as component, rmpp_flag,
};
use wire::{
    AttributeId, Format as _, Gid, Guid, Lid, LinkRate, Mad, MadHeader, MadStatus, Method, Mtu,
    PortNum, Qpn,
};

use crate::port_settings::LIFE_TIME;
use crate::sm::Sm;
use crate::smp::message;
use crate::subnet::{Device, Index};

/// Bits of a NodeRecord query's ComponentMask.
mod node_component {
    pub(super) const LID: u64 = 1 << 0;
    pub(super) const NODE_TYPE: u64 = 1 << 4;
    pub(super) const NODE_GUID: u64 = 1 << 7;
    pub(super) const PORT_GUID: u64 = 1 << 8;
    pub(super) const DESCRIPTION: u64 = 1 << 14;
    pub(super) const ALL: u64 = LID | NODE_TYPE | NODE_GUID | PORT_GUID | DESCRIPTION;
}

/// Bits of a PortInfoRecord query's ComponentMask.
mod port_component {
    pub(super) const LID: u64 = 1 << 0;
    pub(super) const PORT: u64 = 1 << 1;
    pub(super) const ALL: u64 = LID | PORT;
}

/// Where the length of a table counts from: the rest of the SA header behind RMPP's.
const SA_HEADER_BEHIND_RMPP: u32 = 20;
/// Membership aside, the default partition.
const DEFAULT_PARTITION: u16 = 0x7fff;

/// The records that match, as they stand in a datagram, and their distance.
struct Records {
    bytes: Vec<u8>,
    count: usize,
    attribute_offset: u16,
}

impl Records {
    fn of<R: SaRecord>(records: &[R]) -> Self {
        let stride = usize::from(R::ATTRIBUTE_OFFSET) * 8;
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
    pub(crate) fn administration_request(&mut self, from: &MadMessage, request: &Mad) {
        let answer = match request.method() {
            Method::GET => match self.records(request) {
                Ok(records) if records.count == 1 => found(request, &records),
                Ok(records) if records.count == 0 => refused(request, MadStatus::SA_NO_RECORDS),
                Ok(_) => refused(request, MadStatus::SA_TOO_MANY_RECORDS),
                Err(status) => refused(request, status),
            },
            Method::GET_TABLE => match self.records(request) {
                Ok(records) if records.bytes.len() > DATA_LEN => {
                    refused(request, MadStatus::SA_NO_RESOURCES)
                }
                Ok(records) => table(request, &records),
                Err(status) => refused(request, status),
            },
            _ => refused(request, MadStatus::BAD_METHOD),
        };
        self.send(message(from.lid, Qpn::GSI, &answer));
    }

    fn records(&self, request: &Mad) -> Result<Records, MadStatus> {
        if request.header().class_version != 2 {
            return Err(MadStatus::BAD_VERSION);
        }
        let damaged = MadStatus::SA_REQUEST_INVALID;
        let mask = request.sa_header().map_err(|_| damaged)?.component_mask;
        match request.attr_id() {
            AttributeId::CLASS_PORT_INFO if request.method() == Method::GET => {
                let mut bytes = vec![0; ClassPortInfo::LEN];
                let info = ClassPortInfo {
                    base_version: 1,
                    class_version: 2,
                    resp_time_value: LIFE_TIME,
                    ..ClassPortInfo::default()
                };
                info.emit(&mut bytes);
                Ok(Records {
                    bytes,
                    count: 1,
                    attribute_offset: 0,
                })
            }
            AttributeId::PATH_RECORD => {
                let query = request.sa_record().map_err(|_| damaged)?;
                Ok(Records::of(&self.paths(&query, mask)?))
            }
            AttributeId::NODE_RECORD => Ok(Records::of(&self.nodes(request.sa_data(), mask)?)),
            AttributeId::PORT_INFO_RECORD => Ok(Records::of(&self.ports(request.sa_data(), mask)?)),
            _ => Err(MadStatus::BAD_METHOD_ATTRIBUTE),
        }
    }

    fn paths(&self, query: &PathRecord, mask: u64) -> Result<Vec<PathRecord>, MadStatus> {
        let asks = |bit: u64| mask & bit == bit;
        let end = |gid_bit, gid: Gid, lid_bit, lid: Lid| {
            let by_gid = asks(gid_bit).then(|| self.subnet.find_end_port(gid.guid()));
            let by_lid = asks(lid_bit).then(|| self.owner(lid));
            match (by_gid, by_lid) {
                (None, None) => Err(MadStatus::SA_INSUFFICIENT_COMPONENTS),
                (Some(one), Some(other)) if one != other => Ok(None),
                (one, other) => Ok(one.or(other).flatten()),
            }
        };
        let source = end(component::SGID, query.sgid, component::SLID, query.slid)?;
        let destination = end(component::DGID, query.dgid, component::DLID, query.dlid)?;
        let (Some(source), Some(destination)) = (source, destination) else {
            return Ok(Vec::new());
        };
        let asked_dlid = asks(component::DLID).then_some(query.dlid);
        let Some(mut path) = self.path(source, destination, asked_dlid) else {
            return Ok(Vec::new());
        };
        if asks(component::SLID) {
            path.slid = query.slid;
        }
        if asks(component::SL) {
            path.sl = query.sl;
        }
        let partition =
            !asks(component::PKEY) || query.pkey & DEFAULT_PARTITION == DEFAULT_PARTITION;
        let rate = !asks(component::RATE | component::RATE_SELECTOR)
            || query.rate_selector != Selector::Exactly
            || query.rate == path.rate;
        let mtu = if asks(component::MTU | component::MTU_SELECTOR) {
            within(path.mtu, query.mtu_selector, query.mtu)
        } else {
            Some(path.mtu)
        };
        match mtu {
            Some(mtu) if partition && rate => Ok(vec![PathRecord { mtu, ..path }]),
            _ => Ok(Vec::new()),
        }
    }

    /// The device one of whose planned LIDs this is.
    fn owner(&self, lid: Lid) -> Option<Index> {
        let tables = self.plan.tables.as_ref()?;
        let end = tables.lids.owner(lid)?.end?;
        Some(end.node.index())
    }

    fn path(
        &self,
        source: Index,
        destination: Index,
        asked_dlid: Option<Lid>,
    ) -> Option<PathRecord> {
        let tables = self.plan.tables.as_ref()?;
        let (from, to) = (
            self.subnet.devices.get(source)?,
            self.subnet.devices.get(destination)?,
        );
        let (slid, _) = self.plan.lid(source)?;
        let dlid =
            asked_dlid.or_else(|| tables.dlid_for(from.end_port_guid(), to.end_port_guid()))?;
        let start = Endpoint {
            node: NodeId::from_index(source),
            port: from.end_port(),
        };
        let path = tables.path(&self.plan.graph, start, dlid);
        if !path.arrives {
            return None;
        }
        let mut mtu = Mtu::Mtu4096;
        let mut rate: Option<LinkRate> = None;
        for hop in &path.hops {
            if hop.exit == PortNum::MANAGEMENT {
                continue;
            }
            let info = self
                .subnet
                .devices
                .get(hop.node.index())?
                .port_info(hop.exit)?;
            mtu = mtu.min(info.neighbor_mtu?);
            let here = LinkRate {
                width: info.width()?,
                speed: info.speed()?,
            };
            let slower =
                |least: LinkRate| here.data_rate_bits_per_s() < least.data_rate_bits_per_s();
            if rate.is_none_or(slower) {
                rate = Some(here);
            }
        }
        Some(PathRecord {
            dgid: gid(to),
            sgid: gid(from),
            dlid,
            slid,
            reversible: true,
            numb_path: 1,
            pkey: 0xffff,
            mtu_selector: Selector::Exactly,
            mtu: mtu.code(),
            rate_selector: Selector::Exactly,
            rate: rate.and_then(LinkRate::code).unwrap_or_default(),
            packet_life_time_selector: Selector::Exactly,
            packet_life_time: LIFE_TIME,
            ..PathRecord::default()
        })
    }

    fn nodes(&self, query: &[u8; DATA_LEN], mask: u64) -> Result<Vec<NodeRecord>, MadStatus> {
        if mask & !node_component::ALL != 0 {
            return Err(MadStatus::SA_REQUEST_INVALID);
        }
        let asks = |bit: u64| mask & bit != 0;
        let wanted = NodeQuery::read(query);
        let matches = |(index, device): &(Index, &Device)| {
            let info = &device.info;
            (!asks(node_component::LID) || self.owner(wanted.lid) == Some(*index))
                && (!asks(node_component::NODE_TYPE) || info.node_type as u8 == wanted.node_type)
                && (!asks(node_component::NODE_GUID) || info.node_guid == wanted.node_guid)
                && (!asks(node_component::PORT_GUID) || info.port_guid == wanted.port_guid)
                && (!asks(node_component::DESCRIPTION) || device.name == wanted.name.as_str())
        };
        Ok(self
            .subnet
            .devices
            .iter()
            .enumerate()
            .filter(matches)
            .filter_map(|(index, device)| {
                let (lid, _) = self.plan.lid(index)?;
                Some(NodeRecord {
                    lid,
                    node_info: NodeInfo {
                        local_port_num: if device.info.node_type == NodeType::Switch {
                            PortNum::MANAGEMENT
                        } else {
                            device.info.local_port_num
                        },
                        ..device.info
                    },
                    description: NodeDescription::new(&device.name),
                })
            })
            .collect())
    }

    fn ports(&self, query: &[u8; DATA_LEN], mask: u64) -> Result<Vec<PortInfoRecord>, MadStatus> {
        if mask & !port_component::ALL != 0 {
            return Err(MadStatus::SA_REQUEST_INVALID);
        }
        if mask & port_component::LID == 0 {
            return Err(MadStatus::SA_INSUFFICIENT_COMPONENTS);
        }
        let lid = Lid::truncate(u16::from_be_bytes([query[0], query[1]]));
        let wanted = (mask & port_component::PORT != 0).then(|| PortNum::truncate(query[2]));
        let device = self
            .owner(lid)
            .and_then(|index| Some((self.plan.lid(index)?.0, self.subnet.devices.get(index)?)));
        let Some((lid, device)) = device else {
            return Ok(Vec::new());
        };
        let ports = (0u8..=u8::MAX).zip(&device.ports);
        Ok(ports
            .filter_map(|(number, port)| Some((PortNum::truncate(number), port.info?)))
            .filter(|&(number, _)| wanted.is_none_or(|wanted| wanted == number))
            .map(|(port, port_info)| PortInfoRecord {
                lid,
                port,
                options: 0,
                port_info,
            })
            .collect())
    }
}

/// The components of a NodeRecord query that are compared. A query may leave the others at values
/// that no node has, so it is not read as a record.
struct NodeQuery {
    lid: Lid,
    node_type: u8,
    node_guid: Guid,
    port_guid: Guid,
    name: NodeDescription,
}

impl NodeQuery {
    fn read(raw: &[u8; DATA_LEN]) -> Self {
        let guid = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&raw[at..at + 8]);
            Guid(u64::from_be_bytes(bytes))
        };
        let mut name = [0; 64];
        name.copy_from_slice(&raw[44..108]);
        Self {
            lid: Lid::truncate(u16::from_be_bytes([raw[0], raw[1]])),
            node_type: raw[6],
            node_guid: guid(16),
            port_guid: guid(24),
            name: NodeDescription(name),
        }
    }
}

fn gid(device: &Device) -> Gid {
    let guid = match device.kind {
        NodeKind::Switch => device.info.node_guid,
        NodeKind::Host => device.info.port_guid,
    };
    Gid::new(Gid::DEFAULT_PREFIX, guid)
}

/// What a path of MTU `have` offers to a query: paths may be used with less than they carry.
fn within(have: u8, selector: Selector, asked: u8) -> Option<u8> {
    match selector {
        Selector::GreaterThan => (have > asked).then_some(have),
        Selector::LessThan => (asked > 1).then(|| have.min(asked - 1)),
        Selector::Exactly => (have >= asked && asked > 0).then_some(asked),
        Selector::Largest => Some(have),
    }
}

fn answer_header(request: &Mad, status: MadStatus) -> Mad {
    let mut header = request.header();
    header.method = Method(header.method.0 | 0x80);
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

fn refused(request: &Mad, status: MadStatus) -> Mad {
    answer_header(request, status)
}

fn found(request: &Mad, records: &Records) -> Mad {
    let mut answer = answer_header(request, MadStatus::OK);
    fill(&mut answer, request, records, Rmpp::default());
    answer
}

fn table(request: &Mad, records: &Records) -> Mad {
    let mut answer = answer_header(request, MadStatus::OK);
    let len = u32::try_from(records.bytes.len()).unwrap_or(u32::MAX);
    let rmpp = Rmpp {
        version: Rmpp::VERSION,
        kind: RmppKind::Data,
        resp_time: Rmpp::RESP_TIME_NONE,
        flags: rmpp_flag::ACTIVE | rmpp_flag::FIRST | rmpp_flag::LAST,
        status: 0,
        data1: 1,
        data2: SA_HEADER_BEHIND_RMPP.saturating_add(len),
    };
    fill(&mut answer, request, records, rmpp);
    answer
}

fn fill(answer: &mut Mad, request: &Mad, records: &Records, rmpp: Rmpp) {
    let component_mask = request
        .sa_header()
        .map_or(0, |header| header.component_mask);
    answer.set_sa_header(&SaHeader {
        rmpp,
        sm_key: 0,
        attribute_offset: records.attribute_offset,
        component_mask,
    });
    let len = records.bytes.len().min(DATA_LEN);
    answer.sa_data_mut()[..len].copy_from_slice(&records.bytes[..len]);
}
