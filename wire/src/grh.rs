//! The global route header: an IPv6 header with its own fill of the fields (IBA 8.3).
//!
//! ```text
//! +-------+---------------+---------------------------------------+
//! | IPVer |    TClass     |               FlowLabel               |
//! +-------+---------------+-------+---------------+---------------+
//! |            PayLen             |    NxtHdr     |    HopLmt     |
//! +-------------------------------+---------------+---------------+
//! |                     SGID (16), DGID (16)                      |
//! +---------------------------------------------------------------+
//! ```

use core::fmt;
use core::net::Ipv6Addr;

use bincode::{Decode, Encode};

use crate::format::{array, put, put_u16, put_u32, u16_at, u32_at};
use crate::{Format, Guid, ParseError};

/// A global identifier: subnet prefix and GUID, or a multicast group (IBA 4.1.1). Shown as IPv6.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The subnet prefix of a subnet that was given none: `fe80::/64`.
    pub const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

    /// The unicast GID of a port.
    #[must_use]
    pub const fn new(prefix: u64, guid: Guid) -> Self {
        Self((((prefix as u128) << 64) | guid.0 as u128).to_be_bytes())
    }

    /// The upper 64 bits.
    #[must_use]
    pub const fn prefix(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// The lower 64 bits: in a unicast GID the port's GUID.
    #[must_use]
    pub const fn guid(self) -> Guid {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        Guid(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Whether this names a multicast group (`ff00::/8`).
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] == 0xff
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from(self.0), f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// A global route header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grh {
    /// Traffic class.
    pub tclass: u8,
    /// Flow label, 20 bits (emitting drops higher ones).
    pub flow_label: u32,
    /// Bytes from behind this header up to, not including, the VCRC.
    pub pay_len: u16,
    /// Next header; [`Grh::NEXT_HEADER`] for IBA transport.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
}

impl Grh {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 40;
    /// The only IP version.
    pub const IP_VERSION: u8 = 6;
    /// The next-header value of IBA transport (BTH follows).
    pub const NEXT_HEADER: u8 = 0x1b;
}

/// Besides truncation, parsing refuses an IP version other than 6.
impl Format for Grh {
    const NAME: &'static str = "GRH";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let first = u32_at(raw, 0);
        ParseError::check_version(Self::NAME, raw[0] >> 4, Self::IP_VERSION)?;
        Ok(Self {
            tclass: (raw[0] << 4) | (raw[1] >> 4),
            flow_label: first & 0x000f_ffff,
            pay_len: u16_at(raw, 4),
            next_header: raw[6],
            hop_limit: raw[7],
            sgid: Gid(array(raw, 8)),
            dgid: Gid(array(raw, 24)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        let first = (u32::from(Self::IP_VERSION) << 28)
            | (u32::from(self.tclass) << 20)
            | (self.flow_label & 0x000f_ffff);
        put_u32(raw, 0, first);
        put_u16(raw, 4, self.pay_len);
        raw[6] = self.next_header;
        raw[7] = self.hop_limit;
        put(raw, 8, self.sgid.0);
        put(raw, 24, self.dgid.0);
    }
}
