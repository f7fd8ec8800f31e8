//! Payload sizes of a link (IBA 14.2.5.6, NeighborMTU).

use bincode::{Decode, Encode};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// The largest payload of a packet. The discriminant is the specification's code.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Encode,
    Decode,
    EnumMessage,
    IntoStaticStr,
    VariantArray,
)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    #[strum(serialize = "256")]
    Mtu256 = 1,
    /// 512 bytes.
    #[strum(serialize = "512")]
    Mtu512 = 2,
    /// 1024 bytes.
    #[strum(serialize = "1024")]
    Mtu1024 = 3,
    /// 2048 bytes.
    #[strum(serialize = "2048")]
    Mtu2048 = 4,
    /// 4096 bytes.
    #[strum(serialize = "4096")]
    Mtu4096 = 5,
}
crate::choice!(Mtu, "MTU");

impl Mtu {
    /// How many bytes a packet on the link has at most beyond its payload: LRH, GRH, BTH, the
    /// longest extended headers, ICRC and VCRC (IBA 7.7.8 counts 126 bytes).
    pub const OVERHEAD_MAX: usize = 126;

    /// The size with this code, 1..=5.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Mtu256),
            2 => Some(Self::Mtu512),
            3 => Some(Self::Mtu1024),
            4 => Some(Self::Mtu2048),
            5 => Some(Self::Mtu4096),
            _ => None,
        }
    }

    /// The size of this many bytes, if it is one.
    #[must_use]
    pub const fn from_bytes(bytes: u16) -> Option<Self> {
        match bytes {
            256 => Some(Self::Mtu256),
            512 => Some(Self::Mtu512),
            1024 => Some(Self::Mtu1024),
            2048 => Some(Self::Mtu2048),
            4096 => Some(Self::Mtu4096),
            _ => None,
        }
    }

    /// The specification's code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        128 << (self as u8)
    }
}
