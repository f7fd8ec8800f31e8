//! The `ibemu` command.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use ibemu::cli::{Cli, Verb};
use ibemu::usage::UsageError;
use ibemu::{machines, output, supervisor, verbs, web};

/// Exit code of a usage error.
const USAGE: u8 = 2;
/// Exit code of a negative answer or a failure.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // A closed standard error is no reason to panic.
            let message = format!("ibemu: {error:#}");
            let _ = writeln!(std::io::stderr(), "{}", output::printable(&message));
            ExitCode::from(code_of(&error))
        }
    }
}

/// The exit code of what went wrong.
fn code_of(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<UsageError>().is_some() {
        return USAGE;
    }
    let command = error.downcast_ref::<verbs::CannotRun>();
    command.map_or(FAILED, verbs::CannotRun::code)
}

/// Does what was asked: the exit code, if all went well.
fn run(cli: &Cli) -> Result<u8> {
    match &cli.verb {
        Verb::Run(options) => wait(verbs::run(&cli.fabric, options)),
        _ => execute(cli).map(|()| 0),
    }
}

fn execute(cli: &Cli) -> Result<()> {
    let fabric = &cli.fabric;
    match &cli.verb {
        Verb::Run(_) => Ok(()),
        Verb::Exec(options) => match verbs::exec(fabric, options)? {},
        Verb::Completions(options) => verbs::completions(options),
        Verb::Man(options) => verbs::man(options),
        Verb::Topo(options) => verbs::topo(options),
        Verb::Place(options) => verbs::place(options),
        Verb::Route(options) => verbs::offline::route(options),
        Verb::Verify(options) => verbs::offline::verify(options),
        Verb::Compare(options) => verbs::offline::compare(options),
        Verb::Lids(options) => verbs::offline::lids(options),
        Verb::Admit(options) => verbs::offline::admit(options),
        Verb::Window(options) => verbs::offline::window(options),
        Verb::Sim(what) => verbs::sim(what),
        Verb::Supervisor(options) => supervisor::run(&options.dir),
        Verb::Agent(options) => machines::agent(fabric, options),
        Verb::Up(options) => {
            wait(verbs::up(fabric, options))?;
            match options.web {
                true => wait(web::run(fabric, &web::Web::default())),
                false => Ok(()),
            }
        }
        Verb::Down(options) => wait(verbs::down(fabric, options)),
        Verb::Status(options) => wait(verbs::status(fabric, options)),
        Verb::Web(options) => wait(web::run(fabric, options)),
        Verb::Ping(options) => wait(verbs::ping(fabric, options)),
        Verb::Metrics(options) => wait(verbs::metrics(fabric, options)),
        Verb::Events(options) => wait(verbs::events(fabric, options)),
        Verb::Path(options) => wait(verbs::path(fabric, options)),
        Verb::Perf(options) => wait(verbs::perf(fabric, options)),
        Verb::Traffic(options) => wait(verbs::traffic(fabric, options)),
        Verb::Capture(options) => wait(verbs::capture(fabric, options)),
        Verb::Extcap(options) => wait(verbs::extcap(options)),
        Verb::Mcast(options) => wait(verbs::mcast(fabric, options)),
        Verb::Qos(options) => wait(verbs::qos(fabric, options)),
        Verb::Clos(options) => wait(verbs::clos(fabric, options)),
        Verb::Link(options) => wait(verbs::link(fabric, options)),
        Verb::Restart(options) => wait(verbs::restart(fabric, options)),
        Verb::Chaos(options) => wait(verbs::chaos(fabric, options)),
    }
}

/// Runs a verb that connects to many processes at once.
fn wait<T>(verb: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(verb)
}
