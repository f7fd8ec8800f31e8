//! NodeInfo: the type and identity of a node (IBA 14.2.5.3).
//!
//! ```text
//! +---------------+---------------+---------------+---------------+
//! |  BaseVersion  | ClassVersion  |   NodeType    |   NumPorts    |
//! +---------------+---------------+---------------+---------------+
//! |      SystemImageGUID (8), NodeGUID (8), PortGUID (8)          |
//! +-------------------------------+-------------------------------+
//! |         PartitionCap          |           DeviceID            |
//! +-------------------------------+-------------------------------+
//! |                           Revision                            |
//! +---------------+-----------------------------------------------+
//! | LocalPortNum  |                   VendorID                    |
//! +---------------+-----------------------------------------------+
//! ```

use crate::attr::Attribute;
use crate::format::{put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at};
use crate::mad::AttributeId;
use crate::{Format, Guid, ParseError, PortNum};

/// The type and identity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum NodeType {
    /// Channel adapter: a host.
    ChannelAdapter = 1,
    /// Switch.
    Switch = 2,
    /// Router.
    Router = 3,
}

/// The type and identity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeInfo {
    /// Version of the MAD header that is supported.
    pub base_version: u8,
    /// Version of the subnet management class that is supported.
    pub class_version: u8,
    /// Kind of node.
    pub node_type: NodeType,
    /// Physical ports; a switch's port 0 is not counted.
    pub num_ports: u8,
    /// GUID that all nodes of one box share.
    pub system_image_guid: Guid,
    /// GUID of the node.
    pub node_guid: Guid,
    /// GUID of the port that was asked; of a switch the node's.
    pub port_guid: Guid,
    /// Entries in the P_Key table (of a switch: of port 0).
    pub partition_cap: u16,
    /// Device id.
    pub device_id: u16,
    /// Device revision.
    pub revision: u32,
    /// The port that the request came in on.
    pub local_port_num: PortNum,
    /// The vendor's IEEE OUI, 24 bits (emitting drops higher ones).
    pub vendor_id: u32,
}

impl NodeInfo {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 40;
}

/// Besides truncation, parsing refuses a node type other than 1, 2 and 3.
impl Format for NodeInfo {
    const NAME: &'static str = "NodeInfo";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            base_version: raw[0],
            class_version: raw[1],
            node_type: match raw[2] {
                1 => NodeType::ChannelAdapter,
                2 => NodeType::Switch,
                3 => NodeType::Router,
                other => {
                    return Err(ParseError::BadValue {
                        what: "NodeInfo:NodeType",
                        value: u64::from(other),
                    });
                }
            },
            num_ports: raw[3],
            system_image_guid: Guid(u64_at(raw, 4)),
            node_guid: Guid(u64_at(raw, 12)),
            port_guid: Guid(u64_at(raw, 20)),
            partition_cap: u16_at(raw, 28),
            device_id: u16_at(raw, 30),
            revision: u32_at(raw, 32),
            local_port_num: PortNum::new(raw[36]),
            vendor_id: u24_at(raw, 37),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.base_version;
        raw[1] = self.class_version;
        raw[2] = self.node_type as u8;
        raw[3] = self.num_ports;
        put_u64(raw, 4, self.system_image_guid.0);
        put_u64(raw, 12, self.node_guid.0);
        put_u64(raw, 20, self.port_guid.0);
        put_u16(raw, 28, self.partition_cap);
        put_u16(raw, 30, self.device_id);
        put_u32(raw, 32, self.revision);
        raw[36] = self.local_port_num.get();
        put_u24(raw, 37, self.vendor_id);
    }
}

impl Attribute for NodeInfo {
    const ID: AttributeId = AttributeId::NODE_INFO;
}
