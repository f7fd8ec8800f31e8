//! `ibemu topo`: writes a topology out.

use anyhow::Result;

use crate::cli::{Topo, TopoFormat};
use crate::output;
use crate::usage;

/// Writes the topology in the text asked for.
///
/// # Errors
/// If there is no such topology.
pub fn run(options: &Topo) -> Result<()> {
    let topology = usage::topology(&options.topology)?;
    let text = match options.format {
        TopoFormat::Ibnetdiscover => topologies::write_ibnetdiscover(&topology.graph),
        TopoFormat::Net => topologies::write_net(&topology.graph),
    };
    output::text(&text)
}
