//! What happens, as the page lists it.

use std::collections::BTreeMap;

use monitor::events::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::choice::Choice as _;

use super::map::Map;
use super::sample::{Sample, state_name};
use super::site::now_ms;

/// Something that has happened: what `ibemu events --json` prints, and the cable on the map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Event {
    /// When, milliseconds since 1970.
    pub(super) at_ms: u64,
    /// What sort of thing: `link`, `device`, or what the fabric's event stream calls it.
    pub(super) kind: String,
    /// What happened, in words.
    pub(super) text: String,
    /// The device that it is about, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<String>,
    /// The port of that device that it is about, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u8>,
    /// The position of the cable that it is about, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cable: Option<usize>,
    /// The same for programs, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fields: BTreeMap<String, Value>,
}

impl Event {
    /// What the server itself has to say.
    pub(super) fn of_server(kind: &str, text: String) -> Self {
        Self {
            at_ms: now_ms(),
            kind: kind.to_owned(),
            text,
            ..Self::default()
        }
    }

    /// What the stream of a fabric's events tells, with the cable of its port.
    pub(super) fn heard(map: &Map, event: monitor::events::Event) -> Self {
        let device = event.device.as_deref();
        let device = device.and_then(|name| map.devices.iter().position(|it| it.name == name));
        let end = device.zip(event.port);
        let end = end.map(|(node, port)| crate::state::End { node, port });
        let at = |end| {
            map.cables
                .iter()
                .position(|cable| cable.ends().contains(&end))
        };
        Self {
            at_ms: event.at_ms,
            kind: event.kind.name().to_owned(),
            text: event.text,
            device: event.device,
            port: event.port,
            cable: end.and_then(at),
            fields: event.fields,
        }
    }
}

/// What has changed from one sample to the next.
pub(super) fn between(map: &Map, before: &Sample, after: &Sample) -> Vec<Event> {
    let mut events = Vec::new();
    let cables = before.state.iter().zip(&after.state);
    for (cable, (before, after)) in cables.enumerate() {
        if before != after {
            let [a, b] = map.cables[cable].ends().map(|end| {
                let name = &map.devices[end.node].name;
                format!("{name}:{}", end.port)
            });
            let (before, after_name) = (state_name(*before), state_name(*after));
            events.push(Event {
                kind: Kind::Link.name().to_owned(),
                text: format!("the cable {a} - {b} is {after_name}, was {before}"),
                cable: Some(cable),
                ..Event::default()
            });
        }
    }
    let devices = before.present.iter().zip(&after.present);
    for (device, (before, after)) in devices.enumerate() {
        if before != after {
            let name = map.devices[device].name.clone();
            let what = if *after == 1 { "is in" } else { "has left" };
            events.push(Event {
                kind: Kind::Device.name().to_owned(),
                text: format!("{name} {what} the subnet"),
                device: Some(name),
                ..Event::default()
            });
        }
    }
    for event in &mut events {
        event.at_ms = after.at_ms;
    }
    events
}
