//! Forwarding tables that the user brings (`--routing file`). They are checked against the topology
//! before anything of the fabric is created, and copied into the fabric's directory, so that a
//! controller that is restarted finds them as they were.

use anyhow::Result;
use routing::{Options, RoutingEngine, dump, file};
use topologies::Topology;

use crate::cli::Up;
use crate::dir::{self, FabricDir};
use crate::usage::{self, UsageError};

/// The text of the tables, if the user brings any.
///
/// # Errors
/// [`UsageError`] with file and line if they cannot be read, do not fit the topology, or do not
/// serve its hosts; or if another engine was chosen.
pub(super) fn given(topology: &Topology, options: &Up) -> Result<Option<String>> {
    let Some(path) = &options.tables else {
        return Ok(None);
    };
    if options.routing != RoutingEngine::File {
        return Err(UsageError(format!(
            "--tables is for --routing file; {} computes tables of its own",
            options.routing
        ))
        .into());
    }
    let text = usage::text_of(path, "forwarding table")?;
    check(topology, &text)
        .map_err(|problem| UsageError(format!("{}, {problem}", path.display())))?;
    Ok(Some(text))
}

fn check(topology: &Topology, text: &str) -> Result<(), String> {
    let options = Options {
        given: Some(dump::read(text).map_err(|error| error.to_string())?),
        ..Options::default()
    };
    let tables = RoutingEngine::File
        .route(&topology.graph, &options)
        .map_err(|error| error.to_string())?;
    file::check(&topology.graph, &tables)
        .map(|_| ())
        .map_err(|unfit| unfit.to_string())
}

/// Puts the text where the controller reads it.
///
/// # Errors
/// If it cannot be written.
pub(super) fn keep(dir: &FabricDir, text: Option<&str>) -> Result<()> {
    let Some(text) = text else {
        return Ok(());
    };
    Ok(dir.require()?.replace(dir::TABLES, text.as_bytes())?)
}
