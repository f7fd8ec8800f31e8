//! Whole devices: frames into a switch, recordings of switches and hosts.

use link::{Device, FrameBuf, Input, PortConfig, Time};
use recording::{Header, Kind, begin};
use sim::replay::replay;
use switchd::{Switch, SwitchConfig, Timing};
use wire::{Guid, PortNum};

use crate::Parts;

/// Ports of the switch.
pub(crate) const PORTS: u8 = 4;

/// Bytes of a part of [`switch`] in front of the frame.
const STEP_HEAD: usize = 3;

fn config() -> SwitchConfig {
    SwitchConfig {
        name: "fuzzed".into(),
        guid: Guid(1),
        ports: PORTS,
        port: PortConfig::default(),
        timing: Timing::default(),
    }
}

/// Lets a switch do all that it wants to do at `now`.
fn run(switch: &mut Switch, now: Time, memory: &mut [u8]) {
    switch.handle(now, Input::Tick);
    for port in switch.ready(now).iter() {
        let mut frame = FrameBuf::new(memory, 1024);
        let _ = switch.transmit(now, port, &mut frame);
    }
    while switch.poll_event().is_some() {}
}

/// A sequence of frames on the ports of a switch: no panic, and nothing stays inside once the
/// cables are pulled. A part is a port, how long after the one before (two bytes, microseconds),
/// and a frame.
///
/// # Panics
/// If something stays.
pub fn switch(bytes: &[u8]) {
    let mut switch = Switch::new(&config()).expect("a valid switch");
    let mut now = Time(1);
    for port in (1..=PORTS).map(PortNum::new) {
        switch.handle(now, Input::Carrier { port, up: true });
    }
    let mut memory = vec![0; 65_536];
    for part in Parts::of(bytes) {
        let Some((&[port, high, low], bytes)) = part.split_first_chunk::<STEP_HEAD>() else {
            continue;
        };
        now = now + u64::from(u16::from_be_bytes([high, low])) * 1000;
        let port = PortNum::new(port % (PORTS + 2));
        let input = Input::Frame {
            port,
            head: now,
            tail: now,
            bytes,
        };
        switch.handle(now, input);
        run(&mut switch, now, &mut memory);
    }
    for port in (1..=PORTS).map(PortNum::new) {
        switch.handle(now, Input::Carrier { port, up: false });
    }
    run(&mut switch, now, &mut memory);
    assert_eq!(switch.packets_inside(), 0, "nothing stays");
}

/// An item as it stands in a recording, whatever its bytes.
fn item(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("short").to_le_bytes();
    out.extend(length);
    out.extend(crc32fast::hash(&length).to_le_bytes());
    out.extend(crc32fast::hash(bytes).to_le_bytes());
    out.extend(bytes);
}

fn header(host: bool) -> Header {
    let switch = config();
    let name = switch.name.clone();
    let (kind, config) = if host {
        let config = hostd::HostConfig {
            name: name.clone(),
            guid: switch.guid,
            pid: 1,
            port: switch.port,
            traffic_tick_ns: 0,
        };
        (Kind::Host, wire::control::encode(&config))
    } else {
        (Kind::Switch, wire::control::encode(&switch))
    };
    Header {
        kind,
        name,
        config: config.expect("a configuration"),
    }
}

/// A recording with the header of a switch, or of a host, and with these parts as items.
pub(crate) fn recorded<'a>(host: bool, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(&mut bytes, &header(host)).expect("a header");
    for part in parts {
        item(&mut bytes, part);
    }
    bytes
}

/// Recordings: whatever the file holds, reading and replaying it ends in order. The bytes are taken
/// as a file; behind the first one, which says whether of a host, also as the items of one.
pub fn recording(bytes: &[u8]) {
    let _ = replay(bytes);
    if let Some((&kind, rest)) = bytes.split_first() {
        let _ = replay(&*recorded(kind & 1 == 1, Parts::of(rest)));
    }
}
