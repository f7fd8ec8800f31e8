//! `lash`: layered shortest paths on any fabric, one service level for both directions between two
//! switches (SLT02: Skeie, Lysne, Theiss, Layered Shortest Path (LASH) Routing in Irregular System
//! Area Networks, 2002).
//!
//! **Paths.** For each destination switch a tree of shortest paths; among links that lead equally
//! near, the one with the least load on the way, counted in pairs of hosts, then the first. Cables
//! between the same two switches count as one link and are taken in turn by the LIDs that cross it.
//! If there are too few VLs for these paths, the first link is taken whatever the loads: such paths
//! turn alike and mostly need fewer layers.
//!
//! **Layers**: a pair of switches in one, both ways ([`crate::layers`]). On one layer switches without hosts are sent
//! to, and send, so that they close no cycle either ([`crate::switch_paths`]).
//!
//! Shapes: `S` switches, `C` channels, `L` LIDs. Cost: `S C` for the trees, and the layers.
//!
//! Differences from OpenSM's (osm_ucast_lash.c): links are chosen by load; pairs of switches
//! without hosts never make the engine fail; layers are balanced in a fixed order and not at
//! random.

mod trees;

use topologies::Graph;

use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::layers::{LayerLimits, Layers};
use crate::lids::Lids;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::switch_paths;
use crate::tables::{Lft, Promises, Tables};
use crate::targets::{self, Target, targets};
use trees::Trees;

/// The engine.
pub(crate) struct Lash;

impl Engine for Lash {
    fn is_candidate(&self) -> bool {
        true
    }

    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let (lids, changed) = options.assign(network)?;
        let have = options.data_vls();
        let limits = LayerLimits {
            have: usize::from(have),
            for_switches: true,
        };
        let layered = |balanced| {
            let trees = Trees::new(network, balanced);
            Layers::new(network, &trees, limits).map(|layers| (trees, layers))
        };
        let found = layered(true);
        let found = found.or_else(|needed| layered(false).map_err(|other| other.min(needed)));
        let (trees, layers) = found.map_err(|needed| RoutingError::VlsExhausted {
            engine: RoutingEngine::Lash,
            needed,
            have,
        })?;
        let targets = targets(network, &lids);
        let mut rows = rows(network, &lids, &targets, &trees);
        if layers.count == 1 {
            switch_paths::complete(network, &targets, &mut rows);
        }
        let promises = Promises {
            up_down: false,
            minimal: true,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(RoutingEngine::Lash, network, lids, rows, promises);
        tables.vl_assignment = layers.vl_assignment(graph, network, &targets);
        tables.warnings.extend(Warning::lids_changed(changed));
        Ok(tables)
    }
}

/// Tables by switch; the cables of a link are taken in turn.
fn rows(network: &Network, lids: &Lids, targets: &[Target], trees: &Trees<'_>) -> Vec<Lft> {
    // By link: how many LIDs of hosts have crossed it.
    let mut crossed = vec![0usize; network.channels().len()];
    targets::rows(network, lids, targets, |switch, place| {
        let target = &targets[place];
        let link = trees.next(switch, target.switch)?;
        let cables = trees.cables(link);
        let channel = cables[crossed[link] % cables.len()];
        crossed[link] += usize::from(target.host.is_some());
        Some(channel)
    })
}
