//! Plans and measurements that take their time on threads of the shell's, while the manager goes on.

use controller::control::{Phase, Status};
use controller::{KeptChoice, SmConfig, guid2lid_of};
use routing::RoutingEngine;
use topologies::{Endpoint, NodeId};
use wire::{Lid, Lmc};

use crate::bed::Bed;
use crate::{assert_connected, assert_programmed, first_host, graph, offline};

/// Longer than it takes until a manager in standby takes over, or a master that was away asks.
const LONG_NS: u64 = 20_000_000_000;

/// So large that it is measured apart from the plan.
const LARGE: &str = "irregular-20-11-16-1";

fn apart(priority: u8) -> SmConfig {
    SmConfig {
        computes_apart: true,
        priority,
        ..SmConfig::default()
    }
}

fn engine(status: &Status) -> &str {
    status.engine.split(' ').next().unwrap_or_default()
}

fn addresses(bed: &Bed) -> Vec<(Lid, Lmc)> {
    bed.graph.ids().map(|id| bed.address(id)).collect()
}

fn is_measured(status: &Status) -> bool {
    status.phase == Phase::Up && !status.unmeasured
}

#[test]
fn a_plan_that_takes_long_comes_into_force_and_its_manager_stays_master_meanwhile() {
    let mut bed = Bed::new(graph("ring-4-1"), 1);
    bed.computing_ns = LONG_NS;
    let hosts: Vec<NodeId> = bed.graph.hosts().collect();
    bed.start(hosts[0], apart(9));
    bed.start(hosts[1], apart(3));
    let status = bed.run_until_up(hosts[0]);
    assert_eq!(status.generation, 1);
    assert!(matches!(bed.status(hosts[1]).phase, Phase::Standby { .. }));
    assert!(bed.now.0 < 2 * LONG_NS, "planned once: {:?}", bed.now);
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn what_changes_while_a_plan_is_computed_is_planned_for() {
    let mut bed = Bed::new(graph("ring-4-1"), 1);
    let host = first_host(&bed.graph);
    bed.start(host, apart(8));
    bed.run_until_up(host);
    bed.computing_ns = LONG_NS;
    let is_between_switches = |(a, b): &(Endpoint, Endpoint)| {
        bed.node(a.node).is_switch() && bed.node(b.node).is_switch()
    };
    let cables: Vec<Endpoint> = bed
        .graph
        .links()
        .filter(is_between_switches)
        .map(|(a, _)| a)
        .collect();
    bed.cut(cables[0]);
    bed.run_for(LONG_NS / 2);
    bed.plug(cables[0]);
    bed.cut(cables[1]);
    bed.run_until(host, |status| status.phase == Phase::Up && status.degraded);
    let hosts: Vec<NodeId> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
    assert_eq!(bed.status(host).links, 7);
}

#[test]
fn a_large_fabric_is_up_before_it_is_measured_and_is_routed_by_what_was_chosen_then() {
    let mut bed = Bed::new(graph(LARGE), 1);
    bed.computing_ns = LONG_NS;
    let host = first_host(&bed.graph);
    let late = bed.graph.hosts().last().expect("there are hosts");
    bed.kill(late);
    bed.start(host, apart(8));
    let status = bed.run_until_up(host);
    assert!(status.unmeasured);
    assert_eq!(engine(&status), "updn", "{}", status.engine);
    let before = addresses(&bed);
    let status = bed.run_until(host, is_measured);
    assert!(status.engine.contains("against"), "{}", status.engine);
    assert_eq!(addresses(&bed), before);
    let taken = engine(&status).to_owned();
    let kept = bed.persisted(host).expect("a file");
    assert!(kept.contains(&format!("\nengine {taken} ")), "{kept}");

    // It grows: the engine that was taken serves until the fabric has been measured anew.
    bed.revive(late);
    let there = bed.graph.hosts().count();
    let is_whole =
        |status: &Status| status.phase == Phase::Up && usize::try_from(status.hosts) == Ok(there);
    let status = bed.run_until(host, is_whole);
    assert!(status.unmeasured);
    assert_eq!(engine(&status), taken, "{}", status.engine);
    bed.run_until(host, is_measured);
    let after = addresses(&bed);
    for id in bed.graph.ids().filter(|&id| id != late) {
        assert_eq!(after[id.index()], before[id.index()]);
    }
}

/// What `auto` takes for the large fabric, if nothing happens until it has been measured.
fn taken_undisturbed() -> String {
    let mut bed = Bed::new(graph(LARGE), 1);
    let host = first_host(&bed.graph);
    bed.start(host, apart(8));
    bed.run_until_up(host);
    bed.run_until(host, is_measured).engine
}

#[test]
fn a_part_that_dies_before_the_first_measurement_has_no_say_in_what_is_chosen_for_the_whole() {
    let taken = taken_undisturbed();
    let mut bed = Bed::new(graph(LARGE), 1);
    bed.computing_ns = LONG_NS;
    let host = first_host(&bed.graph);
    bed.start(host, apart(8));
    assert!(bed.run_until_up(host).unmeasured);
    let before = addresses(&bed);
    // What is left is small enough to be measured within a plan.
    let switch = bed.graph.switches().last().expect("there are switches");
    bed.kill(switch);
    bed.run_until(host, |status| is_measured(status) && status.degraded);
    bed.revive(switch);
    let status = bed.run_until(host, |status| is_measured(status) && !status.degraded);
    assert_eq!(status.engine, taken);
    assert_eq!(addresses(&bed), before);
    let kept = bed.persisted(host).expect("a file");
    let because = taken.split_once(' ').map_or("", |(_, because)| because);
    let because = because.trim_start_matches('(').trim_end_matches(')');
    let line = format!("\nengine {} {because}\n", engine(&status));
    assert!(kept.contains(&line), "{line} in {kept}");
}

#[test]
fn a_choice_that_is_given_before_the_fabric_was_seen_is_taken_and_nothing_is_measured() {
    for apart in [false, true] {
        let mut bed = Bed::with_vls(graph(LARGE), 1, 8);
        let host = first_host(&bed.graph);
        let choice = KeptChoice {
            engine: RoutingEngine::Dfsssp,
            because: "measured elsewhere".to_owned(),
        };
        let config = SmConfig {
            guid2lid: Some(guid2lid_of(&choice)),
            computes_apart: apart,
            ..SmConfig::default()
        };
        bed.start(host, config);
        let status = bed.run_until_up(host);
        assert_eq!(status.engine, "dfsssp (measured elsewhere)");
        assert!(!status.unmeasured);
        let kept = bed.persisted(host).expect("a file");
        assert!(
            kept.contains("\nengine dfsssp measured elsewhere\n"),
            "{kept}"
        );
    }
}
