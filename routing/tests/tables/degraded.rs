//! Fat trees with something missing.

use std::collections::BTreeSet;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use routing::{FatTreeLabels, Options, Tables, Warning, recognise, route_degraded, verify};
use topologies::{Endpoint, Graph, NodeId, parse};
use wire::{Lid, PortNum};

use crate::support::{checked, fabric, is_switch, without};

/// Every switch-to-switch cable, by its upper end.
fn trunks(graph: &Graph) -> Vec<Endpoint> {
    graph
        .links()
        .filter(|(a, b)| is_switch(graph, a.node) && is_switch(graph, b.node))
        .map(|(a, _)| a)
        .collect()
}

struct Case {
    whole: Graph,
    labels: FatTreeLabels,
    full: Tables,
}

impl Case {
    fn new(name: &str) -> Self {
        let whole = fabric(name);
        Self {
            labels: recognise(&whole).unwrap(),
            full: checked(&whole, "mlid", &Options::default()),
            whole,
        }
    }

    /// Routes what is left and checks everything that can be promised of it.
    fn check(&self, nodes: &[NodeId], cables: &[Endpoint]) -> Tables {
        let now = without(&self.whole, nodes, cables);
        let tables = route_degraded(&self.labels, &now, &Options::default()).unwrap();
        let report = verify(&now, &tables, tables.promises);
        let text = || {
            let missing: Vec<_> = nodes.iter().map(|&n| &self.whole.node(n).name).collect();
            format!("{missing:?} {cables:?}: {}", report.describe(&now))
        };
        assert_eq!(report.cycle, None, "{}", text());
        for problem in &report.problems {
            let allowed = matches!(
                problem,
                routing::Problem::Unreachable {
                    failure: routing::DeliveryFailure::NoEntry(_)
                        | routing::DeliveryFailure::DeadPort(..),
                    ..
                }
            );
            assert!(allowed, "{}", text());
        }
        self.lids_stay(&now, &tables);
        self.reaches_what_is_legal(&now, &tables);
        self.good_entries_stay(&now, &tables);
        tables
    }

    fn lids_stay(&self, now: &Graph, tables: &Tables) {
        let plain = |tables: &Tables| -> Vec<_> {
            let ranges = tables.lids.iter();
            ranges.map(|r| (r.guid, r.base, r.lmc)).collect()
        };
        assert_eq!(plain(tables), plain(&self.full));
        for range in tables.lids.iter().filter(|range| range.end.is_some()) {
            let end = range.end.unwrap();
            assert_eq!(routing::port_guid(now, end), range.guid);
        }
    }

    /// Two leaf switches are joined by a legal path where some switch is above both.
    fn reaches_what_is_legal(&self, now: &Graph, tables: &Tables) {
        let above: Vec<BTreeSet<NodeId>> = now.ids().map(|id| self.above(now, id)).collect();
        for range in tables.lids.iter() {
            let Some(owner) = range.end else { continue };
            let home = if is_switch(now, owner.node) {
                owner.node
            } else {
                match now.peer(owner) {
                    Some(peer) => peer.node,
                    None => continue,
                }
            };
            for source in now.hosts() {
                let Some((port, leaf)) = now.cables(source).next() else {
                    continue;
                };
                if above[leaf.node.index()].is_disjoint(&above[home.index()]) {
                    continue;
                }
                let start = Endpoint { node: source, port };
                for lid in range.lids() {
                    let path = tables.path(now, start, lid);
                    assert!(path.arrives, "{path:?}");
                    self.rises_then_falls(now, &path);
                }
            }
        }
    }

    /// The switch itself, its parents that are there, their parents and so on.
    fn above(&self, now: &Graph, id: NodeId) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !is_switch(now, id) || !found.insert(id) {
                continue;
            }
            let level = self.level(now, id);
            let parents = now
                .cables(id)
                .map(|(_, peer)| peer.node)
                .filter(|&peer| is_switch(now, peer) && self.level(now, peer) < level);
            open.extend(parents);
        }
        found
    }

    fn level(&self, now: &Graph, id: NodeId) -> u8 {
        self.labels.switch(now.node(id).guid).unwrap().level
    }

    fn rises_then_falls(&self, now: &Graph, path: &routing::Path) {
        let levels: Vec<u8> = path
            .hops
            .iter()
            .filter(|hop| is_switch(now, hop.node))
            .map(|hop| self.level(now, hop.node))
            .collect();
        let top = levels.iter().min().unwrap();
        let at = levels.iter().position(|level| level == top).unwrap();
        assert!(levels[..=at].windows(2).all(|pair| pair[1] < pair[0]));
        assert!(levels[at..].windows(2).all(|pair| pair[1] > pair[0]));
    }

    /// An entry that in the full table leads to its destination over live cables only is as it was.
    fn good_entries_stay(&self, now: &Graph, tables: &Tables) {
        for id in now.switches() {
            let old_id = self.whole.find_guid(now.node(id).guid).unwrap();
            for lid in 1..=self.full.top().get() {
                let lid = Lid::new(lid);
                let old = self.full.lft(old_id).get(lid);
                let new = tables.lft(id).get(lid);
                if new == old {
                    continue;
                }
                assert!(
                    !self.led_there(now, id, lid),
                    "{} changed LID {lid} from {old} to {new} for no reason",
                    now.node(id).name
                );
            }
        }
    }

    /// Whether the old path is still there, going up and then down. (The detours between switches
    /// that have no such path may turn elsewhere now.)
    fn led_there(&self, now: &Graph, from: NodeId, lid: Lid) -> bool {
        let owner = self.full.lids.owner(lid).unwrap();
        let (mut at, mut falls) = (from, false);
        for _ in 0..10 {
            let old_id = self.whole.find_guid(now.node(at).guid).unwrap();
            let port = self.full.lft(old_id).get(lid);
            if port == PortNum::MANAGEMENT {
                return true;
            }
            let Some(peer) = now.peer(Endpoint { node: at, port }) else {
                return false;
            };
            if !is_switch(now, peer.node) {
                return routing::port_guid(now, peer) == owner.guid;
            }
            let down = self.level(now, peer.node) > self.level(now, at);
            if falls && !down {
                return false;
            }
            (at, falls) = (peer.node, down);
        }
        panic!("the full tables loop")
    }
}

const TREES: [&str; 3] = ["fat-tree-4-2", "fat-tree-4-3", "fat-tree-8-2"];

#[test]
fn whatever_single_cable_is_lost_only_entries_over_it_move() {
    for name in TREES {
        let case = Case::new(name);
        for cable in trunks(&case.whole) {
            let tables = case.check(&[], &[cable]);
            let degraded = Warning::Degraded {
                switches: 0,
                hosts: 0,
                cables: 1,
            };
            assert_eq!(tables.warnings, [degraded]);
            assert!(tables.promises.up_down && tables.promises.minimal);
        }
    }
}

#[test]
fn whatever_single_switch_is_lost_the_rest_keeps_working() {
    for name in TREES {
        let case = Case::new(name);
        for switch in case.whole.switches() {
            let tables = case.check(&[switch], &[]);
            // The same switch, there but without any cable.
            let ends: Vec<_> = case
                .whole
                .cables(switch)
                .map(|(port, _)| Endpoint { node: switch, port })
                .collect();
            case.check(&[], &ends);
            assert!(tables.promises.up_down && tables.promises.minimal);
        }
    }
}

#[test]
fn a_lost_host_changes_the_entries_of_its_own_switch_only() {
    for name in TREES {
        let case = Case::new(name);
        for host in case.whole.hosts() {
            let (port, leaf) = case.whole.cables(host).next().unwrap();
            case.check(&[host], &[]);
            let tables = case.check(&[], &[Endpoint { node: host, port }]);
            for switch in case.whole.switches() {
                let same = tables.lft(switch) == case.full.lft(switch);
                assert_eq!(same, switch != leaf.node);
            }
        }
    }
}

#[test]
fn random_losses_leave_no_loop_no_deadlock_and_every_legal_path() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for (name, rounds) in [
        ("fat-tree-4-2", 120),
        ("fat-tree-4-3", 120),
        ("fat-tree-8-2", 60),
    ] {
        let case = Case::new(name);
        let cables = trunks(&case.whole);
        let switches: Vec<NodeId> = case.whole.switches().collect();
        for _ in 0..rounds {
            let lost_cables = random.random_range(0..8);
            let cables: Vec<_> = cables.sample(&mut random, lost_cables).copied().collect();
            let lost_switches = random.random_range(0..3);
            let nodes: Vec<_> = switches
                .sample(&mut random, lost_switches)
                .copied()
                .collect();
            case.check(&nodes, &cables);
        }
    }
}

#[test]
fn leaf_switches_without_a_legal_path_take_a_detour_that_cannot_deadlock() {
    let case = Case::new("fat-tree-4-3");
    let end = |name: &str, port| Endpoint {
        node: case.whole.find(name).unwrap(),
        port: PortNum::new(port),
    };
    // s2.0.0 is left with the one parent, s2.3.0 with the other: no switch is above both.
    let tables = case.check(&[], &[end("s2.0.0", 3), end("s2.3.0", 4)]);
    assert!(tables.warnings.contains(&Warning::Detours { pairs: 2 }));
    assert!(!tables.promises.up_down && tables.promises.deadlock_free);
    let now = without(&case.whole, &[], &[end("s2.0.0", 3), end("s2.3.0", 4)]);
    let report = verify(&now, &tables, tables.promises);
    assert!(report.is_ok(), "{}", report.describe(&now));
}

#[test]
fn the_full_tables_return_with_the_device() {
    for name in TREES {
        let case = Case::new(name);
        let options = Options {
            labels: Some(case.labels.clone()),
            ..Options::default()
        };
        let back = checked(&case.whole, "auto", &options);
        assert_eq!(
            crate::support::bytes(&case.whole, &back),
            crate::support::bytes(&case.whole, &case.full)
        );
        assert!(back.warnings.is_empty());
    }
}

#[test]
fn auto_keeps_the_labels_of_a_damaged_tree_and_forgets_them_when_it_is_another_fabric() {
    let case = Case::new("fat-tree-4-3");
    let options = Options {
        labels: Some(case.labels.clone()),
        ..Options::default()
    };
    let root = case.whole.find("s0.0.0").unwrap();
    let now = without(&case.whole, &[root], &[]);
    assert_eq!(
        checked(&now, "auto", &options).engine,
        routing::RoutingEngine::Mlid
    );
    let other = parse("ring-5-2").unwrap().graph;
    for (graph, options) in [(&now, &Options::default()), (&other, &options)] {
        let tables = checked(graph, "auto", options);
        assert_ne!(tables.engine, routing::RoutingEngine::Mlid);
        assert_eq!(tables.labels, None);
    }
    assert!(matches!(
        route_degraded(&case.labels, &other, &Options::default()),
        Err(routing::RoutingError::LabelsDoNotFit(_))
    ));
}

#[test]
fn entries_of_a_dead_root_spread_over_the_others() {
    let case = Case::new("fat-tree-8-2");
    let root = case.whole.find("s0.0").unwrap();
    let now = without(&case.whole, &[root], &[]);
    let tables = route_degraded(&case.labels, &now, &Options::default()).unwrap();
    let leaf = now.find("s1.0").unwrap();
    let old_leaf = case.whole.find("s1.0").unwrap();
    let mut moved = [0_u32; 9];
    for lid in (1..=tables.top().get()).map(Lid::new) {
        let is_host = case
            .full
            .lids
            .owner(lid)
            .is_some_and(|owner| !is_switch(&case.whole, owner.end.unwrap().node));
        if is_host && case.full.lft(old_leaf).get(lid).get() == 5 {
            moved[tables.lft(leaf).get(lid).index()] += 1;
        }
    }
    // 28 hosts are elsewhere; one LID of each led over the dead root.
    assert_eq!(moved[6] + moved[7] + moved[8], 28);
    assert!(moved[6..].iter().all(|&count| count >= 8), "{moved:?}");
}
