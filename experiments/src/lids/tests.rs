use std::fs;

use routing::network::Network;

use super::LidsPlan;
use super::Point;
use super::reading::{Cables, Hosts, Interpretation, Root};
use super::size::Size;
use crate::experiment::Experiment;
use crate::figure::Figure;
use crate::plan::Plan;
use crate::{Options, run};

const TEXT: &str = r#"
kind = "lids"
name = "test"
title = "A test"
paper = "LID07"
measures = ["lids", "load"]
sizes = ["16/8", "32/8"]
degree = 3
graphs = 2

[[scheme]]
name = "renaming"
routing = "shortest-widest"
assign = "greedy"

[[scheme]]
name = "separate"
routing = "path-selection"
assign = "color-l"

[[reference]]
size = "16/8"
lids = [40, 36]
load = [2.0, 1.5]

[[band]]
size = "16/8"
measure = "lids"
of = "separate"
over = "renaming"
min = 0.8
max = 1.0

[[order]]
says = "better"
measure = "load"
least = "separate"
than = ["renaming"]

[quick]
sizes = ["16/8"]
"#;

fn plan(text: &str) -> LidsPlan {
    let [whole, _] = crate::plan::parameters(text);
    whole
}

fn refused(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    let text = TEXT.replacen(from, to, 1);
    Plan::parse("test.toml", &text).unwrap_err().to_string()
}

fn point(hosts: u32, routing: &str, lids: u32, load_max: f64) -> Point {
    Point {
        reading: Interpretation::default().to_string(),
        hosts,
        switches: 8,
        degree: 3,
        graph: 0,
        graph_seed: 0,
        routing: routing.parse().unwrap(),
        lids_greedy: lids,
        lids_split_merge_s: 0,
        lids_split_merge_l: 0,
        lids_color_s: 0,
        lids_color_l: lids,
        lids_exact: None,
        flows_max: 0,
        load_max,
        hops_mean: 0.0,
    }
}

/// Asserts that replacing one text of the plan by another is refused with these parts of a message.
fn refuse(cases: &[(&str, &str, [&str; 2])]) {
    for (from, to, wanted) in cases {
        let error = refused(from, to);
        assert!(error.starts_with("test.toml"), "{error}");
        for part in wanted {
            assert!(error.contains(part), "{to}: {part} in {error}");
        }
    }
}

#[test]
fn graphs_that_cannot_be_are_refused_with_line_and_what_is_allowed() {
    assert_eq!(Plan::parse("test.toml", TEXT).unwrap().points(), [8, 4]);
    refuse(&[
        ("degree = 3", "degree = 3\nspeed = 9", ["line 9", "speed"]),
        (
            "degree = 3",
            "degree = 8",
            ["line 8: degree: 8", "less than the number"],
        ),
        (
            "\"32/8\"",
            "\"36/9\"",
            ["line 8: degree: 3 with 9", "two ends"],
        ),
        (
            "degree = 3",
            "degree = 1",
            ["line 8: degree: 1", "cannot be connected"],
        ),
        (
            "\"32/8\"",
            "\"33/8\"",
            ["line 7: sizes: 33/8", "same number at each"],
        ),
        (
            "\"32/8\"",
            "\"0/0\"",
            ["line 7: sizes: 0/0", "at least one switch"],
        ),
        ("\"32/8\"", "\"8\"", ["line 7", "hosts/switches"]),
        (
            "[\"16/8\", \"32/8\"]",
            "[]",
            ["line 7: sizes", "at least one"],
        ),
        (
            "graphs = 2",
            "graphs = 0",
            ["line 9: graphs: 0 points", "1 to 20000"],
        ),
        (
            "graphs = 2",
            "graphs = 1001",
            ["line 9: graphs: 1001", "1 to 1000"],
        ),
    ]);
}

#[test]
fn unknown_names_and_references_are_refused_with_line_and_what_is_allowed() {
    refuse(&[
        (
            "\"path-selection\"",
            "\"shortest\"",
            ["line 18", "shortest-widest"],
        ),
        ("\"color-l\"", "\"color\"", ["line 19", "color-s"]),
        ("\"separate\"", "\"renaming\"", ["scheme", "stands twice"]),
        (
            "[40, 36]",
            "[40]",
            ["line 23: lids: 16/8: 1 numbers", "each of 2"],
        ),
        (
            "over = \"renaming\"",
            "over = \"none\"",
            ["line 30: over", "separate"],
        ),
        (
            "than = [\"renaming\"]",
            "than = []",
            ["line 38: than", "at least one"],
        ),
        ("max = 1.0", "max = 0.5", ["line 31: min", "above max"]),
        (
            "[quick]",
            "[[reading]]\ndetour = 9\n[quick]",
            ["detour: 9", "at most 2"],
        ),
        (
            "[quick]",
            "[[reading]]\nroot = \"top\"\n[quick]",
            ["line 41", "centre"],
        ),
    ]);
}

#[test]
fn bands_and_statements_are_judged_on_means_over_graphs() {
    let plan = plan(TEXT);
    let points = [
        point(16, "shortest-widest", 40, 2.0),
        point(16, "shortest-widest", 44, 2.2),
        point(16, "path-selection", 36, 1.5),
        point(16, "path-selection", 38, 1.7),
        point(32, "shortest-widest", 90, 4.0),
        point(32, "path-selection", 80, 4.1),
    ];
    let verdicts = plan.judge(&points);
    assert_eq!(verdicts.len(), 2);
    assert_eq!(verdicts[0].measured, "0.881");
    assert_eq!(verdicts[0].holds, Some(true));
    assert_eq!(
        verdicts[1].measured,
        "16/8 1.60 against 2.10; 32/8 4.10 against 4.00 (not)"
    );
    assert_eq!(verdicts[1].holds, Some(false));
    let figures = plan.figures(&points);
    let Some(Figure::Table { rows, .. }) = figures.first() else {
        panic!("{figures:?}");
    };
    assert_eq!(
        rows[0],
        ["16/8", "42.0", "40 (+5.0 %)", "37.0", "36 (+2.8 %)"]
    );
    assert_eq!(rows[1], ["32/8", "90.0", "", "80.0", ""]);
    assert!(plan.judge(&[]).is_empty(), "nothing is said without points");
}

#[test]
fn the_same_plan_and_seed_give_the_same_bytes_on_any_number_of_threads() {
    let plan = Plan::parse("test.toml", TEXT).unwrap();
    let out = tempfile::tempdir().unwrap();
    let bytes = |threads| {
        let options = Options {
            quick: true,
            seed: 7,
            threads,
        };
        let folder = out.path().join(threads.to_string());
        let results = run(&plan, options, &folder, &|_, _| {}).unwrap();
        results.files.map(|file| fs::read_to_string(file).unwrap())
    };
    let [csv, json, html] = bytes(1);
    assert_eq!([&csv, &json, &html], bytes(4).each_ref());
    assert_eq!(csv.lines().count(), 5);
    assert!(html.contains("<svg") && html.contains("40 ("), "{html}");
}

#[test]
fn in_every_reading_graphs_are_connected_and_have_the_cables_and_hosts_of_their_size() {
    let size = Size {
        hosts: 64,
        switches: 16,
    };
    for cables in [Cables::Regular, Cables::Random] {
        for hosts in [Hosts::InBlocks, Hosts::Shuffled, Hosts::Random] {
            let reading = Interpretation {
                cables,
                hosts,
                root: Root::First,
                ..Interpretation::default()
            };
            let graph = reading.graph(size, 8, 3).unwrap();
            let network = Network::new(&graph);
            assert_eq!(network.hosts().len(), 64, "{reading}");
            assert_eq!(network.channels().len(), 16 * 8, "{reading}");
            assert!(network.hops_to(0).iter().all(Option::is_some), "{reading}");
            let even = network.hosts_at().iter().all(|at| at.len() == 4);
            assert_eq!(even, hosts != Hosts::Random, "{reading}");
            let regular = (0..16).all(|switch| network.leaving(switch).len() == 8);
            assert_eq!(regular, cables == Cables::Regular, "{reading}");
            assert_eq!(graph, reading.graph(size, 8, 3).unwrap(), "{reading}");
        }
    }
}
