//! Shortest paths in any fabric, balanced.
//!
//! Nothing prevents credit loops: on a ring of five switches or more, say, the channel dependency
//! graph has cycles, which [`crate::verify()`] prints. Use it to
//! compare with, or where the fabric has no cycles.

use topologies::Graph;

use crate::balance::{NextHops, Offers, balanced, evened};
use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::Lids;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, Promises, Tables};
use crate::targets::Target;

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
        let mut offers = Offers::new(network, |destination, next_hops| {
            shortest(network, destination, next_hops);
        });
        let rows = balanced(network, &lids, &mut offers);
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

/// The channels of all shortest paths to a destination switch.
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

/// Shortest paths for each LID of a host by itself, balanced in rounds, with packets kept apart or not. A switch with
/// hosts has the paths of its first host's LID.
pub(crate) fn every_lid(
    network: &Network,
    lids: &Lids,
    targets: &[Target],
    keeps_apart: bool,
) -> Vec<Lft> {
    let mut offers = Offers::new(network, |destination, next_hops| {
        shortest(network, destination, next_hops);
    });
    let mut rows = if keeps_apart {
        balanced(network, lids, &mut offers)
    } else {
        evened(network, lids, &mut offers)
    };
    let mut first = vec![None; rows.len()];
    for target in targets {
        match first[target.switch] {
            None if target.host.is_some() => first[target.switch] = Some(target.lid),
            Some(lid) if target.host.is_none() => {
                for (switch, row) in rows.iter_mut().enumerate() {
                    if switch != target.switch {
                        row.set(target.lid, row.get(lid));
                    }
                }
            }
            _ => {}
        }
    }
    rows
}
