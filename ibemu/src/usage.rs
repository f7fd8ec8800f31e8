//! Usage errors: requests that are invalid on any machine. The command exits with 2
//! for these and with 1 for the rest.

use anyhow::Result;
use thiserror::Error;
use topologies::{Topology, TopologyError};

/// An invalid request.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The topology of that name or file with its nodes in the order of GUIDs: what is printed about it does
/// not depend on the order of lines in the file.
///
/// # Errors
/// [`UsageError`] if there is none.
pub fn ordered_topology(given: &str) -> Result<Topology> {
    let topology = topology(given)?;
    Ok(Topology {
        graph: topology.graph.in_guid_order(),
        ..topology
    })
}

/// The topology of that name or file.
///
/// # Errors
/// [`UsageError`] if there is none.
pub fn topology(given: &str) -> Result<Topology> {
    topologies::parse(given).map_err(|error| {
        let text = match &error {
            TopologyError::File { path, source } => {
                format!(
                    "{}, line {}: {}",
                    path.display(),
                    source.line,
                    source.problem
                )
            }
            other => other.to_string(),
        };
        UsageError(text).into()
    })
}
