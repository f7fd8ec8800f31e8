use std::fs;

use crate::qos::BestEffort;
use crate::{Options, Plan, Results, run};

const WORK: &str = r#"
kind = "qos"
name = "small"
title = "A small plan"
paper = "VLARB01"
topologies = ["mesh-2x1-2"]
routing = "updn"
packet_bytes = [256]
layouts = ["contiguous", "interleaved"]
best_effort = ["idle", "backlogged"]
tries = [8, 24]
retries = 20
warmup_packets = 100
measure_packets = 400
runs = 1
shows = ["throughput", "utilisation", "delays", "jitter", "extremes", "layouts"]
"#;

const TABLES: &str = r#"
kind = "admission"
name = "small"
title = "Small tables"
paper = "VLARB01"
topologies = ["mesh-2x1-2"]
routing = "updn"
retries = 20
runs = 2

[[rates]]
rate = "1x"
table = "Table 2"
tries = [8, 4000]
"#;

/// The bytes of the CSV, the JSON and the report, and what was found.
fn attempt(text: &str, threads: usize) -> (Vec<String>, Results) {
    let plan = Plan::parse("small.toml", text).unwrap();
    let options = Options {
        quick: false,
        seed: 7,
        threads,
    };
    let out = tempfile::tempdir().unwrap();
    let results = run(&plan, options, out.path(), &|_, _| {}).unwrap();
    let files = results.files.iter();
    let texts = files.map(|file| fs::read_to_string(file).unwrap());
    (texts.collect(), results)
}

#[test]
fn both_kinds_of_plans_give_the_same_bytes_on_any_number_of_threads() {
    for text in [WORK, TABLES] {
        let (one, results) = attempt(text, 1);
        let (four, _) = attempt(text, 4);
        assert_eq!(one, four);
        assert_eq!(one[0].lines().count(), results.points + 1);
        assert!(one[2].contains("<table>") && !one[2].contains("NaN"));
    }
}

#[test]
fn best_effort_takes_what_connections_leave_and_no_more() {
    let (texts, _) = attempt(WORK, 2);
    let mut reader = csv::Reader::from_reader(texts[0].as_bytes());
    let points = reader
        .deserialize()
        .collect::<Result<Vec<super::Point>, _>>();
    let points = points.unwrap();
    assert_eq!(points.len(), 8);
    for point in &points {
        let is_backlogged = point.best_effort == BestEffort::Backlogged;
        assert_eq!(
            point.delivered_best_effort > 0.2,
            is_backlogged,
            "{point:?}"
        );
        assert!(
            point.delivered + point.delivered_best_effort <= 1.0,
            "{point:?}"
        );
        assert_eq!(point.refused, 0, "{point:?}");
        // A turn of best effort takes longer than this run: connections wait behind it.
        let lost = 1.0 - point.delivered / point.injected;
        assert!(is_backlogged || lost.abs() < 0.05, "{point:?}");
    }
    // Layouts have the same connections, so idle links carry the same traffic.
    assert_eq!(points[0].generated_by_sl, points[2].generated_by_sl);
}
