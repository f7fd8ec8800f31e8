//! `dfsssp`: balanced shortest paths on any fabric, made free of deadlock by virtual lanes (Domke,
//! Hoefler, Nagel: Deadlock-free oblivious routing for arbitrary topologies, IPDPS 2011).
//!
//! **Paths.** For each LID of a host in turn, a tree of shortest paths to it; among paths of equally
//! few hops the one whose channels carry the least so far. Then each channel's weight grows by the
//! number of hosts whose path to the LID crosses it, and the choice is made again in rounds ([`crate::balance`]).
//!
//! **Layers.** A pair of switches is in one layer, both ways, so that answers, which take the service level of
//! what they answer, are in the layer of their path ([`crate::layers`]). That takes more layers than the
//! paper's, where each direction is by itself. If there are too few VLs, the same is tried without keeping packets apart, then without rounds, then
//! the LIDs at a switch share trees, half as many each time down to one ([`trees`]); at last the first channel is taken whatever the loads, since such paths
//! turn alike. If that takes more layers than there are data VLs, too, there are no tables.
//!
//! On one layer switches without hosts are sent to, and send, so that they close no cycle either
//! ([`crate::switch_paths`]).
//!
//! Shapes: a path from each switch with hosts to each host LID; a layer for each pair of switches. Cost: for
//! `S` switches, `C` channels, `L` LIDs, and `H` LIDs at a switch, `L C` for the trees, `S L hops` and what
//! cycles take for the layers; `log H` times in the worst case.
//!
//! Differences from the paper: paths are of the fewest hops by comparison, not by large first
//! weights, which comes to the same; layers are filled one pair after another instead of by breaking cycles at
//! their weakest dependency; unused VLs are left unused rather than filled for balance; pairs of two
//! switches without hosts take a layer that is there, or SL 0 if none takes them.

mod trees;

use topologies::Graph;

use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::layers::{LayerLimits, Layers, TablePaths};
use crate::minhop::every_lid;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::switch_paths;
use crate::tables::{Promises, Tables};
use crate::targets::{Target, rows, targets};
use trees::{Choice, trees};

/// The engine.
pub(crate) struct Dfsssp;

impl Engine for Dfsssp {
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
        let targets = targets(network, &lids);
        let have = options.data_vls();
        let limits = LayerLimits {
            have: usize::from(have),
            for_switches: false,
        };
        let mut least = usize::MAX;
        let found = choices(network, &targets).into_iter().find_map(|choice| {
            let rows = match choice {
                Choice::EveryLid { keeps_apart } => {
                    every_lid(network, &lids, &targets, keeps_apart)
                }
                choice => {
                    let trees = trees(network, &targets, choice);
                    rows(network, &lids, &targets, |switch, place| {
                        trees[place].next(switch)
                    })
                }
            };
            let paths = TablePaths::new(network, &rows, &targets);
            match Layers::new(network, &paths, limits) {
                Ok(layers) => Some((rows, layers)),
                Err(needed) => {
                    least = least.min(needed);
                    None
                }
            }
        });
        let (mut rows, layers) = found.ok_or(RoutingError::VlsExhausted {
            engine: RoutingEngine::Dfsssp,
            needed: least,
            have,
        })?;
        if layers.count == 1 {
            switch_paths::complete(network, &targets, &mut rows);
        }
        let promises = Promises {
            up_down: false,
            minimal: true,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(RoutingEngine::Dfsssp, network, lids, rows, promises);
        tables.vl_assignment = layers.vl_assignment(graph, network, &targets);
        tables.warnings.extend(Warning::lids_changed(changed));
        Ok(tables)
    }
}

/// The ways to choose paths, best first: for each LID, then fewer and fewer trees for all LIDs of a
/// switch.
fn choices(network: &Network, targets: &[Target]) -> Vec<Choice> {
    let mut at_switch = vec![0usize; network.switches().len()];
    for target in targets.iter().filter(|target| target.host.is_some()) {
        at_switch[target.switch] += 1;
    }
    let most = at_switch.into_iter().max().unwrap_or(1).max(1);
    let fewer = core::iter::successors(Some(most), |&trees| (trees > 1).then_some(trees / 2));
    let fewer = fewer.map(|trees| Choice::Balanced { trees });
    let every_lid = [true, false].map(|keeps_apart| Choice::EveryLid { keeps_apart });
    let all = every_lid.into_iter().chain(fewer);
    all.chain([Choice::First]).collect()
}
