//! How fast the simulator is: switch traversals a second on one core, all checkers on.
//!
//! `cargo bench -p sim --bench speed [-- NAME ...]`
//!
//! The load is MLID04's network at 0.04 bytes/ns and host, uniform, one lane, `mlid`. Each fabric
//! is run five times; reported are the best and the median of the rates, without the time that
//! bringing the fabric up takes.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it goes wrong")]
#![allow(clippy::print_stdout, reason = "the figures")]
#![allow(missing_docs, reason = "a program")]

use std::time::Instant;

use sim::{FaultPlan, Load, Model, Outcome, Prepared};

const ROUNDS: usize = 5;
/// Fabrics, and how long they are looked at, nanoseconds of virtual time.
const FABRICS: [(&str, u64); 3] = [
    ("fat-tree-8-3", 800_000),
    ("fat-tree-32-2", 200_000),
    ("fat-tree-16-3", 100_000),
];

/// One run; seconds of real time and what came of it.
fn run(prepared: &Prepared, measure_ns: u64) -> (f64, Outcome) {
    let load = Load {
        warmup_ns: 1,
        measure_ns,
        ..Load::uniform(0.04, 1)
    };
    let start = Instant::now();
    let outcome = prepared
        .run(&Model::mlid04(1), &load, &FaultPlan::default())
        .unwrap();
    let spent = start.elapsed().as_secs_f64();
    assert!(outcome.violations.is_empty(), "{}", outcome.violations[0]);
    (spent, outcome)
}

fn main() {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    for (name, measure_ns) in FABRICS {
        if !named.is_empty() && !named.iter().any(|given| given == name) {
            continue;
        }
        let graph = topologies::parse(name).unwrap().graph;
        let prepared = Prepared::new(&graph, "mlid").unwrap();
        let mut rates = Vec::new();
        let (mut per_traversal, mut up) = (0.0, f64::MAX);
        for _ in 0..ROUNDS {
            // The shortest run shows what bringing the fabric up takes.
            let (setup, before) = run(&prepared, 1);
            let (spent, after) = run(&prepared, measure_ns);
            let traversals = (after.traversals - before.traversals) as f64;
            let events = (after.tally.events - before.tally.events) as f64;
            rates.push(traversals / (spent - setup));
            per_traversal = events / traversals;
            up = up.min(setup);
        }
        rates.sort_by(f64::total_cmp);
        println!(
            "{name:14} {:8.0} traversals/s (median {:.0}), {per_traversal:.2} events a traversal, \
             up in {:.0} ms",
            rates[ROUNDS - 1],
            rates[ROUNDS / 2],
            up * 1000.0
        );
    }
}
