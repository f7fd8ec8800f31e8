//! `ibemu topo`: writes a topology out.

use anyhow::Result;
use wire::choice::Choice as _;

use crate::cli::Topo;
use crate::output;
use crate::usage::{self, UsageError};

/// Writes the topology in the text asked for.
///
/// # Errors
/// If there is no such topology.
pub fn run(options: &Topo) -> Result<()> {
    let topology = usage::part_of_topology(&options.topology, &options.leave_out)?;
    let text = options.format.write(&topology.graph).ok_or_else(|| {
        let name = options.format.name();
        UsageError(format!("--format {name}: this format is only read"))
    })?;
    output::text(&text)
}
