//! The records of a frame never reach past it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Format, Records, udplink::UdpLinkHeader};

fuzz_target!(|bytes: &[u8]| {
    let _ = UdpLinkHeader::parse(bytes);
    let total: usize = Records::new(bytes).flatten().map(|record| record.bytes.len() + 4).sum();
    assert!(total <= bytes.len());
});
