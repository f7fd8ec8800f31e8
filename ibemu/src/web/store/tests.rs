//! Histories as they are written, cut off and damaged.

use super::super::map::{Cable, Device};
use super::*;

fn map() -> Map {
    let device = |name: &str| Device {
        name: name.to_owned(),
        kind: "host".to_owned(),
        guid: "0x1".to_owned(),
        ports: 1,
        x: 0.0,
        y: 0.0,
    };
    Map {
        fabric: "ib".to_owned(),
        topology: "t".to_owned(),
        arrangement: "forces".to_owned(),
        time_scale: 100.0,
        devices: vec![device("h0"), device("h1")],
        cables: vec![Cable {
            a: 0,
            a_port: 1,
            b: 1,
            b_port: 1,
            bend: 0.0,
        }],
    }
}

fn sample(at_ms: u64) -> Sample {
    Sample {
        at_ms,
        state: vec![4],
        load: vec![[1, 2]],
        wait: vec![[0, 0]],
        errors: vec![0.5],
        present: vec![1, 1],
        failure: None,
    }
}

fn event() -> Event {
    Event {
        at_ms: 2,
        kind: "link".to_owned(),
        text: "x".to_owned(),
        device: None,
        cable: Some(0),
    }
}

/// What a recorder writes of two samples and an event.
fn written() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut recorder = Recorder::create(&path, &map()).unwrap();
    recorder.sample(&sample(1)).unwrap();
    recorder.event(&event()).unwrap();
    recorder.sample(&sample(3)).unwrap();
    let again = Recorder::create(&path, &map()).unwrap_err().to_string();
    assert!(again.contains("is there already"), "{again}");
    std::fs::read(&path).unwrap()
}

#[test]
fn what_was_written_is_read_and_what_was_cut_off_is_left_out() {
    let written = written();
    let read = Stored::parse(&written[..]).unwrap();
    assert_eq!(read.map, map());
    assert_eq!(read.samples, [sample(1), sample(3)]);
    assert_eq!(read.events, [event()]);
    let cut = Stored::parse(&written[..written.len() - 5]).unwrap();
    assert_eq!(cut.samples, [sample(1)]);
}

#[test]
fn what_does_not_fit_the_map_or_the_order_of_time_is_refused_with_its_line() {
    let header = Header {
        ibemu_history: VERSION,
        map: map(),
    };
    let history = |entries: &[Entry]| {
        let mut text = serde_json::to_string(&header).unwrap() + "\n";
        for entry in entries {
            text += &(serde_json::to_string(entry).unwrap() + "\n");
        }
        let error = Stored::parse(text.as_bytes()).unwrap_err();
        format!("{error:#}")
    };
    let twice = history(&[Entry::Sample(sample(1)), Entry::Sample(sample(1))]);
    assert!(
        twice.contains("line 3: a sample that is not later"),
        "{twice}"
    );
    let mut short = sample(1);
    short.load.clear();
    let short = history(&[Entry::Sample(short)]);
    assert!(short.contains("line 2: a sample of"), "{short}");
    assert!(history(&[]).contains("no sample"));
    let mut wrong = header.map.clone();
    wrong.cables[0].b = 2;
    let wrong = check(&wrong).unwrap_err().to_string();
    assert!(wrong.contains("cable 0"), "{wrong}");
}

#[test]
fn a_damaged_byte_anywhere_is_refused_or_read_and_never_a_panic() {
    let written = written();
    for at in 0..written.len() {
        for byte in [b'\n', b'"', b'}', b'9', 0xff] {
            let mut damaged = written.clone();
            damaged[at] = byte;
            if let Ok(stored) = Stored::parse(&damaged[..]) {
                assert!(
                    stored
                        .samples
                        .iter()
                        .all(|sample| sample.load.len() == stored.map.cables.len())
                );
            }
        }
    }
}
