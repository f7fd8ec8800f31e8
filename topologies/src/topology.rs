//! A topology as a user asks for it: by name or by file.

use std::path::Path;

use wire::choice::Choice as _;

use crate::error::{TextError, TopologyError};
use crate::graph::Graph;
use crate::kinds;
use crate::text::{Description, Source, TextFormat, TextWarnings, read_description};

/// A graph, and what was asked for to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Nodes and cables.
    pub graph: Graph,
    /// The name in its normal form (`clos-2-2-2` for `clos-2-2-2-1`), or the path.
    pub name: String,
    /// Lines of the file that were not taken as they stand.
    pub warnings: TextWarnings,
}

/// Makes the topology of that name, or reads it from the file at that path. The format of a file is found from
/// its content, unless the path has it in front, as in `iblinkinfo:PATH`.
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
                warnings: TextWarnings::default(),
            });
        }
        Err(error) => error,
    };
    let (format, path) = match given.split_once(':').and_then(forced) {
        Some((format, path)) => (Some(format), path),
        None => (None, given),
    };
    let is_path = format.is_some() || path.contains(['/', '.']) || Path::new(path).exists();
    let path = Path::new(path);
    if !matches!(unknown, TopologyError::Unknown { .. }) || !is_path {
        return Err(unknown);
    }
    let source = Source::read(path, format)?;
    let Description {
        graph,
        mut warnings,
        ..
    } = read_description(&source.text, format).map_err(|error| {
        let (path, line) = source.origin(error.line);
        TopologyError::File {
            path: path.to_owned(),
            source: TextError { line, ..error },
        }
    })?;
    warnings.locate(|line| {
        let (file, line) = source.origin(line);
        ((file != path).then(|| file.to_owned()), line)
    });
    Ok(Topology {
        graph,
        name: given.to_owned(),
        warnings,
    })
}

/// A format that is read, and the path behind it.
fn forced<'a>((format, path): (&str, &'a str)) -> Option<(TextFormat, &'a str)> {
    let format = TextFormat::from_name(format).ok()?;
    let is_read = TextFormat::readable().any(|other| other == format);
    is_read.then_some((format, path))
}
