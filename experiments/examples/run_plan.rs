//! Runs a plan and prints its verdicts: `cargo run --release -p experiments --example run_plan -- PLAN OUT [quick]`

#![allow(clippy::print_stdout, reason = "the verdicts")]

use std::error::Error;
use std::path::Path;

use experiments::{Options, Plan, run};

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1);
    let (Some(plan), Some(out)) = (given.next(), given.next()) else {
        return Err("run_plan PLAN OUT [quick]".into());
    };
    let options = Options {
        quick: given.next().is_some_and(|word| word == "quick"),
        seed: 1,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let results = run(&Plan::find(&plan)?, options, Path::new(&out), &|_, _| {})?;
    for statement in &results.statements {
        let word = match statement.holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "-",
        };
        println!("{word:4} {} | {}", statement.expected, statement.measured);
    }
    println!("{}", results.files[2].display());
    Ok(())
}
