//! Recordings of switches and hosts.

use link::Time;
use recording::{End, Entry, Header, Kind, begin};
use sim::replay::replay;
use wire::PortNum;
use wire::control::encode;

use super::{host, switch};
use crate::Parts;

/// An item as it stands in a recording, whatever its bytes.
fn item(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("short").to_le_bytes();
    out.extend(length);
    out.extend(crc32fast::hash(&length).to_le_bytes());
    out.extend(crc32fast::hash(bytes).to_le_bytes());
    out.extend(bytes);
}

/// The configuration of a host or a switch as it stands in a header.
fn configuration(host: bool) -> Vec<u8> {
    let encoded = match host {
        true => encode(&host::config()),
        false => encode(&switch::config()),
    };
    encoded.expect("a short message")
}

/// A recording of a host, or of a switch, with this configuration and with these parts as items.
fn recorded<'a>(host: bool, config: Vec<u8>, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let header = Header {
        kind: if host { Kind::Host } else { Kind::Switch },
        name: "fuzzed".to_owned(),
        config,
    };
    let mut bytes = Vec::new();
    begin(&mut bytes, &header).expect("a header");
    for part in parts {
        item(&mut bytes, part);
    }
    bytes
}

/// Recordings: whatever the file holds, reading and replaying it ends in order. The bytes are taken
/// as a file. Behind the first one, which says whether of a host and whether the first part is the
/// configuration, they are also taken as the items of one.
pub(crate) fn recording(bytes: &[u8]) {
    let _ = replay(bytes);
    let Some((&kind, rest)) = bytes.split_first() else {
        return;
    };
    let host = kind & 1 == 1;
    let mut parts = Parts::of(rest);
    let config = match kind & 2 {
        0 => configuration(host),
        _ => parts.next().unwrap_or_default().to_vec(),
    };
    let _ = replay(&*recorded(host, config, parts));
}

/// Recordings: whole, and as items behind the kind of a device.
pub(crate) fn recordings() -> Vec<Vec<u8>> {
    let now = Time(1).0;
    let port = PortNum::new(1);
    let entries: Vec<Entry<'_, switchd::Command>> = vec![
        Entry::Carrier {
            now,
            port,
            up: true,
        },
        Entry::Pull {
            now,
            port,
            room: (2000, 8),
            records: 1,
            bytes: vec![3, 0].into(),
        },
        Entry::Frame {
            now: now + 5,
            port,
            ago: (1, 0),
            bytes: vec![4, 0, 0, 0].into(),
        },
        Entry::Tick { now: now + 9 },
        Entry::Event {
            bytes: vec![0].into(),
        },
        Entry::End(End::Closed),
    ];
    let parts: Vec<Vec<u8>> = entries
        .iter()
        .map(|entry| encode(entry).expect("an entry"))
        .collect();
    let whole = |host| recorded(host, configuration(host), parts.iter().map(Vec::as_slice));
    let items = |kind: u8| {
        let config = configuration(kind & 1 == 1);
        let config = core::iter::once(config).filter(|_| kind & 2 == 2);
        [
            &[kind][..],
            &Parts::join(config.chain(parts.iter().cloned())),
        ]
        .concat()
    };
    let mut inputs = vec![whole(false), whole(true)];
    inputs.extend((0..4).map(items));
    inputs
}
