use super::*;

fn frame(at_ms: u64, ports: u16, rate: f32, state: u8) -> Frame {
    let point = Point {
        xmit_bytes_per_s: rate,
        state,
        ..Point::default()
    };
    Frame {
        at_ms,
        points: vec![point; usize::from(ports)].into(),
    }
}

#[test]
fn ten_minutes_are_kept_as_they_came_and_an_hour_in_means_of_ten_seconds() {
    let mut history = History::default();
    for second in 1..=7200u16 {
        let state = if second % 600 == 0 { 1 } else { 4 };
        let rate = f32::from(second % 10);
        assert!(history.push_frame(frame(u64::from(second) * 1000, 1, rate, state)));
    }
    assert_eq!(history.last_ms(), Some(7_200_000));
    let fine = history.port(0, 600_000);
    assert_eq!(fine.len(), 601);
    let hour = history.port(0, u64::MAX);
    assert!(hour.is_sorted_by(|a, b| a.0 < b.0), "each moment once");
    assert!(hour[0].0 <= 3_611_000 && hour[0].0 >= 3_600_000);
    let coarse = &hour[..hour.len() - 601];
    assert!((250..=300).contains(&coarse.len()), "{}", coarse.len());
    assert!(
        coarse
            .iter()
            .all(|(_, point)| (3.0..=5.5).contains(&point.xmit_bytes_per_s))
    );
    let down = coarse.iter().filter(|(_, point)| point.state == 1).count();
    assert_eq!(down, 5, "a port that was down for a second of ten shows so");
}

#[test]
fn memory_is_bounded_whatever_the_fabric_and_the_latest_frame_stays() {
    let mut history = History::new(100_000);
    for second in 1..500 {
        assert!(history.push_frame(frame(second * 1000, 300, 1.0, 4)));
        assert!(history.bytes() <= 100_000);
    }
    assert_eq!(history.last_ms(), Some(499_000));
    assert!(history.push_frame(frame(500_000, 30_000, 1.0, 4)));
    assert_eq!(history.len(), 1);
}

#[test]
fn a_clock_that_is_set_back_leaves_samples_out() {
    let mut history = History::default();
    assert!(history.push_frame(frame(5000, 1, 1.0, 4)));
    assert!(!history.push_frame(frame(4000, 1, 1.0, 4)));
    assert!(history.push_frame(frame(6000, 1, 2.0, 4)));
    let at = |ms| history.frame_at(ms).map(|frame| frame.at_ms);
    assert_eq!(
        (at(0), at(5999), at(6000), at(9000)),
        (Some(5000), Some(5000), Some(6000), Some(6000))
    );
}

/// A fabric of one switch with two ports, and two frames of it.
fn small() -> History {
    let json = r#"{"generation":1,"nodes":[{"guid":"0x0000000000000007","system_image_guid":"0x7","name":"s0","kind":"switch",
        "vendor_id":1,"device_id":2,"revision":0,"lid":3,"is_present":true,"first_port":0,"port_count":2}],"ports":[
        {"node":0,"number":0,"guid":"0x7","lid":3,"lmc":0,"state":"active","physical_state":"link-up","width":null,
        "speed":null,"mtu":256,"vls":1,"peer":null},
        {"node":0,"number":1,"guid":"0x7","lid":3,"lmc":0,"state":"down","physical_state":"polling","width":"4x",
        "speed":"edr","mtu":256,"vls":1,"peer":null}]}"#;
    let fabric: Fabric = serde_json::from_str(json).unwrap();
    let mut history = History::default();
    assert!(history.push_frame(frame(1000, 2, 2.5, 4)));
    history.set_fabric(1000, &Arc::new(fabric));
    assert!(history.push_frame(frame(2000, 2, 0.0, 1)));
    history
}

fn written(history: &History) -> Vec<u8> {
    let mut bytes = Vec::new();
    history.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_written_is_read() {
    let history = small();
    let read = History::read(&written(&history)).unwrap();
    assert!(read.frames().eq(history.frames()));
    assert_eq!(read.fabric_at(5000), history.fabric_at(5000));
    assert!(read.fabric_at(5000).is_some());
    assert_eq!(written(&read), written(&history));
}

#[test]
fn a_file_that_is_cut_short_or_damaged_is_refused_with_the_place() {
    let bytes = written(&small());
    for len in 0..bytes.len() {
        match History::read(&bytes[..len]) {
            // Between two chunks it is a shorter history.
            Ok(read) => assert!(read.len() < 2, "{len}"),
            Err(error) => assert!(!matches!(error, HistoryError::Io(_)), "{error}"),
        }
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = History::read(&damaged).expect_err("a check sum covers every byte");
        assert!(!error.to_string().is_empty());
    }
    let error = History::read(b"something else").unwrap_err();
    assert!(error.to_string().contains("no history"), "{error}");
    let error = History::read(&bytes[..bytes.len() - 1]).unwrap_err();
    assert!(error.to_string().contains("truncate --size="), "{error}");
}

#[test]
fn a_recorder_stops_at_its_limit_and_leaves_a_whole_file() {
    let snapshot = |at_ms| Snapshot {
        at_ms,
        ..Snapshot::default()
    };
    let mut recorder = Recorder::new(Vec::new(), 200).unwrap();
    let mut taken = 0;
    let error = loop {
        match recorder.add(&snapshot(1000 + taken)) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, HistoryError::Full { limit: 200 }),
        "{error}"
    );
    let bytes = recorder.finish().unwrap();
    assert!(bytes.len() <= 200);
    assert_eq!(History::read(&bytes).unwrap().len(), taken);
}
