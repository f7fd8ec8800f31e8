//! The daemon: one switch of a fabric as a process.

mod shell;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = shell::Arguments::parse();
    match shell::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
