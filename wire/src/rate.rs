//! Link width, link speed and the data rate of both (IBA 14.2.5.6, 9.11).
//!
//! Speeds up to QDR signal 10 bits a byte (8b/10b); the later ones 66 bits a 64. What counts for
//! pacing is the data rate behind that: 1x SDR signals 2.5 Gb/s and moves 2 Gb/s, 4 ns a byte
//! (the figure of MLID04).

use bincode::{Decode, Encode};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// How many physical lanes a link has. The discriminant is the bit in PortInfo's LinkWidth fields.
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
pub enum LinkWidth {
    /// One lane.
    #[strum(serialize = "1x")]
    X1 = 1,
    /// Two lanes.
    #[strum(serialize = "2x")]
    X2 = 16,
    /// Four lanes.
    #[strum(serialize = "4x")]
    X4 = 2,
    /// Eight lanes.
    #[strum(serialize = "8x")]
    X8 = 4,
    /// Twelve lanes.
    #[strum(serialize = "12x")]
    X12 = 8,
}
crate::choice!(LinkWidth, "link width");

impl LinkWidth {
    /// The width with this code, as in LinkWidthActive: one bit of 1, 2, 4, 8, 16.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::X1),
            2 => Some(Self::X4),
            4 => Some(Self::X8),
            8 => Some(Self::X12),
            16 => Some(Self::X2),
            _ => None,
        }
    }

    /// The specification's code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// How many physical lanes.
    #[must_use]
    pub const fn lanes(self) -> u8 {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X12 => 12,
        }
    }
}

/// The speed of one physical lane.
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
#[strum(serialize_all = "lowercase")]
pub enum LinkSpeed {
    /// 2.5 Gb/s.
    Sdr,
    /// 5 Gb/s.
    Ddr,
    /// 10 Gb/s, 8b/10b.
    Qdr,
    /// 10.3125 Gb/s, 64b/66b: a vendor's extension, reported as QDR.
    Fdr10,
    /// 14.0625 Gb/s.
    Fdr,
    /// 25.78125 Gb/s.
    Edr,
    /// 53.125 Gb/s.
    Hdr,
    /// 106.25 Gb/s.
    Ndr,
    /// 212.5 Gb/s.
    Xdr,
}
crate::choice!(LinkSpeed, "link speed");

impl LinkSpeed {
    /// The speed that LinkSpeedActive (1, 2, 4), LinkSpeedExtActive (0, 1, 2, 4, 8) and
    /// LinkSpeedExtActive2 (0, 1) state; of these the last that is not 0 counts.
    #[must_use]
    pub const fn from_codes(speed: u8, extended: u8, extended2: u8) -> Option<Self> {
        match (extended2, extended, speed) {
            (0, 0, 1) => Some(Self::Sdr),
            (0, 0, 2) => Some(Self::Ddr),
            (0, 0, 4) => Some(Self::Qdr),
            (0, 1, _) => Some(Self::Fdr),
            (0, 2, _) => Some(Self::Edr),
            (0, 4, _) => Some(Self::Hdr),
            (0, 8, _) => Some(Self::Ndr),
            (1, _, _) => Some(Self::Xdr),
            _ => None,
        }
    }

    /// LinkSpeedActive: 1, 2, or 4 for QDR and everything faster.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Sdr => 1,
            Self::Ddr => 2,
            _ => 4,
        }
    }

    /// LinkSpeedExtActive2: 1 for XDR.
    #[must_use]
    pub const fn extended2_code(self) -> u8 {
        match self {
            Self::Xdr => 1,
            _ => 0,
        }
    }

    /// LinkSpeedExtActive: 0 up to QDR, for FDR10 and for XDR.
    #[must_use]
    pub const fn extended_code(self) -> u8 {
        match self {
            Self::Sdr | Self::Ddr | Self::Qdr | Self::Fdr10 | Self::Xdr => 0,
            Self::Fdr => 1,
            Self::Edr => 2,
            Self::Hdr => 4,
            Self::Ndr => 8,
        }
    }

    /// Data rate of one lane without its line code, in bits per second.
    #[must_use]
    pub const fn lane_data_bits_per_s(self) -> u64 {
        match self {
            Self::Sdr => 2_000_000_000,
            Self::Ddr => 4_000_000_000,
            Self::Qdr => 8_000_000_000,
            Self::Fdr10 => 10_000_000_000,
            Self::Fdr => 13_636_363_636,
            Self::Edr => 25_000_000_000,
            Self::Hdr => 50_000_000_000,
            Self::Ndr => 100_000_000_000,
            Self::Xdr => 200_000_000_000,
        }
    }

    /// The round number by which rates are named, in units of 0.1 Gb/s.
    const fn nominal_100_mbit(self) -> u16 {
        match self {
            Self::Sdr => 25,
            Self::Ddr => 50,
            Self::Qdr | Self::Fdr10 => 100,
            Self::Fdr => 140,
            Self::Edr => 250,
            Self::Hdr => 500,
            Self::Ndr => 1000,
            Self::Xdr => 2000,
        }
    }
}

/// Rates in units of 100 Mbit/s on the wire, in order, with their codes in records (IBA 15.2.5.16).
const CODES: [(u16, u8); 24] = [
    (25, 2),
    (50, 5),
    (100, 3),
    (140, 11),
    (200, 6),
    (250, 15),
    (280, 19),
    (300, 4),
    (400, 7),
    (500, 20),
    (560, 12),
    (600, 8),
    (800, 9),
    (1000, 16),
    (1120, 13),
    (1200, 10),
    (1680, 14),
    (2000, 17),
    (3000, 18),
    (4000, 21),
    (6000, 22),
    (8000, 23),
    (12000, 24),
    (16000, 25),
];

/// Width and speed of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct LinkRate {
    /// Lanes.
    pub width: LinkWidth,
    /// Speed of each lane.
    pub speed: LinkSpeed,
}

impl LinkRate {
    /// Data rate of the link without its line code, in bits per second.
    #[must_use]
    pub const fn data_rate_bits_per_s(self) -> u64 {
        self.speed.lane_data_bits_per_s() * self.width.lanes() as u64
    }

    /// How long `bytes` take on the link, in picoseconds, rounded up; saturates.
    #[must_use]
    pub const fn transmit_ps(self, bytes: u64) -> u64 {
        let bits_ps = (bytes as u128) * 8 * 1_000_000_000_000;
        let ps = bits_ps.div_ceil(self.data_rate_bits_per_s() as u128);
        if ps > u64::MAX as u128 {
            return u64::MAX;
        }
        let [.., a, b, c, d, e, f, g, h] = ps.to_be_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// The code of this rate in PathRecord and MCMemberRecord (IBA 15.2.5.16); `None` for 12x XDR, which has
    /// none.
    #[must_use]
    pub const fn code(self) -> Option<u8> {
        let nominal = self.speed.nominal_100_mbit() * self.width.lanes() as u16;
        let mut at = 0;
        while at < CODES.len() {
            if CODES[at].0 == nominal {
                return Some(CODES[at].1);
            }
            at += 1;
        }
        None
    }

    /// The rate that a code of [`Self::code`] stands for, in units of 100 Mbit/s on the wire, by which codes
    /// can be compared; `None` of a code that stands for none.
    #[must_use]
    pub fn nominal_of_code(code: u8) -> Option<u16> {
        let found = CODES.iter().find(|(_, known)| *known == code);
        found.map(|(nominal, _)| *nominal)
    }

    /// The code of the greatest rate that is less than that of `below` and no greater than that of `most`.
    #[must_use]
    pub fn code_below(below: u8, most: u8) -> Option<u8> {
        let below = Self::nominal_of_code(below)?;
        let most = Self::nominal_of_code(most)?;
        let mut fit = CODES.iter().rev();
        fit.find(|(nominal, _)| *nominal < below && *nominal <= most)
            .map(|(_, code)| *code)
    }
}
