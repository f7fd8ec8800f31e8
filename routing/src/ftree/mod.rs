//! `ftree`: real fat trees: pruned, over-subscribed, with several cores, with parallel cables and
//! uneven uplinks, partly populated, with hosts at switches of any level.
//!
//! **Problem.** In a whole m-port n-tree the path to a host follows from its label (`slid`, `mlid`). Real
//! trees lack cables, switches and hosts. OpenSM's engine of this name (osm_ucast_ftree.c, after
//! ZAH10: Zahavi and others, Optimized InfiniBand fat-tree routing for shift all-to-all
//! communication patterns, 2010) replaces labels by counters, and gives up on most of these trees.
//!
//! **Levels** (module `levels`) are distances from the leaf switches. All that is asked for is that every
//! cable leads one level up or down.
//!
//! **Paths** (`paths`). For each LID in turn, by switch and host:
//!
//! 1. One way down is chosen for it, from its switch upwards: at each level the cable that keeps the
//!    largest load smallest. In a whole tree that is the rule d-mod-k: the k-th host of a switch is
//!    reached by the k-th cable, and no two hosts of a switch share a way down as long as there are
//!    as many cables as hosts.
//! 2. Switches above the destination beside this way send down by the least loaded cable.
//! 3. All others send up: where the path is shortest, of these where no load comes above the largest that
//!    there is, of these where it meets the LID's way down, of these by the least loaded cable.
//! 4. The packets of each switch's hosts are added to the loads of its path before the next switch
//!    chooses.
//!
//! ```text
//!     c0   c1      two cores, pruned: no cable from s1 to c1
//!    / |\ / |      h0, h1 at s0: ways down c0-s0 and c1-s0
//!  s0 s1  s2       s1 sends to both by c0, and c0 down to s0; so s2 sends to both by c1
//!                  h2, h3 at s1: both down by c0-s1; s0 and s2 send up to c0
//! ```
//!
//! Paths go up and then down, so that there is no credit loop on a single VL. Pairs of switches that
//! have no such path (hosts at two cores, leaf switches without a common switch above) are served by
//! `detours`. The LIDs of one port (LMC) get different ways down as far as there are any.
//!
//! **LIDs.** One a host unless an LMC is asked for. One way down for a host keeps its packets apart from those to
//! the others at its switch, whoever sends; several share the ways down with those of other hosts, and no source
//! picks them by load. On every tree that was measured more LIDs mean fewer bytes (BENCHMARKS.md): they
//! serve those who want a second path, for failures.
//!
//! Several readings of which switches are leaf switches may make a tree, and for each there are two rules for
//! step 3: a way down may carry the packets of all hosts to its LID (which keeps shifts apart in a whole
//! tree), or not (which spreads them where there are more cables than hosts). A third way is to choose
//! among all shortest ways by the least sum of loads, as `updn` does. In all of them packets that go elsewhere are kept
//! apart last (module `balance`). Taken is what has the least load on its
//! busiest channel, detours included, then the fewest detours, then the first.
//!
//! Shapes: `S` switches, `C` channels, `L` LIDs. Cost: `L C`, for each reading and rule.

mod detours;
mod not_tree;
mod paths;

use topologies::Graph;

use crate::balance::{NextHops, Offers, evened, kept_apart};
use crate::detour::Unreached;
use crate::engine::{Engine, Options};
use crate::error::{EngineError, RoutingError, Warning};
use crate::levels::{Crossing, Levels, levels};
use crate::lids::Lids;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, Promises, Tables};
use crate::targets::{Target, by_switch, loads, targets};
use detours::with_detours;
use paths::{NONE, Paths, Rule};

pub use not_tree::NotTree;

impl From<NotTree> for RoutingError {
    fn from(reason: NotTree) -> Self {
        Self::NotApplicable {
            needs: "ftree needs a tree of levels",
            reason: EngineError::new(reason),
        }
    }
}

/// The engine.
pub(crate) struct Ftree;

impl Engine for Ftree {
    fn is_candidate(&self) -> bool {
        true
    }

    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let readings = match levels(network).ok_or(NotTree::NoHost)? {
            Ok(readings) => readings,
            Err(crossing) => return Err(same_level(graph, network, crossing).into()),
        };
        let (lids, changed) = options.assign(network)?;
        let by_switch = by_switch(network, targets(network, &lids));
        let fabric = Fabric {
            graph,
            network,
            lids: &lids,
            by_switch: &by_switch,
        };
        let attempts: Vec<Result<Routed, NotTree>> = readings
            .iter()
            .flat_map(|levels| {
                let mut ways = Paths::new(network, levels, Rule::Spread);
                let mut offers = Offers::new(network, |destination, next_hops| {
                    ways.next_hops(destination, next_hops);
                });
                let rules = [Some(Rule::Gather), Some(Rule::Spread), None];
                rules.map(|rule| fabric.routed(levels, rule, &mut offers))
            })
            .flatten()
            .collect();
        let (good, bad): (Vec<_>, Vec<_>) = attempts.into_iter().partition(Result::is_ok);
        let best = good.into_iter().flatten();
        let best = best.min_by_key(|routed| (routed.load_max, routed.detours));
        let Some(routed) = best else {
            let reason = bad.into_iter().find_map(Result::err);
            return Err(reason.unwrap_or(NotTree::NoHost).into());
        };
        let promises = Promises {
            up_down: routed.detours == 0,
            minimal: false,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables =
            Tables::generic(RoutingEngine::Ftree, network, lids, routed.rows, promises);
        tables.set_order(network, routed.order.into_iter().enumerate());
        tables.warnings.extend(Warning::lids_changed(changed));
        tables.warnings.extend(Warning::detours(routed.detours));
        Ok(tables)
    }
}

fn same_level(graph: &Graph, network: &Network, crossing: Crossing) -> NotTree {
    let ends = network.channels()[crossing.channel];
    NotTree::SameLevel {
        switch: name(graph, network, ends.from),
        port: ends.port,
        other: name(graph, network, ends.to),
        other_port: ends.to_port,
        level: crossing.level,
    }
}

fn name(graph: &Graph, network: &Network, switch: usize) -> String {
    graph.node(network.switches()[switch]).name.clone()
}

/// Tables under one reading of the levels.
struct Routed {
    rows: Vec<Lft>,
    /// By switch: its number in the order from the top.
    order: Vec<u32>,
    /// Pairs of switches with hosts that take a detour.
    detours: usize,
    /// The largest load of a channel.
    load_max: u64,
}

/// What paths are wanted in.
struct Fabric<'a> {
    graph: &'a Graph,
    network: &'a Network,
    lids: &'a Lids,
    /// By switch: the LIDs that it delivers to.
    by_switch: &'a [Vec<Target>],
}

impl Fabric<'_> {
    /// Tables under one reading of the levels and one rule; without a rule, by the least sum of loads
    /// on the way ([`crate::balance`]).
    ///
    /// Detours come last and may lie on channels that others were moved to: where there are any, also
    /// without keeping packets apart.
    fn routed(
        &self,
        levels: &Levels,
        rule: Option<Rule>,
        offers: &mut Offers<'_, impl FnMut(usize, &mut NextHops)>,
    ) -> Vec<Result<Routed, NotTree>> {
        let network = self.network;
        let mut paths = Paths::new(network, levels, rule.unwrap_or(Rule::Spread));
        let mut unreached = Unreached::default();
        let rows = if rule.is_some() {
            self.rows(&mut paths, &mut unreached)
        } else {
            for destination in 0..network.switches().len() {
                unreached.record(network, destination, &offers.to(destination).hops);
            }
            evened(network, self.lids, offers)
        };
        let apart = kept_apart(network, self.lids, rows.clone(), offers);
        let is_last = unreached.pairs().is_empty() || apart == rows;
        let rows = (!is_last).then_some(rows);
        let both = [apart].into_iter().chain(rows);
        both.map(|rows| self.completed(&paths, &unreached, rows))
            .collect()
    }

    /// Adds the detours.
    fn completed(
        &self,
        paths: &Paths<'_>,
        unreached: &Unreached,
        rows: Vec<Lft>,
    ) -> Result<Routed, NotTree> {
        let network = self.network;
        let mut order = vec![0; network.switches().len()];
        for (number, &switch) in (0..).zip(paths.top_down()) {
            order[switch] = number;
        }
        let name = |switch: usize| self.graph.node(network.switches()[switch]).name.clone();
        let (rows, detours) =
            with_detours(network, self.lids, self.by_switch, &order, unreached, rows).map_err(
                |(from, to)| NotTree::NoPath {
                    from: name(from),
                    to: name(to),
                },
            )?;
        Ok(Routed {
            load_max: {
                let loads = loads(network, &rows, self.by_switch.iter().flatten());
                loads.into_iter().max().unwrap_or(0)
            },
            rows,
            order,
            detours,
        })
    }

    fn rows(&self, paths: &mut Paths<'_>, unreached: &mut Unreached) -> Vec<Lft> {
        let mut rows = vec![Lft::new(self.lids.top()); self.by_switch.len()];
        for (switch, targets) in self.by_switch.iter().enumerate() {
            for target in targets {
                paths.find(switch, target.host.is_some());
                for (row, &channel) in rows.iter_mut().zip(&paths.next) {
                    if channel != NONE {
                        row.set(target.lid, self.network.channels()[channel].port);
                    }
                }
                rows[switch].set(target.lid, target.port);
            }
            unreached.record(self.network, switch, &paths.hops);
        }
        rows
    }
}
