//! Routes that close a cycle, and routes that do not, on the same ring.

use routing::RoutingEngine;
use sim::{FaultPlan, Load, LoadResult, Model, Pattern, RoutedFabric};

/// A ring of five switches with two hosts each: two hops one way round is always shortest.
const RING: &str = "ring-5-2";

fn run(engine: RoutingEngine, lifetime: Option<u8>, vls: u8) -> LoadResult {
    let graph = topologies::parse(RING).unwrap().graph;
    let prepared = RoutedFabric::new(&graph, engine).unwrap();
    let model = Model {
        lifetime,
        ..Model::mlid04(vls)
    };
    let load = Load {
        pattern: Pattern::Shift { by: 4 },
        warmup_ns: 50_000,
        measure_ns: 250_000,
        drain: true,
        ..Load::uniform(0.2, 1)
    };
    prepared.run(&model, &load, &FaultPlan::default()).unwrap()
}

#[test]
fn shortest_paths_round_a_ring_deadlock_and_the_cycle_is_named() {
    let outcome = run(RoutingEngine::Minhop, None, 1);
    let deadlock = outcome.deadlock.expect("it must deadlock");
    assert_eq!(deadlock.cycle.len(), 5);
    let text = deadlock.to_string();
    assert!(text.starts_with("(s0, port "), "{text}");
    let mut switches: Vec<&str> = deadlock.cycle.iter().map(|l| l.switch.as_str()).collect();
    switches.sort_unstable();
    assert_eq!(switches, ["s0", "s1", "s2", "s3", "s4"], "{text}");
    assert!(outcome.balance.queued > 0, "what is stuck stays");
    assert_eq!(outcome.violations, []);
}

#[test]
fn up_and_down_on_the_same_ring_does_not() {
    let outcome = run(RoutingEngine::Updn, None, 1);
    assert_eq!(outcome.deadlock, None);
    assert_eq!(outcome.balance.queued, 0);
    assert_eq!(outcome.balance.delivered, outcome.balance.injected);
    assert_eq!(outcome.violations, []);
}

#[test]
fn finite_lifetimes_break_the_cycle_by_counted_drops() {
    // 8 us at the head of a queue and in a switch.
    let outcome = run(RoutingEngine::Minhop, Some(1), 1);
    assert_eq!(outcome.violations, []);
    let balance = outcome.balance;
    assert_eq!((balance.queued, balance.in_flight), (0, 0), "it runs empty");
    assert!(balance.dropped > 0 && balance.is_balanced(), "{balance:?}");
    assert!(balance.delivered > 0);
    for (reason, _) in &outcome.drops {
        let name = reason.name();
        assert!(
            ["drop.head-of-queue", "drop.lifetime"].contains(&name),
            "{name}"
        );
    }
}
