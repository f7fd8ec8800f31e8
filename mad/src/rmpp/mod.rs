//! RMPP: reliable transfer of more bytes than a datagram holds (IBA 13.6), without IO, for the
//! datagrams of the classes that foresee it ([`data_offset`]).
//!
//! ```text
//!  Sender                                          Receiver
//!    | segment 1 (first; payload length of all)       |
//!    |----------------------------------------------->|
//!    |<------------------------- ack 1, window to 65  |
//!    | segments 2 .. 65                               |
//!    |----------------------------------------------->|
//!    |<------------------------ ack 65, window to 129 |
//!    |  ...           (a gap: ack of the last before) |
//!    | segment n (last; payload length of it)         |
//!    |----------------------------------------------->|
//!    |<--------------------------------------- ack n  |
//! ```
//!
//! A segment carries the class's header (behind RMPP's; 20 bytes of subnet administration) and records up
//! to the datagram's end; payload lengths count both. The window opens by acknowledgements only; it is 1 at the start.
//! What is not acknowledged within the timeout is sent again from there on; after so many attempts
//! without progress the transfer is aborted. Either side ends a transfer that breaks the rules by
//! an Abort with its reason ([`abort`]); a receiver does so only when a transfer has begun, by a first
//! segment.
//!
//! Left out: double-sided transfers (IBA 13.6.4), which only GetMulti needs.

mod receiver;
mod sender;

use wire::convert::{saturate, usize_of};
use wire::sa::{Rmpp, RmppKind, rmpp_flag};
use wire::{Format, Mad, MadHeader, Method, MgmtClass};

pub use receiver::Receiver;
pub use sender::Sender;

/// Where RMPP's header ends and payload lengths begin to count.
pub const HEADER_END: usize = MadHeader::LEN + Rmpp::LEN;
/// How many segments a receiver lets a sender have under way.
const WINDOW: u32 = 64;
/// The most bytes of records in one transfer: what a table of the largest subnet needs.
pub const PAYLOAD_MAX: usize = 16 << 20;

/// How far a transfer is, at either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Under way.
    Running,
    /// Complete: the last segment is acknowledged, or all records are there.
    Done,
    /// Ended with this status of [`abort`].
    Failed(u8),
}

/// Why a transfer was aborted: RMPPStatus (IBA 13.6.2.1).
pub mod abort {
    /// The receiver or sender has no room (a Stop, not an Abort).
    pub const RESOURCES_EXHAUSTED: u8 = 1;
    /// The transfer took too long.
    pub const TOO_LONG: u8 = 118;
    /// Payload length of the last segment contradicts the first.
    pub const INCONSISTENT_LAST: u8 = 119;
    /// The first segment is not number 1.
    pub const INCONSISTENT_FIRST: u8 = 120;
    /// Unknown kind of packet.
    pub const BAD_TYPE: u8 = 121;
    /// The window shrank.
    pub const WINDOW_TOO_SMALL: u8 = 122;
    /// A segment beyond the window was sent, or one that was never sent was acknowledged.
    pub const SEGMENT_TOO_BIG: u8 = 123;
    /// An illegal status.
    pub const ILLEGAL_STATUS: u8 = 124;
    /// Another version of RMPP.
    pub const BAD_VERSION: u8 = 125;
    /// Sent too often without an answer.
    pub const TOO_MANY_RETRIES: u8 = 126;
    /// Anything else.
    pub const UNSPECIFIED: u8 = 127;
}

/// Where the records of a class with RMPP begin in a datagram; `None` of a class without RMPP.
#[must_use]
pub const fn data_offset(class: MgmtClass) -> Option<usize> {
    match class {
        MgmtClass::SUBN_ADM => Some(56),
        MgmtClass::DEV_MGT | MgmtClass::DEV_ADM | MgmtClass::BIS => Some(64),
        MgmtClass(0x30..=0x4f) => Some(40),
        _ => None,
    }
}

/// How the datagrams of a transfer are laid out.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Where the records begin.
    at: usize,
}

impl Layout {
    /// Of a class without RMPP the one without a header of its own.
    fn of(class: MgmtClass) -> Self {
        Self {
            at: data_offset(class).unwrap_or(HEADER_END),
        }
    }

    /// Bytes of records in a datagram.
    const fn data_len(self) -> usize {
        Mad::LEN - self.at
    }

    /// Bytes of each segment's payload that are the class's header.
    fn class_header(self) -> u32 {
        saturate::<u32>(self.at - HEADER_END)
    }

    /// Bytes of records in a transfer whose first segment states this payload length.
    fn records_of(self, payload: u32) -> usize {
        let segment = saturate::<u32>(Mad::LEN - HEADER_END);
        let segments = payload.div_ceil(segment);
        usize_of(payload.saturating_sub(segments * self.class_header()))
    }

    fn segments_of(self, len: usize) -> u32 {
        saturate::<u32>(len.div_ceil(self.data_len()).max(1))
    }

    fn data(self, mad: &Mad) -> &[u8] {
        &mad.as_bytes()[self.at..]
    }
}

/// The RMPP header of a datagram, if RMPP is in use in it. Of a class without RMPP it means nothing.
#[must_use]
pub fn header(mad: &Mad) -> Option<Rmpp> {
    let (rmpp, _) = Rmpp::parse(&mad.as_bytes()[MadHeader::LEN..]).ok()?;
    (rmpp.flags & rmpp_flag::ACTIVE != 0).then_some(rmpp)
}

fn set_header(mad: &mut Mad, rmpp: &Rmpp) {
    rmpp.emit(&mut mad.as_bytes_mut()[MadHeader::LEN..]);
}

/// A datagram of one segment as one without RMPP.
#[must_use]
pub fn without(mad: &Mad) -> Mad {
    let mut plain = *mad;
    plain.as_bytes_mut()[MadHeader::LEN..HEADER_END].fill(0);
    plain
}

/// Whether a datagram controls a transfer (acknowledges, stops or aborts) and carries no records.
#[must_use]
pub fn is_control(mad: &Mad) -> bool {
    header(mad).is_some_and(|rmpp| rmpp.kind != RmppKind::Data)
}

/// A control packet for the other side of the transfer that `mad` belongs to. The class's header stays: of
/// a vendor's class it holds the OUI, which is part of what the other side finds the transfer by.
fn control(mad: &Mad, turned: bool, kind: RmppKind, status: u8, data: (u32, u32)) -> Mad {
    let mut packet = *mad;
    if turned {
        packet.set_method(Method(mad.method().0 ^ 0x80));
    }
    packet.as_bytes_mut()[Layout::of(mad.class()).at..].fill(0);
    set_header(
        &mut packet,
        &Rmpp {
            version: Rmpp::VERSION,
            kind,
            resp_time: Rmpp::RESP_TIME_NONE,
            flags: rmpp_flag::ACTIVE,
            status,
            data1: data.0,
            data2: data.1,
        },
    );
    packet
}

#[cfg(test)]
mod tests;
