//! Writes a topology as text: `cargo run -p topologies --example write fat-tree-4-3 net`.
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(topology), format) = (words.next(), words.next()) else {
        eprintln!("usage: write TOPOLOGY [net|ibnetdiscover]");
        return ExitCode::from(2);
    };
    match topologies::parse(&topology) {
        Ok(topology) if format.as_deref() == Some("ibnetdiscover") => {
            print!("{}", topologies::write_ibnetdiscover(&topology.graph));
        }
        Ok(topology) => print!("{}", topologies::write_net(&topology.graph)),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
