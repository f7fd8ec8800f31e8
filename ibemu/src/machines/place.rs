//! Places the devices of a topology on machines, by computation or by hand.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use cluster::placement::{MachineName, Placement};
use topologies::{Graph, NodeId, NodeKind};

use crate::adapters::AdapterNames;

/// How much of a placement is read, bytes.
const PLACEMENT_BYTES_MAX: usize = 16 << 20;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The topology.
    pub graph: &'a Graph,
    /// What adapters are called at this site.
    pub adapter_names: AdapterNames<'a>,
    /// The host beside which the first subnet manager runs.
    pub first: Option<NodeId>,
    /// Processors of the machines.
    pub cpus: &'a [u32],
    /// Names of the machines, as far as they are known.
    pub names: &'a [MachineName],
    /// A placement by hand.
    pub by_hand: Option<&'a Path>,
}

/// Which device runs on which machine.
///
/// # Errors
/// If the devices cannot be placed so.
pub fn place(asked: &Placed<'_>) -> Result<Placement> {
    let siblings = siblings(asked.graph, asked.adapter_names);
    let Some(path) = asked.by_hand else {
        let computed = Placement::compute(asked.graph, &siblings, asked.first, asked.cpus);
        return Ok(computed?);
    };
    let text = topologies::read_bounded(path, "a placement", PLACEMENT_BYTES_MAX)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Placement::read(&text, asked.graph, &siblings, asked.names)
        .with_context(|| path.display().to_string())
}

/// The adapters of hosts that have several, with a number a host.
fn siblings(graph: &Graph, names: AdapterNames<'_>) -> BTreeMap<NodeId, usize> {
    let mut of_host: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    for id in graph.ids() {
        let node = graph.node(id);
        if node.kind == NodeKind::Host
            && let Some(adapter) = names.adapter(&node.description)
        {
            of_host.entry(adapter.host).or_default().push(id);
        }
    }
    let several = of_host.into_values().filter(|adapters| adapters.len() > 1);
    let numbered = several.enumerate();
    numbered
        .flat_map(|(host, adapters)| adapters.into_iter().map(move |adapter| (adapter, host)))
        .collect()
}
