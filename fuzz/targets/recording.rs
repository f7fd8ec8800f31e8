//! Recordings: whatever the file holds, reading and replaying it ends in order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use link::PortConfig;
use recording::{Header, Kind, begin};
use sim::replay::replay;
use wire::Guid;

/// An item as it stands in a recording, whatever its bytes.
fn item(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("short").to_le_bytes();
    out.extend(length);
    out.extend(crc32fast::hash(&length).to_le_bytes());
    out.extend(crc32fast::hash(bytes).to_le_bytes());
    out.extend(bytes);
}

fn header(host: bool) -> Header {
    let port = PortConfig::default();
    let (name, guid) = ("fuzzed".to_owned(), Guid(1));
    let (kind, config) = if host {
        let config = hostd::HostConfig {
            name: name.clone(),
            guid,
            pid: 1,
            port,
            traffic_tick_ns: 0,
        };
        (Kind::Host, wire::control::encode(&config))
    } else {
        let config = switchd::SwitchConfig {
            name: name.clone(),
            guid,
            ports: 4,
            port,
            timing: switchd::Timing::default(),
        };
        (Kind::Switch, wire::control::encode(&config))
    };
    Header {
        kind,
        name,
        seed: 1,
        config: config.expect("a configuration"),
    }
}

fuzz_target!(|input: (bool, Vec<Vec<u8>>, Vec<u8>)| {
    let (host, entries, rest) = input;
    let _ = replay(&*rest);
    let mut bytes = Vec::new();
    begin(&mut bytes, &header(host)).expect("a header");
    for entry in &entries {
        item(&mut bytes, entry);
    }
    bytes.extend(rest);
    let _ = replay(&*bytes);
});
