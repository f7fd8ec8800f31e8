//! Forwarding tables of the routing trees.

use topologies::{Endpoint, Graph};
use wire::convert::saturate;
use wire::{Lid, Lmc, PortNum};

use super::shape::{Clos, NotClos};
use crate::engine::{Engine, Options};
use crate::error::{EngineError, RoutingError, Warning};
use crate::lids::{Lids, Lmcs, assign};
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, Promises, Tables};

/// The most trees that a destination can have LIDs for.
pub const TREES_MAX: usize = 128;

/// For which LIDs a spine has entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpineEntries {
    /// Those of its own trees, as the paper says. What other spines send themselves is dropped.
    OwnTrees,
    /// Those, and every BaseLID, so that traps and answers of all spines arrive.
    AndBaseLids,
}

impl From<NotClos> for RoutingError {
    fn from(reason: NotClos) -> Self {
        Self::NotApplicable {
            needs: "clos needs two stages, every leaf with the same cables to every spine",
            reason: EngineError::new(reason),
        }
    }
}

/// CLOS04's tables as an engine.
pub(crate) struct ClosEngine;

impl Engine for ClosEngine {
    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let clos = Clos::recognise(graph, network)?;
        tables(network, &clos, options, SpineEntries::AndBaseLids)
    }
}

/// LIDs and tables. LID `base + t` of a host leads through tree `t mod trees`.
///
/// # Errors
/// [`RoutingError::TooManyTrees`], [`RoutingError::LmcTooSmall`] if [`Options::lmc`] is given and
/// does not hold the trees, [`RoutingError::LidSpaceExhausted`].
pub fn tables(
    network: &Network,
    clos: &Clos,
    options: &Options,
    spines: SpineEntries,
) -> Result<Tables, RoutingError> {
    let trees = clos.trees();
    if trees > TREES_MAX {
        return Err(RoutingError::TooManyTrees {
            trees,
            trees_max: TREES_MAX,
        });
    }
    let least = saturate::<u8>(trees.next_power_of_two().trailing_zeros());
    let lmc = options.lmc.unwrap_or(Lmc::constant(least));
    if lmc.get() < least {
        return Err(RoutingError::LmcTooSmall { lmc, trees });
    }
    let lmcs = Lmcs {
        hosts: lmc,
        enhanced: Lmc::default(),
    };
    let (lids, changed) = assign(network, lmcs, options.lid_base, &options.known, false)?;
    let mut rows = vec![Lft::new(lids.top()); network.switches().len()];
    let mut builder = Builder {
        network,
        clos,
        rows: &mut rows,
    };
    builder.hosts(&lids, spines);
    builder.switches(&lids);
    let promises = Promises {
        up_down: true,
        minimal: true,
        deadlock_free: true,
        from_hosts_only: true,
    };
    let mut tables = Tables::generic(RoutingEngine::Clos, network, lids, rows, promises);
    let top_down = clos.spines().iter().chain(clos.leaves()).copied();
    tables.set_order(network, top_down.zip(0..));
    tables.warnings.extend(Warning::lids_changed(changed));
    Ok(tables)
}

struct Builder<'a> {
    network: &'a Network,
    clos: &'a Clos,
    rows: &'a mut [Lft],
}

impl Builder<'_> {
    fn port(&self, channel: usize) -> PortNum {
        self.network.channels()[channel].port
    }

    /// The spine's port to a leaf, by a tree's cable.
    fn down(&self, leaf: usize, tree: usize) -> PortNum {
        let up = self.clos.up(leaf, tree);
        self.port(self.network.channels()[up].reverse)
    }

    fn hosts(&mut self, lids: &Lids, spines: SpineEntries) {
        for (number, host) in self.network.hosts().iter().enumerate() {
            let Some(range) = lids.of(host.end) else {
                continue;
            };
            let leaf = self.clos.leaf_of()[number];
            for (offset, lid) in range.lids().enumerate() {
                let tree = offset % self.clos.trees();
                self.lead_to_leaf(lid, leaf, tree, host.port);
                if offset == 0 && spines == SpineEntries::AndBaseLids {
                    self.lead_down_everywhere(lid, leaf);
                }
            }
        }
    }

    /// Entries of one tree towards a leaf, and of the leaf itself.
    fn lead_to_leaf(&mut self, lid: Lid, destination: usize, tree: usize, last: PortNum) {
        for (leaf, &switch) in self.clos.leaves().iter().enumerate() {
            let port = if leaf == destination {
                last
            } else {
                self.port(self.clos.up(leaf, tree))
            };
            self.rows[switch].set(lid, port);
        }
        let spine = self.clos.spines()[self.clos.spine_of(tree)];
        let port = self.down(destination, tree);
        self.rows[spine].set(lid, port);
    }

    /// An entry down from every spine, by its first cable.
    fn lead_down_everywhere(&mut self, lid: Lid, destination: usize) {
        for (spine, &switch) in self.clos.spines().iter().enumerate() {
            let port = self.down(destination, spine * self.clos.links());
            self.rows[switch].set(lid, port);
        }
    }

    /// LIDs of switches: to leaves through one tree or another; to a spine from all leaves by its
    /// first cable, and from other spines by way of the first leaf, below which alone packets turn
    /// upwards, so that there is no credit loop.
    fn switches(&mut self, lids: &Lids) {
        let own = PortNum::MANAGEMENT;
        let nodes = self.network.switches();
        let lid_of = |switch: usize| {
            let node = nodes[switch];
            lids.of(Endpoint { node, port: own })
                .map(|range| range.base)
        };
        for (leaf, &switch) in self.clos.leaves().iter().enumerate() {
            if let Some(lid) = lid_of(switch) {
                self.lead_to_leaf(lid, leaf, leaf % self.clos.trees(), own);
                self.lead_down_everywhere(lid, leaf);
            }
        }
        for (spine, &switch) in self.clos.spines().iter().enumerate() {
            let Some(lid) = lid_of(switch) else { continue };
            let tree = spine * self.clos.links();
            self.lead_down_everywhere(lid, 0);
            for (leaf, &from) in self.clos.leaves().iter().enumerate() {
                let port = self.port(self.clos.up(leaf, tree));
                self.rows[from].set(lid, port);
            }
            self.rows[switch].set(lid, own);
        }
    }
}
