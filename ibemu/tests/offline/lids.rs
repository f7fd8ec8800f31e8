//! `ibemu lids`.

use crate::{failed, ibemu, is_golden, json, printed};

const ALL: &str =
    "greedy,split-merge-s,split-merge-l,color-s,color-l,exact,fully-explicit,renaming";

#[test]
fn every_assignment_has_a_line() {
    let text = printed(&["lids", "irregular-8-2-4-1", "--assign", ALL]);
    is_golden("irregular-8-2-4-1.lids", &text);
}

#[test]
fn json_has_sum_lids_by_destination_and_load() {
    let report = json(&[
        "lids",
        "irregular-8-2-4-1",
        "--paths",
        "shortest-widest",
        "--assign",
        "color-l,fully-explicit",
        "--json",
    ]);
    assert_eq!(report["hosts"], 16);
    for scheme in report["schemes"].as_array().unwrap() {
        let destinations = scheme["destinations"].as_object().unwrap();
        let counts = destinations.values().map(|count| count.as_u64().unwrap());
        let sum: u64 = counts.map(u64::next_power_of_two).sum();
        assert_eq!(scheme["lids"], sum);
        let (flows, load) = (&scheme["flows_max"], &scheme["load_max"]);
        assert_eq!(flows.as_f64().unwrap() / 15.0, load.as_f64().unwrap());
    }
    assert_eq!(report["schemes"][1]["lids"], 16);
}

#[test]
fn names_that_are_not_there_are_refused_with_those_that_are() {
    let (code, message) = failed(&["lids", "star-2", "--assign", "colour"]);
    assert_eq!(code, 2);
    assert!(
        message.contains("color-l") && message.contains("renaming"),
        "{message}"
    );
    assert_eq!(
        ibemu(&["lids", "star-2", "--paths", "x"]).status.code(),
        Some(2)
    );
}
