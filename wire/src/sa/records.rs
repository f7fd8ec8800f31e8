//! Records that wrap an attribute of subnet management, and links (IBA 15.2.5).

use crate::attr::{NodeDescription, NodeInfo, PortInfo};
use crate::format::{put_u16, u16_at};
use crate::mad::AttributeId;
use crate::sa::SaRecord;
use crate::{Format, Lid, ParseError, PortNum};

/// A node (IBA 15.2.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeRecord {
    /// LID of a port, or of a switch.
    pub lid: Lid,
    /// What the node is.
    pub node_info: NodeInfo,
    /// Its name.
    pub description: NodeDescription,
}

impl NodeRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 108;
}

/// Refuses what [`NodeInfo`] refuses.
impl Format for NodeRecord {
    const NAME: &'static str = "NodeRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            node_info: NodeInfo::read(&raw[4..44])?,
            description: NodeDescription::read(&raw[44..108])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        self.node_info.write(&mut raw[4..44]);
        self.description.write(&mut raw[44..108]);
    }
}

impl SaRecord for NodeRecord {
    const ID: AttributeId = AttributeId::NODE_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 14;
}

/// A port (IBA 15.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortInfoRecord {
    /// LID of the port, or of its switch.
    pub lid: Lid,
    /// The port.
    pub port: PortNum,
    /// Options beyond the standard layout; 0.
    pub options: u8,
    /// The port's PortInfo.
    pub port_info: PortInfo,
}

impl PortInfoRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 68;
}

/// Refuses what [`PortInfo`] refuses.
impl Format for PortInfoRecord {
    const NAME: &'static str = "PortInfoRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            port: PortNum::new(raw[2]),
            options: raw[3],
            port_info: PortInfo::read(&raw[4..68])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        raw[2] = self.port.get();
        raw[3] = self.options;
        self.port_info.write(&mut raw[4..68]);
    }
}

impl SaRecord for PortInfoRecord {
    const ID: AttributeId = AttributeId::PORT_INFO_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 9;
}

/// A link (IBA 15.2.5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkRecord {
    /// LID at this end.
    pub from_lid: Lid,
    /// Port at this end.
    pub from_port: PortNum,
    /// Port at the other end.
    pub to_port: PortNum,
    /// LID at the other end.
    pub to_lid: Lid,
}

impl LinkRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 6;
}

impl Format for LinkRecord {
    const NAME: &'static str = "LinkRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            from_lid: Lid::new(u16_at(raw, 0)),
            from_port: PortNum::new(raw[2]),
            to_port: PortNum::new(raw[3]),
            to_lid: Lid::new(u16_at(raw, 4)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.from_lid.get());
        raw[2] = self.from_port.get();
        raw[3] = self.to_port.get();
        put_u16(raw, 4, self.to_lid.get());
    }
}

impl SaRecord for LinkRecord {
    const ID: AttributeId = AttributeId::LINK_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 1;
}
