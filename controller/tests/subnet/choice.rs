//! What `auto` takes is chosen once and kept, and no port that lives gets another LID.

use std::collections::BTreeSet;

use controller::control::{Phase, Status};
use controller::{QosChoice, SmConfig};
use routing::{Options, RoutingEngine};
use topologies::NodeId;
use wire::{Guid, Lid, Lmc};

use crate::bed::Bed;
use crate::{assert_connected, assert_programmed, first_host, graph, offline, up};

/// Longer than it takes until the next light sweep.
const QUIET_NS: u64 = 11_000_000_000;

/// The engine that a report names.
fn engine(status: &Status) -> String {
    let name = status.engine.split(' ').next();
    name.unwrap_or_default().to_owned()
}

fn addresses(bed: &Bed, ids: &[NodeId]) -> Vec<(Lid, Lmc)> {
    ids.iter().map(|&id| bed.address(id)).collect()
}

/// The devices that cables still join to the manager's host while one is dead.
fn joined(bed: &Bed, host: NodeId, dead: NodeId) -> Vec<NodeId> {
    let mut found = vec![host];
    let mut next = 0;
    while let Some(&node) = found.get(next) {
        next += 1;
        for (_, peer) in bed.graph.cables(node) {
            if peer.node != dead && !found.contains(&peer.node) {
                found.push(peer.node);
            }
        }
    }
    found
}

fn hosts_among(bed: &Bed, ids: &[NodeId]) -> Vec<NodeId> {
    let is_host = |id: &&NodeId| !bed.node(**id).is_switch();
    ids.iter().filter(is_host).copied().collect()
}

#[test]
fn whatever_dies_and_comes_back_the_engine_stays_and_no_lid_changes() {
    for name in [
        "star-3",
        "star-5",
        "star-9",
        "clos-2-2-1",
        "fat-tree-4-2",
        "ring-4-1",
        "irregular-8-2-3-7",
    ] {
        let (mut bed, host) = up(name);
        let taken = engine(&bed.status(host));
        let first_switch = bed.graph.cables(host).next().unwrap().1.node;
        let all: Vec<NodeId> = bed.graph.ids().collect();
        let before = addresses(&bed, &all);
        for &dead in all.iter().filter(|&&id| id != host && id != first_switch) {
            bed.kill(dead);
            let status = bed.run_until(host, |status| status.phase == Phase::Up && status.degraded);
            let what = format!("{name} without {}", bed.graph.node(dead).name);
            assert_eq!(engine(&status), taken, "{what}: {}", status.engine);
            let left = joined(&bed, host, dead);
            for &id in &left {
                assert_eq!(bed.address(id), before[id.index()], "{what}");
            }
            assert_connected(&bed, &hosts_among(&bed, &left));
            bed.revive(dead);
            let status =
                bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
            assert_eq!(engine(&status), taken, "{what}, again");
            assert_eq!(addresses(&bed, &all), before, "{what}, again");
        }
    }
}

#[test]
fn the_tree_that_a_part_of_the_fabric_is_does_not_outlive_its_growth() {
    // Four hosts at a switch are a fat tree, five are not.
    let mut bed = Bed::new(graph("star-5"), 1);
    let host = first_host(&bed.graph);
    let late = bed.id("h1");
    bed.kill(late);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    bed.revive(late);
    let status = bed.run_until(host, |status| {
        status.phase == Phase::Up && status.hosts == 5
    });
    let taken = engine(&status);
    let all: Vec<NodeId> = bed.graph.ids().filter(|&id| id != late).collect();
    let before = addresses(&bed, &all);
    bed.kill(late);
    let status = bed.run_until(host, |status| status.phase == Phase::Up && status.degraded);
    assert_eq!(engine(&status), taken);
    assert_eq!(addresses(&bed, &all), before);
}

#[test]
fn a_manager_that_remembers_nothing_leaves_lids_as_it_finds_them() {
    let (mut bed, host) = up("star-5");
    let dead = bed.id("h1");
    bed.kill(dead);
    bed.run_until(host, |status| status.phase == Phase::Up && status.degraded);
    let left: Vec<NodeId> = bed.graph.ids().filter(|&id| id != dead).collect();
    let before = addresses(&bed, &left);
    bed.stop(host);
    bed.start(host, SmConfig::default());
    let status = bed.run_until_up(host);
    assert_eq!(addresses(&bed, &left), before, "{}", status.engine);
    assert_connected(&bed, &hosts_among(&bed, &left));
}

#[test]
fn a_fabric_at_rest_that_grows_into_a_tree_keeps_its_lids_and_one_being_brought_up_does_not() {
    for is_at_rest in [false, true] {
        let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
        let host = first_host(&bed.graph);
        let root = bed.id("s0.0");
        bed.kill(root);
        bed.start(host, SmConfig::default());
        bed.run_until_up(host);
        let there: Vec<NodeId> = bed.graph.ids().filter(|&id| id != root).collect();
        let before = addresses(&bed, &there);
        if is_at_rest {
            bed.run_for(QUIET_NS);
        }
        bed.revive(root);
        let status = bed.run_until(host, |status| {
            status.phase == Phase::Up && status.switches == 6
        });
        assert_eq!(engine(&status) == "mlid", !is_at_rest, "{}", status.engine);
        assert_eq!(
            addresses(&bed, &there) == before,
            is_at_rest,
            "{}",
            status.engine
        );
        let hosts: Vec<NodeId> = bed.graph.hosts().collect();
        assert_connected(&bed, &hosts);
    }
}

#[test]
fn the_choice_and_its_reason_stand_in_the_file_and_are_those_of_the_next_manager() {
    let (mut bed, host) = up("ring-4-1");
    let status = bed.status(host);
    let text = bed.persisted(host).expect("a file");
    let line = text.lines().find(|line| line.starts_with("engine "));
    let line = line.expect("the choice").to_owned();
    assert!(line.contains(&engine(&status)), "{line}");
    assert!(line.contains("busiest cable / bisection"), "{line}");
    bed.stop(host);
    bed.changes();
    bed.start(
        host,
        SmConfig {
            guid2lid: Some(text),
            ..SmConfig::default()
        },
    );
    assert_eq!(bed.run_until_up(host).engine, status.engine);
    assert_eq!(bed.changes(), []);
}

#[test]
fn roots_that_are_named_are_the_top_of_the_order() {
    let mut bed = Bed::new(graph("torus-3x3-1"), 1);
    let host = first_host(&bed.graph);
    let root = bed.graph.switches().nth(4).expect("nine switches");
    let roots: BTreeSet<Guid> = [bed.graph.node(root).guid].into();
    let config = SmConfig {
        routing: RoutingEngine::Updn,
        roots: roots.clone(),
        ..SmConfig::default()
    };
    bed.start(host, config);
    bed.run_until_up(host);
    let options = Options {
        roots,
        ..Options::default()
    };
    let tables = RoutingEngine::Updn.route(&bed.graph, &options);
    let tables = tables.expect("there are tables");
    assert_eq!(tables.order(root), Some(0));
    assert_programmed(&bed, &tables);
}

#[test]
fn vls_are_left_to_connections_where_these_are_promised_bandwidth() {
    let mut bed = Bed::with_vls(graph("ring-6-1"), 1, 4);
    let host = first_host(&bed.graph);
    let config = SmConfig {
        qos: QosChoice::Vlarb01,
        ..SmConfig::default()
    };
    bed.start(host, config);
    bed.run_until_up(host);
    assert_programmed(&bed, &offline(&bed.graph));
}
