//! From a topology and its tables to a fabric that carries data: devices are built, then the fabric
//! brings itself up (`fabric::configure`).

use std::sync::Arc;

use routing::{RoutingError, Tables};
use switchd::SwitchError;
use thiserror::Error;
use topologies::{Graph, NodeKind};
use wire::{Lid, PortNum};

use crate::extra_tables::ExtraTables;
use crate::fabric::{Fabric, ManagementError};
use crate::faults::{FaultError, FaultPlan};
use crate::model::{Model, ModelError};
use crate::node::{Node, hardware};
use crate::numbers::number;
use crate::packet_tracker::PacketTracker;
use crate::pattern::PatternError;
use crate::traffic_host::TrafficHost;
use crate::workload::WorkloadError;

/// Why a fabric cannot be simulated as asked.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The model makes no sense.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The pattern makes no sense on this fabric.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The workload makes no sense on this fabric.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The plan of faults names what is not there.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// No tables.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// A switch cannot be built.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// A port cannot be built.
    #[error(transparent)]
    Port(#[from] link::ConfigError),
    /// A host without a cable has no LID.
    #[error("host {0} has no LID: it needs a cable")]
    NoLid(String),
    /// A device has not answered as it must.
    #[error(transparent)]
    Management(#[from] ManagementError),
}

/// A fabric whose ports are all active, at rest, for packets of that many service levels.
pub(crate) fn build(
    graph: Arc<Graph>,
    tables: Arc<Tables>,
    model: &Model,
    faults: FaultPlan,
    extra_tables: ExtraTables,
    levels: u8,
) -> Result<Fabric, SetupError> {
    model.check()?;
    faults.check(&graph)?;
    let hands_over = crate::fabric::hands_over(model, &faults);
    let mut lids: Vec<Vec<Lid>> = Vec::new();
    let mut nodes = Vec::with_capacity(graph.len());
    let mut host_numbers = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let node = graph.node(id);
        if node.kind == NodeKind::Switch {
            nodes.push(Node::switch(
                &graph,
                id,
                model.port(node.guid, 1),
                model.timing(),
            )?);
            host_numbers.push(None);
            continue;
        }
        let range = tables.lids.of_node(id);
        let range = range.ok_or_else(|| SetupError::NoLid(node.name.clone()))?;
        let at = range.end.map_or(PortNum::new(1), |end| end.port);
        let port = hardware(&graph, id).port_config(at, model.port(node.guid, 1));
        let mut host = TrafficHost::new(at, port, range.base, model.payload_bytes())?;
        if hands_over {
            host.hand_over();
        }
        nodes.push(Node::TrafficHost(Box::new(host)));
        host_numbers.push(Some(number(lids.len())));
        lids.push(range.lids().collect());
    }
    let lossy = !faults.faults.is_empty();
    let tracker = PacketTracker::new(&lids, levels, model.lifetime_ns(), lossy);
    let mut fabric = Fabric::assemble(
        graph,
        Some(tables),
        model.clone(),
        (nodes, host_numbers),
        tracker,
        faults,
    );
    fabric.hands_over = hands_over;
    fabric.tracker.set_groups(Arc::clone(&extra_tables.groups));
    fabric.extra_tables = Arc::new(extra_tables);
    fabric.bring_up()?;
    Ok(fabric)
}
