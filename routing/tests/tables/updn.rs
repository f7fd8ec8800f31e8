//! What is special to up*/down* and to balancing.

use proptest::prelude::*;
use routing::{Options, verify};
use topologies::{Endpoint, Graph, NodeId};
use wire::{Lid, Lmc, PortNum};

use crate::support::{checked, checked_report, fabric, is_switch, loads, rebuilt, route, without};

fn pairs(graph: &Graph) -> Vec<(NodeId, NodeId)> {
    graph
        .hosts()
        .flat_map(|from| graph.hosts().map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .collect()
}

#[test]
fn roots_of_trees_are_found_and_loads_are_those_of_fat_tree_routing() {
    for (name, most) in [
        ("fat-tree-4-3", 14),
        ("fat-tree-8-2", 28),
        ("fat-tree-8-3", 124),
    ] {
        let graph = fabric(name);
        let tables = checked(&graph, "updn", &Options::default());
        assert_eq!(
            loads(&graph, &tables, &pairs(&graph)),
            (most, most),
            "{name}"
        );
        // Paths between hosts are as short as any.
        let promises = routing::Promises {
            minimal: true,
            ..tables.promises
        };
        let report = verify(&graph, &tables, promises);
        assert!(report.is_ok(), "{}", report.describe(&graph));
    }
    let clos = fabric("clos-4-4-2-2");
    let tables = checked(&clos, "updn", &Options::default());
    assert_eq!(loads(&clos, &tables, &pairs(&clos)), (12, 12));
}

#[test]
fn a_clos_that_lost_a_cable_keeps_all_its_spines() {
    let graph = fabric("clos-4-4-4");
    let lost = Endpoint {
        node: graph.find("leaf0").unwrap(),
        port: PortNum::new(5),
    };
    let now = without(&graph, &[], &[lost]);
    let tables = checked(&now, "updn", &Options::default());
    let order = |name: &str| tables.order(now.find(name).unwrap()).unwrap();
    for spine in 0..4 {
        for leaf in 0..4 {
            assert!(order(&format!("spine{spine}")) < order(&format!("leaf{leaf}")));
        }
    }
    assert!(tables.promises.up_down);
    // Three spines are left to leaf0's four hosts and their 12 peers.
    assert_eq!(loads(&now, &tables, &pairs(&now)).0, 16);
}

#[test]
fn roots_that_cannot_serve_every_pair_give_way_to_one_root() {
    // Two stars of leaves share one leaf only: from a's leaf to b's no path goes up and then down.
    let text = |bridge: &str| {
        format!(
            "Switch 4 \"r1\"\n[1] \"a\"[2]\n[2] \"{bridge}\"[2]\n\
             Switch 4 \"r2\"\n[1] \"b\"[2]\n[2] \"{bridge}\"[3]\n\
             Switch 4 \"a\"\n[1] \"ha\"[1]\n[2] \"r1\"[1]\n\
             Switch 4 \"b\"\n[1] \"hb\"[1]\n[2] \"r2\"[1]\n\
             Switch 4 \"{bridge}\"\n[1] \"hc\"[1]\n[2] \"r1\"[2]\n[3] \"r2\"[2]\n\
             Ca 1 \"ha\"\n[1] \"a\"[1]\nCa 1 \"hb\"\n[1] \"b\"[1]\nCa 1 \"hc\"\n[1] \"{bridge}\"[1]\n"
        )
    };
    let graph = topologies::read_text(&text("c")).unwrap();
    let tables = checked(&graph, "updn", &Options::default());
    let report = checked_report(&graph, &tables);
    assert_eq!(report.hosts_unreachable + report.switches_unreachable, 0);
}

/// The cables between switches that packets from a host to a LID cross.
fn crossed(
    graph: &Graph,
    tables: &routing::Tables,
    from: Endpoint,
    lid: Lid,
) -> Vec<(NodeId, PortNum)> {
    let path = tables.path(graph, from, lid);
    assert!(path.arrives);
    path.hops[1..path.hops.len() - 2]
        .iter()
        .filter(|hop| is_switch(graph, hop.node))
        .map(|hop| (hop.node, hop.exit))
        .collect()
}

#[test]
fn the_lids_of_a_host_take_different_ways_as_far_as_there_are_any() {
    let options = Options {
        lmc: Some(Lmc::constant(2)),
        ..Options::default()
    };
    for (name, different) in [("fat-tree-8-2", 4), ("clos-2-2-2-2", 4), ("clos-3-2-2", 2)] {
        let graph = fabric(name);
        for engine in ["updn", "minhop"] {
            let tables = checked(&graph, engine, &options);
            for from in graph.hosts() {
                let (port, leaf) = graph.cables(from).next().unwrap();
                for to in graph.hosts() {
                    if graph.cables(to).any(|(_, peer)| peer.node == leaf.node) {
                        continue;
                    }
                    let lids = tables.lids.of_node(to).unwrap().lids();
                    let start = Endpoint { node: from, port };
                    let mut first: Vec<_> = lids
                        .map(|lid| crossed(&graph, &tables, start, lid)[0])
                        .collect();
                    first.sort();
                    first.dedup();
                    assert_eq!(first.len(), different, "{engine} on {name}");
                }
            }
        }
    }
}

#[test]
fn sources_side_by_side_pick_different_lids_of_one_destination() {
    let graph = fabric("clos-2-4-4");
    let options = Options {
        lmc: Some(Lmc::constant(2)),
        ..Options::default()
    };
    let tables = checked(&graph, "updn", &options);
    let to = graph.find("h7").unwrap();
    let mut lids: Vec<_> = ["h0", "h1", "h2", "h3"]
        .map(|from| tables.dlid_between(graph.find(from).unwrap(), to).unwrap())
        .to_vec();
    lids.dedup();
    assert_eq!(lids.len(), 4);
    let own = tables.lids.of_node(to).unwrap();
    assert!(lids.iter().all(|&lid| own.lids().any(|owned| owned == lid)));
    // A switch's packets, and packets to a switch, use the base LID.
    let leaf = graph.find("leaf0").unwrap();
    assert_eq!(tables.dlid_between(leaf, to), Some(own.base));
}

#[test]
fn loads_of_irregular_fabrics_are_near_the_mean() {
    for seed in 0..4 {
        let graph = fabric(&format!("irregular-16-8-8-{seed}"));
        for (engine, most_over_mean) in [("minhop", 1.7), ("updn", 4.0)] {
            let tables = checked(&graph, engine, &Options::default());
            let all = pairs(&graph);
            let (up, down) = loads(&graph, &tables, &all);
            let hops: usize = all
                .iter()
                .map(|&(from, to)| {
                    let dlid = tables.dlid_between(from, to).unwrap();
                    let (port, _) = graph.cables(from).next().unwrap();
                    tables
                        .path(&graph, Endpoint { node: from, port }, dlid)
                        .hops
                        .len()
                        - 3
                })
                .sum();
            let mean = hops as f64 / (16.0 * 8.0);
            let most = f64::from(up.max(down));
            assert!(
                most < most_over_mean * mean,
                "{engine}: {most} against {mean}"
            );
        }
    }
}

/// A connected random multigraph of switches, some with hosts.
fn random_fabric() -> impl Strategy<Value = Graph> {
    let cables = prop::collection::vec((0_usize..12, 0_usize..12), 0..24);
    (2_usize..12, prop::collection::vec(0_u8..3, 12), cables).prop_map(|(count, hosts, cables)| {
        let mut text = String::new();
        let mut lines = vec![String::new(); count];
        let mut used = vec![0_u8; count];
        let mut join = |a: usize, b: usize| {
            used[a] += 1;
            let port_a = used[a];
            used[b] += 1;
            let port_b = used[b];
            lines[a] += &format!("[{port_a}] \"s{b}\"[{port_b}]\n");
            lines[b] += &format!("[{port_b}] \"s{a}\"[{port_a}]\n");
        };
        for switch in 1..count {
            join(switch, (switch * 7 + 3) % switch);
        }
        for (a, b) in cables {
            if a % count != b % count {
                join(a % count, b % count);
            }
        }
        for (switch, &hosts) in hosts.iter().take(count).enumerate() {
            for host in 0..hosts {
                used[switch] += 1;
                let port = used[switch];
                lines[switch] += &format!("[{port}] \"h{switch}.{host}\"[1]\n");
                text += &format!("Ca 1 \"h{switch}.{host}\"\n[1] \"s{switch}\"[{port}]\n");
            }
        }
        for (switch, lines) in lines.iter().enumerate() {
            text += &format!("Switch {} \"s{switch}\"\n{lines}", used[switch].max(1));
        }
        topologies::read_text(&text).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn on_any_fabric_updn_reaches_everybody_and_cannot_deadlock(
        graph in random_fabric(), lmc in 0_u8..3, seed in any::<u64>()
    ) {
        let options = Options { lmc: Some(Lmc::constant(lmc)), ..Options::default() };
        let tables = checked(&graph, "updn", &options);
        prop_assert_eq!(checked_report(&graph, &tables).cycle, None);
        checked(&graph, "minhop", &options);
        let other = crate::support::shuffled(&graph, seed);
        let again = route(&other, "updn", &options);
        prop_assert_eq!(
            crate::support::bytes(&graph, &tables),
            crate::support::bytes(&other, &again)
        );
    }
}

#[test]
fn cables_from_a_switch_to_itself_are_of_no_use_and_do_no_harm() {
    let graph = fabric("ring-4-1");
    let order: Vec<_> = graph.ids().collect();
    let mut odd = rebuilt(
        &graph,
        &order,
        |node| topologies::Node {
            ports: 8,
            ..node.clone()
        },
        |end| Some(end.port),
    );
    let s0 = odd.find("s0").unwrap();
    let end = |port| Endpoint {
        node: s0,
        port: PortNum::new(port),
    };
    odd.connect(end(7), end(8)).unwrap();
    for engine in ["updn", "minhop", "auto"] {
        checked(&odd, engine, &Options::default());
    }
}
