//! Seconds that the schemes beside MLID04 take: `cargo run --release -p routing --example
//! schemes_timing`. The best of five runs, one thread.
#![allow(
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it measures and prints"
)]

use std::time::{Duration, Instant};

use routing::lid_assignment::{Assignment, PathScheme, Scheme};
use routing::network::{Network, UpDown};
use routing::{Options, RoutingEngine};
use strum::VariantArray as _;
use topologies::{Graph, parse};

fn best<T>(mut run: impl FnMut() -> T) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        core::hint::black_box(run());
        least = least.min(start.elapsed());
    }
    least
}

fn engine_time(graph: &Graph, name: &str) -> Option<Duration> {
    let engine = name.parse::<RoutingEngine>().unwrap();
    let options = Options {
        data_vls: Some(15),
        ..Options::default()
    };
    engine
        .route(graph, &options)
        .is_ok()
        .then(|| best(|| engine.route(graph, &options)))
}

fn main() {
    let graph = parse("irregular-64-8-8-1").unwrap().graph;
    let network = Network::new(&graph);
    let updown = UpDown::new(&network).unwrap();
    println!("irregular-64-8-8-1 (512 hosts)");
    for &paths in PathScheme::VARIANTS {
        let time = best(|| paths.routes(&network, &updown).unwrap());
        println!("  paths {paths:<18} {time:?}");
        let routes = paths.routes(&network, &updown).unwrap();
        for scheme in [Scheme::Greedy, Scheme::SplitMergeL, Scheme::ColorL] {
            let time = best(|| Assignment::new(&network, &routes, scheme).unwrap());
            println!("    assign {scheme:<16} {time:?}");
        }
    }
    for name in [
        "dfsssp",
        "path-selection",
        "shortest-widest",
        "fully-explicit",
        "updn",
    ] {
        println!(
            "  engine {name:<17} {:?}",
            engine_time(&graph, name).unwrap()
        );
    }
    for topology in [
        "irregular-128-8-8-1",
        "fat-tree-8-3",
        "fat-tree-16-3",
        "fat-tree-32-3",
        "fat-tree-36-3",
        "torus-16x16-4",
        "clos-32-16-16",
    ] {
        let graph = parse(topology).unwrap().graph;
        println!("{topology}");
        for name in ["dfsssp", "dor", "clos"] {
            if let Some(time) = engine_time(&graph, name) {
                println!("  engine {name:<17} {time:?}");
            }
        }
    }
}
