//! Flow-control packets: the credits of one virtual lane (IBA 7.9.4).
//!
//! ```text
//! +-------+-----------------------+-------+-----------------------+
//! |  Op   |         FCTBS         |  VL   |         FCCL          |
//! +-------+-----------------------+-------+-----------------------+
//! |             LPCRC             |
//! +-------------------------------+
//! ```

use crate::format::{nibbles, put_u16, u16_at};
use crate::{Format, ParseError, Vl, crc};

/// The operation of a flow-control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FlowOp {
    /// Credits of a link that is up.
    Normal = 0,
    /// Credits while the link initialises.
    Init = 1,
}

/// A flow-control packet. Counts are in blocks of 64 bytes, modulo 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowControl {
    /// Normal, or link initialisation.
    pub op: FlowOp,
    /// Flow-control total blocks sent, 12 bits (emitting drops higher ones).
    pub fctbs: u16,
    /// The VL.
    pub vl: Vl,
    /// Flow-control credit limit, 12 bits (emitting drops higher ones).
    pub fccl: u16,
}

impl FlowControl {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 6;
    /// The modulus of FCTBS and FCCL.
    pub const MODULUS: u16 = 4096;
}

/// Besides truncation, parsing refuses an operand other than 0 and 1, and a wrong LPCRC.
impl Format for FlowControl {
    const NAME: &'static str = "flow-control packet";
    const LEN: usize = Self::LEN;

    #[inline]
    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let stated = u16_at(raw, 4);
        let computed = crc::lpcrc(&raw[..4]);
        if stated != computed {
            return Err(ParseError::BadCrc {
                what: "LPCRC",
                stated: u32::from(stated),
                computed: u32::from(computed),
            });
        }
        let op = match raw[0] >> 4 {
            0 => FlowOp::Normal,
            1 => FlowOp::Init,
            other => {
                return Err(ParseError::BadValue {
                    what: "flow-control Op",
                    value: u64::from(other),
                });
            }
        };
        Ok(Self {
            op,
            fctbs: u16_at(raw, 0) & 0x0fff,
            vl: Vl::truncate(raw[2] >> 4),
            fccl: u16_at(raw, 2) & 0x0fff,
        })
    }

    #[inline]
    fn write(&self, raw: &mut [u8]) {
        let [fctbs_high, fctbs_low] = self.fctbs.to_be_bytes();
        let [fccl_high, fccl_low] = self.fccl.to_be_bytes();
        raw[0] = nibbles(self.op as u8, fctbs_high);
        raw[1] = fctbs_low;
        raw[2] = nibbles(self.vl.get(), fccl_high);
        raw[3] = fccl_low;
        let crc = crc::lpcrc(&raw[..4]);
        put_u16(raw, 4, crc);
    }
}
