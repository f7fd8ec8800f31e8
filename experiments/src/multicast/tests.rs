use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::*;
use crate::axes::Points;
use crate::{Options, Plan, Results};

const TEXT: &str = r#"
kind = "multicast"
name = "test"
title = "A test"
paper = "MCAST07"
topology = "fat-tree-4-2"
routing = "mlid"
schemes = ["cyclic", "spanning-tree", "unicast"]
grouping = ["own", "common"]
sources = ["one", "50%", "all"]
groups = ["25%", "all"]
sizes_bytes = [32, 256, 768]
packet_bytes = 256
runs = 3
unicast_runs = 2
shows = ["times", "gains"]
statements = [
    "faster-than-unicast", "same-from-one-source", "faster-for-small-groups",
    "little-faster-for-all", "gain-falls-with-group", "longer-with-sources", "growing-lead",
    "no-gain-in-common",
]

[quick]
runs = 1
unicast_runs = 1
sizes_bytes = [32]

[[band]]
scheme = "spanning-tree"
over = "cyclic"
sources = "50%"
groups = "25%"
size_bytes = 256
min = 1.0
max = 3.0
"#;

fn plan(text: &str) -> MulticastPlan {
    let [whole, _] = crate::plan::parameters(text);
    whole
}

/// All points of a plan in the order of the results.
fn tasks(plan: &MulticastPlan) -> Vec<(At, Task)> {
    let max = MulticastPlan::POINTS_MAX;
    let points = Points::new(plan.axes(), max, |at| plan.has(at)).unwrap();
    let points = (0..points.len()).map(|number| points.at(number));
    points.map(|at| (at, plan.task(at))).collect()
}

fn refused(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    let text = TEXT.replacen(from, to, 1);
    Plan::parse("test.toml", &text).unwrap_err().to_string()
}

/// All points of a plan whose tasks are wanted.
fn points(plan: &MulticastPlan, wanted: impl Fn(&Task) -> bool) -> Vec<Point> {
    let fabric = plan.share(1).unwrap();
    let chosen = tasks(plan).into_iter().filter(|(_, task)| wanted(task));
    chosen
        .map(|(at, _)| plan.run(&fabric, at, 1).unwrap())
        .collect()
}

/// From the first byte sent to the last byte received over so many switches.
fn path_ns(switches: u64, bytes: u64) -> u64 {
    20 * (switches + 1) + 100 * switches + 4 * bytes
}

/// From one packet to the next on a cable into a switch: its bytes, then the credit is back when
/// the packet has flown, been routed and left the buffer.
fn cycle_ns(bytes: u64) -> u64 {
    4 * bytes + 20 + 100
}

#[test]
fn from_one_source_multicast_takes_what_the_longest_path_and_the_bytes_take() {
    let plan = plan(TEXT);
    let points = points(&plan, |task| {
        task.sources == Share::One && task.groups.is_all() && task.scheme != Delivery::Unicast
    });
    assert_eq!(points.len(), 2 * 2 * 3 * 3);
    for point in points {
        // Another leaf of FT(4, 2) is three switches away. Of several packets each waits for the
        // buffer that the one before it has left.
        let expected = match point.size_bytes {
            768 => path_ns(3, 256) + 2 * cycle_ns(256),
            bytes => path_ns(3, bytes.into()),
        };
        assert_eq!(point.completion_ns, expected, "{point:?}");
        assert_eq!(point.deliveries, 7 * u64::from(point.packets));
        assert_eq!(point.busiest_link_bytes, u64::from(point.size_bytes));
    }
}

#[test]
fn each_source_of_a_common_group_serves_it_in_an_order_of_its_own() {
    let plan = plan(TEXT);
    let is_wanted = |task: &Task| {
        let is_all_to_all = task.sources.is_all() && task.groups.is_all();
        let unicast = task.scheme == Delivery::Unicast;
        is_all_to_all && unicast && task.grouping == Grouping::Common && task.run == 0
    };
    let (_, task) = tasks(&plan)
        .into_iter()
        .find(|(_, task)| is_wanted(task))
        .unwrap();
    let draw = |seed| Draw::new(&task, 8, seed).workload(&plan, &task, 8);
    let workload = draw(1);
    let orders: BTreeSet<Vec<u32>> = workload
        .groups
        .iter()
        .map(|group| group.members.clone())
        .collect();
    assert_eq!(orders.len(), 8, "{orders:?}");
    for order in &orders {
        let members: BTreeSet<u32> = order.iter().copied().collect();
        assert!(members.into_iter().eq(0..8));
    }
    assert_eq!(workload.groups, draw(1).groups);
    assert_ne!(workload.groups, draw(2).groups);
    let firsts: BTreeSet<u32> = orders.iter().map(|order| order[0]).collect();
    assert!(firsts.len() > 2, "sources begin with different members");
}

#[test]
fn from_one_source_unicast_sends_one_packet_after_the_other_in_the_order_drawn() {
    let plan = plan(TEXT);
    let fabric = plan.share(1).unwrap();
    let is_wanted = |task: &Task| {
        let is_unicast = task.sources == Share::One && task.scheme == Delivery::Unicast;
        is_unicast && task.groups.is_all() && task.grouping == Grouping::Own
    };
    for (at, task) in tasks(&plan).into_iter().filter(|(_, task)| is_wanted(task)) {
        let draw = Draw::new(&task, 8, split_mix(1, task.run.into()));
        let (source, group) = draw.sources[0];
        let packets = plan.packets(task.size_bytes);
        let bytes = u64::from(task.size_bytes / packets);
        let members = &draw.groups[usize::try_from(group).unwrap()];
        let ends = members.iter().zip(1..).map(|(&member, place): (_, u64)| {
            // Two hosts share a leaf switch.
            let switches = if member / 2 == source / 2 { 1 } else { 3 };
            (place * u64::from(packets) - 1) * cycle_ns(bytes) + path_ns(switches, bytes)
        });
        let point = plan.run(&fabric, at, 1).unwrap();
        assert_eq!(Some(point.completion_ns), ends.max(), "{point:?}");
    }
}

#[test]
fn draws_are_nested_and_no_source_is_in_a_group_of_its_own() {
    let task = |sources, groups, grouping| Task {
        grouping,
        sources,
        groups,
        size_bytes: 32,
        scheme: Delivery::CYCLIC,
        run: 0,
    };
    let part = Share::Percent;
    let draw = |sources, groups| Draw::new(&task(sources, groups, Grouping::Own), 128, 7);
    let by_source = |draw: &Draw| -> BTreeMap<u32, Vec<u32>> {
        let groups = draw.sources.iter().zip(&draw.groups);
        groups
            .map(|(&(source, _), group)| (source, group.clone()))
            .collect()
    };
    let (few, many) = (draw(part(40), part(10)), draw(part(70), part(40)));
    let (few, many) = (by_source(&few), by_source(&many));
    assert_eq!((few.len(), many.len()), (51, 90));
    for (source, members) in &few {
        assert_eq!(members.len(), 13);
        assert_eq!(members[..], many[source][..13]);
        assert!(!many[source].contains(source));
    }
    let distinct: BTreeSet<&Vec<u32>> = few.values().collect();
    assert_eq!(distinct.len(), few.len(), "each source has its own");
    // Each host to all others.
    assert_eq!(draw(part(100), part(100)).receivers(), 128 * 127);
    let common = Draw::new(&task(part(40), part(10), Grouping::Common), 128, 7);
    assert_eq!(common.groups.len(), 1);
    assert!(common.sources.iter().all(|&(_, group)| group == 0));
    let members = common.sources.iter();
    let members = members.filter(|(source, _)| common.groups[0].contains(source));
    let own = u64::try_from(members.count()).unwrap();
    assert_eq!(common.receivers(), 51 * 13 - own);
}

#[test]
fn all_to_all_by_multicast_is_run_once() {
    let plan = plan(TEXT);
    let all = tasks(&plan);
    let count = |scheme| {
        let here = |(_, task): &&(At, Task)| {
            task.sources.is_all() && task.groups.is_all() && task.scheme == scheme
        };
        all.iter().filter(here).count()
    };
    // Two groupings, three sizes.
    assert_eq!(count(Delivery::CYCLIC), 6);
    assert_eq!(count(Delivery::Unicast), 12);
    let others = 2 * 5 * 3;
    assert_eq!(all.len(), others * (3 + 3 + 2) + 6 + 6 + 12);
}

fn attempt(out: &Path, threads: usize) -> Results {
    let plan = Plan::parse("test.toml", TEXT).unwrap();
    let options = Options {
        quick: true,
        seed: 7,
        threads,
    };
    crate::run(&plan, options, out, &|_, _| {}).unwrap()
}

#[test]
fn the_same_plan_and_seed_give_the_same_bytes_on_any_number_of_threads() {
    let out = tempfile::tempdir().unwrap();
    let first = attempt(&out.path().join("a"), 1);
    let second = attempt(&out.path().join("b"), 4);
    assert_eq!(first.points, 36);
    for (first, second) in first.files.iter().zip(&second.files) {
        assert_eq!(fs::read(first).unwrap(), fs::read(second).unwrap());
    }
    let csv = fs::read_to_string(&first.files[0]).unwrap();
    assert_eq!(csv.lines().count(), 37);
    let html = fs::read_to_string(&first.files[2]).unwrap();
    assert!(html.contains("<svg") && html.contains("Figure 17: speed-up") && !html.contains("NaN"));
}

/// A point of hand-made times.
fn made(
    (grouping, sources, groups, size_bytes): (Grouping, Share, Share, u32),
    scheme: Delivery,
    run: u32,
    completion_ns: u64,
) -> Point {
    Point {
        grouping,
        sources,
        groups,
        source_hosts: 1,
        group_hosts: 1,
        size_bytes,
        packets: 1,
        scheme,
        run,
        seed: 0,
        completion_ns,
        message_mean_ns: 0.0,
        deliveries: 10,
        busiest_link_bytes: 0,
        traversals: 0,
    }
}

/// The verdicts on times of cyclic, spanning tree and unicast that a rule gives.
fn verdicts(rule: impl Fn(Share, Share, u32) -> [u64; 3]) -> Vec<(String, Verdict)> {
    let plan = plan(TEXT);
    let mut points = Vec::new();
    for (_, task) in tasks(&plan) {
        let times = rule(task.sources, task.groups, task.size_bytes);
        let time = match task.scheme {
            Delivery::CYCLIC => times[0],
            Delivery::SPANNING_TREE => times[1],
            Delivery::Unicast => times[2],
        };
        let case = (task.grouping, task.sources, task.groups, task.size_bytes);
        points.push(made(case, task.scheme, task.run, time));
    }
    let verdicts = plan.judge(&points).into_iter();
    verdicts
        .map(|verdict| (verdict.expected.clone(), verdict))
        .collect()
}

fn holds(verdicts: &[(String, Verdict)], with: &str) -> Vec<bool> {
    let here = verdicts.iter().filter(|(name, _)| name.contains(with));
    let holds: Vec<bool> = here.filter_map(|(_, verdict)| verdict.holds).collect();
    assert!(!holds.is_empty(), "{with}: {verdicts:?}");
    holds
}

/// Hosts of eight.
fn hosts(share: Share) -> u64 {
    share.of(8).into()
}

#[test]
fn times_as_the_paper_has_them_are_found_to_hold() {
    let found = verdicts(|sources, groups, size| {
        let cyclic = 1000 * hosts(sources) * u64::from(size);
        let gain = match (sources, groups.is_all()) {
            (Share::One, _) => 100,
            (_, true) => 105,
            (_, false) => 200,
        };
        let lead = 2 + hosts(groups) + hosts(sources) + u64::from(size) / 32;
        [cyclic, cyclic / 100 * gain, cyclic * lead]
    });
    for with in [
        "50%-to-25%, 256 bytes: spanning-tree/cyclic from 1 to 3",
        "cyclic is faster than unicast",
        "spanning-tree is faster than unicast",
        "from one source",
        "many-to-25%",
        "small sizes: cyclic is a little faster",
        "figure 17: all-to-many",
        "case 3: unicast: all-to-many takes longer than one-to-many",
        "the longer the messages",
        "the more the sources",
        "the larger the groups",
        "once to each member of its group",
    ] {
        let holds = holds(&found, with);
        assert!(holds.iter().all(|&holds| holds), "{with}: {found:?}");
    }
}

#[test]
fn times_that_contradict_the_paper_are_found_out_and_the_worst_case_is_named() {
    // A spanning tree that is best where it should be worst, unicast as fast as anything.
    let found = verdicts(|sources, groups, size| {
        let cyclic = 1_000_000 / hosts(sources);
        let tree = match (sources, groups.is_all(), size) {
            (Share::One, ..) => cyclic * 2,
            (_, true, _) => cyclic * 3,
            (_, false, 768) => cyclic / 2,
            (_, false, _) => cyclic * 2,
        };
        [cyclic, tree, cyclic]
    });
    for with in [
        "cyclic is faster than unicast",
        "spanning-tree is faster than unicast",
        "from one source",
        "many-to-25%",
        "cyclic is a little faster",
        "figure 17: 50%-to-many",
        "case 3: cyclic",
    ] {
        let holds = holds(&found, with);
        assert!(holds.iter().all(|&holds| !holds), "{with}: {found:?}");
    }
    let small = found.iter().find(|(name, _)| name.contains("many-to-25%"));
    let measured = &small.unwrap().1.measured;
    assert!(
        measured.starts_with("spanning-tree/cyclic from 0.500 (50%-to-25%, 768 bytes)"),
        "{measured}"
    );
}

#[test]
fn ratios_compare_only_draws_that_both_schemes_have_seen() {
    let plan = plan(TEXT);
    let case = (Grouping::Own, Share::Percent(50), Share::Percent(25), 32);
    let points = [
        made(case, Delivery::CYCLIC, 0, 100),
        made(case, Delivery::CYCLIC, 1, 300),
        made(case, Delivery::CYCLIC, 2, 5000),
        made(case, Delivery::Unicast, 0, 300),
        made(case, Delivery::Unicast, 1, 600),
    ];
    let summary = Summary {
        plan: &plan,
        points: &points,
    };
    let case = summary::Case {
        grouping: case.0,
        sources: case.1,
        groups: case.2,
        size_bytes: case.3,
    };
    let ratio = summary.ratio(&case, Delivery::Unicast, Delivery::CYCLIC);
    let ratio = ratio.unwrap();
    assert_eq!(
        [ratio.mean, ratio.min, ratio.max],
        [900.0 / 400.0, 2.0, 3.0]
    );
    assert_eq!(summary.mean_ns(&case, Delivery::CYCLIC), Some(1800.0));
    let none = summary.ratio(&case, Delivery::SPANNING_TREE, Delivery::CYCLIC);
    assert_eq!(none, None);
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_what_is_allowed() {
    let line_of = |key: &str| {
        let line = TEXT.lines().position(|line| line.starts_with(key));
        line.unwrap() + 1
    };
    assert_eq!(
        refused("groups = [\"25%\", \"all\"]", "groups = []"),
        format!(
            "test.toml, line {}: groups: the list is empty: at least one",
            line_of("groups")
        )
    );
    let unknown = refused("runs = 3", "runs = 3\nspeed = 1");
    assert!(
        unknown.starts_with("test.toml: ") && unknown.contains("speed"),
        "{unknown}"
    );
    for (from, to, told) in [
        ("\"25%\"", "\"0%\"", "one, 1% to 100%, or all"),
        ("\"25%\", \"all\"", "\"all\", \"25%\"", "ascending"),
        (
            "[32, 256, 768]",
            "[32, 300]",
            "32 to 256 in words of 4, or 2 to 1024 packets of 256",
        ),
        ("packet_bytes = 256", "packet_bytes = 5000", "32 to 4128"),
        ("packet_bytes = 256", "packet_bytes = 32", "more than 32"),
        (
            "fat-tree-4-2",
            "ring-5-1",
            "cyclic multicast needs a fat tree",
        ),
        ("fat-tree-4-2", "fat-tre-4-2", "test.toml, line 6: topology"),
        ("\"mlid\"", "\"mild\"", "there are auto, mlid"),
        ("runs = 3", "runs = 0", "test.toml, line 14: runs"),
        ("unicast_runs = 2", "unicast_runs = 4", "1 to 3"),
        (
            "\"cyclic\", \"spa",
            "\"cyclic\", \"cyclic\", \"spa",
            "each once",
        ),
        ("min = 1.0", "min = 4.0", "above max"),
        (
            "shows = [\"times\", \"gains\"]",
            "shows = []",
            "at least one",
        ),
        ("\"growing-lead\"", "\"growing-lad\"", "growing-lad"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(told), "{to}: {error}");
    }
}
