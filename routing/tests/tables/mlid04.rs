//! The worked examples and equations of MLID04, read as the paper has them.

use crate::support::{checked, fabric, host_end, loads, route};
use routing::fat_tree::path_rank;
use routing::{LidBase, Options, RoutingError, Warning};
use topologies::{FatTree, Graph, NodeId, SwitchLabel};
use wire::{Lid, Lmc};

fn paper() -> Options {
    Options {
        lid_base: LidBase::Paper,
        ..Options::default()
    }
}

fn lids(graph: &Graph, tables: &routing::Tables, name: &str) -> Vec<u16> {
    let range = tables.lids.of_node(graph.find(name).unwrap()).unwrap();
    range.lids().map(Lid::get).collect()
}

/// `"s2.0.0 1 3"`: the switches of a path with entry and exit.
fn path(graph: &Graph, tables: &routing::Tables, from: &str, dlid: u16) -> Vec<String> {
    let path = tables.path(graph, host_end(graph, from), Lid::new(dlid));
    assert!(path.arrives);
    path.hops[1..path.hops.len() - 1]
        .iter()
        .map(|hop| format!("{} {} {}", graph.node(hop.node).name, hop.entry, hop.exit))
        .collect()
}

#[test]
fn figure_10_gives_p_300_the_lids_49_to_52() {
    let graph = fabric("fat-tree-4-3");
    let tables = checked(&graph, "mlid", &paper());
    assert_eq!(lids(&graph, &tables, "h3.0.0"), [49, 50, 51, 52]);
    assert_eq!(lids(&graph, &tables, "h0.0.0"), [1, 2, 3, 4]);
    assert_eq!(lids(&graph, &tables, "h3.1.1"), [61, 62, 63, 64]);
    // The paper gives switches none; theirs stand behind.
    assert_eq!(lids(&graph, &tables, "s0.0.0"), [65]);
    assert_eq!(lids(&graph, &tables, "s2.3.1"), [84]);
}

#[test]
fn figure_11_path_q_crosses_its_ten_ports_and_all_four_routes_part_as_drawn() {
    let graph = fabric("fat-tree-4-3");
    let tables = checked(&graph, "mlid", &paper());
    let dlid = |from: &str| {
        let (from, to) = (graph.find(from).unwrap(), graph.find("h3.0.0").unwrap());
        tables.dlid_between(from, to).unwrap().get()
    };
    let sources = ["h0.0.0", "h0.0.1", "h0.1.0", "h0.1.1"];
    assert_eq!(sources.map(dlid), [49, 50, 51, 52]);
    assert_eq!(
        path(&graph, &tables, "h0.0.0", 49),
        [
            "s2.0.0 1 3",
            "s1.0.0 1 3",
            "s0.0.0 1 4",
            "s1.3.0 3 1",
            "s2.3.0 3 1"
        ]
    );
    // R, S and T: four different roots, reached over different switches of level 1.
    let ways = sources.map(|from| path(&graph, &tables, from, dlid(from)));
    let starts = ways.each_ref().map(|way| way[..3].to_vec());
    assert_eq!(
        starts,
        [
            ["s2.0.0 1 3", "s1.0.0 1 3", "s0.0.0 1 4"],
            ["s2.0.0 2 4", "s1.0.1 1 3", "s0.1.0 1 4"],
            ["s2.0.1 1 3", "s1.0.0 2 4", "s0.0.1 1 4"],
            ["s2.0.1 2 4", "s1.0.1 2 4", "s0.1.1 1 4"],
        ]
        .map(|start| start.map(str::to_owned).to_vec())
    );
}

#[test]
fn figure_7_single_lids_leave_switch_x_on_the_ports_drawn() {
    let graph = fabric("fat-tree-8-2");
    let tables = checked(&graph, "slid", &paper());
    // A to D are below x = SW<0, 1>; E to H, PIDs 28 to 31, below y = SW<7, 1>.
    let x = graph.find("s1.0").unwrap();
    for (host, port) in [("h7.0", 5), ("h7.1", 6), ("h7.2", 7), ("h7.3", 8)] {
        let lid = Lid::new(lids(&graph, &tables, host)[0]);
        assert_eq!(tables.lft(x).get(lid).get(), port);
    }
    assert_eq!(lids(&graph, &tables, "h7.0"), [29]);
}

#[test]
fn figure_8_shows_the_aligned_lids_116_to_119() {
    let graph = fabric("fat-tree-8-2");
    let tables = checked(&graph, "mlid", &Options::default());
    assert_eq!(lids(&graph, &tables, "h7.0"), [116, 117, 118, 119]);
    let to = graph.find("h7.0").unwrap();
    let x = graph.find("s1.0").unwrap();
    for (host, port) in [("h0.0", 5), ("h0.1", 6), ("h0.2", 7), ("h0.3", 8)] {
        let dlid = tables.dlid_between(graph.find(host).unwrap(), to).unwrap();
        assert_eq!(tables.lft(x).get(dlid).get(), port);
    }
}

#[test]
fn ranks_pids_and_common_ancestors_are_those_of_section_3() {
    let tree = FatTree::new(4, 3).unwrap();
    let pid = |digits| tree.pid(digits).unwrap();
    assert_eq!((pid(&[2, 0, 0]), pid(&[2, 1, 1])), (8, 11));
    // Ranks in gcpg(2, 1), as a destination with another first digit asks for them.
    assert_eq!(path_rank(&tree, pid(&[2, 0, 0]), 0), 0);
    assert_eq!(path_rank(&tree, pid(&[2, 1, 1]), 0), 3);
    // P(010) and P(000) share one digit: the rank is that in gcpg(01, 2), not in gcpg(0, 1).
    assert_eq!(path_rank(&tree, pid(&[0, 1, 0]), pid(&[0, 0, 0])), 0);
    assert_eq!(path_rank(&tree, pid(&[0, 1, 1]), pid(&[0, 0, 0])), 1);
    assert_eq!(path_rank(&tree, pid(&[0, 1, 1]), pid(&[0, 1, 0])), 0);

    // lca(P(200), P(211)) = { SW<20, 1>, SW<21, 1> }.
    let above = |level| {
        let both = move |label: &SwitchLabel, tree: &FatTree| {
            label.level == level && tree.is_above(*label, 8) && tree.is_above(*label, 11)
        };
        tree.labels()
            .filter(|label| both(label, &tree))
            .map(|label| tree.switch_name(label))
            .collect::<Vec<_>>()
    };
    assert_eq!(above(1), ["s1.2.0", "s1.2.1"]);
    assert!(above(2).is_empty());
    assert_eq!(above(0).len(), 4);
}

#[test]
fn p_010_uses_the_first_lid_of_p_000() {
    let graph = fabric("fat-tree-4-3");
    let tables = checked(&graph, "mlid", &paper());
    let find = |name| graph.find(name).unwrap();
    let dlid = |from, to| tables.dlid_between(find(from), find(to)).unwrap().get();
    assert_eq!(dlid("h0.1.0", "h0.0.0"), 1);
    assert_eq!(dlid("h0.1.1", "h0.0.0"), 2);
    assert_eq!(dlid("h0.0.1", "h0.0.0"), 1);
}

/// Equations (1) and (2) word for word, for LIDs in the paper's style.
fn equations(tree: &FatTree, label: SwitchLabel, lid: u32) -> u32 {
    let (n, half) = (u32::from(tree.levels()), tree.half());
    let level = u32::from(label.level);
    let pid = (lid - 1) / half.pow(n - 1);
    let (w, p) = (tree.switch_digits(label), tree.host_digits(pid));
    if w[..level as usize] == p[..level as usize] {
        p[level as usize] + 1
    } else {
        (lid - 1) / half.pow(n - 1 - level) % half + half + 1
    }
}

#[test]
fn every_entry_is_what_equations_1_and_2_say() {
    for (m, n) in [
        (2, 3),
        (4, 1),
        (4, 2),
        (4, 3),
        (4, 4),
        (8, 2),
        (8, 3),
        (16, 2),
    ] {
        let tree = FatTree::new(m, n).unwrap();
        let graph = tree.graph().unwrap();
        let in_papers_style = checked(&graph, "mlid", &paper());
        let aligned = checked(&graph, "mlid", &Options::default());
        let paths = tree.half().pow(u32::from(tree.levels()) - 1);
        for label in tree.labels() {
            let switch = graph.find(&tree.switch_name(label)).unwrap();
            for lid in 1..=tree.hosts() * paths {
                let wanted = equations(&tree, label, lid);
                let lid = u16::try_from(lid).unwrap();
                let shift = u16::try_from(paths).unwrap() - 1;
                let port = |tables: &routing::Tables, lid| {
                    u32::from(tables.lft(switch).get(Lid::new(lid)).get())
                };
                assert_eq!(port(&in_papers_style, lid), wanted);
                assert_eq!(port(&aligned, lid + shift), wanted);
            }
        }
    }
}

#[test]
fn with_no_lid_to_spare_mlid_is_slid_and_between_them_offsets_stand_for_several_paths() {
    let tree = FatTree::new(4, 4).unwrap();
    let graph = tree.graph().unwrap();
    let with = |lmc: u8| {
        let options = Options {
            lmc: Some(Lmc::constant(lmc)),
            lid_base: LidBase::Paper,
            ..Options::default()
        };
        checked(&graph, "mlid", &options)
    };
    let slid = checked(&graph, "slid", &paper());
    for capped in 0..3_u8 {
        let (tables, full) = (with(capped), with(3));
        for switch in graph.switches() {
            for pid in 0..tree.hosts() {
                for offset in 0..1_u32 << capped {
                    // Offset o stands for o + 2^c (PID mod 2^(L-c)).
                    let stands_for = offset + (1 << capped) * (pid % (1 << (3 - capped)));
                    let lid = |lid: u32| Lid::new(u16::try_from(lid).unwrap());
                    let here = tables.lft(switch).get(lid((pid << capped) + 1 + offset));
                    let there = full.lft(switch).get(lid((pid << 3) + 1 + stands_for));
                    assert_eq!(here, there);
                    if capped == 0 {
                        assert_eq!(here, slid.lft(switch).get(lid(pid + 1)));
                    }
                }
            }
        }
    }
}

#[test]
fn too_many_lids_cap_the_lmc_with_a_warning_or_are_refused() {
    let graph = fabric("fat-tree-16-3");
    let tables = checked(&graph, "mlid", &Options::default());
    let taken = Lmc::constant(5);
    assert_eq!(tables.warnings, [Warning::LmcCapped { full: 6, taken }]);
    assert_eq!(tables.lids.iter().next().unwrap().lmc, taken);

    let refused = |engine: &str, topology: &str, lmc: Option<u8>| {
        let options = Options {
            lmc: lmc.map(Lmc::truncate),
            ..Options::default()
        };
        engine
            .parse::<routing::RoutingEngine>()
            .unwrap()
            .route(&fabric(topology), &options)
            .unwrap_err()
    };
    assert_eq!(
        refused("mlid", "fat-tree-16-3", Some(6)),
        RoutingError::LidSpaceExhausted {
            hosts: 1024,
            lmc: Lmc::constant(6),
            switches: 320,
            last: 64 * 1025 + 319,
        }
    );
    assert_eq!(
        refused("mlid", "fat-tree-4-3", Some(3)),
        RoutingError::LmcTooLarge {
            engine: routing::RoutingEngine::Mlid,
            lmc: Lmc::constant(3),
            max: 2
        }
    );
    assert!(matches!(
        refused("slid", "fat-tree-4-3", Some(1)),
        RoutingError::LmcTooLarge { max: 0, .. }
    ));
    assert_eq!(
        refused("mlid", "fat-tree-6-3", None),
        RoutingError::PathsNotPowerOfTwo {
            ports: 6,
            levels: 3,
            paths: 9
        }
    );
    assert!(matches!(
        refused("mlid", "ring-5-1", None),
        RoutingError::NotFatTree {
            engine: routing::RoutingEngine::Mlid,
            ..
        }
    ));
    let auto = route(&fabric("fat-tree-6-3"), "auto", &Options::default());
    assert_eq!(
        (auto.engine, &auto.warnings[..]),
        (
            routing::RoutingEngine::Slid,
            &[Warning::SlidInstead { paths: 9 }][..]
        )
    );
}

fn all_pairs(graph: &Graph) -> Vec<(NodeId, NodeId)> {
    graph
        .hosts()
        .flat_map(|from| graph.hosts().map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .collect()
}

#[test]
fn loads_on_ft_8_3_are_those_of_an_independent_calculation() {
    let graph = fabric("fat-tree-8-3");
    let all = all_pairs(&graph);
    let to_one: Vec<_> = all
        .iter()
        .copied()
        .filter(|&(_, to)| graph.node(to).name == "h5.2.1")
        .collect();
    for (engine, upwards_to_one) in [("mlid", 1), ("slid", 16)] {
        let tables = checked(&graph, engine, &Options::default());
        assert_eq!(loads(&graph, &tables, &all), (124, 124), "{engine}");
        assert_eq!(
            loads(&graph, &tables, &to_one).0,
            upwards_to_one,
            "{engine}"
        );
    }
}
