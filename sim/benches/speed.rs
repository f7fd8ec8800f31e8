//! How fast the simulator is: switch traversals a second on one core, all checkers on.
//!
//! `cargo bench -p sim --bench speed [-- NAME ...]`
//!
//! The load is MLID04's network at 0.04 bytes/ns and host, uniform, one lane.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it goes wrong")]
#![allow(clippy::print_stdout, reason = "the figures")]
#![allow(missing_docs, reason = "a program")]

use std::time::Instant;

use sim::{FaultPlan, Load, Model, Prepared};

fn main() {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let all = ["fat-tree-8-3", "fat-tree-16-3", "fat-tree-32-2"];
    let load: f64 = std::env::var("SIM_LOAD")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0.04);
    let vls: u8 = std::env::var("SIM_VLS")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(1);
    let engine = std::env::var("SIM_ENGINE").unwrap_or("mlid".to_owned());
    for name in all
        .iter()
        .filter(|&&name| named.is_empty() || named.iter().any(|n| n == name))
    {
        let graph = topologies::parse(name).unwrap().graph;
        let prepared = Prepared::new(&graph, &engine).unwrap();
        let load = Load {
            warmup_ns: 30_000,
            measure_ns: if *name == "fat-tree-8-3" {
                600_000
            } else {
                100_000
            },
            ..Load::uniform(load, 1)
        };
        // The first, short run shows what bringing the fabric up takes.
        let short = Load {
            warmup_ns: 1,
            measure_ns: 1,
            ..load.clone()
        };
        let start = Instant::now();
        let before = prepared
            .run(&Model::mlid04(vls), &short, &FaultPlan::default())
            .unwrap();
        let setup = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let outcome = prepared
            .run(&Model::mlid04(vls), &load, &FaultPlan::default())
            .unwrap();
        let spent = start.elapsed().as_secs_f64() - setup;
        assert!(outcome.violations.is_empty(), "{}", outcome.violations[0]);
        let traversals = (outcome.traversals - before.traversals) as f64;
        let events = (outcome.tally.events - before.tally.events) as f64;
        println!(
            "{name}: {:.0} traversals/s, {:.0} events/s ({:.2} a traversal); up in {setup:.2} s; accepted {:.4}, latency {:.0} ns, p99 {} ns",
            traversals / spent,
            events / spent,
            events / traversals,
            outcome.accepted,
            outcome.latency_ns,
            outcome.latency_p99_ns,
        );
    }
}
