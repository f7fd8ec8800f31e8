//! RMPP: reliable transfer of more bytes than a datagram holds (IBA 13.6), without IO, for the
//! datagrams of subnet administration.
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
//! A segment carries the class's header (20 bytes behind RMPP's) and up to 200 bytes of records;
//! payload lengths count both. The window opens by acknowledgements only; it is 1 at the start.
//! What is not acknowledged within the timeout is sent again from there on; after so many attempts
//! without progress the transfer is aborted. Either side ends a transfer that breaks the rules by
//! an Abort with its reason ([`abort`]).
//!
//! Left out: double-sided transfers (IBA 13.6.4), which only GetMulti needs.

mod receiver;
mod sender;

use wire::convert::saturate;
use wire::sa::{DATA_LEN, Rmpp, RmppKind, SaHeader, rmpp_flag};
use wire::{Mad, Method};

pub use receiver::Receiver;
pub use sender::Sender;

/// Bytes of each segment's payload that are the class's header.
const CLASS_HEADER: u32 = 20;
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

/// The RMPP header of a datagram, if RMPP is in use in it.
#[must_use]
pub fn header(mad: &Mad) -> Option<Rmpp> {
    let rmpp = mad.sa_header().ok()?.rmpp;
    (rmpp.flags & rmpp_flag::ACTIVE != 0).then_some(rmpp)
}

/// Whether a datagram controls a transfer (acknowledges, stops or aborts) and carries no records.
#[must_use]
pub fn is_control(mad: &Mad) -> bool {
    header(mad).is_some_and(|rmpp| rmpp.kind != RmppKind::Data)
}

/// A control packet for the other side of the transfer that `mad` belongs to.
fn control(mad: &Mad, turned: bool, kind: RmppKind, status: u8, data: (u32, u32)) -> Mad {
    let mut header = mad.header();
    if turned {
        header.method = Method(header.method.0 ^ 0x80);
    }
    let mut packet = Mad::new(&header);
    packet.set_sa_header(&SaHeader {
        rmpp: Rmpp {
            version: Rmpp::VERSION,
            kind,
            resp_time: Rmpp::RESP_TIME_NONE,
            flags: rmpp_flag::ACTIVE,
            status,
            data1: data.0,
            data2: data.1,
        },
        ..SaHeader::default()
    });
    packet
}

fn segments_of(len: usize) -> u32 {
    saturate::<u32>(len.div_ceil(DATA_LEN).max(1))
}

#[cfg(test)]
mod tests;
