//! The protocol of libibumad's programs with a simulated fabric (ibsim's client library): control
//! datagrams of 80 bytes and data datagrams of 288.
//!
//! Both are C structures as they lie in memory, so the control side is in host byte order, and the
//! data side mixes orders as noted. Only little-endian hosts with 64-bit pointers are covered.

use crate::format::{array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::mad::Mad;
use crate::{Format, Lid, ParseError, Qpn};

fn host_u32_at(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(raw, at))
}

fn put_host_u32(raw: &mut [u8], at: usize, value: u32) {
    put(raw, at, value.to_le_bytes());
}

/// The kind of a control datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlKind(pub u32);

impl ControlKind {
    /// Answer: refused.
    pub const ERROR: Self = Self(0);
    /// A client attaches to a node.
    pub const CONNECT: Self = Self(1);
    /// A client leaves.
    pub const DISCONNECT: Self = Self(2);
    /// LID and state of the port.
    pub const GET_PORT: Self = Self(3);
    /// Vendor, device and versions.
    pub const GET_VENDOR: Self = Self(4);
    /// GID of the port.
    pub const GET_GID: Self = Self(5);
    /// GUID of the node.
    pub const GET_GUID: Self = Self(6);
    /// NodeInfo.
    pub const GET_NODE_INFO: Self = Self(7);
    /// PortInfo.
    pub const GET_PORT_INFO: Self = Self(8);
    /// Sets or clears IsSM of the port.
    pub const SET_IS_SM: Self = Self(9);
    /// The first 32 partition keys.
    pub const GET_PKEYS: Self = Self(10);
}

/// A request on the control socket, or its answer.
///
/// ```text
/// offset 0 magic | 4 client | 8 kind | 12 length | 16 data (64)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControlDatagram {
    /// The client's slot; not looked at in a Connect.
    pub client: u32,
    /// Its kind.
    pub kind: ControlKind,
    /// How many bytes of data are meant.
    pub len: u32,
    /// Content, by kind.
    pub data: [u8; 64],
}

impl ControlDatagram {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 80;
    /// The number that every control datagram starts with.
    pub const MAGIC: u32 = 0xdead_beef;
}

/// Besides truncation, parsing refuses a wrong magic number.
impl Format for ControlDatagram {
    const NAME: &'static str = "umad2sim control datagram";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let magic = host_u32_at(raw, 0);
        if magic != Self::MAGIC {
            return Err(ParseError::BadValue {
                what: "umad2sim magic",
                value: u64::from(magic),
            });
        }
        Ok(Self {
            client: host_u32_at(raw, 4),
            kind: ControlKind(host_u32_at(raw, 8)),
            len: host_u32_at(raw, 12),
            data: array(raw, 16),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_host_u32(raw, 0, Self::MAGIC);
        put_host_u32(raw, 4, self.client);
        put_host_u32(raw, 8, self.kind.0);
        put_host_u32(raw, 12, self.len);
        put(raw, 16, self.data);
    }
}

/// The data of a Connect, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connect {
    /// Request: the client's process id, or its UDP data port; answer: the slot given.
    pub id: u32,
    /// Always 0.
    pub qp: u32,
    /// Whether the client is a subnet manager.
    pub is_sm: bool,
    /// Request: the node wanted, empty for the default; answer: the node attached to. Zero
    /// terminated.
    pub node: [u8; 32],
}

impl Connect {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 44;

    /// A node name as the protocol carries it: cut at a character boundary to at most 31 bytes.
    #[must_use]
    pub fn node_bytes(name: &str) -> [u8; 32] {
        let mut bytes = [0; 32];
        let len = name.floor_char_boundary(31);
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        bytes
    }

    /// The node's name up to the first zero byte; `None` if it is not UTF-8.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        let name = self.node.split(|&byte| byte == 0).next()?;
        core::str::from_utf8(name).ok()
    }
}

impl Format for Connect {
    const NAME: &'static str = "umad2sim connect";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            id: host_u32_at(raw, 0),
            qp: host_u32_at(raw, 4),
            is_sm: host_u32_at(raw, 8) != 0,
            node: array(raw, 12),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_host_u32(raw, 0, self.id);
        put_host_u32(raw, 4, self.qp);
        put_host_u32(raw, 8, u32::from(self.is_sm));
        put(raw, 12, self.node);
    }
}

/// The answer to GetVendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vendor {
    /// Vendor's OUI.
    pub vendor_id: u32,
    /// Device id.
    pub part_id: u32,
    /// Hardware version.
    pub hw_version: u32,
    /// Firmware version.
    pub fw_version: u64,
}

impl Vendor {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 24;
}

impl Format for Vendor {
    const NAME: &'static str = "umad2sim vendor";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            vendor_id: host_u32_at(raw, 0),
            part_id: host_u32_at(raw, 4),
            hw_version: host_u32_at(raw, 8),
            fw_version: u64::from_le_bytes(array(raw, 16)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_host_u32(raw, 0, self.vendor_id);
        put_host_u32(raw, 4, self.part_id);
        put_host_u32(raw, 8, self.hw_version);
        put(raw, 16, self.fw_version.to_le_bytes());
    }
}

/// A management datagram on the data socket.
///
/// ```text
/// offset 0 DLID (2), 0 (2) | 4 SLID (2), 0 (2) | 8 DQP | 12 SQP | 16 status | 20 0 (4)
///        24 length (8) | 32 MAD (256); all big endian
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataDatagram {
    /// Destination LID; permissive for a directed route.
    pub dlid: Lid,
    /// Source LID; a client sends 0 for "my port's" and the permissive LID for a directed route.
    pub slid: Lid,
    /// Destination queue pair.
    pub dest_qp: Qpn,
    /// Source queue pair.
    pub src_qp: Qpn,
    /// 0, or [`DataDatagram::TIMED_OUT`] in a request that comes back unanswered.
    pub status: u32,
    /// How many bytes of the MAD are meant.
    pub len: u64,
    /// The datagram.
    pub mad: Mad,
}

impl DataDatagram {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 288;
    /// Status of a request that was not answered.
    pub const TIMED_OUT: u32 = 110;
}

/// Besides truncation, parsing refuses queue pair numbers above 24 bits.
impl Format for DataDatagram {
    const NAME: &'static str = "umad2sim data datagram";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let qpn = |at| {
            let value = u32_at(raw, at);
            let bad = ParseError::BadValue {
                what: "umad2sim QP",
                value: u64::from(value),
            };
            Qpn::new(value).map_err(|_| bad)
        };
        Ok(Self {
            dlid: Lid::new(u16_at(raw, 0)),
            slid: Lid::new(u16_at(raw, 4)),
            dest_qp: qpn(8)?,
            src_qp: qpn(12)?,
            status: u32_at(raw, 16),
            len: u64_at(raw, 24),
            mad: Mad::from_bytes(array(raw, 32)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.dlid.get());
        put_u16(raw, 4, self.slid.get());
        put_u32(raw, 8, self.dest_qp.get());
        put_u32(raw, 12, self.src_qp.get());
        put_u32(raw, 16, self.status);
        put_u64(raw, 24, self.len);
        put(raw, 32, *self.mad.as_bytes());
    }
}
