//! Forwarding tables that the user brings (`--routing file`). They are checked against the topology
//! before anything of the fabric is created, and copied into the fabric's directory, so that a
//! controller that is restarted finds them as they were.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::Result;
use routing::file::{self, LevelError};
use routing::{Options, RoutingEngine, dump};
use topologies::Topology;
use wire::attr::VlCount;

use crate::cli::Up;
use crate::dir::{self, FabricDir};
use crate::usage::{self, UsageError};

/// The texts of tables and of their service levels.
pub(super) struct Given {
    tables: String,
    /// By file.
    pub(super) levels: Vec<String>,
}

/// The texts, if the user brings any.
///
/// # Errors
/// [`UsageError`] with file and line if they cannot be read, do not fit the topology, or do not
/// serve its hosts; or if another engine was chosen.
pub(super) fn given(topology: &Topology, options: &Up) -> Result<Option<Given>> {
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
    let in_file =
        |path: &Path, problem: &dyn Display| UsageError(format!("{}, {problem}", path.display()));
    let dumps = dump::read(&text).map_err(|problem| in_file(path, &problem))?;
    let (mut levels, mut texts) = (Vec::new(), Vec::new());
    for path in &options.sls {
        let text = usage::text_of(path, "table of service levels")?;
        levels.push(dump::read_levels(&text).map_err(|problem| in_file(path, &problem))?);
        texts.push(text);
    }
    let vls = VlCount::at_most(options.links.vls).map_or(1, VlCount::vls);
    let engine_options = Options {
        given: Some(dumps),
        given_levels: levels,
        data_vls: Some(vls),
        ..Options::default()
    };
    let tables = RoutingEngine::File.route(&topology.graph, &engine_options);
    let tables = tables.map_err(|error| match error.reason::<LevelError>() {
        Some(problem) => UsageError(format!("{}, {problem}", names(&options.sls))),
        None => in_file(path, &error),
    })?;
    let used = tables.vl_assignment.as_ref().map_or(1, |a| a.data_vls);
    if used > vls {
        return Err(UsageError(format!(
            "{}: packets travel on {used} VLs, and ports have {vls} data VLs: raise --vls",
            names(&options.sls)
        ))
        .into());
    }
    file::check(&topology.graph, &tables).map_err(|unfit| in_file(path, &unfit))?;
    Ok(Some(Given {
        tables: text,
        levels: texts,
    }))
}

fn names(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// Puts the texts where the controller reads them.
///
/// # Errors
/// If they cannot be written.
pub(super) fn keep(dir: &FabricDir, given: Option<&Given>) -> Result<()> {
    let Some(given) = given else {
        return Ok(());
    };
    let directory = dir.require()?;
    directory.replace(dir::TABLES, given.tables.as_bytes())?;
    for (number, text) in given.levels.iter().enumerate() {
        directory.replace(&dir::levels_file(number), text.as_bytes())?;
    }
    Ok(())
}
