//! `torus-2qos`: tori that have lost cables or a switch.

use std::collections::BTreeSet;

use proptest::prelude::*;
use routing::dor::Grid;
use routing::network::Network;
use routing::torus_2qos::NotTorus;
use routing::{Options, RoutingEngine, RoutingError, SECOND_LEVEL, Tables, verify};
use topologies::{Endpoint, Graph, NodeId};
use wire::{Sl, Vl};

use crate::credit_loops::{dependencies, has_cycle};
use crate::support::{fabric, golden, is_switch, shuffled, text, without};

fn with_vls(vls: u8) -> Options {
    Options {
        data_vls: Some(vls),
        ..Options::default()
    }
}

fn route(graph: &Graph) -> Result<Tables, RoutingError> {
    RoutingEngine::Torus2Qos.route(graph, &Options::default())
}

/// Tables that the verifier and the second opinion have nothing against.
fn checked(what: &str, graph: &Graph, vls: u8) -> Tables {
    let tables = RoutingEngine::Torus2Qos
        .route(graph, &with_vls(vls))
        .unwrap();
    let report = verify(graph, &tables, tables.promises);
    assert!(report.is_ok(), "{what}: {}", report.describe(graph));
    assert!(tables.promises.deadlock_free);
    assert!(!has_cycle(dependencies(graph, &tables)), "{what}");
    tables
}

/// The cables between switches, each by one end.
fn cables(graph: &Graph) -> Vec<Endpoint> {
    let between =
        |(a, b): &(Endpoint, Endpoint)| is_switch(graph, a.node) && is_switch(graph, b.node);
    graph.links().filter(between).map(|(a, _)| a).collect()
}

/// The switch with its hosts.
fn with_hosts(graph: &Graph, switch: NodeId) -> Vec<NodeId> {
    let behind = graph.cables(switch).map(|(_, peer)| peer.node);
    let hosts = behind.filter(|&node| !is_switch(graph, node));
    hosts.chain([switch]).collect()
}

/// A torus whose first dimension is of size 6 and the second of size 5, and its coordinates.
fn six_by_five() -> (Graph, Network, Grid) {
    for name in ["torus-6x5-1", "torus-5x6-1"] {
        let graph = fabric(name);
        let network = Network::new(&graph);
        let grid = Grid::recognise(&network).unwrap();
        if grid.dimensions()[0].size == 6 {
            return (graph, network, grid);
        }
    }
    panic!("one of them is");
}

/// The places of the switches on the path from the host at one place to that at another.
fn places(
    whole: (&Graph, &Network, &Grid),
    graph: &Graph,
    tables: &Tables,
    ends: [[usize; 2]; 2],
) -> Vec<Vec<usize>> {
    let (before, network, grid) = whole;
    let at = |place: [usize; 2]| {
        let switches = 0..network.switches().len();
        let switch = switches
            .into_iter()
            .find(|&switch| grid.place(switch) == place)
            .unwrap();
        let node = network.switches()[switch];
        let hosts = with_hosts(before, node);
        graph.find(&before.node(hosts[0]).name).unwrap()
    };
    let [from, to] = ends.map(at);
    let lid = tables.lids.of_node(to).unwrap().base;
    let source = tables.lids.of_node(from).unwrap().end.unwrap();
    let path = tables.path(graph, source, lid);
    assert!(path.arrives);
    let switches = path.hops.iter().filter(|hop| is_switch(graph, hop.node));
    switches
        .map(|hop| {
            let node = before.find(&graph.node(hop.node).name).unwrap();
            grid.place(network.switch(node).unwrap()).to_vec()
        })
        .collect()
}

fn node_at(network: &Network, grid: &Grid, place: [usize; 2]) -> NodeId {
    let mut switches = 0..network.switches().len();
    let found = switches.find(|&switch| grid.place(switch) == place);
    network.switches()[found.unwrap()]
}

#[test]
fn a_whole_torus_is_routed_as_by_dor() {
    for name in ["torus-5x6-1", "torus-5x5x3-1", "torus-3x3-2", "ring-7-1"] {
        let graph = fabric(name);
        let dor = RoutingEngine::Dor
            .route(&graph, &Options::default())
            .unwrap();
        let vls = |tables: &Tables| tables.vl_assignment.as_ref().map_or(1, |one| one.data_vls);
        // With as many VLs as that takes, and with some for a second level.
        for data_vls in [vls(&dor), 8] {
            let tables = checked(name, &graph, data_vls);
            assert_eq!(text(&graph, &tables), text(&graph, &dor), "{name}");
            let levels = if data_vls == 8 { 4 } else { 1 };
            assert_eq!(vls(&tables), levels * vls(&dor), "{name}");
        }
    }
}

#[test]
fn any_one_cable_may_fail_on_two_vls_and_service_levels_stay() {
    for (name, step) in [
        ("torus-3x5-1", 1),
        ("torus-5x6-1", 4),
        ("torus-3x3x3-1", 13),
    ] {
        let graph = fabric(name);
        let whole = checked(name, &graph, 2);
        for cable in cables(&graph).into_iter().step_by(step) {
            let damaged = without(&graph, &[], &[cable]);
            let tables = checked(name, &damaged, 2);
            for switch in graph.switches() {
                let now = damaged.find(&graph.node(switch).name).unwrap();
                for range in whole.lids.iter() {
                    let level = |tables: &Tables, switch| {
                        let assignment = tables.vl_assignment.as_ref();
                        assignment.map(|one| one.sl(switch, range.base))
                    };
                    assert_eq!(level(&whole, switch), level(&tables, now), "{name}");
                }
            }
        }
    }
}

#[test]
fn any_one_switch_may_fail_on_four_vls() {
    for (name, step) in [
        ("torus-5x5-1", 1),
        ("torus-7x6-1", 8),
        ("torus-5x3x3-1", 11),
        ("torus-5x5x5-1", 62),
    ] {
        let graph = fabric(name);
        for switch in graph.switches().step_by(step) {
            let damaged = without(&graph, &with_hosts(&graph, switch), &[]);
            let tables = checked(name, &damaged, 4);
            assert_eq!(tables.vl_assignment.unwrap().data_vls, 4);
        }
    }
}

#[test]
fn the_examples_of_the_manual_page_are_so() {
    let (graph, network, grid) = six_by_five();
    let whole = (&graph, &network, &grid);
    let ends = [[1, 1], [3, 3]];
    let straight = [[1, 1], [2, 1], [3, 1], [3, 2], [3, 3]];
    assert_eq!(
        places(whole, &graph, &checked("whole", &graph, 2), ends),
        straight
    );

    // The cable S-n, or n-T: the long way round.
    for [a, b] in [[[1, 1], [2, 1]], [[2, 1], [3, 1]]] {
        let (a, b) = (node_at(&network, &grid, a), node_at(&network, &grid, b));
        let (port, _) = graph.cables(a).find(|(_, peer)| peer.node == b).unwrap();
        let damaged = without(&graph, &[], &[Endpoint { node: a, port }]);
        let tables = checked("a cable", &damaged, 2);
        let long = [[1, 1], [0, 1], [5, 1], [4, 1], [3, 1], [3, 2], [3, 3]];
        assert_eq!(places(whole, &damaged, &tables, ends), long);
    }

    // The switch T: an early turn at n, and one against the order at I.
    let missing = node_at(&network, &grid, [3, 1]);
    let damaged = without(&graph, &with_hosts(&graph, missing), &[]);
    let tables = checked("a switch", &damaged, 4);
    let early = [[1, 1], [2, 1], [2, 2], [3, 2], [3, 3]];
    assert_eq!(places(whole, &damaged, &tables, ends), early);
}

/// A torus of 6 by 6, and its coordinates.
fn six_by_six() -> (Graph, Network, Grid) {
    let graph = fabric("torus-6x6-1");
    let network = Network::new(&graph);
    let grid = Grid::recognise(&network).unwrap();
    (graph, network, grid)
}

/// The fabric without the switches at these places and their hosts.
fn without_places(
    (graph, network, grid): (&Graph, &Network, &Grid),
    missing: &[[usize; 2]],
) -> Graph {
    let nodes = missing.iter().flat_map(|&place| {
        let node = node_at(network, grid, place);
        with_hosts(graph, node)
    });
    without(graph, &nodes.collect::<Vec<_>>(), &[])
}

#[test]
fn several_switches_that_follow_each_other_in_the_last_dimension_may_fail() {
    let (graph, network, grid) = six_by_six();
    let whole = (&graph, &network, &grid);
    for missing in [
        vec![[3, 1], [3, 2]],
        vec![[0, 5], [0, 0]],
        vec![[3, 1], [3, 2], [3, 3]],
    ] {
        let damaged = without_places(whole, &missing);
        let tables = checked("a column", &damaged, 4);
        assert_eq!(tables.vl_assignment.as_ref().unwrap().data_vls, 4);
        let report = verify(&damaged, &tables, tables.promises);
        assert_eq!(report.answer_cycle, None);
    }
    // The example of the manual page.
    let damaged = without_places(whole, &[[3, 1], [3, 2]]);
    let tables = checked("a column", &damaged, 4);
    assert_eq!(
        places(whole, &damaged, &tables, [[1, 1], [3, 3]]),
        [[1, 1], [2, 1], [2, 2], [2, 3], [3, 3]]
    );
}

#[test]
fn other_missing_switches_are_served_without_a_loop_or_refused() {
    let (graph, network, grid) = six_by_six();
    for missing in [
        [[3, 1], [4, 1]],
        [[0, 0], [1, 0]],
        [[1, 1], [4, 4]],
        [[2, 2], [3, 3]],
    ] {
        let damaged = without_places((&graph, &network, &grid), &missing);
        match RoutingEngine::Torus2Qos.route(&damaged, &with_vls(4)) {
            Ok(_) => drop(checked("two switches", &damaged, 4)),
            Err(error) => assert!(error.reason::<NotTorus>().is_some(), "{error}"),
        }
    }
}

#[test]
fn without_its_own_vls_the_turn_around_a_missing_switch_closes_a_loop() {
    let (graph, network, grid) = six_by_five();
    let missing = node_at(&network, &grid, [3, 2]);
    let damaged = without(&graph, &with_hosts(&graph, missing), &[]);
    let mut tables = checked("a switch", &damaged, 4);
    let assignment = tables.vl_assignment.as_mut().unwrap();
    for table in assignment.by_ports.values_mut() {
        for vl in table {
            *vl = Vl::constant(vl.get() & 1);
        }
    }
    assert!(has_cycle(dependencies(&damaged, &tables)));
    assert!(verify(&damaged, &tables, tables.promises).cycle.is_some());
}

/// The VLs on which packets of that level, or of the other, come from switch to switch.
fn vls_between_switches(graph: &Graph, tables: &Tables, level: u8) -> BTreeSet<Vl> {
    let assignment = tables.vl_assignment.as_ref().unwrap();
    let mut used = BTreeSet::new();
    for from in graph.hosts() {
        for to in graph.hosts().filter(|&to| to != from) {
            let end = tables.lids.of_node(from).unwrap().end.unwrap();
            let lid = tables.lids.of_node(to).unwrap().base;
            let sl = assignment.sl_from(graph, end, lid);
            let sl = Sl::constant(sl.get() | level);
            let path = tables.path(graph, end, lid);
            for hop in &path.hops[1..path.hops.len() - 2] {
                used.insert(assignment.vl(hop.node, hop.entry, hop.exit, sl));
            }
        }
    }
    used
}

/// Name, fabric, data VLs, VLs of the first level, VLs of the second.
type SecondLevelCase<'a> = (&'a str, &'a Graph, u8, &'a [u8], &'a [u8]);

#[test]
fn the_second_level_has_the_same_ways_on_vls_of_its_own_as_long_as_there_are_as_many() {
    let (graph, network, grid) = six_by_five();
    let missing = node_at(&network, &grid, [3, 2]);
    let without_switch = without(&graph, &with_hosts(&graph, missing), &[]);
    let without_cable = without(&graph, &[], &[cables(&graph)[7]]);
    let set = |vls: &[u8]| -> BTreeSet<Vl> { vls.iter().map(|&vl| Vl::constant(vl)).collect() };
    // No turn against the order is on the dateline's side here: VL 3 and VL 7 are for others.
    let (two, turns): (&[u8], &[u8]) = (&[0, 1], &[0, 1, 2]);
    let cases: [SecondLevelCase<'_>; 6] = [
        ("whole", &graph, 8, two, &[4, 5]),
        ("without a cable", &without_cable, 8, two, &[4, 5]),
        ("without a switch", &without_switch, 8, turns, &[4, 5, 6]),
        ("whole", &graph, 4, two, &[2, 3]),
        ("without a switch", &without_switch, 4, turns, turns),
        ("whole", &graph, 2, two, two),
    ];
    for (what, graph, vls, first, second) in cases {
        let tables = checked(what, graph, vls);
        let has_own = tables.vl_assignment.as_ref().unwrap().has_second_level;
        assert_eq!(has_own, first != second, "{what} {vls}");
        let used = [0, SECOND_LEVEL].map(|level| vls_between_switches(graph, &tables, level));
        assert_eq!(used, [set(first), set(second)], "{what} {vls}");
    }
    // With four rings of five no bit is left.
    let tables = route(&fabric("torus-5x5x5x5-1")).unwrap();
    assert!(!tables.vl_assignment.unwrap().has_second_level);
}

#[test]
fn a_loop_of_the_second_level_alone_is_seen() {
    let (graph, _, _) = six_by_five();
    let mut tables = checked("whole", &graph, 8);
    let assignment = tables.vl_assignment.as_mut().unwrap();
    assert!(assignment.has_second_level);
    for table in assignment.by_ports.values_mut() {
        for vl in &mut table[usize::from(SECOND_LEVEL)..] {
            *vl = Vl::constant(4);
        }
    }
    // Packets on the levels that the tables name close none.
    assert!(!has_cycle(dependencies(&graph, &tables)));
    let report = verify(&graph, &tables, tables.promises);
    let cycle = report.cycle.unwrap();
    assert!(cycle.iter().all(|channel| channel.vl == Vl::constant(4)));
}

#[test]
fn without_datelines_whole_rings_close_loops() {
    let graph = fabric("torus-5x6-1");
    let mut tables = checked("whole", &graph, 2);
    tables.vl_assignment = None;
    assert!(has_cycle(dependencies(&graph, &tables)));
}

#[test]
fn what_it_cannot_serve_is_refused_with_the_reason() {
    for name in ["mesh-5x5-1", "fat-tree-4-3", "irregular-16-1-4-2"] {
        let error = route(&fabric(name)).unwrap_err();
        let reason: Option<&NotTorus> = error.reason();
        assert!(
            matches!(reason, Some(NotTorus::Grid { .. } | NotTorus::Row { .. })),
            "{name}: {error}"
        );
    }
    // A ring in two parts.
    let (graph, network, grid) = six_by_five();
    let cut: Vec<Endpoint> = [[[2, 1], [3, 1]], [[4, 1], [5, 1]]]
        .map(|ends| {
            let [a, b] = ends.map(|place| node_at(&network, &grid, place));
            let (port, _) = graph.cables(a).find(|(_, peer)| peer.node == b).unwrap();
            Endpoint { node: a, port }
        })
        .to_vec();
    let error = route(&without(&graph, &[], &cut)).unwrap_err();
    assert!(
        matches!(error.reason(), Some(NotTorus::NoWay { .. })),
        "{error}"
    );
    // Too few VLs.
    let missing = node_at(&network, &grid, [3, 2]);
    let damaged = without(&graph, &with_hosts(&graph, missing), &[]);
    let error = RoutingEngine::Torus2Qos.route(&damaged, &with_vls(2));
    assert_eq!(
        error.unwrap_err(),
        RoutingError::VlsExhausted {
            engine: RoutingEngine::Torus2Qos,
            needed: 4,
            have: 2
        }
    );
}

#[test]
fn tables_are_golden_and_the_same_whatever_the_order_of_the_graph() {
    let (graph, network, grid) = six_by_five();
    let missing = node_at(&network, &grid, [3, 2]);
    let cable = cables(&graph)[7];
    for (name, damaged) in [
        ("6x5-without-a-cable", without(&graph, &[], &[cable])),
        (
            "6x5-without-a-switch",
            without(&graph, &with_hosts(&graph, missing), &[]),
        ),
    ] {
        let words = text(&damaged, &route(&damaged).unwrap());
        golden(&format!("torus-2qos/{name}.txt"), &words);
        let other = shuffled(&damaged, 4);
        assert_eq!(words, text(&other, &route(&other).unwrap()), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Cables of different rings: every ring is left in one part.
    #[test]
    fn some_cables_of_different_rings_may_fail(picks in prop::collection::vec(0usize..60, 1..4)) {
        let (graph, network, grid) = six_by_five();
        let all = cables(&graph);
        let mut rings = Vec::new();
        let mut cut = Vec::new();
        for pick in picks {
            let cable = all[pick];
            let ends = [cable.node, graph.peer(cable).unwrap().node];
            let [a, b] = ends.map(|node| grid.place(network.switch(node).unwrap()));
            let ring: Vec<Option<usize>> = a.iter().zip(b).map(|(a, b)| (a == b).then_some(*a)).collect();
            if !rings.contains(&ring) {
                rings.push(ring);
                cut.push(cable);
            }
        }
        checked("cables", &without(&graph, &[], &cut), 2);
    }
}
