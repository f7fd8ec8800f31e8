//! Tables as the command line asks for them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use routing::file::{self, FileError};
use routing::{Options, RoutingEngine, RoutingError, Tables, Warning, dump};
use topologies::{Endpoint, Graph, NodeId, NodeKind, Topology};
use wire::{Lmc, PortNum};

use super::args::Scheme;
use crate::engines;
use crate::usage::{self, UsageError};

/// A topology with its tables.
pub(super) struct Routed {
    pub(super) topology: Topology,
    pub(super) tables: Tables,
}

impl Routed {
    /// The topology of that name and the tables of that engine, or those in the file.
    ///
    /// # Errors
    /// [`UsageError`] if there can be no such tables.
    pub(super) fn new(
        topology: &str,
        routing: RoutingEngine,
        file: Option<&Path>,
        scheme: &Scheme,
    ) -> Result<Self> {
        let topology = usage::ordered_topology(topology)?;
        let mut options = options(&topology.graph, scheme)?;
        if let Some(path) = file {
            if routing != RoutingEngine::File {
                return Err(UsageError(format!(
                    "--tables is for --routing file; {routing} computes tables of its own"
                ))
                .into());
            }
            options.given = Some(read(path)?);
        }
        let tables = engines::route(routing, &topology.graph, &options)
            .map_err(|error| in_file(&error, file))?;
        Ok(Self { topology, tables })
    }

    /// Gives tables from a file the service levels of other files; without any, says that there are none.
    ///
    /// # Errors
    /// [`UsageError`] with the file and, where it can be, the line.
    pub(super) fn give_levels(&mut self, paths: &[PathBuf], data_vls: u8) -> Result<()> {
        if paths.is_empty() {
            self.tables.warnings.push(Warning::OneVl);
            return Ok(());
        }
        let mut dumps = Vec::new();
        for path in paths {
            let text = usage::text_of(path, "table of service levels")?;
            let dump = dump::read_levels(&text)
                .map_err(|error| UsageError(format!("{}, {error}", path.display())))?;
            dumps.push(dump);
        }
        let graph = &self.topology.graph;
        file::give_levels(graph, &mut self.tables, &dumps, data_vls).map_err(|error| {
            let names: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            UsageError(format!("{}, {error}", names.join(", "))).into()
        })
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.topology.graph
    }
}

/// An error of tables from a file begins with the file's name.
fn in_file(error: &RoutingError, file: Option<&Path>) -> UsageError {
    match (error.reason::<FileError>(), file) {
        (Some(error), Some(path)) => UsageError(format!("{}, {error}", path.display())),
        _ => UsageError(error.to_string()),
    }
}

fn read(path: &Path) -> Result<Vec<dump::SwitchDump>> {
    dump::read(&usage::text_of(path, "forwarding table")?)
        .map_err(|error| UsageError(format!("{}, {error}", path.display())).into())
}

/// The options of an engine.
///
/// # Errors
/// [`UsageError`] for an LMC above 7, and for nodes that the topology does not have.
pub(super) fn options(graph: &Graph, scheme: &Scheme) -> Result<Options> {
    let lmc = scheme.lmc.map(Lmc::new).transpose();
    let options = Options {
        lmc: lmc.map_err(|error| UsageError(error.to_string()))?,
        lid_base: scheme.lid_base,
        data_vls: Some(scheme.vls),
        ..Options::default()
    };
    Ok(scheme.levels.guids(graph)?.into_options(options))
}

/// The node of that name.
///
/// # Errors
/// [`UsageError`] if there is none.
pub(super) fn node(graph: &Graph, name: &str) -> Result<NodeId> {
    graph.find(name).ok_or_else(|| {
        let first = |kind| graph.ids().find(|&id| graph.node(id).kind == kind);
        let known: Vec<&str> = [NodeKind::Host, NodeKind::Switch]
            .into_iter()
            .filter_map(|kind| Some(graph.node(first(kind)?).name.as_str()))
            .collect();
        let known = known.join(", ");
        UsageError(format!(
            "the topology has no node {name:?}; it has {known} .."
        ))
        .into()
    })
}

/// The port by which a node takes part: port 0 of a switch, the first connected port of a host.
pub(super) fn end_port(graph: &Graph, node: NodeId) -> Option<Endpoint> {
    let port = match graph.node(node).kind {
        NodeKind::Switch => PortNum::MANAGEMENT,
        NodeKind::Host => graph.cables(node).next()?.0,
    };
    Some(Endpoint { node, port })
}

/// Connected hosts in the order of GUIDs.
pub(super) fn hosts(graph: &Graph) -> Vec<NodeId> {
    graph
        .hosts()
        .filter(|&host| graph.cables(host).next().is_some())
        .collect()
}

/// The output ports of a packet from one node to another, the source's first.
pub(super) fn outputs(graph: &Graph, tables: &Tables, from: NodeId, to: NodeId) -> Vec<Endpoint> {
    let way = end_port(graph, from)
        .zip(tables.dlid_between(from, to))
        .map(|(source, dlid)| tables.path(graph, source, dlid));
    let hops = way.filter(|way| way.arrives).map(|way| way.hops);
    hops.unwrap_or_default()
        .into_iter()
        .filter(|hop| hop.exit != PortNum::MANAGEMENT)
        .map(|hop| Endpoint {
            node: hop.node,
            port: hop.exit,
        })
        .collect()
}

/// The largest LMC of any port.
pub(super) fn lmc(tables: &Tables) -> u8 {
    let lmcs = tables.lids.iter().map(|range| range.lmc.get());
    lmcs.max().unwrap_or(0)
}
