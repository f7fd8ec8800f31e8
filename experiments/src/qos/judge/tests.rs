use super::*;
use crate::qos::lists::ByLevel;
use crate::qos::point::Point;
use crate::qos::summary::summaries;

fn plan() -> QosPlan {
    let text = r#"
kind = "qos"
name = "test"
title = "A test"
paper = "VLARB01"
topologies = ["mesh-2x2-1"]
routing = "updn"
packet_bytes = [256]
tries = [8]
retries = 100
warmup_packets = 10
measure_packets = 100
runs = 2
shows = ["throughput", "utilisation", "delays", "jitter", "extremes", "layouts"]
established = [4, 8]
"#;
    let [whole, _] = crate::plan::parameters(text);
    whole
}

fn counts(numbers: &[u64]) -> Counts {
    Counts(numbers.to_vec())
}

fn levels(low: &[u64], high: &[u64]) -> ByLevel {
    ByLevel([counts(low), counts(low), counts(high), counts(high)])
}

/// A run in which everything is as the paper says.
fn sound() -> Point {
    let delays = levels(&[10, 0, 0, 0, 0, 0, 0, 0], &[0, 2, 4, 2, 1, 1, 0, 0]);
    let jitter = [0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0];
    let spread = [0, 1, 1, 1, 1, 2, 1, 1, 1, 1, 0];
    Point {
        topology: "mesh-2x2-1".to_owned(),
        packet_bytes: 256,
        layout: Layout::Contiguous,
        best_effort: BestEffort::Idle,
        tries: 8,
        run: 0,
        seed: 1,
        tried: 8,
        established: 8,
        established_by_sl: counts(&[2, 2, 2, 2]),
        reserved_mean: 0.7,
        reserved_max: 0.8,
        measured_ns: 4000,
        injected: 0.76,
        delivered: 0.76,
        delivered_best_effort: 0.0,
        refused: 0,
        generated_by_sl: counts(&[10, 10, 10, 10]),
        in_flight_by_sl: counts(&[0; 4]),
        delay_mean_iat_ppm_by_sl: counts(&[1000, 1000, 100_000, 100_000]),
        delay_max_iat_ppm_by_sl: counts(&[2000, 2000, 700_000, 700_000]),
        delay_max_ns_by_sl: counts(&[10, 10, 100, 100]),
        best_by_sl: delays.clone(),
        worst_by_sl: delays.clone(),
        delays_by_sl: delays,
        jitter_by_sl: levels(&jitter, &spread),
        best_bps_by_sl: counts(&[1; 4]),
        worst_bps_by_sl: counts(&[1; 4]),
        byte_ns: 4.0,
        // 1,000 bytes are all that a link carries in 4,000 ns.
        host_bytes: counts(&[780, 760]),
        switch_bytes: counts(&[700, 820]),
        traversals: 1,
    }
}

fn failures(points: &[Point]) -> Vec<String> {
    let verdicts = judge(&plan(), &summaries(points));
    let failed = verdicts.into_iter().filter(|v| v.holds == Some(false));
    failed
        .map(|v| format!("{} | {}", v.expected, v.measured))
        .collect()
}

#[test]
fn a_run_that_is_as_the_paper_says_passes() {
    assert_eq!(failures(&[sound()]), [""; 0]);
}

#[test]
fn one_late_packet_of_any_run_fails_its_service_level_alone() {
    let mut second = sound();
    second.run = 1;
    second.delays_by_sl.0[1] = counts(&[9, 1, 0, 0, 0, 0, 0, 0]);
    let failed = failures(&[sound(), second]);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].contains("SL 1 arrive within 1/32 IAT | 95.000 % (1 of 20 later)"));
}

#[test]
fn jitter_beyond_its_bound_and_a_worst_connection_that_is_late_fail() {
    let mut point = sound();
    point.jitter_by_sl.0[0] = counts(&[0, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0]);
    point.jitter_by_sl.0[3] = counts(&[0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1]);
    point.worst_by_sl.0[2] = counts(&[0, 0, 0, 0, 0, 0, 3, 1]);
    let failed = failures(&[point]);
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert!(failed[0].contains("jitter of SL 0") && failed[1].contains("jitter of SL 3"));
    assert!(failed[2].contains("worst connection of SL 2") && failed[2].contains("75.00 %"));
}

#[test]
fn without_two_packets_of_a_connection_nothing_is_said_about_jitter() {
    let mut point = sound();
    point.jitter_by_sl = ByLevel::default();
    let verdicts = judge(&plan(), &summaries(&[point]));
    let about = verdicts.iter().filter(|v| v.expected.contains("jitter"));
    assert!(about.clone().all(|v| v.holds.is_none()) && about.count() == 4);
}

#[test]
fn without_packets_nothing_is_said_about_delays() {
    let mut point = sound();
    point.delays_by_sl.0[0] = Counts::default();
    point.worst_by_sl.0[0] = Counts::default();
    let verdicts = judge(&plan(), &summaries(&[point]));
    let open = verdicts.iter().filter(|v| v.holds.is_none());
    let open: Vec<&str> = open.map(|v| v.expected.as_str()).collect();
    assert!(
        open.iter().any(|said| said.contains("SL 0 arrive within")),
        "{open:?}"
    );
    assert!(
        open.iter()
            .any(|said| said.contains("worst connection of SL 0")),
        "{open:?}"
    );
}

#[test]
fn utilisation_and_the_number_of_connections_are_held_against_their_ranges() {
    let mut point = sound();
    point.established = 3;
    point.host_bytes = counts(&[600, 800]);
    point.delivered = 0.7;
    let failed = failures(&[point]);
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert!(failed[0].contains("4 to 8 connections established | 3"));
    assert!(failed[1].contains("host interfaces") && failed[1].contains("70.0 %"));
    assert!(failed[2].contains("is delivered"));
}

fn backlogged(layout: Layout, late: u64, longest_ns: u64) -> Point {
    let mut point = sound();
    point.layout = layout;
    point.best_effort = BestEffort::Backlogged;
    point.delays_by_sl.0[3] = counts(&[0, 0, 5, 0, 0, 0, 0, late]);
    point.delay_max_ns_by_sl = counts(&[10, 10, longest_ns, longest_ns]);
    point
}

#[test]
fn layouts_are_compared_under_the_same_best_effort() {
    let good = [
        backlogged(Layout::Contiguous, 3, 400),
        backlogged(Layout::Interleaved, 1, 100),
    ];
    assert_eq!(failures(&good), [""; 0]);
    let verdicts = judge(&plan(), &summaries(&good));
    let longest = verdicts
        .iter()
        .find(|v| v.expected.contains("shrinks"))
        .unwrap();
    assert!(longest.measured.contains("SL 3: 4.00"), "{longest:?}");
    let promised = verdicts.iter().filter(|v| v.expected.contains("promised"));
    assert_eq!(promised.count(), 2);
    let bad = [
        backlogged(Layout::Contiguous, 0, 100),
        backlogged(Layout::Interleaved, 0, 100),
    ];
    assert_eq!(failures(&bad).len(), 3);
}
