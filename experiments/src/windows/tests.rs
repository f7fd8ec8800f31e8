use std::collections::BTreeSet;
use std::fs;

use super::measure::Delays;
use super::pattern::{WindowPaths, WindowTiming, patterns, traffic_sources};
use super::plan::WindowsPlan;
use super::scheme::{Paths, Scheme};
use super::{Point, judge};
use crate::axes::Points;
use crate::experiment::Experiment;
use crate::plan::Plan;
use crate::{Options, run};
use sim::FlowRecord;
use sim::TrafficSource;

const TEXT: &str = r#"
kind = "windows"
name = "test"
title = "A test"
paper = "CLOS04"
packet_bytes = 32
buffer_packets = 4
loads = [0.1, 0.25]
window_ns = 3000
windows = 3
guards_ns = [600, 0]
keep_percent = 50
runs = 2

[quick]
runs = 1

[[fabric]]
topology = "fat-tree-4-2"
schemes = ["controller", "mlid", "random-packet"]
"#;

fn plan(text: &str) -> WindowsPlan {
    let [whole, _] = crate::plan::parameters(text);
    whole
}

fn refused(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    let text = TEXT.replace(from, to);
    Plan::parse("test.toml", &text).unwrap_err().to_string()
}

fn points(plan: &WindowsPlan, wanted: impl Fn(&str) -> bool) -> Vec<Point> {
    let shared = plan.share(1).unwrap();
    let max = WindowsPlan::POINTS_MAX;
    let all = Points::new(plan.axes(), max, |at| plan.has(at)).unwrap();
    let points = (0..all.len()).map(|number| all.at(number));
    points
        .filter(|&at| wanted(&plan.label(at)))
        .map(|at| plan.run(&shared, at, 1).unwrap())
        .collect()
}

#[test]
fn the_same_bytes_come_of_one_thread_and_of_four() {
    let plan = Plan::parse("test.toml", TEXT).unwrap();
    let read = |threads| {
        let out = tempfile::tempdir().unwrap();
        let options = Options {
            quick: true,
            seed: 7,
            threads,
        };
        let results = run(&plan, options, out.path(), &|_, _| {}).unwrap();
        assert_eq!(results.points, 12);
        results.files.map(|file| fs::read(file).unwrap())
    };
    assert_eq!(read(1), read(4));
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    assert_eq!(
        refused("guards_ns = [600, 0]", "guards_ns = [3000]"),
        "test.toml, line 11: guards_ns: 3000: less than a window, 3000 ns"
    );
    let fast = refused("0.25]", "0.26]");
    assert!(
        fast.contains("line 8: loads") && fast.contains("0.25"),
        "{fast}"
    );
    assert!(refused("[0.1, 0.25]", "[]").contains("the list is empty"));
    assert!(refused("keep_percent = 50", "keep_percent = 101").contains("0 to 100"));
    assert!(refused("runs = 2", "runs = 0").contains("0 points: 1 to"));
    assert!(refused("windows = 3", "windows = 0").contains("at least 1"));
    let few = refused("fat-tree-4-2", "clos-4-3-2");
    assert!(
        few.contains("line 19: topology: clos-4-3-2: 2 trees for 3 hosts"),
        "{few}"
    );
    assert!(refused("fat-tree-4-2", "ring-5-1").contains("line 19: topology: ring-5-1: "));
    let none = refused("[\"controller\", \"mlid\", \"random-packet\"]", "[]");
    assert!(
        none.contains("line 20: schemes: the list is empty"),
        "{none}"
    );
    let unknown = refused("\"mlid\"", "\"mild\"");
    assert!(
        unknown.contains("line 20") && unknown.contains("there are auto, mlid"),
        "{unknown}"
    );
    assert!(refused("\"mlid\"", "\"controller\"").contains("controller stands twice"));
    assert!(refused("runs = 2", "runs = 2\nspeed = 3").contains("speed"));
}

#[test]
fn fabrics_have_their_own_numbers_of_schemes() {
    let second = "[[fabric]]\ntopology = \"clos-4-2-2\"\nschemes = [\"controller\"]\n";
    let plan = Plan::parse("test.toml", &format!("{TEXT}\n{second}")).unwrap();
    // Guard times, schemes of both, loads; runs.
    assert_eq!(plan.points(), [2 * (3 + 1) * 2 * 2, 2 * (3 + 1) * 2]);
}

#[test]
fn every_window_is_a_permutation_and_connections_go_on_as_asked() {
    for keep in [0, 50, 100] {
        let patterns = patterns(64, 20, keep, 3);
        let mut kept = 0;
        for (window, pattern) in patterns.iter().enumerate() {
            let destinations: BTreeSet<u32> = pattern.iter().copied().collect();
            assert_eq!(destinations.len(), 64);
            assert!((0..).zip(pattern).all(|(source, &to)| source != to));
            if window > 0 {
                let pairs = pattern.iter().zip(&patterns[window - 1]);
                kept += pairs.filter(|(now, before)| now == before).count();
            }
        }
        // 19 edges with 64 connections, of which some find each other again by chance.
        let share = kept * 100 / (19 * 64);
        let wanted = usize::from(keep);
        assert!((wanted..=wanted + 8).contains(&share), "{keep}: {share}");
    }
}

#[test]
fn no_host_sends_in_the_guard_time_and_a_shorter_one_adds_packets_only() {
    let patterns = patterns(8, 4, 50, 3);
    let window_paths = vec![
        WindowPaths {
            dlids: vec![Vec::new(); 8],
            moved: 0
        };
        4
    ];
    let requests = |guard_ns| {
        let timing = WindowTiming {
            window_ns: 3000,
            guard_ns,
            interval_ps: 128_000,
        };
        let all = traffic_sources(&patterns, &window_paths, timing, 32, 3, |_, _| false);
        let mut times = BTreeSet::new();
        for (host, traffic_sources) in all.iter().enumerate() {
            for traffic_source in traffic_sources {
                let TrafficSource::Packets(requests) = traffic_source else {
                    panic!("{traffic_source:?}");
                };
                times.extend(requests.iter().map(|request| (host, request.at_ps)));
            }
        }
        times
    };
    let (guarded, all) = (requests(600), requests(0));
    assert!(guarded.iter().all(|(_, ps)| ps % 3_000_000 < 2_400_000));
    assert!(all.is_superset(&guarded) && all.len() > guarded.len());
    // 128 ns from packet to packet in 2,400 ns: 18 or 19 packets of a host in a window.
    assert!((8 * 4 * 18..=8 * 4 * 19).contains(&guarded.len()));
}

#[test]
fn an_empty_network_takes_a_packet_508_ns_through_three_switches() {
    // 4 cables of 20 ns, 3 switches of 100 ns, 32 bytes of 4 ns; and 2, 1 and the same.
    let plan = plan(TEXT);
    assert_eq!(plan.empty_network_ns(3), 80 + 300 + 128);
    assert_eq!(plan.empty_network_ns(1), 40 + 100 + 128);
    let points = points(&plan, |label| {
        label.contains("controller") && label.contains("guard 600")
    });
    assert_eq!(points.len(), 4);
    for point in points {
        // The simulator and the sum agree, at the full rate of the links as well.
        assert_eq!((point.waited, point.latency_max_ns), (0, 508), "{point:?}");
        assert!([0, 268].contains(&point.latency_within_max_ns), "{point:?}");
        assert_eq!((point.links_shared, point.connections), (0, 24));
        assert!(point.connections_on_a_link_max <= 1);
    }
}

#[test]
fn without_the_controller_connections_share_links_and_packets_wait() {
    let points = points(&plan(TEXT), |label| {
        label.contains("mlid at 0.25") && label.contains("guard 600")
    });
    let shared: u64 = points.iter().map(|point| point.links_shared).sum();
    let waited: u64 = points.iter().map(|point| point.waited).sum();
    assert!(shared > 0 && waited > 0, "{points:?}");
    // What shares no link does not wait either.
    assert!(points.iter().all(|p| p.links_shared > 0 || p.waited == 0));
}

#[test]
fn the_controller_gives_dlids_of_one_tree_each_that_share_no_link() {
    let prepared = Scheme::CONTROLLER
        .prepare(&topologies::parse("clos-4-4-2-2").unwrap().graph)
        .unwrap();
    let mut paths = Paths::new(&Scheme::CONTROLLER, &prepared, 1).unwrap();
    let mut moved = 0;
    for (window, pattern) in (0u32..).zip(&patterns(16, 50, 70, 5)) {
        let window_paths = paths.next(window, pattern).unwrap();
        assert!(window_paths.dlids.iter().all(|dlids| dlids.len() == 1));
        moved += window_paths.moved;
        let shared = super::measure::shared_links(
            &prepared,
            core::slice::from_ref(pattern),
            &[window_paths],
        );
        assert_eq!(shared.0, 0);
    }
    assert!(moved > 0, "connections that go on are moved now and then");
}

#[test]
fn quantiles_and_waits_are_those_of_a_worked_example() {
    // Within a leaf 3 packets of 10 ns; between leaves 4 of 20 ns and 3 of more.
    let edges = [9, 10, 19, 20, 25, 30];
    let flow = |delays: [u64; 7], max: u64, sum: u64| FlowRecord {
        offered: 0,
        refused: 0,
        expected: 0,
        delivered: delays.iter().sum(),
        bytes: 0,
        delay_sum_ns: sum,
        network_sum_ns: 0,
        delay_min_ns: 10,
        delay_max_ns: max,
        first_generated_ns: 0,
        completed_ns: 0,
        delays: delays.into(),
        jitter: Vec::new(),
    };
    let flows = [
        flow([0, 3, 0, 0, 0, 0, 0], 10, 30),
        flow([0, 0, 0, 4, 2, 0, 1], 41, 80 + 22 + 24 + 41),
    ];
    let delays = Delays::new(&flows, &edges);
    assert_eq!((delays.packets(), delays.waited([10, 20])), (10, 3));
    let quantiles = [300, 301, 700, 800, 900, 1000].map(|permille| delays.quantile(permille));
    assert_eq!(quantiles, [10, 20, 20, 25, 25, 41]);
    assert!((delays.mean() - 19.7).abs() < 1e-9);
    assert_eq!((delays.max(), delays.max_within()), (41, 10));
}

#[test]
fn verdicts_report_waiting_shared_links_and_longer_tails() {
    let plan = plan(TEXT);
    let mut measured = points(&plan, |_| true);
    let failed = |points: &[Point]| {
        let verdicts = judge::judge(&plan, points);
        let failed = verdicts.into_iter().filter(|v| v.holds == Some(false));
        failed.map(|verdict| verdict.expected).collect::<Vec<_>>()
    };
    assert_eq!(failed(&measured), Vec::<String>::new());
    // Too short a guard time proves nothing either way.
    let unproven = judge::judge(&plan, &measured);
    let unproven: Vec<_> = unproven.iter().filter(|v| v.holds.is_none()).collect();
    assert_eq!(unproven.len(), 1);
    assert!(unproven[0].expected.contains("guard 0 ns"));

    let own = measured
        .iter()
        .position(|point| point.scheme == "controller" && point.guard_ns == 600);
    let own = &mut measured[own.unwrap()];
    own.waited = 1;
    own.links_shared = 1;
    own.latency_p99_ns = 1_000_000_000;
    own.accepted = own.offered / 2.0;
    let failed = failed(&measured);
    assert_eq!(failed.len(), 5, "{failed:?}");
}
