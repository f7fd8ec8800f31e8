//! The headers between the common one and the records: RMPP (IBA 13.6.2) and SA (IBA 15.2.1).

use crate::format::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::{Format, ParseError};

/// What an RMPP packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RmppKind {
    /// Not used.
    #[default]
    None = 0,
    /// Segment of data.
    Data = 1,
    /// Acknowledgement.
    Ack = 2,
    /// End of the transfer at the receiver's wish.
    Stop = 3,
    /// End of the transfer on an error.
    Abort = 4,
}

/// Bits of RMPPFlags.
pub mod rmpp_flag {
    /// RMPP is in use; the rest of the header holds only then.
    pub const ACTIVE: u8 = 1 << 0;
    /// First segment.
    pub const FIRST: u8 = 1 << 1;
    /// Last segment.
    pub const LAST: u8 = 1 << 2;
}

/// The header of a reliable transfer of several datagrams.
///
/// ```text
/// +---------------+---------------+---------+-----+---------------+
/// |  RMPPVersion  |   RMPPType    |RRespTime|Flags|  RMPPStatus   |
/// +---------------+---------------+---------+-----+---------------+
/// |       Data1: SegmentNumber (Data, Ack)                        |
/// +---------------------------------------------------------------+
/// |       Data2: PayloadLength (Data), NewWindowLast (Ack)        |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rmpp {
    /// 1 where RMPP is used, else 0.
    pub version: u8,
    /// Kind of packet.
    pub kind: RmppKind,
    /// Response time: 4.096 us times two to this power, 5 bits (emitting drops higher ones);
    /// 0x1f: not given.
    pub resp_time: u8,
    /// Bits of [`rmpp_flag`] (emitting drops all but the low 3).
    pub flags: u8,
    /// Why a transfer was stopped or aborted.
    pub status: u8,
    /// Data and Ack: segment number, from 1.
    pub data1: u32,
    /// Data: payload length in bytes; Ack: the last segment that may be sent.
    pub data2: u32,
}

impl Rmpp {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 12;
    /// The version of the protocol.
    pub const VERSION: u8 = 1;
    /// Response time: not given.
    pub const RESP_TIME_NONE: u8 = 0x1f;
}

/// Besides truncation, parsing refuses a kind above 4.
impl Format for Rmpp {
    const NAME: &'static str = "RMPP header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            version: raw[0],
            kind: match raw[1] {
                0 => RmppKind::None,
                1 => RmppKind::Data,
                2 => RmppKind::Ack,
                3 => RmppKind::Stop,
                4 => RmppKind::Abort,
                other => {
                    return Err(ParseError::BadValue {
                        what: "RMPPType",
                        value: u64::from(other),
                    });
                }
            },
            resp_time: raw[2] >> 3,
            flags: raw[2] & 0x07,
            status: raw[3],
            data1: u32_at(raw, 4),
            data2: u32_at(raw, 8),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.version;
        raw[1] = self.kind as u8;
        raw[2] = (self.resp_time << 3) | (self.flags & 0x07);
        raw[3] = self.status;
        put_u32(raw, 4, self.data1);
        put_u32(raw, 8, self.data2);
    }
}

/// The header of subnet administration, RMPP included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SaHeader {
    /// Reliable transfer.
    pub rmpp: Rmpp,
    /// Key of the subnet manager, or 0.
    pub sm_key: u64,
    /// Distance of records in units of 8 bytes; 0 where there is one at most.
    pub attribute_offset: u16,
    /// Which components of the record count in a query; bit 0 is the first component.
    pub component_mask: u64,
}

impl SaHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 32;
}

/// Refuses what [`Rmpp`] refuses.
impl Format for SaHeader {
    const NAME: &'static str = "SA header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            rmpp: Rmpp::read(&raw[..Rmpp::LEN])?,
            sm_key: u64_at(raw, 12),
            attribute_offset: u16_at(raw, 20),
            component_mask: u64_at(raw, 24),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        self.rmpp.write(&mut raw[..Rmpp::LEN]);
        put_u64(raw, 12, self.sm_key);
        put_u16(raw, 20, self.attribute_offset);
        put_u64(raw, 24, self.component_mask);
    }
}
