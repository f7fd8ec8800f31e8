//! The daemon: one end node of a fabric as a process.

mod daemon;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = daemon::Arguments::parse();
    match daemon::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
