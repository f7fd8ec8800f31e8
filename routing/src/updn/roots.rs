//! Which switches may be the roots of an order.
//!
//! Real fabrics are messy: every switch of some has an aggregation node, spines have a few storage or
//! service hosts, a leaf switch has three hosts while the others have forty, there are several cores, and
//! heights differ. No single rule fits all, so several are tried, and what their tables are worth
//! decides ([`super`]):
//!
//! * Leaf switches are **all** with hosts; or those with **many**: at least half of what the switch of the
//!   median host has; or these and switches with fewer that have no leaf switch as neighbour
//!   (**apart**). Aggregation nodes, and hosts that are named as storage or service, do not count.
//! * Roots are the switches **farthest** from a leaf switch; or those that are not nearer to one than any
//!   of their neighbours (**peaks**), which finds cores of different heights; or those from which nearly
//!   all hosts are within the fewest hops (**middle**), if none of them is a leaf switch.
//!
//! * Of director switches ([`crate::structure`]) all **spine boards** are roots. Where there are groups
//!   as in a dragonfly, the switches of the **first group** are.
//!
//! Each connected component without such roots has the one central switch as its root.

use std::collections::BTreeSet;

use topologies::Graph;
use wire::Guid;
use wire::convert::{saturate, u64_of, usize_of};

use crate::engine::Options;
use crate::network::Network;
use crate::structure::Structure;

/// A switch is a leaf switch by its hosts if it has at least this part of what the switch of the median
/// host has.
const FEW: u64 = 2;
/// "Nearly all hosts": all but one in so many.
const STRAYS: u64 = 20;

/// By switch, how many hosts say that it is a leaf switch.
pub(super) fn weights(graph: &Graph, network: &Network, options: &Options) -> Vec<u64> {
    let count = |counts: &dyn Fn(usize) -> bool| -> Vec<u64> {
        let of = |hosts: &Vec<usize>| u64_of(hosts.iter().filter(|&&host| counts(host)).count());
        network.hosts_at().iter().map(of).collect()
    };
    let is_named = |guids: &BTreeSet<Guid>, host: usize| {
        let host = &network.hosts()[host];
        guids.contains(&host.guid) || guids.contains(&graph.node(host.end.node).guid)
    };
    let compute = count(&|host| is_named(&options.compute_guids, host));
    if compute.iter().any(|&hosts| hosts > 0) {
        return compute;
    }
    let usual = count(&|host| {
        !network.hosts()[host].is_aggregation_node && !is_named(&options.io_guids, host)
    });
    if usual.iter().any(|&hosts| hosts > 0) {
        return usual;
    }
    count(&|_| true)
}

/// Sets of roots to try, each once, in order of preference; never the central one alone.
pub(super) fn candidates(
    network: &Network,
    weights: &[u64],
    structure: &Structure,
) -> Vec<Vec<usize>> {
    let switches = 0..network.switches().len();
    let all: Vec<usize> = switches.clone().filter(|&s| weights[s] > 0).collect();
    let least = median(weights).div_ceil(FEW).max(1);
    let many: Vec<usize> = switches.filter(|&s| weights[s] >= least).collect();
    let apart = with_apart(network, weights, &many);
    let found = [
        roots(network, &all, farthest),
        roots(network, &many, farthest),
        roots(network, &apart, farthest),
        roots(network, &many, peaks),
        roots(network, &apart, peaks),
        middle(network, weights, &many),
        completed(network, structure.spine_boards()),
        structure
            .groups
            .first()
            .and_then(|group| completed(network, group.clone())),
    ];
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for set in found.into_iter().flatten() {
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

/// The hosts of the switch that the median host is at.
fn median(weights: &[u64]) -> u64 {
    let mut sorted = weights.to_vec();
    sorted.sort_unstable();
    let half = sorted.iter().sum::<u64>() / 2;
    let mut seen = 0;
    let at = sorted.iter().find(|&&hosts| {
        seen += hosts;
        seen > half
    });
    at.copied().unwrap_or(0)
}

/// These leaf switches, and those with fewer hosts that have none of them as neighbour.
fn with_apart(network: &Network, weights: &[u64], many: &[usize]) -> Vec<usize> {
    let heights = network.hops_from_any(many);
    let is_apart = |switch: usize| weights[switch] > 0 && heights[switch] != Some(1);
    (0..weights.len())
        .filter(|&switch| is_apart(switch))
        .collect()
}

/// Roots by heights above the leaf switches, in ascending order; `None` if there are no switches above
/// them.
fn roots(
    network: &Network,
    leaves: &[usize],
    choose: fn(&Network, &[Option<u32>]) -> Vec<usize>,
) -> Option<Vec<usize>> {
    let heights = network.hops_from_any(leaves);
    let chosen = choose(network, &heights);
    completed(network, chosen)
}

/// Adds the central switch of every component that has no root; `None` if no component has one.
pub(super) fn completed(network: &Network, mut chosen: Vec<usize>) -> Option<Vec<usize>> {
    if chosen.is_empty() {
        return None;
    }
    let has_root: BTreeSet<usize> = chosen.iter().map(|&root| network.component(root)).collect();
    let without = central(network)
        .into_iter()
        .filter(|&root| !has_root.contains(&network.component(root)));
    chosen.extend(without);
    chosen.sort_unstable();
    chosen.dedup();
    Some(chosen)
}

/// In every connected component the switches farthest from its leaf switches.
fn farthest(network: &Network, heights: &[Option<u32>]) -> Vec<usize> {
    let mut top = vec![0; heights.len()];
    for (switch, height) in heights.iter().enumerate() {
        if let Some(height) = *height {
            let top = &mut top[network.component(switch)];
            *top = height.max(*top);
        }
    }
    let is_far = |&switch: &usize| {
        let top = top[network.component(switch)];
        top > 0 && heights[switch] == Some(top)
    };
    (0..heights.len()).filter(is_far).collect()
}

/// The switches above leaf switches that have no higher neighbour.
fn peaks(network: &Network, heights: &[Option<u32>]) -> Vec<usize> {
    let is_peak = |&switch: &usize| {
        let mut neighbours = network
            .leaving(switch)
            .map(|channel| network.channels()[channel].to);
        heights[switch] > Some(0) && neighbours.all(|other| heights[other] <= heights[switch])
    };
    (0..heights.len()).filter(is_peak).collect()
}

/// In every connected component the switches within the fewest hops of nearly all hosts, if none is a leaf
/// switch.
fn middle(network: &Network, weights: &[u64], leaves: &[usize]) -> Option<Vec<usize>> {
    let mut within: Vec<u32> = Vec::with_capacity(weights.len());
    for switch in 0..weights.len() {
        within.push(hops_to_most(&network.hops_to(switch), weights));
    }
    let mut least = vec![u32::MAX; weights.len()];
    for (switch, &hops) in within.iter().enumerate() {
        let least = &mut least[network.component(switch)];
        *least = hops.min(*least);
    }
    let is_least = |&switch: &usize| within[switch] == least[network.component(switch)];
    let chosen: Vec<usize> = (0..weights.len()).filter(is_least).collect();
    let is_leaf = |switch: &usize| leaves.binary_search(switch).is_ok();
    if chosen.iter().any(is_leaf) {
        return None;
    }
    completed(network, chosen)
}

/// Within how many hops nearly all hosts are that can be reached.
fn hops_to_most(hops: &[Option<u32>], weights: &[u64]) -> u32 {
    let mut at: Vec<u64> = Vec::new();
    for (hops, weight) in hops.iter().zip(weights) {
        if let Some(hops) = *hops {
            let place = usize_of(hops);
            at.resize(at.len().max(place + 1), 0);
            at[place] += weight;
        }
    }
    let mut strays = at.iter().sum::<u64>() / STRAYS;
    while let Some(&farthest) = at.last() {
        if farthest > strays {
            break;
        }
        strays -= farthest;
        at.pop();
    }
    saturate(at.len())
}

/// In every connected component the switch with the smallest sum of distances to all hosts (ties: the
/// smallest GUID). From there every switch is reached downwards, so every pair has a path.
pub(super) fn central(network: &Network) -> Vec<usize> {
    // By component: the smallest sum and its switch.
    let mut best: Vec<Option<(u64, usize)>> = vec![None; network.switches().len()];
    for switch in 0..network.switches().len() {
        let sum: u64 = network
            .hops_to(switch)
            .iter()
            .zip(network.hosts_at())
            .filter_map(|(&hops, hosts)| Some(u64::from(hops?) * u64_of(hosts.len())))
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
