//! Up*/down* routing for any fabric: no packet goes up after it went down, so that there is no
//! credit loop.
//!
//! *Up* is towards smaller numbers in an order of the switches: by distance from the roots, ties
//! by GUID. The roots are those that are named ([`Options::roots`]), or else those of several sets
//! ([`roots`]) whose tables load the busiest cable least when every host sends to every other; an
//! earlier set stands unless a later one is better by more than [`MARGIN_PERCENT`]. Where all rules find
//! the same roots, as in every tree, nothing is measured. In a fabric without any, and where nothing else
//! serves all pairs, the one switch with the smallest sum of distances to all hosts is the root: from
//! there every switch is reached downwards, so every pair has a path.
//!
//! An order with several roots can leave pairs of switches without a path; [`crate::detour`], or else
//! [`turns`], serves these if it safely can.
//!
//! A table cannot know where a packet comes from, so a switch whose chosen path goes down obliges
//! the next to go down too. Switches are therefore decided from the top: one that is obliged, or
//! for which going down is not longer than going up to where its best parent leads, goes down;
//! others go up. The paths are the shortest legal ones but for those obliged.
//!
//! Cost: for each destination switch all cables once, and for each LID as in [`crate::balance`], for each
//! set of roots. Fabrics of more than [`ENTRIES_MAX`] entries (switches times LIDs) have the first set
//! that serves all pairs.

mod roots;
mod turns;

use std::collections::VecDeque;

use topologies::Graph;

use crate::balance::{NextHops, Offers, UNREACHABLE, balanced};
use crate::detour::{self, Unreached};
use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::Lids;
use crate::network::Network;
use crate::quality::{Pattern, Quality};
use crate::routing_engine::RoutingEngine;
use crate::structure::Structure;
use crate::tables::{Lft, Promises, Tables};

/// In percent, how much more the busiest cable must carry under an earlier set of roots for a later one
/// to be taken.
const MARGIN_PERCENT: u64 = 102;
/// Switches times LIDs of the largest fabric for which sets of roots are compared.
const ENTRIES_MAX: usize = 1 << 24;

/// The engine.
pub(crate) struct Updn;

impl Engine for Updn {
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
        let mut warnings: Vec<Warning> = Warning::lids_changed(changed).into_iter().collect();
        let named = (!options.roots.is_empty()).then(|| named_roots(network, options));
        let routed = match named {
            None => None,
            Some(named) => {
                let routed = roots::completed(network, named.clone())
                    .and_then(|roots| routed(network, &lids, &roots));
                warnings.extend(routed.is_none().then_some(Warning::RootsUnfit {
                    here: named.len(),
                    named: options.roots.len(),
                }));
                routed
            }
        };
        let routed = match routed {
            Some(routed) => routed,
            None => measured(graph, network, &lids, options),
        };
        let mut tables = tables(network, lids, routed);
        warnings.append(&mut tables.warnings);
        tables.warnings = warnings;
        Ok(tables)
    }
}

/// The switches that are named as roots, in ascending order.
fn named_roots(network: &Network, options: &Options) -> Vec<usize> {
    let guids = network.switch_guids();
    let is_named = |&switch: &usize| options.roots.contains(&guids[switch]);
    (0..guids.len()).filter(is_named).collect()
}

/// The tables under the roots that serve the fabric best.
fn measured(graph: &Graph, network: &Network, lids: &Lids, options: &Options) -> Routed {
    let structure = Structure::of(graph, network);
    let weights = roots::weights(graph, network, options);
    let sets = roots::candidates(network, &weights, &structure);
    let mut found = sets.iter().filter_map(|set| routed(network, lids, set));
    let entries = network.switches().len() * lids.top().index();
    if sets.len() < 2 || entries > ENTRIES_MAX {
        let first = found.next();
        let first = first.or_else(|| routed(network, lids, &roots::central(network)));
        return first.unwrap_or_default();
    }
    let central = || routed(network, lids, &roots::central(network));
    let mut best: Option<(u64, Routed)> = None;
    for routed in found.chain(core::iter::once_with(central).flatten()) {
        let tables = tables(network, lids.clone(), routed.clone());
        let busiest = Quality::on(network, &tables)
            .link_loads(Pattern::AllToAll)
            .max;
        let is_better = best
            .as_ref()
            .is_none_or(|(least, _)| busiest * MARGIN_PERCENT < least * 100);
        if is_better {
            best = Some((busiest, routed));
        }
    }
    best.map(|(_, routed)| routed).unwrap_or_default()
}

fn tables(network: &Network, lids: Lids, routed: Routed) -> Tables {
    let promises = Promises {
        up_down: routed.detours == 0,
        minimal: false,
        deadlock_free: true,
        from_hosts_only: false,
    };
    let mut tables = Tables::generic(RoutingEngine::Updn, network, lids, routed.rows, promises);
    tables.set_order(network, routed.order.into_iter().enumerate());
    tables.warnings.extend(Warning::detours(routed.detours));
    tables
}

#[derive(Clone, Default)]
struct Routed {
    rows: Vec<Lft>,
    /// By switch: its number in the order.
    order: Vec<u32>,
    /// Pairs of switches with hosts that take a detour.
    detours: usize,
}

/// Tables under the order from these roots; `None` if pairs remain without a safe path.
fn routed(network: &Network, lids: &Lids, roots: &[usize]) -> Option<Routed> {
    let order = SwitchOrder::new(network, roots);
    let mut unreached = Unreached::default();
    let mut offers = Offers::new(network, |destination, next_hops| {
        order.next_hops(network, destination, next_hops);
        unreached.record(network, destination, &next_hops.hops);
    });
    let mut rows = balanced(network, lids, &mut offers);
    let before = (!unreached.pairs().is_empty()).then(|| rows.clone());
    let mut detours = detour::fill(network, lids, &order.numbers, &unreached, &mut rows);
    if let (None, Some(before)) = (detours, before) {
        rows = before;
        detours = turns::fill(network, lids, &unreached, &mut rows);
    }
    let detours = detours?;
    Some(Routed {
        rows,
        order: order.numbers,
        detours,
    })
}

/// Which switches are above which.
struct SwitchOrder {
    /// By switch.
    numbers: Vec<u32>,
    /// Switches in order.
    sorted: Vec<usize>,
}

impl SwitchOrder {
    fn new(network: &Network, roots: &[usize]) -> Self {
        let ranks = network.hops_from_any(roots);
        let mut sorted: Vec<usize> = (0..ranks.len()).collect();
        sorted.sort_by_key(|&switch| ranks[switch].unwrap_or(UNREACHABLE));
        let mut numbers = vec![0; sorted.len()];
        for (number, &switch) in (0..).zip(&sorted) {
            numbers[switch] = number;
        }
        Self { numbers, sorted }
    }

    fn is_above(&self, a: usize, b: usize) -> bool {
        self.numbers[a] < self.numbers[b]
    }

    /// By switch: hops to the destination going down only, or [`UNREACHABLE`].
    fn down_hops(&self, network: &Network, destination: usize) -> Vec<u32> {
        let mut down = vec![UNREACHABLE; self.numbers.len()];
        down[destination] = 0;
        let mut open = VecDeque::from([destination]);
        while let Some(switch) = open.pop_front() {
            for channel in network.leaving(switch) {
                let to = network.channels()[channel].to;
                if down[to] == UNREACHABLE && self.is_above(to, switch) {
                    down[to] = down[switch] + 1;
                    open.push_back(to);
                }
            }
        }
        down
    }

    fn next_hops(&self, network: &Network, destination: usize, next_hops: &mut NextHops) {
        let down = self.down_hops(network, destination);
        let to = |channel: usize| network.channels()[channel].to;
        // Switches to which some switch sends downwards, so that they must send downwards too.
        let mut must_descend = vec![false; self.numbers.len()];
        for &switch in &self.sorted {
            if switch == destination {
                continue;
            }
            let channels = || network.leaving_by_neighbour(switch).iter().copied();
            let by_parent = channels()
                .filter(|&channel| self.is_above(to(channel), switch))
                .map(|channel| next_hops.hops[to(channel)].saturating_add(1))
                .min()
                .unwrap_or(UNREACHABLE);
            let own_down = down[switch];
            if own_down != UNREACHABLE && (must_descend[switch] || own_down <= by_parent) {
                let next = |channel: &usize| {
                    let to = to(*channel);
                    self.is_above(switch, to) && down[to] == own_down - 1
                };
                for channel in channels().filter(next) {
                    must_descend[to(channel)] = true;
                }
                next_hops.set(network, switch, own_down, channels().filter(next));
            } else if by_parent != UNREACHABLE {
                let parents: Vec<usize> = channels()
                    .filter(|&channel| self.is_above(to(channel), switch))
                    .filter(|&channel| next_hops.hops[to(channel)].saturating_add(1) == by_parent)
                    .collect();
                next_hops.set(network, switch, by_parent, parents.into_iter());
            }
        }
    }
}
