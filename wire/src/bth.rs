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

use core::fmt;

use crate::format::{put_u16, put_u24, u16_at, u24_at};
use crate::{Format, ParseError, Psn, Qpn};

/// What a packet is in its transport service: three bits of service, five of operation (IBA 9.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// Reliable connection: SEND First.
    pub const RC_SEND_FIRST: Self = Self(0x00);
    /// Reliable connection: SEND Middle.
    pub const RC_SEND_MIDDLE: Self = Self(0x01);
    /// Reliable connection: SEND Last.
    pub const RC_SEND_LAST: Self = Self(0x02);
    /// Reliable connection: SEND Last with Immediate.
    pub const RC_SEND_LAST_IMM: Self = Self(0x03);
    /// Reliable connection: SEND Only.
    pub const RC_SEND_ONLY: Self = Self(0x04);
    /// Reliable connection: SEND Only with Immediate.
    pub const RC_SEND_ONLY_IMM: Self = Self(0x05);
    /// Reliable connection: RDMA WRITE First.
    pub const RC_WRITE_FIRST: Self = Self(0x06);
    /// Reliable connection: RDMA WRITE Middle.
    pub const RC_WRITE_MIDDLE: Self = Self(0x07);
    /// Reliable connection: RDMA WRITE Last.
    pub const RC_WRITE_LAST: Self = Self(0x08);
    /// Reliable connection: RDMA WRITE Last with Immediate.
    pub const RC_WRITE_LAST_IMM: Self = Self(0x09);
    /// Reliable connection: RDMA WRITE Only.
    pub const RC_WRITE_ONLY: Self = Self(0x0a);
    /// Reliable connection: RDMA WRITE Only with Immediate.
    pub const RC_WRITE_ONLY_IMM: Self = Self(0x0b);
    /// Reliable connection: RDMA READ Request.
    pub const RC_READ_REQUEST: Self = Self(0x0c);
    /// Reliable connection: RDMA READ Response First.
    pub const RC_READ_RESPONSE_FIRST: Self = Self(0x0d);
    /// Reliable connection: RDMA READ Response Middle.
    pub const RC_READ_RESPONSE_MIDDLE: Self = Self(0x0e);
    /// Reliable connection: RDMA READ Response Last.
    pub const RC_READ_RESPONSE_LAST: Self = Self(0x0f);
    /// Reliable connection: RDMA READ Response Only.
    pub const RC_READ_RESPONSE_ONLY: Self = Self(0x10);
    /// Reliable connection: Acknowledge.
    pub const RC_ACKNOWLEDGE: Self = Self(0x11);
    /// Unreliable datagram: SEND Only.
    pub const UD_SEND_ONLY: Self = Self(0x64);
    /// Unreliable datagram: SEND Only with Immediate.
    pub const UD_SEND_ONLY_IMM: Self = Self(0x65);
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x})", self.0)
    }
}

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
