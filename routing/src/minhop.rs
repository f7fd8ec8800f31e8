//! Shortest paths in any fabric, balanced.
//!
//! Nothing prevents credit loops: on a ring of five switches or more, say, the channel dependency
//! graph has cycles, which [`crate::verify()`] prints. Use it to
//! compare with, or where the fabric has no cycles.

use topologies::Graph;

use crate::balance::{NextHops, balanced};
use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Promises, Tables};

/// The engine.
pub(crate) struct Minhop;

impl Engine for Minhop {
    fn route(
        &self,
        _graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let (lids, changed) = options.assign(network)?;
        let rows = balanced(network, &lids, |destination, next_hops| {
            shortest(network, destination, next_hops);
        });
        let promises = Promises {
            up_down: false,
            minimal: true,
            deadlock_free: false,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(RoutingEngine::Minhop, network, lids, rows, promises);
        tables.warnings.extend(Warning::lids_changed(changed));
        Ok(tables)
    }
}

fn shortest(network: &Network, destination: usize, next_hops: &mut NextHops) {
    let hops = network.hops_to(destination);
    for (switch, &own) in hops.iter().enumerate() {
        let Some(own) = own.filter(|&own| own > 0) else {
            continue;
        };
        let nearer = |&channel: &usize| hops[network.channels()[channel].to] == Some(own - 1);
        let channels = network.leaving_by_neighbour(switch).iter().copied();
        next_hops.set(network, switch, own, channels.filter(nearer));
    }
}
