//! One management packet in and its answer out, at a device that nothing else happens to.

use link::{FrameBuf, Time};
use wire::packet::MAD_PACKET_LEN;
use wire::{DataPacket, Delimiter, Format, Lid, Mad, PortNum, RecordKind, Records, UdPacket};

use crate::node::Node;

/// Room of a frame with an answer.
const FRAME_BYTES: usize = 1024;
/// How often an answer is looked for.
const ATTEMPTS: u32 = 8;

/// Hands `mad` to a device on port `entry_port` and takes the answer that comes back there; `None`
/// if none comes. The device's present, `now`, moves on by `step_ns` at a time. Link control that
/// leaves by the port meanwhile is added to `control`.
pub(crate) fn exchange(
    node: &mut Node,
    now: &mut Time,
    step_ns: u64,
    entry_port: PortNum,
    mad: &Mad,
    control: &mut Vec<u8>,
) -> Option<Mad> {
    let mut record = [0; Delimiter::LEN + MAD_PACKET_LEN];
    let (delimiter, packet) = record.split_at_mut(Delimiter::LEN);
    Delimiter {
        kind: RecordKind::Data,
        len: u16::try_from(MAD_PACKET_LEN).ok()?,
    }
    .emit(delimiter);
    UdPacket::smp(Lid::PERMISSIVE, Lid::PERMISSIVE, mad)
        .emit(packet)
        .ok()?;
    *now = *now + step_ns;
    node.frame(*now, entry_port, (*now, *now), &record);
    let mut memory = [0; FRAME_BYTES];
    for _ in 0..ATTEMPTS {
        let mut frame = FrameBuf::new(&mut memory, usize::MAX);
        node.transmit(*now, entry_port, &mut frame);
        let (link_control, packet) = crate::frame::split(frame.as_bytes());
        control.extend_from_slice(link_control);
        if let Some(answer) = answer_in(packet, mad.tid()) {
            return Some(answer);
        }
        *now = *now + step_ns;
        node.tick(*now);
    }
    None
}

fn answer_in(frame: &[u8], tid: u64) -> Option<Mad> {
    Records::new(frame)
        .filter_map(Result::ok)
        .filter(|record| record.kind == RecordKind::Data)
        .filter_map(|record| DataPacket::parse(record.bytes).ok())
        .filter_map(|packet| UdPacket::parse(&packet).ok()?.mad().ok())
        .find(|answer| answer.tid() == tid)
}
