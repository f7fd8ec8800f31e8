//! `dfsssp` and `dor`: shortest paths, free of deadlock by virtual lanes; and what answers meet.

use proptest::prelude::*;
use routing::dor::NotGrid;
use routing::{LoopOf, Options, RoutingEngine, RoutingError, Tables, verify};
use topologies::Graph;
use wire::{Lmc, Sl};

use crate::credit_loops::{answers, dependencies, has_cycle};
use crate::support::{fabric, golden, shuffled, text};

fn route(name: &str, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
    name.parse::<RoutingEngine>().unwrap().route(graph, options)
}

/// Tables that the verifier and the second opinion have nothing against.
fn checked(name: &str, graph: &Graph, options: &Options) -> Tables {
    let tables = route(name, graph, options).unwrap();
    let report = verify(graph, &tables, tables.promises);
    assert!(report.is_ok(), "{name}: {}", report.describe(graph));
    assert!(!has_cycle(dependencies(graph, &tables)), "{name}");
    tables
}

fn vls_of(tables: &Tables) -> u8 {
    tables.vl_assignment.as_ref().map_or(1, |one| one.data_vls)
}

/// The tables as text, with the SLs.
fn text_with_sls(graph: &Graph, tables: &Tables) -> String {
    let mut words = text(graph, tables);
    let mut switches: Vec<_> = graph.switches().collect();
    switches.sort_by_key(|&id| graph.node(id).guid);
    for id in switches {
        let level = |lid| {
            tables
                .vl_assignment
                .as_ref()
                .map_or(0, |one| one.sl(id, lid).get())
        };
        let levels: Vec<String> = (1..=tables.top().get())
            .map(|lid| level(wire::Lid::new(lid)).to_string())
            .collect();
        words.push_str(&format!(
            "sl {} {}\n",
            graph.node(id).name,
            levels.join(" ")
        ));
    }
    words
}

#[test]
fn dfsssp_is_shortest_and_free_of_deadlock_where_shortest_paths_alone_are_not() {
    for name in ["fat-tree-4-3", "clos-4-4-4", "mesh-1x5-2"] {
        let graph = fabric(name);
        let tables = checked("dfsssp", &graph, &Options::default());
        assert_eq!(vls_of(&tables), 1, "{name}");
    }
    for name in [
        "ring-6-2",
        "torus-5x5-1",
        "irregular-16-4-4-3",
        "irregular-12-2-3-1",
        "hypercube-4-2",
    ] {
        let graph = fabric(name);
        let tables = checked("dfsssp", &graph, &Options::default());
        assert!((2..=5).contains(&vls_of(&tables)), "{name}");
        let mut single = tables.clone();
        single.vl_assignment = None;
        assert!(has_cycle(dependencies(&graph, &single)), "{name}");
        assert!(verify(&graph, &single, single.promises).cycle.is_some());
    }
}

/// Whether answers on the service level of what they answer close a cycle: packet by packet.
fn answers_have_a_cycle(graph: &Graph, tables: &Tables) -> bool {
    let mut all = dependencies(graph, tables);
    for (held, next) in answers(graph, tables) {
        all.entry(held).or_default().extend(next);
    }
    has_cycle(all)
}

#[test]
fn answers_on_the_level_of_what_they_answer_close_no_cycle() {
    let fabrics = [
        "ring-5-2",
        "ring-6-3",
        "ring-8-2",
        "torus-4x4-1",
        "torus-5x5-2",
        "torus-8x3-1",
        "irregular-12-2-3-1",
        "irregular-16-4-4-3",
        "hypercube-4-1",
        "hypercube-4-2",
        "as-built-8-6-4-0-1",
        "as-built-8-6-4-2-7",
        "as-built-12-9-6-3-3",
    ];
    for engine in ["dfsssp", "nue", "lash", "dor", "torus-2qos"] {
        for name in fabrics {
            let graph = fabric(name);
            let tables = match route(engine, &graph, &Options::default()) {
                Err(RoutingError::NotApplicable { .. }) => continue,
                tables => tables.unwrap(),
            };
            let report = verify(&graph, &tables, tables.promises);
            assert!(report.is_ok(), "{engine} {name}");
            assert_eq!(report.answer_cycle, None, "{engine} {name}");
            assert!(!answers_have_a_cycle(&graph, &tables), "{engine} {name}");
        }
    }
}

/// The paths to all LIDs of hosts at a switch, and back, have one level.
#[test]
fn two_switches_have_one_level_both_ways() {
    for engine in ["dfsssp", "nue", "lash", "dor", "torus-2qos"] {
        for name in ["ring-8-2", "torus-5x5-2", "torus-8x5-1"] {
            let graph = fabric(name);
            let tables = checked(engine, &graph, &Options::default());
            let Some(assignment) = &tables.vl_assignment else {
                panic!("{engine} takes several VLs on {name}");
            };
            let ranges = || tables.lids.iter();
            let at = |range: &routing::LidRange| {
                let end = range.end.unwrap();
                let peer = graph.peer(end).map_or(end.node, |peer| peer.node);
                if end.port.get() == 0 { end.node } else { peer }
            };
            for one in ranges() {
                for other in ranges() {
                    assert_eq!(
                        assignment.sl(at(one), other.base),
                        assignment.sl(at(other), one.base),
                        "{engine} {name}"
                    );
                }
            }
        }
    }
}

#[test]
fn dfsssp_shares_trees_where_vls_are_few() {
    let graph = fabric("torus-5x5-2");
    let with = |vls| {
        let options = Options {
            data_vls: Some(vls),
            ..Options::default()
        };
        checked("dfsssp", &graph, &options)
    };
    let ports = |tables: &Tables| {
        let [one, other] = [0, 1].map(|number| {
            let host = graph.find(&format!("h{number}")).unwrap();
            tables.lids.of_node(host).unwrap().base
        });
        let differ =
            |&id: &topologies::NodeId| tables.lft(id).get(one) != tables.lft(id).get(other);
        graph.switches().filter(differ).count()
    };
    let (many, few) = (with(4), with(3));
    assert_eq!((vls_of(&many), vls_of(&few)), (4, 3));
    // Beside the switch that both hosts are at.
    assert!(ports(&many) > 1);
    assert_eq!(ports(&few), 1);
}

#[test]
fn levels_by_direction_alone_have_answers_that_close_a_cycle() {
    // Clockwise round a ring of five packets take level 1 where they cross the cable from s4 to s0, as
    // the paper has it; packets the other way round where they cross another cable. Each direction has
    // no cycle, and answers go round without that cut.
    let graph = fabric("ring-5-1");
    let mut tables = checked("dfsssp", &graph, &Options::default());
    let switches: Vec<_> = (0..5)
        .map(|at| graph.find(&format!("s{at}")).unwrap())
        .collect();
    let lids: Vec<_> = (0..5)
        .map(|at| {
            let host = graph.find(&format!("h{at}")).unwrap();
            tables.lids.of_node(host).unwrap().base
        })
        .collect();
    let assignment = tables.vl_assignment.as_mut().unwrap();
    for (from, &switch) in switches.iter().enumerate() {
        for (to, &lid) in lids.iter().enumerate() {
            let steps = (to + 5 - from) % 5;
            let crosses = match steps {
                1 | 2 => from + steps >= 5,
                // From s2 to s1 the other way.
                3 | 4 => from >= 2 && from + steps < 7,
                _ => false,
            };
            let level = Sl::constant(u8::from(crosses));
            assignment.set_sl(switch, lid, level);
        }
    }
    assert!(!has_cycle(dependencies(&graph, &tables)));
    let report = verify(&graph, &tables, tables.promises);
    assert_eq!(report.cycle, None);
    assert!(answers_have_a_cycle(&graph, &tables));
    assert!(report.answer_cycle.is_some());
    let loops: Vec<LoopOf> = report.credit_loops().map(|(packets, _)| packets).collect();
    assert_eq!(loops, [LoopOf::Answers]);
    // Tables of the user's own are told to have it.
    let worth = routing::file::check(&graph, &tables).unwrap();
    let wanted = "credit loop among packets between hosts and answers on their service level: s";
    assert!(worth[0].starts_with(wanted), "{worth:?}");
}

#[test]
fn packets_of_switches_own_ports_close_no_cycle_where_one_vl_is_enough_for_hosts() {
    for engine in ["dfsssp", "nue", "lash"] {
        for name in [
            "fat-tree-4-3",
            "fat-tree-6-3",
            "fat-tree-4-4",
            "directors-12-4-2-6-3",
            "directors-12-4-1-6-3",
        ] {
            for data_vls in [1, 4] {
                let graph = fabric(name);
                let options = Options {
                    data_vls: Some(data_vls),
                    ..Options::default()
                };
                let tables = checked(engine, &graph, &options);
                let report = verify(&graph, &tables, tables.promises);
                assert_eq!(report.switch_cycle, None, "{engine} {name}");
                assert_eq!(report.switches_unreachable, 0, "{engine} {name}");
                let may_take_more = engine == "lash" && data_vls > 1;
                assert!(vls_of(&tables) == 1 || may_take_more, "{engine} {name}");
            }
        }
    }
}

#[test]
fn every_lid_of_a_host_gets_a_tree_and_an_sl() {
    let graph = fabric("irregular-8-2-3-2");
    let options = Options {
        lmc: Some(Lmc::constant(2)),
        ..Options::default()
    };
    let tables = checked("dfsssp", &graph, &options);
    assert_eq!(
        tables
            .lids
            .iter()
            .filter(|range| range.lmc.get() == 2)
            .count(),
        16
    );
}

#[test]
fn too_few_vls_are_an_error_that_tells_how_many_would_do() {
    let with = |engine, name, vls| {
        let options = Options {
            data_vls: Some(vls),
            ..Options::default()
        };
        route(engine, &fabric(name), &options)
    };
    for engine in ["dfsssp", "dor"] {
        assert_eq!(
            with(engine, "ring-6-2", 1).unwrap_err(),
            RoutingError::VlsExhausted {
                engine: engine.parse().unwrap(),
                needed: 2,
                have: 1
            }
        );
        assert!(with(engine, "ring-6-2", 2).is_ok());
        assert!(with(engine, "mesh-2x5-1", 1).is_ok());
    }
}

#[test]
fn an_sl_that_is_changed_brings_the_credit_loop_back_and_the_verifier_sees_it() {
    let graph = fabric("ring-6-1");
    for name in ["dfsssp", "dor"] {
        let mut tables = checked(name, &graph, &Options::default());
        let assignment = tables.vl_assignment.as_mut().unwrap();
        for switch in graph.switches() {
            for lid in 1..=6 {
                assignment.set_sl(switch, wire::Lid::new(lid), Sl::default());
            }
        }
        assert!(has_cycle(dependencies(&graph, &tables)));
        let report = verify(&graph, &tables, tables.promises);
        assert!(!report.is_ok(), "{name}");
        assert!(report.cycle.unwrap().len() >= 3);
    }
}

#[test]
fn dor_serves_grids_with_the_vls_that_their_rings_need() {
    for (name, vls) in [
        ("mesh-4x4-2", 1),
        ("mesh-3x4x2-1", 1),
        ("hypercube-4-2", 1),
        ("torus-3x3-2", 1),
        ("torus-4x4-1", 1),
        ("ring-5-2", 2),
        ("ring-8-1", 2),
        ("torus-5x6-1", 2),
        ("torus-2x7-2", 2),
        ("torus-5x5x3-1", 2),
        ("star-4", 1),
    ] {
        let graph = fabric(name);
        let tables = checked("dor", &graph, &Options::default());
        assert_eq!(vls_of(&tables), vls, "{name}");
    }
}

#[test]
fn dor_settles_one_dimension_before_the_next() {
    let graph = fabric("mesh-4x4-1");
    let tables = checked("dor", &graph, &Options::default());
    let ends: Vec<_> = tables.lids.iter().filter_map(|range| range.end).collect();
    for &from in ends
        .iter()
        .filter(|end| graph.hosts().any(|id| id == end.node))
    {
        for range in tables.lids.iter() {
            let path = tables.path(&graph, from, range.base);
            // Switch s<i> is in row i / 4, column i % 4.
            let places: Vec<u32> = path
                .hops
                .iter()
                .filter_map(|hop| graph.node(hop.node).name.strip_prefix('s')?.parse().ok())
                .collect();
            let turns = places
                .windows(3)
                .filter(|w| (w[0] / 4 == w[1] / 4) != (w[1] / 4 == w[2] / 4))
                .count();
            assert!(turns <= 1, "{places:?}");
        }
    }
}

#[test]
fn dor_refuses_what_is_no_grid() {
    let error = route("dor", &fabric("fat-tree-4-3"), &Options::default()).unwrap_err();
    assert!(matches!(error.reason(), Some(NotGrid::NoLine { .. })));
    let error = route("dor", &fabric("torus-5x5x5x5x5-1"), &Options::default()).unwrap_err();
    assert_eq!(
        error.reason(),
        Some(&NotGrid::TooManyRings {
            rings: 5,
            rings_max: 4
        })
    );
}

#[test]
fn tables_are_golden_and_the_same_whatever_the_order_of_the_graph() {
    let options = Options {
        data_vls: Some(8),
        ..Options::default()
    };
    for (engine, names) in [
        (
            "dfsssp",
            ["irregular-8-2-4-1", "torus-3x5-2", "fat-tree-4-2"],
        ),
        ("nue", ["irregular-8-2-4-1", "torus-3x5-2", "fat-tree-4-2"]),
        ("lash", ["irregular-8-2-4-1", "torus-3x5-2", "fat-tree-4-3"]),
        ("dor", ["mesh-3x4-1", "torus-5x6-1", "hypercube-3-2"]),
    ] {
        for name in names {
            let graph = fabric(name);
            let tables = checked(engine, &graph, &options);
            let words = text_with_sls(&graph, &tables);
            golden(&format!("{engine}/{name}.txt"), &words);
            let other = shuffled(&graph, 8);
            let tables = route(engine, &other, &options).unwrap();
            assert_eq!(words, text_with_sls(&other, &tables), "{engine} {name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn dfsssp_takes_any_connected_fabric(
        switches in 3u64..14, hosts in 1u64..3, degree in 2u64..5, seed: u64,
    ) {
        let degree = degree.min(switches - 1);
        prop_assume!(switches * degree % 2 == 0);
        let Ok(topology) =
            topologies::parse(&format!("irregular-{switches}-{hosts}-{degree}-{seed}")) else {
            return Ok(());
        };
        checked("dfsssp", &topology.graph, &Options::default());
    }

    #[test]
    fn dor_takes_any_torus(sizes in prop::collection::vec(2u64..7, 1..4), hosts in 1u64..3) {
        prop_assume!(sizes.iter().product::<u64>() <= 60);
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let graph = fabric(&format!("torus-{}-{hosts}", sizes.join("x")));
        checked("dor", &graph, &Options::default());
    }
}
