//! `ibemu topo`: writes a topology out.

use anyhow::Result;
use topologies::TextFormat;
use wire::choice::Choice as _;

use crate::cli::Topo;
use crate::output;
use crate::shape;
use crate::usage::{self, UsageError};

/// Writes the topology in the text asked for, and in front of it, where the text may have comments, what
/// it is recognised to be built of.
///
/// # Errors
/// If there is no such topology.
pub fn run(options: &Topo) -> Result<()> {
    let topology = usage::part_of_topology(&options.topology, &options.leave_out)?;
    let text = options.format.write(&topology.graph).ok_or_else(|| {
        let name = options.format.name();
        UsageError(format!("--format {name}: this format is only read"))
    })?;
    let (lines, comment) = match options.format {
        TextFormat::Ibnetdiscover | TextFormat::Ibsim | TextFormat::Slurm => {
            (shape::lines(&topology.graph), "# ")
        }
        _ => (Vec::new(), ""),
    };
    for line in lines {
        output::line(format!("{comment}{line}"))?;
    }
    output::text(&text)
}
