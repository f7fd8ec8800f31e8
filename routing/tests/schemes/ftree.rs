//! `ftree`: trees as machine rooms have them.

use proptest::prelude::*;
use routing::ftree::NotTree;
use routing::quality::{Pattern, effective_bisection_bandwidth, link_loads, path_diversity};
use routing::{Options, RoutingEngine, Tables, Warning, verify};
use topologies::Graph;
use wire::Lmc;

use crate::credit_loops::{dependencies, has_cycle};
use crate::support::{cabled, fabric, golden, shuffled, text};

fn route(engine: RoutingEngine, graph: &Graph) -> Tables {
    engine.route(graph, &Options::default()).unwrap()
}

/// Tables that the verifier and the second opinion have nothing against.
fn checked(name: &str, graph: &Graph, options: &Options) -> Tables {
    let tables = RoutingEngine::Ftree.route(graph, options).unwrap();
    let report = verify(graph, &tables, tables.promises);
    assert!(report.is_ok(), "{name}: {}", report.describe(graph));
    assert!(tables.promises.deadlock_free && tables.vl_assignment.is_none());
    assert!(!has_cycle(dependencies(graph, &tables)), "{name}");
    tables
}

fn busiest(graph: &Graph, tables: &Tables) -> u64 {
    link_loads(graph, tables, Pattern::AllToAll).max
}

/// Cables of `leaves` leaf switches to `spines` spines, numbered behind them, `cables(leaf, spine)` of
/// them each.
fn two_levels(
    leaves: usize,
    spines: usize,
    cables: impl Fn(usize, usize) -> usize,
) -> Vec<(usize, usize)> {
    let pairs = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine)));
    pairs
        .flat_map(|(leaf, spine)| vec![(leaf, leaves + spine); cables(leaf, spine)])
        .collect()
}

/// Two pods of three leaves and two spines each, and two cores with a cable to each spine.
fn two_pods() -> Vec<(usize, usize)> {
    let mut cables = Vec::new();
    for pod in 0..2 {
        for leaf in 0..3 {
            cables.extend((0..2).map(|spine| (3 * pod + leaf, 6 + 2 * pod + spine)));
        }
        for spine in 0..2 {
            cables.extend((0..2).map(|core| (6 + 2 * pod + spine, 10 + core)));
        }
    }
    cables
}

/// What the engine is for, by name.
fn trees() -> Vec<(&'static str, Graph)> {
    let spines = |mut hosts: Vec<u8>, more: &[u8]| {
        hosts.extend(more);
        hosts
    };
    let full = |_, _| 1;
    let mut pruned_pods = two_pods();
    pruned_pods.retain(|&cable| ![(0, 6), (4, 9), (7, 11)].contains(&cable));
    vec![
        ("star", cabled(&[5], &[])),
        (
            "over-subscribed",
            cabled(&spines(vec![12; 4], &[0; 4]), &two_levels(4, 4, full)),
        ),
        (
            "pruned",
            cabled(
                &spines(vec![4; 5], &[0; 4]),
                &two_levels(5, 4, |leaf, spine| usize::from((leaf + spine) % 5 != 0)),
            ),
        ),
        (
            "uneven and parallel",
            cabled(
                &spines(vec![6; 4], &[0; 3]),
                &two_levels(4, 3, |leaf, spine| 1 + (leaf + spine) % 3),
            ),
        ),
        (
            "partly populated",
            cabled(&[6, 0, 1, 3, 0, 2, 0, 0, 0], &two_levels(6, 3, full)),
        ),
        (
            "several cores",
            cabled(&spines(vec![4; 6], &[0; 6]), &two_pods()),
        ),
        (
            "several cores, pruned",
            cabled(&spines(vec![4; 6], &[0; 6]), &pruned_pods),
        ),
        (
            "service hosts",
            cabled(&spines(vec![8; 4], &[1, 0, 1]), &two_levels(4, 3, full)),
        ),
        (
            "a service host on a core",
            cabled(&spines(vec![8; 6], &[0, 0, 0, 0, 1, 0]), &two_pods()),
        ),
        ("fat-tree-4-3", fabric("fat-tree-4-3")),
        ("fat-tree-8-2", fabric("fat-tree-8-2")),
        ("fat-tree-6-3", fabric("fat-tree-6-3")),
        ("clos-6-8-4-2", fabric("clos-6-8-4-2")),
        ("as-built-8-6-4-0-1", fabric("as-built-8-6-4-0-1")),
        ("as-built-8-6-4-2-7", fabric("as-built-8-6-4-2-7")),
        ("as-built-12-9-6-3-3", fabric("as-built-12-9-6-3-3")),
    ]
}

#[test]
fn trees_of_machine_rooms_are_served_on_one_vl() {
    for (name, graph) in trees() {
        let tables = checked(name, &graph, &Options::default());
        assert_eq!(tables.engine, RoutingEngine::Ftree);
        let has_detours = tables
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::Detours { .. }));
        assert_eq!(tables.promises.up_down, !has_detours, "{name}");
        if !name.contains("pruned") && !name.starts_with("as-built") {
            let report = verify(&graph, &tables, tables.promises);
            assert_eq!(report.switch_cycle, None, "{name}");
        }
    }
}

#[test]
fn the_busiest_cable_carries_no_more_than_under_engines_for_any_fabric() {
    for (name, graph) in trees() {
        let tables = checked(name, &graph, &Options::default());
        let own = busiest(&graph, &tables);
        let other = busiest(&graph, &route(RoutingEngine::Updn, &graph));
        println!(
            "{name}: {own} against {other} by updn, {} by minhop",
            busiest(&graph, &route(RoutingEngine::Minhop, &graph))
        );
        assert!(own <= other, "{name}: {own} against {other} by updn");
        // Shortest paths that turn anywhere are less bound where switches above the leaves have hosts.
        if !name.starts_with("as-built") && name != "service hosts" {
            let other = busiest(&graph, &route(RoutingEngine::Minhop, &graph));
            assert!(own <= other, "{name}: {own} against {other} by minhop");
        }
    }
}

/// Six leaves of 22 to 24 hosts with four cables to each of two spines, one of which has failed, and three hosts on a
/// spine. OpenSM's minhop, updn, ftree and dfsssp of 3.3.23 give such a fabric 472 / 0.555 at best.
#[test]
fn packets_are_kept_apart_while_the_busiest_cable_carries_no_more() {
    let hosts = [24, 22, 24, 24, 24, 24, 3, 0];
    let mut cables = two_levels(6, 2, |_, _| 4);
    cables.pop();
    let graph = cabled(&hosts, &cables);
    for engine in [
        RoutingEngine::Ftree,
        RoutingEngine::Updn,
        RoutingEngine::Dfsssp,
    ] {
        let tables = route(engine, &graph);
        assert_eq!(busiest(&graph, &tables), 432, "{engine}");
        let found = effective_bisection_bandwidth(&graph, &tables, 100, 1).mean;
        assert!(found >= 0.555, "{engine}: {found}");
    }
}

#[test]
fn trees_with_few_hosts_a_leaf_are_told_from_grids() {
    // As `as-built-10-2-8-0-1`, which OpenSM's ftree refuses: "Found more than one root on fabric with maximum rank 0".
    for seed in 0..40 {
        let plan = topologies::AsBuilt::new(10, 2, 8, 0, seed);
        let graph = plan.graph().unwrap();
        checked(&plan.to_string(), &graph, &Options::default());
    }
}

#[test]
fn in_a_whole_tree_no_shift_meets_itself_on_any_cable() {
    for name in ["fat-tree-4-3", "fat-tree-8-2", "clos-4-4-4"] {
        let graph = fabric(name);
        let tables = checked(name, &graph, &Options::default());
        for by in 1..graph.hosts().count() {
            let loads = link_loads(&graph, &tables, Pattern::Shift { by });
            assert_eq!(loads.max, 1, "{name}, shift by {by}");
        }
    }
}

#[test]
fn the_example_of_the_documentation_is_so() {
    // Leaves 0 to 2, cores 3 and 4; no cable from leaf 1 to core 4. Two hosts a leaf.
    let cables = [(0, 3), (0, 4), (1, 3), (2, 3), (2, 4)];
    let graph = cabled(&[2, 2, 2, 0, 0], &cables);
    let tables = checked("pruned", &graph, &Options::default());
    let switches: Vec<_> = graph.switches().collect();
    let by = |switch: usize, host: usize| {
        let host = graph.find(&format!("h{host}")).unwrap();
        let lid = tables.lids.of_node(host).unwrap().base;
        let port = tables.lft(switches[switch]).get(lid);
        let end = topologies::Endpoint {
            node: switches[switch],
            port,
        };
        let to = graph.peer(end).unwrap().node;
        graph.node(to).name.clone()
    };
    assert_eq!([by(1, 0), by(1, 1)], ["s3", "s3"], "leaf 1 has one core");
    assert_eq!(
        [by(2, 0), by(2, 1)],
        ["s4", "s4"],
        "leaf 2 has the other for itself"
    );
    assert_eq!([by(0, 2), by(0, 3), by(2, 2)], ["s3", "s3", "s3"]);
}

#[test]
fn hosts_on_spines_get_detours() {
    let hosts = [4, 4, 4, 4, 1, 1, 1, 1];
    let graph = cabled(&hosts, &two_levels(4, 4, |_, _| 1));
    let tables = checked("service hosts", &graph, &Options::default());
    let detours = [Warning::Detours { pairs: 12 }];
    assert_eq!(tables.warnings, detours);
}

#[test]
fn one_vl_is_enough_where_shortest_paths_that_turn_anywhere_deadlock() {
    for name in ["as-built-8-6-4-2-7", "as-built-12-9-6-3-3"] {
        let graph = fabric(name);
        let mut shortest = route(RoutingEngine::Dfsssp, &graph);
        assert!(shortest.vl_assignment.take().is_some(), "{name}");
        assert!(has_cycle(dependencies(&graph, &shortest)), "{name}");
        checked(name, &graph, &Options::default());
    }
}

#[test]
fn the_lids_of_a_port_have_ways_down_of_their_own() {
    let graph = fabric("clos-4-4-4");
    let options = Options {
        lmc: Some(Lmc::constant(2)),
        ..Options::default()
    };
    let tables = checked("clos-4-4-4", &graph, &options);
    assert_eq!(path_diversity(&graph, &tables).min, 4);
}

#[test]
fn what_is_no_tree_is_refused_with_the_cable_that_is_wrong() {
    for name in [
        "torus-5x5-1",
        "ring-5-2",
        "hypercube-3-1",
        "irregular-8-1-4-2",
    ] {
        let error = RoutingEngine::Ftree
            .route(&fabric(name), &Options::default())
            .unwrap_err();
        let Some(NotTree::SameLevel { level, .. }) = error.reason() else {
            panic!("{name}: {error}");
        };
        assert_eq!(*level, 0, "{name}");
    }
    // A cable between two spines of a good tree.
    let mut cables = two_levels(3, 3, |_, _| 1);
    cables.push((3, 5));
    let error = RoutingEngine::Ftree
        .route(&cabled(&[4, 4, 4, 0, 0, 0], &cables), &Options::default())
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("from port 4 of s3 to port 4 of s5 joins two switches of level 1"),
        "{text}"
    );
    // Hosts at every second switch of a ring: levels there are, but no common switch above.
    let ring: Vec<(usize, usize)> = (0..8).map(|at| (at, (at + 1) % 8)).collect();
    let error = RoutingEngine::Ftree
        .route(
            &cabled(&[1, 0, 1, 0, 1, 0, 1, 0], &ring),
            &Options::default(),
        )
        .unwrap_err();
    assert!(
        matches!(error.reason(), Some(NotTree::NoPath { .. })),
        "{error}"
    );
    let error = RoutingEngine::Ftree
        .route(&cabled(&[0, 0], &[(0, 1)]), &Options::default())
        .unwrap_err();
    assert_eq!(error.reason(), Some(&NotTree::NoHost));
}

#[test]
fn tables_are_golden_and_the_same_whatever_the_order_of_the_graph() {
    for (name, graph) in trees() {
        if !["pruned", "several cores, pruned", "service hosts"].contains(&name) {
            continue;
        }
        let words = text(&graph, &checked(name, &graph, &Options::default()));
        golden(
            &format!("ftree/{}.txt", name.replace(", ", "-").replace(' ', "-")),
            &words,
        );
        let other = shuffled(&graph, 5);
        assert_eq!(
            words,
            text(&other, &route(RoutingEngine::Ftree, &other)),
            "{name}"
        );
    }
}

/// Hosts and cables of a drawn tree of three levels: every switch has a cable up, some more.
fn drawn_tree() -> impl Strategy<Value = (Vec<u8>, Vec<(usize, usize)>)> {
    let leaves = prop::collection::vec(1u8..6, 2..7);
    let cables = prop::collection::vec((0usize..60, 0usize..60), 4..40);
    (leaves, 1usize..4, 1usize..4, cables).prop_map(|(leaves, spines, cores, drawn)| {
        let count = leaves.len();
        let spine = |number: usize| count + number % spines;
        let core = |number: usize| count + spines + number % cores;
        let mut cables: Vec<(usize, usize)> = (0..count).map(|leaf| (leaf, spine(leaf))).collect();
        cables.extend((0..spines).map(|number| (count + number, core(0))));
        cables.extend((0..cores).map(|number| (spine(number), count + spines + number)));
        for (a, b) in drawn {
            cables.push(match b % 2 {
                0 => (a % count, spine(b)),
                _ => (spine(a), core(b)),
            });
        }
        let mut hosts = leaves;
        hosts.extend(vec![0; spines + cores]);
        (hosts, cables)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_tree_of_levels_is_served((hosts, cables) in drawn_tree()) {
        checked("drawn", &cabled(&hosts, &cables), &Options::default());
    }
}
