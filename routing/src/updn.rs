//! Up*/down* routing for any fabric: no packet goes up after it went down, so that none wait for
//! each other in a circle.
//!
//! *Up* is towards smaller numbers in an order of the switches: by distance from the roots, ties
//! by GUID. The roots are, in this order of preference:
//!
//! 1. In a fabric with switches that have no hosts: those farthest from any host. That makes the
//!    roots of a fat tree and the spines of a Clos network its roots. Such an order can leave
//!    pairs of switches without a path; [`crate::detour`] serves these if it safely can.
//! 2. The one switch with the smallest sum of distances to all hosts (ties: the smallest GUID).
//!    From there every switch is reached downwards, so every pair has a path.
//!
//! A table cannot know where a packet comes from, so a switch whose chosen path goes down obliges
//! the next to go down too. Switches are therefore decided from the top: one that is obliged, or
//! for which going down is not longer than going up to where its best parent leads, goes down;
//! others go up. The paths are the shortest legal ones but for those obliged.
//!
//! Cost: for each destination switch all cables once, and for each LID as in [`crate::balance`].

use std::collections::VecDeque;

use topologies::Graph;

use crate::balance::{Ways, balanced, first_cables};
use crate::detour::{self, Missing};
use crate::engines::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::{Lids, assign};
use crate::minhop::distances;
use crate::net::{NOWHERE, Net};
use crate::tables::{Lft, Promises, Tables};

/// The engine.
pub(crate) struct Updn;

impl Engine for Updn {
    fn name(&self) -> &'static str {
        "updn"
    }

    fn summary(&self) -> &'static str {
        "any fabric: shortest paths up and then down a tree order; free of deadlock, balanced"
    }

    fn route(&self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
        let net = Net::new(graph);
        let (lids, changed) = assign(
            &net,
            options.lmc.unwrap_or_default(),
            options.lid_base,
            &options.known,
        )?;
        let attempt = far_roots(&net).and_then(|roots| routed(&net, &lids, &roots));
        let routed = attempt
            .or_else(|| routed(&net, &lids, &central_roots(&net)))
            .unwrap_or_default();
        let promises = Promises {
            up_down: routed.detours == 0,
            minimal: false,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(self.name(), &net, lids, routed.rows, promises);
        let mut order = vec![u32::MAX; graph.len()];
        for (node, &place) in net.switches.iter().zip(&routed.order) {
            order[node.index()] = place;
        }
        tables.order = Some(order);
        tables
            .warnings
            .extend((changed > 0).then_some(Warning::LidsChanged { ports: changed }));
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
fn routed(net: &Net<'_>, lids: &Lids, roots: &[u32]) -> Option<Routed> {
    let order = Order::new(net, roots);
    let first = first_cables(net);
    let mut missing = Missing::default();
    let mut rows = balanced(net, lids, |destination, ways| {
        order.ways(net, &first, destination, ways);
        missing.note(net, destination, &ways.hops);
    });
    let detours = detour::fill(net, lids, &order.numbers, &missing, &mut rows)?;
    Some(Routed {
        rows,
        order: order.numbers,
        detours,
    })
}

/// Roots of the first kind, in every connected part that has both hosts and switches without; a
/// root of the second kind elsewhere. `None` if there is no part of the first kind.
fn far_roots(net: &Net<'_>) -> Option<Vec<u32>> {
    let mut heights = vec![NOWHERE; net.switches.len()];
    let mut open: VecDeque<u32> = (0..net.len())
        .filter(|&switch| net.hosts[switch as usize] > 0)
        .collect();
    for &switch in &open {
        heights[switch as usize] = 0;
    }
    while let Some(switch) = open.pop_front() {
        for link in &net.links[switch as usize] {
            if heights[link.to as usize] == NOWHERE {
                heights[link.to as usize] = heights[switch as usize] + 1;
                open.push_back(link.to);
            }
        }
    }
    let mut top = vec![0; net.switches.len()];
    for (&part, &height) in net.part.iter().zip(&heights) {
        if height != NOWHERE {
            top[part as usize] = height.max(top[part as usize]);
        }
    }
    if top.iter().all(|&height| height == 0) {
        return None;
    }
    let is_far = |switch: u32| {
        let top = top[net.part[switch as usize] as usize];
        top > 0 && heights[switch as usize] == top
    };
    let mut roots: Vec<u32> = (0..net.len()).filter(|&switch| is_far(switch)).collect();
    let flat = |root: &u32| top[net.part[*root as usize] as usize] == 0;
    roots.extend(central_roots(net).into_iter().filter(flat));
    Some(roots)
}

/// The root of the second kind in every connected part.
fn central_roots(net: &Net<'_>) -> Vec<u32> {
    // By part: the smallest sum and whose it is.
    let mut best = vec![(u64::MAX, NOWHERE); net.switches.len()];
    for switch in 0..net.len() {
        let sum = distances(net, switch)
            .iter()
            .zip(&net.hosts)
            .filter(|(hops, _)| **hops != NOWHERE)
            .map(|(&hops, &hosts)| u64::from(hops) * u64::from(hosts))
            .sum();
        let best = &mut best[net.part[switch as usize] as usize];
        if sum < best.0 {
            *best = (sum, switch);
        }
    }
    best.into_iter()
        .map(|(_, switch)| switch)
        .filter(|&switch| switch != NOWHERE)
        .collect()
}

/// Which switches are above which.
struct Order {
    /// By switch.
    numbers: Vec<u32>,
    /// Switches in order.
    sorted: Vec<u32>,
}

impl Order {
    fn new(net: &Net<'_>, roots: &[u32]) -> Self {
        let mut ranks = vec![NOWHERE; net.switches.len()];
        let mut open: VecDeque<u32> = roots.iter().copied().collect();
        for &root in roots {
            ranks[root as usize] = 0;
        }
        while let Some(switch) = open.pop_front() {
            for link in &net.links[switch as usize] {
                if ranks[link.to as usize] == NOWHERE {
                    ranks[link.to as usize] = ranks[switch as usize] + 1;
                    open.push_back(link.to);
                }
            }
        }
        let mut sorted: Vec<u32> = (0..net.len()).collect();
        sorted.sort_by_key(|&switch| ranks[switch as usize]);
        let mut numbers = vec![0; sorted.len()];
        for (number, &switch) in (0..).zip(&sorted) {
            numbers[switch as usize] = number;
        }
        Self { numbers, sorted }
    }

    fn is_above(&self, a: u32, b: u32) -> bool {
        self.numbers[a as usize] < self.numbers[b as usize]
    }

    /// By switch: hops to the destination going down only.
    fn down_hops(&self, net: &Net<'_>, destination: u32) -> Vec<u32> {
        let mut down = vec![NOWHERE; net.switches.len()];
        down[destination as usize] = 0;
        let mut open = VecDeque::from([destination]);
        while let Some(switch) = open.pop_front() {
            for link in &net.links[switch as usize] {
                if down[link.to as usize] == NOWHERE && self.is_above(link.to, switch) {
                    down[link.to as usize] = down[switch as usize] + 1;
                    open.push_back(link.to);
                }
            }
        }
        down
    }

    fn ways(&self, net: &Net<'_>, first: &[u32], destination: u32, ways: &mut Ways) {
        let down = self.down_hops(net, destination);
        let mut obliged = vec![false; net.switches.len()];
        for &switch in &self.sorted {
            if switch == destination {
                continue;
            }
            let links = || (first[switch as usize]..).zip(&net.links[switch as usize]);
            let by_parent = links()
                .filter(|(_, link)| self.is_above(link.to, switch))
                .map(|(_, link)| ways.hops[link.to as usize].saturating_add(1))
                .min()
                .unwrap_or(NOWHERE);
            let own_down = down[switch as usize];
            if own_down != NOWHERE && (obliged[switch as usize] || own_down <= by_parent) {
                let next = |to: u32| self.is_above(switch, to) && down[to as usize] == own_down - 1;
                for (_, link) in links().filter(|(_, link)| next(link.to)) {
                    obliged[link.to as usize] = true;
                }
                let cables = links()
                    .filter(|(_, link)| next(link.to))
                    .map(|(cable, link)| (cable, link.to));
                ways.give(switch, own_down, cables);
            } else if by_parent != NOWHERE {
                let parents: Vec<(u32, u32)> = links()
                    .filter(|(_, link)| self.is_above(link.to, switch))
                    .filter(|(_, link)| ways.hops[link.to as usize].saturating_add(1) == by_parent)
                    .map(|(cable, link)| (cable, link.to))
                    .collect();
                ways.give(switch, by_parent, parents.into_iter());
            }
        }
    }
}
