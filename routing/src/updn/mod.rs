//! Up*/down* routing for any fabric: no packet goes up after it went down, so that there is no
//! credit loop.
//!
//! *Up* is towards smaller numbers in an order of the switches: by distance from the roots, ties
//! by GUID. The roots are, in this order of preference:
//!
//! 1. In a fabric with switches that have no hosts: those farthest from any host. That makes the
//!    roots of a fat tree and the spines of a Clos network its roots. Such an order can leave
//!    pairs of switches without a path; [`detour`] serves these if it safely can.
//! 2. The one switch with the smallest sum of distances to all hosts (ties: the smallest GUID).
//!    From there every switch is reached downwards, so every pair has a path.
//!
//! A table cannot know where a packet comes from, so a switch whose chosen path goes down obliges
//! the next to go down too. Switches are therefore decided from the top: one that is obliged, or
//! for which going down is not longer than going up to where its best parent leads, goes down;
//! others go up. The paths are the shortest legal ones but for those obliged.
//!
//! Cost: for each destination switch all cables once, and for each LID as in [`crate::balance`].

mod detour;

use std::collections::VecDeque;

use topologies::Graph;

use crate::balance::{NextHops, UNREACHABLE, balanced};
use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::Lids;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, Promises, Tables};
use detour::Unreached;

/// The engine.
pub(crate) struct Updn;

impl Engine for Updn {
    fn route(
        &self,
        _graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let (lids, changed) = options.assign(network)?;
        let attempt = far_roots(network).and_then(|roots| routed(network, &lids, &roots));
        let routed = attempt
            .or_else(|| routed(network, &lids, &central_roots(network)))
            .unwrap_or_default();
        let promises = Promises {
            up_down: routed.detours == 0,
            minimal: false,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(RoutingEngine::Updn, network, lids, routed.rows, promises);
        let mut order = vec![u32::MAX; network.nodes()];
        for (node, &place) in network.switches().iter().zip(&routed.order) {
            order[node.index()] = place;
        }
        tables.order = Some(order);
        tables.warnings.extend(Warning::lids_changed(changed));
        tables
            .warnings
            .extend((routed.detours > 0).then_some(Warning::Detours {
                pairs: routed.detours,
            }));
        Ok(tables)
    }
}

#[derive(Default)]
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
    let mut rows = balanced(network, lids, |destination, next_hops| {
        order.next_hops(network, destination, next_hops);
        unreached.record(network, destination, &next_hops.hops);
    });
    let detours = detour::fill(network, lids, &order.numbers, &unreached, &mut rows)?;
    Some(Routed {
        rows,
        order: order.numbers,
        detours,
    })
}

/// Roots of the first kind, in every connected component that has both hosts and switches without;
/// a root of the second kind elsewhere. `None` if there is no component of the first kind.
fn far_roots(network: &Network) -> Option<Vec<usize>> {
    let switches = 0..network.switches().len();
    let leaves: Vec<usize> = switches
        .clone()
        .filter(|&switch| network.has_hosts(switch))
        .collect();
    let heights = network.hops_from_any(&leaves);
    let mut top = vec![0; switches.len()];
    for switch in switches.clone() {
        if let Some(height) = heights[switch] {
            let top = &mut top[network.component(switch)];
            *top = height.max(*top);
        }
    }
    if top.iter().all(|&height| height == 0) {
        return None;
    }
    let is_far = |switch: &usize| {
        let top = top[network.component(*switch)];
        top > 0 && heights[*switch] == Some(top)
    };
    let mut roots: Vec<usize> = switches.filter(is_far).collect();
    let flat = |root: &usize| top[network.component(*root)] == 0;
    roots.extend(central_roots(network).into_iter().filter(flat));
    Some(roots)
}

/// The root of the second kind in every connected component.
fn central_roots(network: &Network) -> Vec<usize> {
    // By component: the smallest sum and whose it is.
    let mut best: Vec<Option<(u64, usize)>> = vec![None; network.switches().len()];
    for switch in 0..network.switches().len() {
        let sum: u64 = network
            .hops_to(switch)
            .iter()
            .zip(network.hosts_at())
            .filter_map(|(&hops, hosts)| Some(u64::from(hops?) * hosts.len() as u64))
            .sum();
        let best = &mut best[network.component(switch)];
        if best.is_none_or(|(least, _)| sum < least) {
            *best = Some((sum, switch));
        }
    }
    best.into_iter()
        .flatten()
        .map(|(_, switch)| switch)
        .collect()
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
