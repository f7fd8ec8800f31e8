//! A topology as a user asks for it: by name or by file.

use std::path::Path;

use crate::error::TopologyError;
use crate::graph::Graph;
use crate::kinds;
use crate::text::read_text;

/// A graph, and what was asked for to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Nodes and cables.
    pub graph: Graph,
    /// The name in its normal form (`clos-2-2-2` for `clos-2-2-2-1`), or the path.
    pub name: String,
}

/// Makes the topology of that name, or reads it from the file at that path.
///
/// # Errors
/// [`TopologyError`]: an unknown name, numbers that are impossible, a file that cannot be read
/// or is wrong (with the line).
pub fn parse(given: &str) -> Result<Topology, TopologyError> {
    let unknown = match kinds::read(given) {
        Ok(topology) => {
            return Ok(Topology {
                graph: topology.graph()?,
                name: topology.to_string(),
            });
        }
        Err(error) => error,
    };
    let path = Path::new(given);
    let is_path = given.contains(['/', '.']) || path.exists();
    if !matches!(unknown, TopologyError::Unknown { .. }) || !is_path {
        return Err(unknown);
    }
    let text = std::fs::read(path).map_err(|source| TopologyError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let graph =
        read_text(&String::from_utf8_lossy(&text)).map_err(|source| TopologyError::File {
            path: path.to_owned(),
            source,
        })?;
    Ok(Topology {
        graph,
        name: given.to_owned(),
    })
}
