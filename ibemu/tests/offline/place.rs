//! `ibemu place`: what would run where.

use std::collections::BTreeSet;

use crate::{as_text, failed, file, is_golden, json, printed};

#[test]
fn parts_and_cut_cables_are_shown() {
    let found = printed(&["place", "ring-5-1", "-N", "2", "--cpus", "3,2"]);
    is_golden("ring-5-1.place", &found);
}

#[test]
fn json_has_every_device_once_and_the_cables_that_are_cut() {
    let report = json(&["place", "fat-tree-4-3", "-N", "3", "--json"]);
    let machines = report["machines"].as_array().unwrap();
    let devices = machines
        .iter()
        .flat_map(|machine| machine["devices"].as_array().unwrap());
    let devices: Vec<&str> = devices.map(|name| name.as_str().unwrap()).collect();
    let each: BTreeSet<&str> = devices.iter().copied().collect();
    assert_eq!((devices.len(), each.len()), (36, 36));
    for cut in report["cut"].as_array().unwrap() {
        assert_ne!(cut["machines"][0], cut["machines"][1]);
    }
    let text = printed(&["place", "fat-tree-4-3", "-N", "3"]);
    let cut = text.lines().filter(|line| line.starts_with("cut ")).count();
    assert_eq!(report["cut"].as_array().unwrap().len(), cut);
}

#[test]
fn lines_are_read_back_and_can_be_changed() {
    let lines = printed(&["place", "ring-5-1", "-N", "2", "--lines"]);
    let (_folder, path) = file("placement", &lines);
    let by_hand = [
        "place",
        "ring-5-1",
        "-N",
        "2",
        "--placement",
        as_text(&path),
        "--lines",
    ];
    assert_eq!(printed(&by_hand), lines);
}

#[test]
fn what_cannot_be_placed_is_refused_in_one_line() {
    let (_folder, path) = file("placement", "0 s*\n7 h3\n");
    let wrong = [
        "place",
        "ring-5-1",
        "-N",
        "2",
        "--placement",
        as_text(&path),
    ];
    for (line, code, part) in [
        (&wrong[..], 1, "line 2: there is no machine 7"),
        (
            &["place", "ring-5-1", "-N", "2", "--placement", "/none"],
            1,
            "cannot read /none",
        ),
        (
            &["place", "star-3", "-N", "2"],
            1,
            "hosts stay on the machine of their switch",
        ),
        (
            &["place", "ring-5-1", "-N", "3", "--cpus", "1,2"],
            2,
            "--cpus has 2 numbers",
        ),
        (&["place", "ring-5-1", "-N", "0"], 2, "1..=1024"),
        (&["place", "ring-5-1"], 2, "--nodes"),
    ] {
        let (found, message) = failed(line);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(part), "{message}");
    }
}
