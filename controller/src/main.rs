//! The daemon: runs the subnet manager beside an end node, through that node's MAD socket.

#[expect(
    clippy::disallowed_methods,
    reason = "the daemon reads and writes the file of LIDs for the core"
)]
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
