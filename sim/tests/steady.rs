//! A run that has warmed up allocates nothing more.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use sim::{FaultPlan, Load, Model, Outcome, Prepared};

fn run(prepared: &Prepared, measure_ns: u64) -> (u64, Outcome) {
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
fn what_happens_after_the_warm_up_allocates_next_to_nothing() {
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let prepared = Prepared::new(&graph, "mlid").unwrap();
    let (short, before) = run(&prepared, 1);
    let (long, after) = run(&prepared, 500_000);
    let events = after.tally.events - before.tally.events;
    assert!(events > 100_000, "{events}");
    // Audits list drops and lanes, and a slot of the queue of events that is fuller than ever
    // before grows: rare beside the events.
    let allocations = long - short;
    assert!(
        allocations * 100 < events,
        "{allocations} allocations, {events} events"
    );
}
