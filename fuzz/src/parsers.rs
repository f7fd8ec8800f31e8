//! Parsers of packets, frames and topologies.

use wire::udplink::UdpLinkHeader;
use wire::{DataPacket, Delimiter, FlowControl, Format, Records, UdPacket};

/// Whatever the bytes, a link packet parses or is refused; what parses can be looked into.
pub fn packet(bytes: &[u8]) {
    let _ = FlowControl::parse(bytes);
    if let Ok(packet) = DataPacket::parse(bytes) {
        let _ = (packet.check_vcrc(), packet.check_icrc(), packet.transport());
        let _ = UdPacket::parse(&packet);
    }
}

/// The records of a frame never reach past it.
///
/// # Panics
/// If they do.
pub fn records(bytes: &[u8]) {
    let _ = UdpLinkHeader::parse(bytes);
    let records = Records::new(bytes).flatten();
    let total: usize = records
        .map(|record| record.bytes.len() + Delimiter::LEN)
        .sum();
    assert!(total <= bytes.len());
}

/// Any text is a fabric or an error with a line; a fabric survives being written and read again.
///
/// # Panics
/// If it does not.
pub fn topology(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(graph) = topologies::read_text(text) {
        let again = topologies::read_text(&topologies::write_net(&graph));
        assert!(again.is_ok_and(|again| again.links().count() == graph.links().count()));
    }
}
