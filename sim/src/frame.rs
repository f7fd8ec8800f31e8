//! The parts of a frame that a device gives: link control first, then a packet if there is one.

use wire::convert::u64_of;
use wire::{Delimiter, Format, RecordKind, Records};

/// A frame's link control, and the packet behind it if there is one.
#[inline]
pub(crate) fn split(frame: &[u8]) -> (&[u8], &[u8]) {
    frame.split_at(packet_at(frame).unwrap_or(frame.len()))
}

/// Where in a frame its packet begins: behind all link control.
#[inline]
pub(crate) fn packet_at(frame: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Ok((Delimiter { kind, len }, _)) = Delimiter::parse(frame.get(at..)?) {
        if kind == RecordKind::Data {
            return Some(at);
        }
        at += Delimiter::LEN + usize::from(len);
    }
    None
}

/// How many packets a frame holds: one at most where links have a rate.
pub(crate) fn packets_in(frame: &[u8]) -> u64 {
    let records = Records::new(frame).filter_map(Result::ok);
    let packets = records.filter(|record| record.kind == RecordKind::Data);
    u64_of(packets.count())
}
