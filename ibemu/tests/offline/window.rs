//! `ibemu window`.

use serde_json::{Value, json as value};

use crate::{as_text, failed, file, printed};

fn windows(requests: &str, shape: [&str; 3], more: &[&str]) -> Vec<Value> {
    let (_folder, path) = file("requests", requests);
    let [leaves, hosts, spines] = shape;
    let arguments = [
        &[
            "window", "--leaves", leaves, "--hosts", hosts, "--spines", spines,
        ][..],
        &["--requests", as_text(&path), "--json"],
        more,
    ];
    let lines = printed(&arguments.concat());
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_line_in_is_a_line_out_with_trees_moves_and_what_waits() {
    let requests = "[[0,4],[1,5],[2,4]]\n\n[]\n";
    let found = windows(requests, ["2", "4", "4"], &[]);
    let busy = value!({"source": 2, "destination": 4, "reason": "destination-busy"});
    assert_eq!(
        found,
        [
            value!({"window": 1, "admitted": [
                {"source": 0, "destination": 4, "tree": 0},
                {"source": 1, "destination": 5, "tree": 1},
            ], "moved": [], "deferred": [busy]}),
            value!({"window": 2, "admitted": [
                {"source": 2, "destination": 4, "tree": 0},
            ], "moved": [], "deferred": []}),
        ]
    );
}

#[test]
fn standing_connections_move_for_new_ones_and_none_is_blocked() {
    // Two trees; the third request finds its row's and its column's free trees different.
    let requests = "[[0,2],[3,4]]\n[[0,2],[3,4],[2,5]]\n[[0,2],[3,4],[2,5],[1,3]]\n";
    let found = windows(requests, ["3", "2", "2"], &[]);
    for window in &found {
        assert_eq!(window["deferred"], value!([]));
        let admitted = window["admitted"].as_array().unwrap();
        let mut ups: Vec<(u64, u64)> = Vec::new();
        for one in admitted {
            let of = |name: &str| one[name].as_u64().unwrap();
            ups.push((of("source") / 2, of("tree")));
        }
        let count = ups.len();
        ups.sort_unstable();
        ups.dedup();
        assert_eq!(ups.len(), count, "no two share a cable up: {window}");
    }
}

#[test]
fn drain_goes_on_until_nothing_waits() {
    let found = windows("[[0,3],[1,3],[2,3]]\n", ["2", "2", "2"], &["--drain"]);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2]["deferred"], value!([]));
    assert_eq!(found[2]["admitted"][0]["source"], 2);
}

#[test]
fn wrong_lines_are_named() {
    let refused = |requests: &str| {
        let (_folder, path) = file("requests", requests);
        let shape = ["window", "--leaves", "2", "--hosts", "2", "--spines", "2"];
        failed(&[&shape[..], &["--requests", as_text(&path)]].concat())
    };
    for (requests, line, why) in [
        ("[[0,2]]\n[[0,9]]\n", "line 2", "there is no host 9"),
        ("[[0,0]]\n", "line 1", "to itself"),
        ("[[0,2]\n", "line 1", "wanted is a window"),
        ("{}\n", "line 1", "wanted is a window"),
    ] {
        let (code, message) = refused(requests);
        assert_eq!(code, 2);
        assert!(message.contains(line) && message.contains(why), "{message}");
    }
}

#[test]
fn strict_operation_needs_its_trees() {
    let (_folder, path) = file("requests", "[]\n");
    let shape = ["window", "--leaves", "2", "--hosts", "4", "--spines", "6"];
    let (code, message) =
        failed(&[&shape[..], &["--strict", "--requests", as_text(&path)]].concat());
    assert_eq!(code, 2);
    assert!(message.contains("7 trees"), "{message}");
}
