//! Usage errors: requests that are invalid on any machine. The command exits with 2
//! for these and with 1 for the rest.

use anyhow::Result;
use thiserror::Error;
use topologies::{Topology, TopologyError};

/// An invalid request.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

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
