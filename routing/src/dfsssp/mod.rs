//! `dfsssp`: balanced shortest paths on any fabric, made free of deadlock by virtual lanes (Domke,
//! Hoefler, Nagel: Deadlock-free oblivious routing for arbitrary topologies, IPDPS 2011).
//!
//! **Paths.** For each LID of a host in turn, a tree of shortest paths to it; among paths of equally
//! few hops the one whose channels carry the least so far. Then each channel's weight grows by the
//! number of hosts whose path to the LID crosses it ([`trees`]).
//!
//! **Layers.** All paths begin in layer 0. While the channel dependency graph of a layer has a
//! cycle, the dependency on it that the fewest paths make is broken: those paths move to the next
//! layer ([`layers`]). A path's layer is its SL, and SL `i` is VL `i` at every port. If there are
//! more layers than data VLs, the tables could deadlock, and there are none.
//!
//! Shapes: a path from each switch with hosts to each host LID; a layer for each. Cost: for `S`
//! switches, `C` channels and `L` LIDs, `L C` for the trees and `S L hops` for the layers, plus
//! `C` for each cycle broken.
//!
//! Differences from the paper: paths are of the fewest hops by comparison, not by large first
//! weights, which comes to the same; unused VLs are left unused rather than filled for balance;
//! packets of switches' own ports (answers to queries) are not layered and use SL 0.

mod layers;
mod trees;

use topologies::{Graph, NodeId};
use wire::convert::saturate;
use wire::{Lid, PortNum, Sl};

use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::Lids;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, Promises, Tables};
use crate::vl_assignment::VlAssignment;
use layers::{Layers, layers};
use trees::{Tree, trees};

/// Layers are counted up to here to tell how many data VLs would do; a fabric has 15 at most.
const LAYERS_MAX: usize = 64;

/// The engine.
pub(crate) struct Dfsssp;

impl Engine for Dfsssp {
    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let (lids, changed) = options.assign(network)?;
        let targets = targets(network, &lids);
        let trees = trees(network, &targets);
        let layers = layers(network, &targets, &trees, LAYERS_MAX);
        let have = options.data_vls();
        if layers.count > usize::from(have) {
            return Err(RoutingError::VlsExhausted {
                engine: RoutingEngine::Dfsssp,
                needed: layers.count,
                have,
            });
        }
        let rows = rows(network, &lids, &targets, &trees);
        let promises = Promises {
            up_down: false,
            minimal: true,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(RoutingEngine::Dfsssp, network, lids, rows, promises);
        tables.vl_assignment = Some(vl_assignment(graph, network, &targets, &layers));
        tables.warnings.extend(Warning::lids_changed(changed));
        Ok(tables)
    }
}

/// A LID to be reached.
#[derive(Clone, Copy, Debug)]
struct Target {
    lid: Lid,
    /// The switch that owns it, or that its host is attached to.
    switch: usize,
    /// The switch's port towards the owner; 0 for the switch itself.
    port: PortNum,
    /// The host, by number; `None` for a switch's own LID.
    host: Option<usize>,
}

/// The LIDs of hosts in order, then those of switches.
fn targets(network: &Network, lids: &Lids) -> Vec<Target> {
    let mut targets = Vec::new();
    for (host, port) in network.hosts().iter().enumerate() {
        for lid in lids.of(port.end).into_iter().flat_map(|range| range.lids()) {
            targets.push(Target {
                lid,
                switch: port.switch,
                port: port.port,
                host: Some(host),
            });
        }
    }
    let own = |(switch, &node): (usize, &NodeId)| {
        let range = lids.of_node(node)?;
        Some(Target {
            lid: range.base,
            switch,
            port: PortNum::MANAGEMENT,
            host: None,
        })
    };
    targets.extend(network.switches().iter().enumerate().filter_map(own));
    targets
}

fn rows(network: &Network, lids: &Lids, targets: &[Target], trees: &[Tree]) -> Vec<Lft> {
    let mut rows = vec![Lft::new(lids.top()); network.switches().len()];
    for (target, tree) in targets.iter().zip(trees) {
        for (switch, row) in rows.iter_mut().enumerate() {
            if switch == target.switch {
                row.set(target.lid, target.port);
            } else if let Some(channel) = tree.next(switch) {
                row.set(target.lid, network.channels()[channel].port);
            }
        }
    }
    rows
}

fn vl_assignment(
    graph: &Graph,
    network: &Network,
    targets: &[Target],
    layers: &Layers,
) -> VlAssignment {
    let count = saturate::<u8>(layers.count);
    let mut assignment = VlAssignment::identity(graph, count);
    for &(switch, target, layer) in &layers.moved {
        let node = network.switches()[switch];
        assignment.set_sl(node, targets[target].lid, Sl::constant(layer));
    }
    assignment
}
