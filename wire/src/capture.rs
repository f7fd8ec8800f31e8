//! Captures of a port's packets, as a device hands them to a local program: the request, the filter, and messages of packets.
//!
//! A program connects to the device's capture socket and sends a [`CaptureRequest`]; a [`CaptureReply`] answers. Behind
//! [`CaptureReply::Started`] messages follow, each a [`MessageHeader`] with packets behind it, each of them a
//! [`PacketHeader`] with as many bytes as it says. A message of the program (of one byte or more) ends the capture: what waits is sent, the last
//! message says so, and the device closes the connection.
//!
//! ```text
//! message: +---------------+-----------------------+
//!          |     Flags     |           0           |   flags: 1 is the last message
//!          +---------------+-----------------------+
//!          |          packets lost so far (8)      |   they passed the filter and did not fit
//!          +---------------------------------------+
//! packet:  |      when it passed, nanoseconds (8)  |   of CLOCK_MONOTONIC
//!          +---------------+-----------------------+
//!          |   Direction   |     Kind    |    0    |   1 received, 2 sent; as of a record
//!          +---------------+-------+-----------------------+
//!          | bytes that follow (2) | bytes on the link (2) |
//!          +-----------------------+-----------------------+
//! ```

mod filter;

use bincode::{Decode, Encode};

use crate::format::{put_u16, put_u64, u16_at, u64_at};
use crate::{Format, ParseError, PortNum, RecordKind};

pub use filter::{Filter, FilterError, Key, TERMS_MAX};

/// Which way a packet goes through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[repr(u8)]
pub enum Direction {
    /// The port receives it.
    Received = 1,
    /// The port sends it.
    Sent = 2,
}

/// What a program wants to see.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct CaptureRequest {
    /// The port, 1 or higher.
    pub port: PortNum,
    /// Only packets of one direction.
    pub direction: Option<Direction>,
    /// Bytes of each packet that are handed on, from the LRH on, at most.
    pub snap_len: u16,
    /// Which packets.
    pub filter: Filter,
}

/// The answer to a [`CaptureRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum CaptureReply {
    /// Packets follow.
    Started,
    /// There is no such capture: why, and what to do.
    Refused(String),
}

/// The front of a message of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageHeader {
    /// The capture has ended in order; nothing follows.
    pub is_last: bool,
    /// Packets that passed the filter and did not fit, since the capture began.
    pub lost: u64,
}

impl MessageHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 12;
}

/// Parsing takes every flag but the first one as absent.
impl Format for MessageHeader {
    const NAME: &'static str = "capture message";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            is_last: raw[0] & 1 != 0,
            lost: u64_at(raw, 4),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[..4].copy_from_slice(&[u8::from(self.is_last), 0, 0, 0]);
        put_u64(raw, 4, self.lost);
    }
}

/// The front of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// When the device received or sent the frame with it, nanoseconds of the machine's monotonic clock.
    pub at_ns: u64,
    /// Which way it went.
    pub direction: Direction,
    /// What it is.
    pub kind: RecordKind,
    /// How many bytes follow.
    pub captured_len: u16,
    /// How many bytes it has on the link.
    pub wire_len: u16,
}

impl PacketHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 16;
}

/// Parsing refuses a direction and a kind that there are not.
impl Format for PacketHeader {
    const NAME: &'static str = "captured packet";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let refused = |what, value: u8| ParseError::BadValue {
            what,
            value: value.into(),
        };
        let direction = match raw[8] {
            1 => Direction::Received,
            2 => Direction::Sent,
            other => return Err(refused("direction of a captured packet", other)),
        };
        let kind = match raw[9] {
            1 => RecordKind::Data,
            2 => RecordKind::FlowControl,
            other => return Err(refused("kind of a captured packet", other)),
        };
        Ok(Self {
            at_ns: u64_at(raw, 0),
            direction,
            kind,
            captured_len: u16_at(raw, 12),
            wire_len: u16_at(raw, 14),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.at_ns);
        raw[8..12].copy_from_slice(&[self.direction as u8, self.kind as u8, 0, 0]);
        put_u16(raw, 12, self.captured_len);
        put_u16(raw, 14, self.wire_len);
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// What is said of it.
    pub header: PacketHeader,
    /// Its first bytes.
    pub bytes: &'a [u8],
}

/// The packets of a message, behind its header. Ends with the first that is damaged.
#[derive(Clone, Debug)]
pub struct CapturedPackets<'a> {
    rest: &'a [u8],
}

impl<'a> CapturedPackets<'a> {
    /// The packets in these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for CapturedPackets<'a> {
    type Item = Result<CapturedPacket<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = core::mem::take(&mut self.rest);
        let (header, behind) = match PacketHeader::parse(frame) {
            Ok(parsed) => parsed,
            Err(error) => return Some(Err(error)),
        };
        let need = usize::from(header.captured_len);
        let Some((bytes, rest)) = behind.split_at_checked(need) else {
            return Some(Err(ParseError::Truncated {
                what: PacketHeader::NAME,
                need,
                have: behind.len(),
            }));
        };
        self.rest = rest;
        Some(Ok(CapturedPacket { header, bytes }))
    }
}

#[cfg(test)]
mod tests;
