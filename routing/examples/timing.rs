//! How long tables take, on one core: `cargo run --release -p routing --example timing`.
//!
//! Each line is the best of several runs of the engine alone (recognition, LIDs and tables; the
//! graph is made before). Arguments replace the list: `timing fat-tree-32-3:updn ...`.
#![allow(clippy::print_stdout, reason = "this is a program")]
#![allow(clippy::disallowed_types, reason = "it measures time")]

use std::process::ExitCode;
use std::time::Instant;

use routing::{Options, RoutingEngine, verify};

const CASES: [&str; 23] = [
    "fat-tree-8-3:mlid",
    "fat-tree-16-3:slid",
    "fat-tree-16-3:mlid",
    "fat-tree-16-3:updn",
    "fat-tree-24-3:slid",
    "fat-tree-24-3:updn",
    "fat-tree-32-3:slid",
    "fat-tree-32-3:mlid",
    "fat-tree-32-3:updn",
    "fat-tree-32-3:minhop",
    "fat-tree-36-3:slid",
    "fat-tree-36-3:updn",
    "irregular-64-8-8-1:updn",
    "irregular-64-8-8-1:dfsssp",
    "irregular-64-8-8-1:path-selection",
    "irregular-174-9-18-1:dfsssp",
    "irregular-174-9-18-1:nue",
    "irregular-174-9-18-1:lash",
    "as-built-100-16-18-8-4:nue",
    "as-built-100-16-18-8-4:ftree",
    "torus-16x16-8:torus-2qos",
    "torus-16x16-8:dor",
    "torus-16x16-8:updn",
];

const RUNS: usize = 5;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let cases = if given.is_empty() {
        CASES.map(str::to_owned).to_vec()
    } else {
        given
    };
    println!(
        "topology            engine         switches   LIDs  entries  seconds  ns/entry  verify"
    );
    for case in cases {
        if let Err(error) = time(&case) {
            eprintln!("{case}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn time(case: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (topology, name) = case.split_once(':').ok_or("TOPOLOGY:ENGINE is wanted")?;
    let graph = topologies::parse(topology)?.graph;
    let engine = name.parse::<RoutingEngine>()?;
    let options = Options {
        data_vls: Some(8),
        ..Options::default()
    };
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let tables = engine.route(&graph, &options)?;
        best = best.min(start.elapsed().as_secs_f64());
        drop(tables);
    }
    let tables = engine.route(&graph, &options)?;
    let start = Instant::now();
    let report = verify(&graph, &tables, tables.promises);
    let verify_seconds = start.elapsed().as_secs_f64();
    let switches = graph.switches().count();
    let lids = usize::from(tables.top().get());
    let entries = switches * lids;
    println!(
        "{topology:<19} {name:<14} {switches:>8} {lids:>6} {:>7.1}M {best:>8.3} {:>9.1} {:>7.2}",
        entries as f64 / 1e6,
        best * 1e9 / entries as f64,
        verify_seconds,
    );
    if report.is_ok() {
        Ok(())
    } else {
        Err(report.describe(&graph).to_string().into())
    }
}
