use proptest::prelude::*;
use strum::VariantArray as _;
use topologies::{Endpoint, Graph, Node, NodeKind};
use wire::{Guid, PortNum};

use super::*;
use crate::network::tests::{graph, shuffled};
use crate::network::{LegalPaths, Network, PathLimit, UpDown};

fn network(name: &str) -> Network {
    Network::new(&graph(name))
}

/// The switches s0 to s5 of LID07's examples, with a cable for every hop of the paths below.
fn example() -> (Network, Vec<Vec<u32>>) {
    let mut graph = Graph::new();
    let switches: Vec<_> = (0..6u8)
        .map(|index| {
            graph
                .add(Node::new(
                    format!("s{index}"),
                    NodeKind::Switch,
                    Guid(u64::from(index) + 1),
                    8,
                ))
                .unwrap()
        })
        .collect();
    // Port p + 1 of a switch leads to s<p>.
    let end = |at: u8, to: u8| Endpoint {
        node: switches[usize::from(at)],
        port: PortNum::new(to + 1),
    };
    for (a, b) in [
        (4, 1),
        (1, 0),
        (4, 3),
        (3, 2),
        (2, 0),
        (5, 2),
        (5, 3),
        (3, 1),
    ] {
        graph.connect(end(a, b), end(b, a)).unwrap();
    }
    let network = Network::new(&graph);
    let walks: [&[u8]; 4] = [&[4, 1, 0], &[4, 3, 2, 0], &[5, 2, 0], &[5, 3, 1, 0]];
    let paths = walks
        .iter()
        .map(|walk| {
            walk.windows(2)
                .map(|hop| u32::try_from(network.channel_at(end(hop[0], hop[1])).unwrap()).unwrap())
                .collect()
        })
        .collect();
    (network, paths)
}

#[test]
fn greedy_takes_three_configurations_where_two_suffice_as_in_the_papers_example() {
    let (network, paths) = example();
    let given: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
    let (problem, places) = Problem::new(&network, &given);
    assert_eq!(places, [0, 1, 2, 3]);
    assert_eq!(greedy(&problem), [0, 1, 0, 2]);
    assert_eq!(exact(&problem, 1000).unwrap(), [1, 0, 0, 1]);
}

#[test]
fn the_split_graph_joins_paths_that_leave_a_common_switch_by_different_channels() {
    let (network, paths) = example();
    let given: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
    let (problem, _) = Problem::new(&network, &given);
    let splits: Vec<Vec<usize>> = problem
        .split_graph()
        .iter()
        .map(|splits| splits.iter().collect())
        .collect();
    assert_eq!(splits, [vec![1], vec![0, 3], vec![3], vec![1, 2]]);
}

#[test]
fn equal_paths_are_one_path_of_the_problem_with_their_weight() {
    let (network, paths) = example();
    let given = [&paths[0][..], &paths[2][..], &paths[0][..]];
    let (problem, places) = Problem::new(&network, &given);
    assert_eq!(places, [0, 1, 0]);
    assert_eq!((problem.len(), problem.weight(0)), (2, 2));
}

fn routings(network: &Network) -> [Routes; 3] {
    let updown = UpDown::new(network).unwrap();
    [
        shortest_widest(network, &updown, PATHS_MAX).unwrap(),
        path_selection(network, &updown, PATHS_MAX).unwrap(),
        fully_explicit(network, &updown).unwrap(),
    ]
}

/// Every path leads from switch to switch to its destination and is legal; returns its length over
/// that of the shortest.
fn walk(network: &Network, updown: &UpDown, routes: &Routes, source: usize, to: usize) -> u32 {
    let target = network.hosts()[to].switch;
    let first = network.hosts()[source].switch;
    let (mut at, mut descending) = (first, false);
    let path = routes.path(source, to);
    for &channel in path {
        let channel = channel as usize;
        assert_eq!(network.channels()[channel].from, at);
        assert!(!(descending && updown.is_up(channel)));
        descending |= !updown.is_up(channel);
        at = network.channels()[channel].to;
    }
    assert_eq!(at, target);
    let shortest = updown.hops_to(network, target).any[first].unwrap();
    u32::try_from(path.len()).unwrap() - shortest
}

#[test]
fn paths_are_legal_and_as_short_as_their_scheme_says() {
    for name in [
        "irregular-8-3-4-2",
        "mesh-3x3-2",
        "fat-tree-4-2",
        "clos-3-2-2-2",
    ] {
        let network = network(name);
        let updown = UpDown::new(&network).unwrap();
        let [widest, selected, explicit] = routings(&network);
        for to in 0..network.hosts().len() {
            for source in (0..network.hosts().len()).filter(|&source| source != to) {
                assert_eq!(walk(&network, &updown, &widest, source, to), 0);
                assert!(walk(&network, &updown, &selected, source, to) <= 1);
                walk(&network, &updown, &explicit, source, to);
            }
        }
    }
}

/// No two paths of one configuration split.
fn assert_realisable(network: &Network, routes: &Routes, assignment: &Assignment) {
    for to in 0..routes.hosts() {
        let mut entries = std::collections::BTreeMap::new();
        for source in (0..routes.hosts()).filter(|&source| source != to) {
            let number = assignment.number(source, to);
            assert!(number < assignment.count(to));
            for &channel in routes.path(source, to) {
                let switch = network.channels()[channel as usize].from;
                let entry = *entries.entry((number, switch)).or_insert(channel);
                assert_eq!(
                    entry, channel,
                    "LID {number} of host {to} at switch {switch}"
                );
            }
        }
    }
}

#[test]
fn every_scheme_separates_every_routing_into_configurations() {
    for name in ["irregular-8-3-4-2", "torus-3x3-2", "fat-tree-4-2"] {
        let network = network(name);
        for routes in routings(&network) {
            let mut lids = Vec::new();
            for &scheme in Scheme::VARIANTS {
                let assignment = Assignment::new(&network, &routes, scheme).unwrap();
                assert_realisable(&network, &routes, &assignment);
                lids.push(assignment.lids());
            }
            let exact = lids[lids.len() - 1];
            assert!(lids.iter().all(|&lids| lids >= exact), "{name}: {lids:?}");
        }
    }
}

#[test]
fn fully_explicit_routing_needs_one_lid_for_each_destination() {
    let network = network("irregular-16-4-4-7");
    let [_, _, explicit] = routings(&network);
    let assignment = Assignment::new(&network, &explicit, Scheme::Greedy).unwrap();
    assert_eq!(assignment.lids(), 64);
}

#[test]
fn routes_and_lids_do_not_depend_on_the_order_of_the_graph() {
    let graph = graph("irregular-8-2-3-4");
    let (one, other) = (Network::new(&graph), Network::new(&shuffled(&graph, 3)));
    assert_eq!(routings(&one), routings(&other));
}

#[test]
fn two_parts_without_a_cable_between_them_have_no_routing() {
    let mut graph = graph("mesh-3-1");
    let cut = graph
        .links()
        .find(|(a, b)| {
            [a, b]
                .iter()
                .all(|end| graph.node(end.node).kind == NodeKind::Switch)
        })
        .unwrap();
    graph.disconnect(cut.0);
    let network = Network::new(&graph);
    assert_eq!(UpDown::new(&network), None);
}

#[test]
fn the_exact_search_says_when_it_gives_up() {
    let network = network("irregular-8-4-4-5");
    let [_, selected, _] = routings(&network);
    let given: Vec<&[u32]> = (1..32).map(|source| selected.path(source, 0)).collect();
    let (problem, _) = Problem::new(&network, &given);
    match exact(&problem, 0) {
        Ok(_) | Err(LidError::TooHard { steps_max: 0, .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// Means over 16 random graphs of 128 hosts on 16 switches with 8 neighbours each.
mod bands {
    use super::*;

    const GRAPHS: u64 = 16;

    fn means(
        route: fn(&Network, &UpDown, usize) -> Result<Routes, LidError>,
        schemes: &[Scheme],
    ) -> Vec<f64> {
        let mut sums = vec![0.0; schemes.len()];
        for seed in 1..=GRAPHS {
            let network = network(&format!("irregular-16-8-8-{seed}"));
            let updown = UpDown::new(&network).unwrap();
            let routes = route(&network, &updown, PATHS_MAX).unwrap();
            for (sum, &scheme) in sums.iter_mut().zip(schemes) {
                let assignment = Assignment::new(&network, &routes, scheme).unwrap();
                *sum += f64::from(assignment.lids()) / 16.0;
            }
        }
        sums
    }

    #[test]
    fn shortest_widest_needs_within_5_percent_of_478_lids_by_any_heuristic() {
        for (mean, scheme) in means(shortest_widest, &Scheme::VARIANTS[..5])
            .iter()
            .zip(Scheme::VARIANTS)
        {
            assert!((mean / 478.0 - 1.0).abs() < 0.05, "{scheme:?} {mean}");
        }
    }

    #[test]
    fn one_lid_a_host_costs_balance_and_paths_of_their_own_gain_it() {
        let mut loads = [0.0; 3];
        for seed in 1..=4 {
            let network = network(&format!("irregular-32-4-8-{seed}"));
            for (sum, routes) in loads.iter_mut().zip(routings(&network)) {
                *sum += routes.load_max(&network);
            }
        }
        let [widest, selected, explicit] = loads;
        assert!(selected < widest && widest < explicit, "{loads:?}");
    }

    #[test]
    fn by_the_load_that_results_paths_are_balanced_and_need_fewer_lids_as_in_the_paper() {
        let limit = PathLimit {
            detour: 1,
            paths_max: PATHS_MAX,
        };
        let (mut loads, mut lids) = ([0.0; 2], [0.0; 2]);
        for seed in 1..=4 {
            let network = network(&format!("irregular-16-8-8-{seed}"));
            let updown = UpDown::new(&network).unwrap();
            let widest = shortest_widest(&network, &updown, PATHS_MAX).unwrap();
            let chosen = load_selection(&network, &updown, limit, 4).unwrap();
            let both = [(widest, Scheme::Greedy), (chosen, Scheme::ColorL)];
            for (place, (routes, scheme)) in both.iter().enumerate() {
                let assignment = Assignment::new(&network, routes, *scheme).unwrap();
                loads[place] += routes.load_max(&network);
                lids[place] += f64::from(assignment.lids());
            }
        }
        assert!(loads[1] < 0.8 * loads[0], "{loads:?}");
        assert!(lids[1] < lids[0], "{lids:?}");
    }

    #[test]
    fn path_selection_ranks_the_heuristics_as_the_paper_does() {
        let means = means(path_selection, Scheme::VARIANTS);
        let [.., color_s, color_l, exact] = means[..] else {
            panic!()
        };
        assert!(means[..5].iter().all(|&mean| mean >= color_l), "{means:?}");
        assert!((color_l / 466.0 - 1.0).abs() < 0.20, "{means:?}");
        assert!((1.15..1.40).contains(&(color_s / color_l)), "{means:?}");
        assert!(color_l / exact < 1.03, "{means:?}");
    }
}

#[test]
fn paths_chosen_by_load_are_alternatives_and_the_same_whatever_the_order_of_the_graph() {
    let limit = PathLimit {
        detour: 1,
        paths_max: PATHS_MAX,
    };
    let fabric = graph("irregular-8-3-4-5");
    let network = Network::new(&fabric);
    let updown = UpDown::new(&network).unwrap();
    let routes = load_selection(&network, &updown, limit, 4).unwrap();
    for (destination, to) in network.hosts().iter().enumerate() {
        let paths = LegalPaths::to(&network, &updown, to.switch, limit).unwrap();
        for (source, from) in network.hosts().iter().enumerate() {
            if source != destination {
                let path = routes.path(source, destination);
                let mut allowed = paths.from(from.switch).iter().take(4);
                assert!(allowed.any(|one| one[..] == *path), "{path:?}");
            }
        }
    }
    for seed in 0..3 {
        let other = Network::new(&shuffled(&fabric, seed));
        let updown = UpDown::new(&other).unwrap();
        let same = load_selection(&other, &updown, limit, 4).unwrap();
        assert_eq!(same, routes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_connected_fabric_is_routed_and_assigned(
        switches in 2u64..9, hosts in 1u64..4, degree in 2u64..5, seed: u64,
    ) {
        let degree = degree.min(switches - 1);
        prop_assume!(switches * degree % 2 == 0 && (degree > 1 || switches == 2));
        let Ok(topology) =
            topologies::parse(&format!("irregular-{switches}-{hosts}-{degree}-{seed}")) else {
            return Ok(());
        };
        let network = Network::new(&topology.graph);
        for routes in routings(&network) {
            for &scheme in Scheme::VARIANTS {
                let assignment = Assignment::new(&network, &routes, scheme).unwrap();
                assert_realisable(&network, &routes, &assignment);
                for to in 0..routes.hosts() {
                    let lids = u32::from(assignment.lmc(to).unwrap().lids());
                    prop_assert!(lids >= assignment.count(to));
                }
            }
        }
    }
}
