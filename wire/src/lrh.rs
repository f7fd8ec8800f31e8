//! The local route header: how a packet finds its way inside a subnet (IBA 7.7).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-------+---+---+-------------------------------+
//! |  VL   | LVer  |  SL   | 0 |LNH|             DLID              |
//! +-------+-+-----+-------+---+---+-------------------------------+
//! |    0    |       PktLen        |             SLID              |
//! +---------+---------------------+-------------------------------+
//! ```

use crate::format::{put_u16, u16_at};
use crate::{Format, Lid, ParseError, Sl, Vl};

/// What follows the local route header (IBA 7.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lnh {
    /// Raw packet with an EtherType header.
    Raw = 0,
    /// Raw packet with an IPv6 header.
    Ipv6Raw = 1,
    /// IBA transport inside the subnet: BTH follows.
    IbaLocal = 2,
    /// IBA transport with a global route header: GRH, then BTH.
    IbaGlobal = 3,
}

impl Lnh {
    /// The value of the low two bits of `bits`.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Raw,
            1 => Self::Ipv6Raw,
            2 => Self::IbaLocal,
            _ => Self::IbaGlobal,
        }
    }

    /// The field's two bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// A local route header.
///
/// Parsing takes every bit pattern: the version and the length are judged by
/// [`DataPacket`](crate::packet::DataPacket), which sees the whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lrh {
    /// Virtual lane of the link that the packet is on.
    pub vl: Vl,
    /// Link version, 4 bits; [`Lrh::VERSION`] is the only one there is.
    pub lver: u8,
    /// Service level: constant end to end.
    pub sl: Sl,
    /// What follows.
    pub lnh: Lnh,
    /// Destination LID.
    pub dlid: Lid,
    /// Length in words of 4 bytes, from the first byte of this header up to, not including, the
    /// VCRC; 11 bits (emitting drops higher ones).
    pub pkt_len_words: u16,
    /// Source LID.
    pub slid: Lid,
}

impl Lrh {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 8;
    /// The link version of this format.
    pub const VERSION: u8 = 0;
    /// The largest value of PktLen.
    pub const PKT_LEN_MAX: u16 = 0x7ff;

    /// The length in bytes of the whole packet, VCRC included, as PktLen states it.
    #[inline]
    #[must_use]
    pub const fn packet_bytes(&self) -> usize {
        (self.pkt_len_words as usize) * 4 + 2
    }
}

impl Format for Lrh {
    const NAME: &'static str = "LRH";
    const LEN: usize = Self::LEN;

    #[inline]
    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            vl: Vl::truncate(raw[0] >> 4),
            lver: raw[0] & 0x0f,
            sl: Sl::truncate(raw[1] >> 4),
            lnh: Lnh::from_bits(raw[1]),
            dlid: Lid::new(u16_at(raw, 2)),
            pkt_len_words: u16_at(raw, 4) & Self::PKT_LEN_MAX,
            slid: Lid::new(u16_at(raw, 6)),
        })
    }

    #[inline]
    fn write(&self, raw: &mut [u8]) {
        raw[0] = (self.vl.get() << 4) | (self.lver & 0x0f);
        raw[1] = (self.sl.get() << 4) | self.lnh.bits();
        put_u16(raw, 2, self.dlid.get());
        put_u16(raw, 4, self.pkt_len_words & Self::PKT_LEN_MAX);
        put_u16(raw, 6, self.slid.get());
    }
}
