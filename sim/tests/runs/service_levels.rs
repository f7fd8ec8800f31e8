//! Engines that avoid credit loops by service levels: packets have those levels, ports those tables.

use routing::{Promises, RoutingEngine, verify};
use sim::{
    AddressVector, Destination, FaultPlan, Group, Load, LoadResult, Model, RoutedFabric,
    SendRequest, SlChoice, TrafficSource, Until, Workload,
};
use std::sync::Arc;

/// Rings, and a torus of rings: shortest paths on one VL form credit loops on each.
const RINGS: [&str; 3] = ["ring-5-2", "ring-6-3", "torus-5x5-2"];

fn fabric(name: &str, engine: RoutingEngine) -> RoutedFabric {
    let graph = topologies::parse(name).unwrap().graph;
    RoutedFabric::new(&graph, engine).unwrap()
}

/// More than any link carries.
fn overload() -> Load {
    Load {
        warmup_ns: 10_000,
        measure_ns: 40_000,
        ..Load::uniform(0.2, 1)
    }
}

fn run(fabric: &RoutedFabric, vls: u8, load: &Load) -> LoadResult {
    let outcome = fabric.run(&Model::mlid04(vls), load, &FaultPlan::default());
    let outcome = outcome.unwrap();
    assert_eq!(outcome.violations, []);
    outcome
}

#[test]
fn tables_without_credit_loops_do_not_deadlock_in_virtual_time() {
    for name in RINGS {
        for engine in [RoutingEngine::Dfsssp, RoutingEngine::Dor] {
            let fabric = fabric(name, engine);
            let promises = Promises {
                deadlock_free: true,
                ..fabric.tables().promises
            };
            let report = verify(fabric.graph(), fabric.tables(), promises);
            assert_eq!(report.cycle, None, "{name} {engine}");
            let vls = fabric.tables().vl_assignment.as_ref().unwrap().data_vls;
            let vls = vls.next_power_of_two();
            let outcome = run(&fabric, vls, &overload());
            assert_eq!(outcome.deadlock, None, "{name} {engine}");
            assert!(outcome.accepted > 0.01, "{name} {engine}: {outcome:?}");
        }
    }
}

#[test]
fn service_levels_that_are_drawn_close_the_cycle_again() {
    let ring = fabric("ring-5-2", RoutingEngine::Dor);
    let drawn = Load {
        sl_choice: SlChoice::Random,
        ..overload()
    };
    assert!(run(&ring, 2, &drawn).deadlock.is_some());
}

#[test]
fn fewer_vls_than_the_engine_needs_are_refused() {
    let ring = fabric("ring-5-2", RoutingEngine::Dor);
    let refused = ring.run(&Model::mlid04(1), &overload(), &FaultPlan::default());
    let text = "dor needs 2 data VLs to be free of deadlock on this fabric, ports have 1";
    assert_eq!(refused.unwrap_err().to_string(), text);
    let workload = Workload::empty(10, 1, Until::At(1));
    let refused = ring.run_workload(&Model::mlid04(1), &workload, &FaultPlan::default());
    assert_eq!(refused.unwrap_err().to_string(), text);
    // With service levels that are drawn, the engine's tables are not used.
    let drawn = Load {
        sl_choice: SlChoice::Connection,
        ..overload()
    };
    run(&ring, 1, &drawn);
}

#[test]
fn a_workload_takes_the_engine_s_levels_member_by_member() {
    let torus = fabric("torus-5x5-1", RoutingEngine::Dor);
    let mut workload = Workload::empty(25, 1, Until::Delivered(50_000_000));
    workload.groups.push(Group {
        members: (0..25).collect(),
    });
    for sources in &mut workload.hosts {
        let request = SendRequest {
            at_ps: 0,
            address: AddressVector {
                to: Destination::Each(0),
                ..AddressVector::to_host(0, 0)
            },
            bytes: 300,
        };
        sources.push(TrafficSource::Messages(Arc::new([request])));
    }
    let model = Model {
        packet_bytes: 132,
        ..Model::mlid04(2)
    };
    let record = torus.run_workload(&model, &workload, &FaultPlan::default());
    let record = record.unwrap();
    assert_eq!(
        (record.violations.clone(), &record.deadlock),
        (vec![], &None)
    );
    // Messages of three packets to 24 others.
    assert_eq!(record.flows[0].delivered, 25 * 24 * 3);
    assert!(record.is_complete);
    // Both VLs of the rings carry packets.
    let on = |vl: usize| {
        record
            .ports
            .iter()
            .map(|port| port.vls[vl].packets)
            .sum::<u64>()
    };
    assert!(on(0) > 0 && on(1) > 0);
}
