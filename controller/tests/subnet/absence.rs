//! A manager that stood still (SIGSTOP, SIGCONT) while others went on.

use controller::SmConfig;
use controller::control::Phase;
use link::Time;
use topologies::NodeId;
use wire::Guid;

use crate::bed::Bed;
use crate::{assert_connected, assert_programmed, end, graph, offline};

const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

fn with_priority(priority: u8) -> SmConfig {
    SmConfig {
        priority,
        ..SmConfig::default()
    }
}

fn is_in_standby(bed: &Bed, host: NodeId) -> bool {
    matches!(bed.status(host).phase, Phase::Standby { .. })
}

fn is_up(bed: &Bed, host: NodeId) -> bool {
    bed.status(host).phase == Phase::Up
}

/// Runs until `is_so`, by milliseconds, and gives the time it took.
fn run_until(bed: &mut Bed, mut is_so: impl FnMut(&mut Bed) -> bool) -> u64 {
    let start = bed.now;
    while !is_so(bed) {
        bed.run_for(MILLISECOND_NS);
        assert!(bed.now < start + 60 * SECOND_NS, "it never is");
    }
    bed.now.since_ns(start)
}

#[test]
fn a_master_that_stood_still_finds_a_better_one_at_once_and_writes_nothing() {
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let (low, high) = (bed.id("h0.0"), bed.id("h3.1"));
    bed.start(low, with_priority(3));
    bed.run_until_up(low);
    bed.run_for(SECOND_NS);
    bed.halt(low);
    // It finds none that answers.
    bed.start(high, with_priority(9));
    bed.run_until_up(high);
    bed.run_for(SECOND_NS);
    bed.changes();
    bed.proceed(low);
    let took_ns = run_until(&mut bed, |bed| is_in_standby(bed, low));
    assert!(took_ns < SECOND_NS / 2, "{took_ns} ns");
    bed.run_for(30 * SECOND_NS);
    assert_eq!(bed.changes(), []);
    let master = Guid(bed.graph.node(high).guid.0 + 1);
    assert_eq!(bed.status(low).phase, Phase::Standby { master });
    assert!(is_up(&bed, high));
}

#[test]
fn a_master_that_stood_still_while_it_wrote_writes_no_more_before_the_new_one_hands_over() {
    for written_ns in [0, 100_000, 300_000, 1_000_000] {
        let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
        let (low, high) = (bed.id("h0.0.0"), bed.id("h3.1.1"));
        bed.start(high, with_priority(9));
        bed.run_until_up(high);
        bed.start(low, with_priority(3));
        run_until(&mut bed, |bed| is_in_standby(bed, low));
        // Something to write, in the middle of which it stops.
        let cable = end(&bed, "s0.0.0", 1);
        bed.cut(cable);
        bed.run_until(high, |status| status.phase == Phase::Programming);
        bed.run_for(written_ns);
        bed.halt(high);
        bed.run_until(low, |status| status.phase == Phase::Up);
        bed.run_for(2 * SECOND_NS);
        bed.changes();
        bed.proceed(high);
        let took_ns = run_until(&mut bed, |bed| {
            if is_up(bed, low) {
                assert_eq!(bed.changes(), [], "two write");
            }
            is_in_standby(bed, low)
        });
        assert!(took_ns < 3 * SECOND_NS, "{took_ns} ns");
        run_until(&mut bed, |bed| is_up(bed, high));
        bed.plug(cable);
        bed.run_for(5 * SECOND_NS);
        assert!(is_up(&bed, high) && is_in_standby(&bed, low));
        let hosts: Vec<_> = bed.graph.hosts().collect();
        assert_connected(&bed, &hosts);
        assert_programmed(&bed, &offline(&bed.graph));
    }
}

#[test]
fn a_port_that_names_another_manager_makes_the_master_look_for_it() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = bed.id("h0");
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    let generation = bed.status(host).generation;
    let other = bed.address(bed.id("h2")).0;
    let held: wire::attr::PortInfo = bed.get(host, 1);
    let foreign = wire::attr::PortInfo {
        master_sm_lid: other,
        port_state: wire::attr::PortState::NoChange,
        port_phys_state: wire::attr::PortPhysState::NoChange,
        ..held
    };
    bed.set_behind_the_manager(host, 1, &foreign);
    bed.run_for(11 * SECOND_NS);
    assert!(bed.status(host).generation > generation);
    let repaired: wire::attr::PortInfo = bed.get(host, 1);
    assert_eq!(repaired.master_sm_lid, bed.address(host).0);
}

#[test]
fn a_manager_that_only_rests_is_not_taken_for_one_that_was_away() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = bed.id("h0");
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    let generation = bed.status(host).generation;
    bed.run_for(60 * SECOND_NS);
    assert_eq!(bed.status(host).generation, generation);
    assert!(bed.now > Time(60 * SECOND_NS));
}
