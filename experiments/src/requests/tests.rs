use std::fs;

use super::plan::{Policy, RequestsPlan, Sequence, Size};
use super::sequence::{random, windows, worst};
use super::{Point, judge};
use crate::axes::Points;
use crate::experiment::Experiment;
use crate::plan::Plan;
use crate::{Options, run};

const TEXT: &str = r#"
kind = "requests"
name = "test"
title = "A test"
paper = "CLOS04"
trees_below = 1
trees_above = 1
sequences = ["random", "worst"]
policies = ["fixed", "rearrange"]
occupancy_percent = [75, 100]
requests = 500
runs = 2

[[fabric]]
leaves = 4
hosts = 3
"#;

fn plan(text: &str) -> RequestsPlan {
    let [whole, _] = crate::plan::parameters(text);
    whole
}

fn refused(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    let text = TEXT.replace(from, to);
    Plan::parse("test.toml", &text).unwrap_err().to_string()
}

fn points(plan: &RequestsPlan) -> Vec<Point> {
    let max = RequestsPlan::POINTS_MAX;
    let all = Points::new(plan.axes(), max, |at| plan.has(at)).unwrap();
    let points = (0..all.len()).map(|number| plan.run(&(), all.at(number), 1));
    points.collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_same_bytes_come_of_one_thread_and_of_four() {
    let plan = Plan::parse("test.toml", TEXT).unwrap();
    // 2 to 6 trees, 2 policies: 2 occupancies and 2 runs of the random sequence, one of the worst.
    assert_eq!(plan.points()[0], 5 * 2 * (2 * 2 + 1));
    let read = |threads| {
        let out = tempfile::tempdir().unwrap();
        let options = Options {
            quick: true,
            seed: 7,
            threads,
        };
        let results = run(&plan, options, out.path(), &|_, _| {}).unwrap();
        results.files.map(|file| fs::read(file).unwrap())
    };
    assert_eq!(read(1), read(4));
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    assert_eq!(
        refused("trees_below = 1", "trees_below = 3"),
        "test.toml, line 6: trees_below: 3 with 4x3: less than 3"
    );
    assert!(refused("[75, 100]", "[0]").contains("line 10: occupancy_percent: 1 to 100"));
    assert!(refused("requests = 500", "requests = 0").contains("0: 1 to"));
    assert!(refused("runs = 2", "runs = 0").contains("0 points: 1 to"));
    assert!(refused("leaves = 4", "leaves = 1").contains("2 to 128 leaves"));
    assert!(refused("leaves = 4", "leaves = 3").contains("one leaf more than hosts"));
    assert!(refused("\"worst\"", "\"windows\"").contains("the controller rearranges"));
    assert!(refused("trees_above = 1", "trees_above = 999").contains("more than 256 trees"));
    assert!(refused("\"worst\"", "\"best\"").contains("best"));
    assert!(refused("runs = 2", "runs = 2\nspeed = 3").contains("speed"));
}

/// The bound is that of Clos (1953): each of the other n - 1 hosts at either leaf holds one tree.
#[test]
fn the_worst_sequence_is_blocked_up_to_2n_minus_2_trees_and_never_after() {
    for hosts in 2..=8 {
        let size = Size {
            leaves: hosts + 1,
            hosts,
        };
        for trees in hosts..=2 * hosts + 1 {
            let fixed = worst((size, trees, Policy::Fixed));
            assert_eq!(fixed.requests, u64::from(hosts * hosts));
            assert_eq!(fixed.blocked > 0, trees <= 2 * hosts - 2, "{size}, {trees}");
            let moved = worst((size, trees, Policy::Rearrange));
            assert_eq!(moved.blocked, 0, "{size}, {trees}");
            assert_eq!(moved.moves > 0, trees <= 2 * hosts - 2, "{size}, {trees}");
        }
    }
}

#[test]
fn rearrangement_blocks_nothing_from_n_trees_on_and_something_with_one_tree_less() {
    let size = Size {
        leaves: 6,
        hosts: 4,
    };
    for seed in 0..8 {
        for trees in 3..=8 {
            let moved = random((size, trees, Policy::Rearrange), 100, 2000, seed);
            assert_eq!(moved.blocked == 0, trees >= 4, "{trees} trees: {moved:?}");
            assert!(moved.moves_max < 12, "{moved:?}");
            assert!(moved.moves == 0 || trees < 7, "{trees} trees: {moved:?}");
            assert!(moved.moving <= moved.moves);
        }
        let fixed = random((size, 4, Policy::Fixed), 100, 2000, seed);
        let strict = random((size, 7, Policy::Fixed), 100, 2000, seed);
        assert!(fixed.blocked > 0 && strict.blocked == 0);
    }
}

#[test]
fn requests_in_windows_are_deferred_and_all_are_admitted_with_n_trees() {
    let size = Size {
        leaves: 4,
        hosts: 4,
    };
    let outcome = windows((size, 4), 100, 2000, 3).unwrap();
    assert!(outcome.requests >= 2000 && outcome.blocked == 0);
    assert!(outcome.source_busy > 0 && outcome.destination_busy > 0);
    assert!(outcome.moves > 0 && outcome.connections >= outcome.windows);
    let roomy = windows((size, 7), 100, 2000, 3).unwrap();
    assert_eq!((roomy.blocked, roomy.moves), (0, 0));
    // Deferrals because of busy hosts do not depend on trees.
    assert_eq!(roomy.source_busy, outcome.source_busy);
    let few = windows((size, 2), 100, 2000, 3).unwrap();
    assert!(few.blocked > 0);
}

#[test]
fn verdicts_hold_on_what_is_so_and_fail_on_what_is_made_up() {
    let plan = plan(TEXT);
    let mut measured = points(&plan);
    let failed = |points: &[Point]| {
        let verdicts = judge::judge(&plan, points);
        let failed = verdicts.into_iter().filter(|v| v.holds == Some(false));
        failed.map(|verdict| verdict.expected).collect::<Vec<_>>()
    };
    assert_eq!(failed(&measured), Vec::<String>::new());
    for point in &mut measured {
        if point.trees == 5 && point.sequence == Sequence::Random {
            // 5 = 2n - 1.
            point.blocked = 1;
            point.moves = 1;
            point.moves_max = 8;
        }
    }
    let failed = failed(&measured);
    assert_eq!(failed.len(), 4, "{failed:?}");
}
