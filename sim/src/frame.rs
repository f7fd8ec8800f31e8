//! The parts of a frame that a device gives: link control first, then a packet if there is one.

/// A frame's link control, and the packet behind it if there is one.
#[inline]
pub(crate) fn split(frame: &[u8]) -> (&[u8], &[u8]) {
    frame.split_at(packet_at(frame).unwrap_or(frame.len()))
}

/// Where in a frame its packet begins: behind all link control.
#[inline]
pub(crate) fn packet_at(frame: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&[kind, _, high, low]) = frame.get(at..)?.first_chunk::<4>() {
        if kind == wire::RecordKind::Data as u8 {
            return Some(at);
        }
        at += 4 + usize::from(u16::from_be_bytes([high, low]));
    }
    None
}

/// How many packets a frame holds: one at most where links have a rate.
pub(crate) fn packets_in(frame: &[u8]) -> u64 {
    let records = wire::Records::new(frame).filter_map(Result::ok);
    let packets = records.filter(|record| record.kind == wire::RecordKind::Data);
    wire::convert::u64_of(packets.count())
}
