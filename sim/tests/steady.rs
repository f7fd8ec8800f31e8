//! A run that has warmed up allocates nothing more.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use routing::RoutingEngine;
use sim::{
    AddressVector, ConstantRate, Destination, FaultPlan, FlowPlan, Group, Load, LoadResult, Model,
    RoutedFabric, TrafficSource, Until, Workload, WorkloadResult,
};

fn run(prepared: &RoutedFabric, measure_ns: u64) -> (u64, LoadResult) {
    let load = Load {
        warmup_ns: 100_000,
        measure_ns,
        ..Load::uniform(0.05, 1)
    };
    let mut outcome = None;
    let allocations = allocation_counter::measure(|| {
        outcome = Some(
            prepared
                .run(&Model::mlid04(1), &load, &FaultPlan::default())
                .unwrap(),
        );
    });
    (allocations.count_total, outcome.unwrap())
}

#[test]
fn a_load_that_has_warmed_up_allocates_next_to_nothing() {
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let prepared = RoutedFabric::new(&graph, RoutingEngine::Mlid).unwrap();
    let (short, before) = run(&prepared, 1);
    let (long, after) = run(&prepared, 500_000);
    let events = after.counters.events - before.counters.events;
    assert!(events > 100_000, "{events}");
    // Audits list drops and VLs, and a slot of the queue of events that is fuller than ever
    // before grows: rare beside the events.
    let allocations = long - short;
    assert!(
        allocations * 100 < events,
        "{allocations} allocations, {events} events"
    );
}

/// Every host sends to another and to a group of three, for so long.
fn play(prepared: &RoutedFabric, run_ns: u64) -> (u64, WorkloadResult) {
    let mut workload = Workload::empty(16, 2, Until::At(run_ns));
    let plan = FlowPlan {
        delays_ns: vec![500, 1000, 2000],
        interval_ps: 2_000_000,
        jitter_ns: vec![-100, 0, 100],
    };
    workload.flows = vec![plan.clone(), plan];
    for (host, sources) in (0u32..).zip(&mut workload.hosts) {
        let members = [1, 5, 9].map(|by| (host + by) % 16);
        workload.groups.push(Group {
            members: members.to_vec(),
        });
        let addresses = [
            AddressVector::to_host((host + 3) % 16, 0),
            AddressVector {
                to: Destination::Group(host),
                ..AddressVector::to_host(0, 1)
            },
        ];
        sources.extend(addresses.map(|address| {
            TrafficSource::ConstantRate(ConstantRate {
                address,
                bytes: 32,
                first_ps: u64::from(host) * 100_000,
                interval_ps: 2_000_000,
                packets: None,
            })
        }));
    }
    let mut record = None;
    let model = Model::mlid04(1);
    let allocations = allocation_counter::measure(|| {
        record = Some(
            prepared
                .run_workload(&model, &workload, &FaultPlan::default())
                .unwrap(),
        );
    });
    (allocations.count_total, record.unwrap())
}

#[test]
fn a_workload_that_has_warmed_up_allocates_next_to_nothing() {
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let prepared = RoutedFabric::new(&graph, RoutingEngine::Mlid).unwrap();
    let (short, before) = play(&prepared, 100_000);
    let (long, after) = play(&prepared, 600_000);
    let events = after.counters.events - before.counters.events;
    assert!(events > 100_000, "{events}");
    let allocations = long - short;
    assert!(
        allocations * 100 < events,
        "{allocations} allocations, {events} events"
    );
}
