//! Records of nodes, ports, links, forwarding tables and subnet managers (IBA 15.2.5).

use topologies::NodeKind;
use wire::attr::{NodeDescription, NodeInfo, NodeType, PortInfo, SmInfo};
use wire::sa::{
    DATA_LEN, LftRecord, LinkRecord, MftRecord, NodeRecord, PKeyTableRecord, PortInfoRecord,
    SmInfoRecord, SwitchInfoRecord,
};
use wire::{Guid, Lid, MadStatus, PortNum};

use super::port_records::outputs;
use super::{Query, View};
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
    pub(super) const CAPABILITIES: u64 = 1 << 7;
    pub(super) const ALL: u64 = LID | PORT | CAPABILITIES;
    /// AttributeModifier: the capabilities asked for must be there, others may.
    pub(super) const MATCH_BITS: u32 = 1 << 31;
}

/// The first component of the records that are found by LID.
const LID: u64 = 1 << 0;

impl Query<'_> {
    pub(super) fn refuse_beyond(&self, known: u64) -> Result<(), MadStatus> {
        match self.mask & !known {
            0 => Ok(()),
            _ => Err(MadStatus::SA_REQUEST_INVALID),
        }
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.data[at], self.data[at + 1]])
    }

    fn lid_at(&self, at: usize) -> Lid {
        Lid::new(self.u16_at(at))
    }

    pub(super) fn port_at(&self, at: usize) -> PortNum {
        PortNum::new(self.data[at])
    }
}

impl View<'_> {
    /// The devices with their LIDs, in order of GUID.
    fn addressed(&self) -> impl Iterator<Item = (Index, &Device, Lid)> + '_ {
        let devices = self.fabric.subnet.devices.iter().enumerate();
        devices.filter_map(|(index, device)| Some((index, device, self.fabric.plan.lid(index)?.0)))
    }

    /// Those whose LID a query's first component names, or all.
    pub(super) fn by_lid(
        &self,
        query: &Query<'_>,
    ) -> impl Iterator<Item = (Index, &Device, Lid)> + '_ {
        let wanted = query.asks(LID).then(|| self.fabric.owner(query.lid_at(0)));
        self.addressed()
            .filter(move |(index, ..)| wanted.is_none_or(|owner| owner == Some(*index)))
    }

    pub(super) fn nodes(&self, query: &Query<'_>) -> Result<Vec<NodeRecord>, MadStatus> {
        query.refuse_beyond(node_component::ALL)?;
        let wanted = NodeQuery::read(query.data);
        let matches = |(_, device, _): &(Index, &Device, Lid)| {
            let info = &device.info;
            (!query.asks(node_component::NODE_TYPE) || info.node_type as u8 == wanted.node_type)
                && (!query.asks(node_component::NODE_GUID) || info.node_guid == wanted.node_guid)
                && (!query.asks(node_component::PORT_GUID) || info.port_guid == wanted.port_guid)
                && (!query.asks(node_component::DESCRIPTION) || device.name == wanted.name.as_str())
        };
        let record = |(_, device, lid): (Index, &Device, Lid)| NodeRecord {
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
        };
        Ok(self.by_lid(query).filter(matches).map(record).collect())
    }

    pub(super) fn ports(&self, query: &Query<'_>) -> Result<Vec<PortInfoRecord>, MadStatus> {
        query.refuse_beyond(port_component::ALL)?;
        let wanted = query.asks(port_component::PORT).then(|| query.port_at(2));
        let bits = u32::from_be_bytes([
            query.data[24],
            query.data[25],
            query.data[26],
            query.data[27],
        ]);
        let capable = |mask: u32| match query.attr_mod & port_component::MATCH_BITS {
            _ if !query.asks(port_component::CAPABILITIES) => true,
            0 => mask == bits,
            _ => mask & bits == bits,
        };
        let mut records = Vec::new();
        for (_, device, lid) in self.by_lid(query) {
            for (number, port) in (0u8..=u8::MAX).zip(&device.ports) {
                let number = PortNum::new(number);
                let Some(port_info) = port.info.filter(|info| capable(info.capability_mask)) else {
                    continue;
                };
                if wanted.is_none_or(|wanted| wanted == number) {
                    // Who knows the M_Key need not ask for it (IBA 15.4.1).
                    let port_info = PortInfo {
                        m_key: 0,
                        ..port_info
                    };
                    records.push(PortInfoRecord {
                        lid,
                        port: number,
                        options: 0,
                        port_info,
                    });
                }
            }
        }
        Ok(records)
    }

    pub(super) fn links(&self, query: &Query<'_>) -> Result<Vec<LinkRecord>, MadStatus> {
        query.refuse_beyond(0xf)?;
        let mut records = Vec::new();
        for (_, device, from_lid) in self.by_lid(query) {
            for (from_port, (peer, to_port)) in device.cables() {
                let Some((to_lid, _)) = self.fabric.plan.lid(peer) else {
                    continue;
                };
                let matches = (!query.asks(1 << 1) || from_port == query.port_at(2))
                    && (!query.asks(1 << 2) || to_port == query.port_at(3))
                    && (!query.asks(1 << 3) || self.fabric.owner(query.lid_at(4)) == Some(peer));
                if matches {
                    records.push(LinkRecord {
                        from_lid,
                        from_port,
                        to_port,
                        to_lid,
                    });
                }
            }
        }
        Ok(records)
    }

    pub(super) fn switches(&self, query: &Query<'_>) -> Result<Vec<SwitchInfoRecord>, MadStatus> {
        query.refuse_beyond(LID)?;
        let record = |(_, device, lid): (Index, &Device, Lid)| {
            let switch_info = device.switch?;
            Some(SwitchInfoRecord { lid, switch_info })
        };
        Ok(self.by_lid(query).filter_map(record).collect())
    }

    /// This manager's own SMInfo. Its SM_Key is shown to trusted requests only (IBA 15.2.5.10).
    pub(super) fn managers(&self, query: &Query<'_>) -> Result<Vec<SmInfoRecord>, MadStatus> {
        let (guid, key, count, priority, state) = (1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6);
        query.refuse_beyond(LID | guid | key | count | priority | state)?;
        let [asked_guid, asked_key] = [4, 12].map(|at| {
            query.data[at..]
                .first_chunk()
                .map(|raw| u64::from_be_bytes(*raw))
        });
        let asked_count = query.data[20..]
            .first_chunk()
            .map(|raw| u32::from_be_bytes(*raw));
        let byte = query.data[24];
        let matches = |info: &SmInfo| {
            (!query.asks(guid) || asked_guid == Some(info.guid.0))
                && (!query.asks(key) || self.is_trusted && asked_key == Some(info.sm_key))
                && (!query.asks(count) || asked_count == Some(info.act_count))
                && (!query.asks(priority) || byte >> 4 == info.priority)
                && (!query.asks(state) || byte & 0x0f == info.state as u8)
        };
        let own = self
            .by_lid(query)
            .find(|(index, ..)| *index == self.fabric.subnet.own);
        let record = own.and_then(|(_, _, lid)| {
            let sm_info = self.sm_info.filter(|info| matches(info))?;
            let sm_key = match self.is_trusted {
                true => sm_info.sm_key,
                false => 0,
            };
            let sm_info = SmInfo { sm_key, ..sm_info };
            Some(SmInfoRecord { lid, sm_info })
        });
        Ok(record.into_iter().collect())
    }

    pub(super) fn linear_tables(&self, query: &Query<'_>) -> Result<Vec<LftRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1)?;
        let mut records = Vec::new();
        for (index, device, lid) in self.by_lid(query) {
            if device.kind != NodeKind::Switch {
                continue;
            }
            for block in 0..=self.fabric.plan.top / 64 {
                let table = self.fabric.plan.block(index, block);
                if let Some(table) = table
                    && (!query.asks(1 << 1) || block == query.u16_at(2))
                {
                    records.push(LftRecord { lid, block, table });
                }
            }
        }
        Ok(records)
    }

    /// The P_Key tables that the manager has read or written, for trusted requests only (IBA 15.2.5.11). Of other ports,
    /// such as those without a cable, a block that is asked for by number is told empty.
    pub(super) fn pkey_tables(&self, query: &Query<'_>) -> Result<Vec<PKeyTableRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1 | 1 << 2)?;
        if !self.is_trusted {
            return Err(MadStatus::SA_REQUEST_INVALID);
        }
        let mut records = Vec::new();
        for (_, device, lid) in self.by_lid(query) {
            let held = self.mirrors.get(&device.guid());
            let is_asked = query.asks(1 << 1);
            for port in outputs(device) {
                if is_asked && query.u16_at(2) != 0
                    || query.asks(1 << 2) && query.port_at(4) != port
                {
                    continue;
                }
                let table = held.and_then(|mirror| mirror.pkeys.get(&port)).copied();
                if let Some(table) = table.or_else(|| is_asked.then(Default::default)) {
                    records.push(PKeyTableRecord {
                        lid,
                        block: 0,
                        port,
                        table,
                    });
                }
            }
        }
        Ok(records)
    }

    /// The blocks of multicast tables that hold something; one that is asked for by number in any
    /// case.
    pub(super) fn multicast_tables(&self, query: &Query<'_>) -> Result<Vec<MftRecord>, MadStatus> {
        let (by_position, by_block) = (1 << 1, 1 << 3);
        query.refuse_beyond(LID | by_position | by_block)?;
        let mut records = Vec::new();
        for (index, device, lid) in self.by_lid(query) {
            if device.kind != NodeKind::Switch {
                continue;
            }
            let asked = query.asks(by_block).then(|| query.u16_at(2) & 0x1ff);
            let last = self.groups.last_block(index);
            let blocks = match (asked, last) {
                (Some(block), _) => block..block + 1,
                (None, Some(last)) => 0..last + 1,
                (None, None) => 0..0,
            };
            for block in blocks {
                for position in 0..=device.info.num_ports / 16 {
                    if query.asks(by_position) && position != query.data[2] >> 4 {
                        continue;
                    }
                    let table = self.groups.block(index, block, position);
                    let shown = |masks: &[u16; 32]| asked.is_some() || *masks != [0; 32];
                    if let Some(table) = table.filter(|table| shown(&table.0)) {
                        records.push(MftRecord {
                            lid,
                            position,
                            block,
                            table,
                        });
                    }
                }
            }
        }
        Ok(records)
    }
}

/// The components of a NodeRecord query that are compared. A query may leave the others at values
/// that no node has, so it is not read as a record.
struct NodeQuery {
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
            node_type: raw[6],
            node_guid: guid(16),
            port_guid: guid(24),
            name: NodeDescription(name),
        }
    }
}
