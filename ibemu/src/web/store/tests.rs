//! Histories as they are written, cut off and damaged.

use std::sync::Arc;

use monitor::model::Fabric;

use super::super::map::{Cable, Device};
use super::*;

/// Two hosts with a cable, whose ports are those of [`snapshot`].
fn map() -> Map {
    let device = |name: &str, guid: u64| Device {
        name: name.to_owned(),
        kind: "host".to_owned(),
        guid: wire::Guid(guid).to_string(),
        ports: 1,
        x: 0.0,
        y: 0.0,
    };
    Map {
        fabric: "ib".to_owned(),
        topology: "t".to_owned(),
        arrangement: "forces".to_owned(),
        time_scale: 100.0,
        vls: 4,
        devices: vec![device("h0", 1), device("h1", 2)],
        cables: vec![Cable {
            a: 0,
            a_port: 1,
            b: 1,
            b_port: 1,
            bend: 0.0,
        }],
    }
}

/// A sample of the two, their cable Active or Down.
fn snapshot(at_ms: u64, is_active: bool) -> Snapshot {
    let node = |guid: u64, place: usize| {
        serde_json::json!({
            "guid": wire::Guid(guid).to_string(), "system_image_guid": wire::Guid(guid).to_string(),
            "name": format!("h{place}"), "kind": "host", "vendor_id": 0, "device_id": 0, "revision": 0, "lid": place + 1,
            "is_present": true, "first_port": place, "port_count": 1,
        })
    };
    let port = |place: usize| {
        serde_json::json!({
            "node": place, "number": 1, "guid": wire::Guid(9).to_string(), "lid": place + 1, "lmc": 0,
            "state": if is_active { "active" } else { "down" }, "physical_state": "link-up", "width": null, "speed": null,
            "mtu": 2048, "vls": 1, "peer": null,
        })
    };
    let fabric = serde_json::json!({
        "generation": u64::from(!is_active), "nodes": [node(1, 0), node(2, 1)], "ports": [port(0), port(1)],
    });
    Snapshot {
        at_ms,
        fabric: Arc::new(serde_json::from_value::<Fabric>(fabric).unwrap()),
        ..Snapshot::default()
    }
}

/// What is written of a cable that is pulled, with these events.
fn written_with(events: &[Event]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut recording = Recording::create(&path, &map()).unwrap();
    recording.add(&snapshot(1000, true), &[]).unwrap();
    recording.add(&snapshot(2000, false), events).unwrap();
    let again = Recording::create(&path, &map()).unwrap_err().to_string();
    assert!(again.contains("is there already"), "{again}");
    std::fs::read(&path).unwrap()
}

fn written() -> Vec<u8> {
    written_with(&[])
}

#[test]
fn events_are_stored_as_they_were_heard_and_name_no_cable_that_is_not_there() {
    let event = |cable| Event {
        at_ms: 1500,
        kind: "trap".to_owned(),
        text: "a trap".to_owned(),
        device: Some("h0".to_owned()),
        port: Some(1),
        cable: Some(cable),
        fields: [("number".to_owned(), 128.into())].into(),
    };
    let stored = Stored::parse(&written_with(&[event(0), event(7)])).unwrap();
    let without = Event {
        cable: None,
        ..event(7)
    };
    assert_eq!(stored.events, [event(0), without]);
}

#[test]
fn a_recording_has_its_map_its_samples_and_what_changed_between_them() {
    let stored = Stored::parse(&written()).unwrap();
    assert_eq!(stored.map, map());
    assert_eq!(stored.history.len(), 2);
    let texts: Vec<&str> = stored.events.iter().map(|event| &*event.text).collect();
    assert_eq!(texts, ["the cable h0:1 - h1:1 is Down, was Active"]);
    assert_eq!(stored.events[0].at_ms, 2000);
}

#[test]
fn what_is_no_recording_of_the_page_is_refused_with_the_reason() {
    let written = written();
    let problem = |bytes: &[u8]| format!("{:#}", Stored::parse(bytes).unwrap_err());
    assert!(problem(b"").contains("no history of ibemu"));
    assert!(problem(&written[..written.len() - 1]).contains("cut short"));
    let mut damaged = written.clone();
    damaged[40] ^= 1;
    assert!(problem(&damaged).contains("damaged: the chunk at byte 12"));
    let file = |about: Option<serde_json::Value>| {
        let mut recorder = Recorder::new(Vec::new(), u64::MAX).unwrap();
        if let Some(about) = about {
            recorder.about(&about).unwrap();
        }
        recorder.finish().unwrap()
    };
    assert!(problem(&file(None)).contains("it has no map"));
    assert!(problem(&file(Some(serde_json::json!([])))).contains("its map is not one"));
    let mut wrong = map();
    wrong.cables[0].b = 2;
    let about = |map: &Map| Some(serde_json::to_value(map).unwrap());
    assert!(problem(&file(about(&wrong))).contains("cable 0"));
    assert!(problem(&file(about(&map()))).contains("no sample"));
}
