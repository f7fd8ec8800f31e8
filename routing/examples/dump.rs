//! Prints the tables of a topology as dump_fts does:
//! `cargo run -p routing --example dump fat-tree-4-3 mlid`.
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::process::ExitCode;

use routing::{Options, RoutingEngine, dump};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(topology), Some(name)) = (words.next(), words.next()) else {
        eprintln!("usage: dump TOPOLOGY ENGINE");
        return ExitCode::from(2);
    };
    match print(&topology, &name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(topology: &str, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let graph = topologies::parse(topology)?.graph;
    let tables = name
        .parse::<RoutingEngine>()?
        .route(&graph, &Options::default())?;
    print!("{}", dump::write(&graph, &tables));
    Ok(())
}
