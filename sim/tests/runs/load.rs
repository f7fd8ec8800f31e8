//! Loads: nothing is lost, everything is repeatable, times are those of the model.

use routing::RoutingEngine;
use sim::{CreditReturn, FaultPlan, Load, LoadResult, Model, Pattern, RoutedFabric};

fn run(name: &str, engine: RoutingEngine, model: &Model, load: &Load) -> LoadResult {
    let graph = topologies::parse(name).unwrap().graph;
    let prepared = RoutedFabric::new(&graph, engine).unwrap();
    let outcome = prepared.run(model, load, &FaultPlan::default()).unwrap();
    assert_eq!(outcome.violations, []);
    assert_eq!(outcome.deadlock, None);
    assert!(outcome.drops.is_empty(), "{:?}", outcome.drops);
    outcome
}

fn short(pattern: Pattern, bytes_per_ns: f64) -> Load {
    Load {
        pattern,
        warmup_ns: 10_000,
        measure_ns: 20_000,
        drain: true,
        ..Load::uniform(bytes_per_ns, 1)
    }
}

#[test]
fn a_packet_that_meets_no_other_takes_flight_routing_and_byte_time() {
    // Host 0's neighbour on the same leaf switch, and one packet in 3.2 us.
    let load = short(Pattern::Shift { by: 1 }, 0.01);
    let outcome = run("star-4", RoutingEngine::Minhop, &Model::mlid04(1), &load);
    // Two flights, one routing, 32 bytes at 4 ns, cut through.
    assert!((outcome.latency_ns - (20.0 + 100.0 + 20.0 + 128.0)).abs() < 1e-9);
}

#[test]
fn every_pattern_delivers_all_that_it_sends() {
    let patterns = [
        Pattern::Uniform,
        Pattern::Centric {
            percent: 10,
            target: 0,
        },
        Pattern::Permutation,
        Pattern::Shift { by: 5 },
        Pattern::AllToAll,
        Pattern::Bursty { packets: 4 },
    ];
    for pattern in patterns {
        for vls in [1, 4] {
            let load = short(pattern.clone(), 0.04);
            let outcome = run(
                "fat-tree-4-3",
                RoutingEngine::Mlid,
                &Model::mlid04(vls),
                &load,
            );
            let balance = outcome.balance;
            assert_eq!(balance.delivered, outcome.generated - outcome.refused);
            assert_eq!((balance.queued, balance.in_flight), (0, 0), "{pattern:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let model = Model::mlid04(2);
    let load = short(Pattern::Uniform, 0.06);
    let first = run("fat-tree-4-3", RoutingEngine::Mlid, &model, &load);
    assert_eq!(
        first,
        run("fat-tree-4-3", RoutingEngine::Mlid, &model, &load)
    );
    let other = Load { seed: 2, ..load };
    assert_ne!(
        first,
        run("fat-tree-4-3", RoutingEngine::Mlid, &model, &other)
    );
}

#[test]
fn credits_as_flow_control_packets_come_later_than_ideal_ones_and_lose_nothing() {
    let ideal = Model::mlid04(1);
    let real = Model {
        credits: CreditReturn::Packets,
        ..ideal.clone()
    };
    let load = short(Pattern::Uniform, 0.2);
    let [ideal, real] =
        [ideal, real].map(|model| run("fat-tree-4-3", RoutingEngine::Mlid, &model, &load));
    assert!(real.accepted < ideal.accepted, "{real:?} {ideal:?}");
    assert!(real.accepted > 0.8 * ideal.accepted);
}

#[test]
fn longer_packets_and_deeper_buffers_carry_more() {
    let small = Model::mlid04(1);
    let large = Model {
        packet_bytes: 256,
        input_packets: core::num::NonZeroU16::new(4).unwrap(),
        output_packets: core::num::NonZeroU16::new(4).unwrap(),
        ..small.clone()
    };
    let load = Load {
        drain: true,
        ..Load::uniform(0.24, 3)
    };
    let [small, large] =
        [small, large].map(|model| run("fat-tree-4-2", RoutingEngine::Mlid, &model, &load));
    assert!(large.accepted > 1.3 * small.accepted);
    assert!(large.accepted < 0.25, "never above the link's rate");
}

#[test]
fn an_irregular_fabric_under_updn_delivers_everything() {
    let load = short(Pattern::Uniform, 0.05);
    let outcome = run(
        "irregular-8-2-3-7",
        RoutingEngine::Updn,
        &Model::mlid04(1),
        &load,
    );
    assert!(outcome.balance.delivered > 500);
}

#[test]
fn loads_and_patterns_that_make_no_sense_are_refused() {
    let graph = topologies::parse("fat-tree-4-2").unwrap().graph;
    let prepared = RoutedFabric::new(&graph, RoutingEngine::Mlid).unwrap();
    let refuse = |load: &Load| {
        let model = Model::mlid04(1);
        let refused = prepared.run(&model, load, &FaultPlan::default());
        refused.unwrap_err().to_string()
    };
    for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refuse(&Load::uniform(load, 1)).contains("bytes/ns"));
    }
    let away = short(Pattern::Shift { by: 8 }, 0.1);
    assert_eq!(refuse(&away), "a shift by 8 among 8 hosts: 1 to 7");
}
