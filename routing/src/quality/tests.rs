use std::collections::BTreeSet;

use topologies::{Graph, parse};

use super::*;
use crate::{Options, RoutingEngine, Tables};

fn fabric(name: &str) -> Graph {
    parse(name).unwrap().graph
}

fn route(graph: &Graph, name: &str) -> Tables {
    name.parse::<RoutingEngine>()
        .unwrap()
        .route(graph, &Options::default())
        .unwrap()
}

#[test]
fn all_to_all_on_an_8_port_3_tree_loads_every_link_alike_by_mlid_and_by_slid() {
    let graph = fabric("fat-tree-8-3");
    for name in ["mlid", "slid"] {
        let loads = link_loads(&graph, &route(&graph, name), Pattern::AllToAll);
        assert_eq!(
            (loads.max_up, loads.max_down),
            (Some(124), Some(124)),
            "{name}"
        );
        assert_eq!((loads.flows, loads.undelivered), (128 * 127, 0));
        assert_eq!(loads.histogram.values().sum::<u32>(), 512);
    }
}

#[test]
fn all_to_one_shows_what_multiple_lids_are_for() {
    let graph = fabric("fat-tree-8-3");
    for (name, up) in [("mlid", 1), ("slid", 16)] {
        let tables = route(&graph, name);
        for host in [0, 77, 127] {
            let loads = link_loads(&graph, &tables, Pattern::AllToOne { host });
            assert_eq!(loads.max_up, Some(up), "{name}");
        }
    }
}

#[test]
fn patterns_pair_hosts_as_their_names_say() {
    let pairs = |pattern: Pattern, hosts| pattern.pairs(hosts).collect::<Vec<_>>();
    assert_eq!(pairs(Pattern::AllToAll, 3).len(), 6);
    assert_eq!(pairs(Pattern::Shift { by: 2 }, 3), [(0, 2), (1, 0), (2, 1)]);
    assert_eq!(pairs(Pattern::Shift { by: 6 }, 3), []);
    assert_eq!(pairs(Pattern::Shift { by: 1 }, 0), []);
    assert_eq!(pairs(Pattern::AllToOne { host: 1 }, 3), [(0, 1), (2, 1)]);
    assert_eq!(pairs(Pattern::AllToOne { host: 3 }, 3), []);
    let permutation = pairs(Pattern::Permutation { seed: 3 }, 50);
    let (from, to): (BTreeSet<_>, BTreeSet<_>) = permutation.iter().copied().unzip();
    assert_eq!(
        (from.len(), to.len()),
        (permutation.len(), permutation.len())
    );
    assert_eq!(permutation, pairs(Pattern::Permutation { seed: 3 }, 50));
    let halves = pairs(Pattern::Bisection { seed: 1 }, 9);
    let all: BTreeSet<usize> = halves.iter().flat_map(|&(a, b)| [a, b]).collect();
    assert_eq!((halves.len(), all.len()), (4, 8));
}

#[test]
fn names_of_patterns_are_read_as_they_are_written() {
    for pattern in [
        Pattern::AllToAll,
        Pattern::Permutation { seed: 7 },
        Pattern::AllToOne { host: 3 },
        Pattern::Bisection { seed: 9 },
        Pattern::Shift { by: 4 },
    ] {
        assert_eq!(pattern.to_string().parse(), Ok(pattern));
    }
    assert_eq!("shift".parse(), Ok(Pattern::Shift { by: 1 }));
    for wrong in [
        "",
        "shift-x",
        "shifty",
        "all-to-none",
        "permutation-",
        "all-to-all-1",
    ] {
        assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
    }
    assert_eq!(
        "all".parse::<Pattern>().unwrap_err().to_string(),
        "no traffic pattern is called \"all\"; there are all-to-all, permutation-SEED, \
         all-to-one-HOST, bisection-SEED, shift-BY"
    );
}

#[test]
fn bisection_bandwidth_is_whole_on_one_switch_and_that_of_the_bottleneck_elsewhere() {
    let star = fabric("star-8");
    let result = effective_bisection_bandwidth(&star, &route(&star, "minhop"), 10, 1);
    assert_eq!((result.mean, result.worst, result.best), (1.0, 1.0, 1.0));
    // Two switches with four hosts each and one cable: pairs across share it.
    let graph = fabric("mesh-2-4");
    let tables = route(&graph, "minhop");
    for seed in 0..20 {
        let result = effective_bisection_bandwidth(&graph, &tables, 1, seed);
        let names: Vec<bool> = (0..8).map(|host| host < 4).collect();
        let pairs: Vec<(usize, usize)> = Pattern::Bisection { seed }.pairs(8).collect();
        let across = |from: bool| {
            let is = |&&(a, b): &&(usize, usize)| names[a] == from && names[b] != from;
            pairs.iter().filter(is).count()
        };
        let shares: f64 = [across(true), across(false)]
            .iter()
            .map(|&count| if count > 0 { 1.0 } else { 0.0 })
            .sum();
        let inside = pairs.len() - across(true) - across(false);
        let expected = (shares + f64::from(u32::try_from(inside).unwrap())) / 4.0;
        assert!((result.mean - expected).abs() < 1e-9);
    }
}

#[test]
fn mlid_offers_every_path_of_a_fat_tree_and_slid_one() {
    let graph = fabric("fat-tree-4-3");
    let of = |name| path_diversity(&graph, &route(&graph, name));
    let (many, one) = (of("mlid"), of("slid"));
    assert_eq!((many.min, many.max), (2, 4));
    assert_eq!((one.min, one.max, one.mean), (1, 1, 1.0));
    assert_eq!(many.pairs, 16 * 7);
}

#[test]
fn lids_and_entries_are_counted() {
    let graph = fabric("fat-tree-4-3");
    let usage = usage(&graph, &route(&graph, "mlid"));
    assert_eq!((usage.host_lids, usage.switch_lids), (64, 20));
    assert_eq!(usage.entries, 20 * 84);
    assert_eq!(usage.data_vls, 1);
}

#[test]
fn flows_that_do_not_arrive_are_counted_and_load_nothing() {
    let graph = fabric("ring-3-1");
    let mut tables = route(&graph, "minhop");
    for id in graph.switches() {
        let row = tables.lft_mut(id).unwrap();
        for lid in 1..4 {
            row.set(wire::Lid::new(lid), wire::PortNum::NONE);
        }
    }
    let loads = link_loads(&graph, &tables, Pattern::AllToAll);
    assert_eq!((loads.undelivered, loads.max, loads.busiest), (6, 0, None));
    let result = effective_bisection_bandwidth(&graph, &tables, 3, 0);
    assert_eq!(result.mean, 0.0);
}
