//! Usage errors: requests that are invalid on any machine. The command exits with 2
//! for these and with 1 for the rest.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Result;
use thiserror::Error;
use topologies::{Topology, TopologyError};

use crate::cli::LeaveOut;
use crate::output;

/// An invalid request.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// How much of a file of tables is read, bytes.
const TABLES_BYTES_MAX: usize = 1 << 30;

/// The text of a file that a user gives; `what` is what messages call it.
///
/// # Errors
/// [`UsageError`] if it cannot be read, is binary or too long.
pub fn text_of(path: &Path, what: &'static str) -> Result<String, UsageError> {
    topologies::read_bounded(path, what, TABLES_BYTES_MAX)
        .map_err(|error| UsageError(format!("cannot read {}: {error}", path.display())))
}

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

/// The topology of that name or file without what is to be left out.
///
/// # Errors
/// [`UsageError`] if there is none, or nothing of it is left.
pub fn part_of_topology(given: &str, leave_out: &LeaveOut) -> Result<Topology> {
    let mut topology = topology(given)?;
    let whole = topology.graph.len();
    let LeaveOut {
        only,
        without,
        hosts_per_leaf,
        shrink,
    } = leave_out;
    if !only.is_empty() {
        topology.graph = topology.graph.only(only);
    }
    if !without.is_empty() {
        topology.graph = topology.graph.without(without);
    }
    if let Some(most) = hosts_per_leaf {
        topology.graph = topology.graph.with_hosts_per_leaf(usize::from(*most));
    }
    if let Some(most) = shrink {
        topology.graph = topology.graph.shrunk(usize::try_from(*most)?);
    }
    let is_reduced = topology.graph.len() < whole;
    if is_reduced && topology.graph.hosts().next().is_none() {
        return Err(UsageError(format!(
            "{given}: no host is left by --only, --without, --hosts-per-leaf and --shrink; ibemu topo \
             {given} lists all"
        ))
        .into());
    }
    if is_reduced {
        topology.name = format!(
            "{} ({} of {whole} devices)",
            topology.name,
            topology.graph.len()
        );
    }
    Ok(topology)
}

/// The topology of that name or file. Warnings about what was not taken as it stands in the file are written to standard error, once.
///
/// # Errors
/// [`UsageError`] if there is none.
pub fn topology(given: &str) -> Result<Topology> {
    let topology = read(given)?;
    let warnings = &topology.warnings;
    // A warning that cannot be written is none.
    let tell = |text: String| {
        let _ = writeln!(io::stderr(), "warning: {}", output::printable(&text));
    };
    for warning in warnings.iter() {
        tell(format!("{given}, {warning}"));
    }
    if warnings.left_out() > 0 {
        tell(format!("{given}: {} more like these", warnings.left_out()));
    }
    Ok(topology)
}

fn read(given: &str) -> Result<Topology> {
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
