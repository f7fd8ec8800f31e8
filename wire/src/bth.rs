//! The base transport header (IBA 9.2).
//!
//! ```text
//! +---------------+-+-+---+-------+-------------------------------+
//! |    OpCode     |S|M|Pad| TVer  |            P_Key              |
//! +---------------+-+-+---+-------+-------------------------------+
//! |F|B|     0     |                    DestQP                     |
//! +-+-+-----------+-----------------------------------------------+
//! |A|      0      |                     PSN                       |
//! +-+-------------+-----------------------------------------------+
//! ```

use crate::format::{put_u16, put_u24, u16_at, u24_at};
use crate::{Format, Opcode, ParseError, Psn, Qpn};

/// A base transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bth {
    /// Service and operation.
    pub opcode: Opcode,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state: 1 is "migrated".
    pub mig_req: bool,
    /// How many bytes of padding bring the payload to a multiple of 4: 0..=3.
    pub pad: u8,
    /// Transport version, 4 bits; [`Bth::VERSION`] is the only one there is.
    pub tver: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward explicit congestion notification (IBA A10).
    pub fecn: bool,
    /// Backward explicit congestion notification (IBA A10).
    pub becn: bool,
    /// Destination queue pair.
    pub dest_qp: Qpn,
    /// Whether an acknowledgement is wanted.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 12;
    /// The transport version of this format.
    pub const VERSION: u8 = 0;
}

impl Format for Bth {
    const NAME: &'static str = "BTH";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            opcode: Opcode(raw[0]),
            solicited: raw[1] & 0x80 != 0,
            mig_req: raw[1] & 0x40 != 0,
            pad: (raw[1] >> 4) & 3,
            tver: raw[1] & 0x0f,
            pkey: u16_at(raw, 2),
            fecn: raw[4] & 0x80 != 0,
            becn: raw[4] & 0x40 != 0,
            dest_qp: Qpn::truncate(u24_at(raw, 5)),
            ack_req: raw[8] & 0x80 != 0,
            psn: Psn::truncate(u24_at(raw, 9)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.opcode.0;
        raw[1] = (u8::from(self.solicited) << 7)
            | (u8::from(self.mig_req) << 6)
            | ((self.pad & 3) << 4)
            | (self.tver & 0x0f);
        put_u16(raw, 2, self.pkey);
        raw[4] = (u8::from(self.fecn) << 7) | (u8::from(self.becn) << 6);
        put_u24(raw, 5, self.dest_qp.get());
        raw[8] = u8::from(self.ack_req) << 7;
        put_u24(raw, 9, self.psn.get());
    }
}
