//! Whatever the bytes, a link packet parses or is refused; what parses can be looked into.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{DataPacket, FlowControl, Format, UdPacket};

fuzz_target!(|bytes: &[u8]| {
    let _ = FlowControl::parse(bytes);
    if let Ok(packet) = DataPacket::parse(bytes) {
        let _ = (packet.check_vcrc(), packet.check_icrc(), packet.transport());
        let _ = UdPacket::parse(&packet);
    }
});
