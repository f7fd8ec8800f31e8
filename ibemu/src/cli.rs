//! The command line.

mod up;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use topologies::TextFormat;
use wire::choice::Choice as _;

use crate::names::{FabricName, PortName};
use crate::quantity::{self, Rate};
use crate::verbs::offline::args as offline;
pub use up::{LeaveOut, LinkOptions, Sm, Up, Verify};

/// An InfiniBand fabric on this machine: every switch and host a process, real packets between
/// them, a real subnet manager.
#[derive(Debug, Parser)]
#[command(name = "ibemu", version, max_term_width = 100)]
pub struct Cli {
    /// Name of the fabric: 1 to 32 of a-z, 0-9 and '-'. Several may be up side by side
    #[arg(long, global = true, default_value = "ib", value_name = "NAME")]
    pub fabric: FabricName,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Bring a fabric up: namespaces, links, devices, subnet manager; then verify it
    Up(Box<Up>),
    /// Take a fabric down and remove everything that `up` created
    Down(Down),
    /// Run a command beside a node: in its namespace, with its adapter
    Exec(Exec),
    /// Run a program beside several hosts at once, one process each, until the first one fails
    Run(Run),
    /// Show devices, ports, LIDs and the subnet manager
    Status(Status),
    /// Serve a live page of the fabric: map, counters, paths, events
    Web(crate::web::Web),
