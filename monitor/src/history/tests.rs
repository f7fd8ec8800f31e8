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
