//! Paths for pairs of switches that no path joins which first goes up and then down.
//!
//! First it is tried to let all of them turn upwards at one switch, which is safe in a fat tree
//! ([`crate::detour`]). Where that is not safe, as with several cores that have hosts, every pair is
//! served for itself: a switch without a path to a LID sends to a neighbour that has one if that closes
//! no cycle with the dependencies of all other paths, rather by dependencies that are there. Packets of
//! switches without hosts get shortest paths if nothing else is left.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use wire::PortNum;

use crate::acyclic::AcyclicDependencies;
use crate::detour::{Unreached, fill};
use crate::lids::Lids;
use crate::network::Network;
use crate::tables::Lft;
use crate::targets::{Target, path};

/// Completes tables. Returns also how many pairs of switches with hosts take a detour.
///
/// # Errors
/// Two switches with hosts between which there is no detour that is free of deadlock.
pub(super) fn with_detours(
    network: &Network,
    lids: &Lids,
    by_switch: &[Vec<Target>],
    order: &[u32],
    unreached: &Unreached,
    mut rows: Vec<Lft>,
) -> Result<(Vec<Lft>, usize), (usize, usize)> {
    let mut with_one_turn = rows.clone();
    if let Some(detours) = fill(network, lids, order, unreached, &mut with_one_turn) {
        return Ok((with_one_turn, detours));
    }
    let mut graph = AcyclicDependencies::new(network);
    for target in by_switch.iter().flatten() {
        add_dependencies(network, target, &rows, &mut graph);
    }
    // Packets between hosts come first.
    let mut pairs: Vec<&(usize, Vec<usize>)> = unreached.pairs().iter().collect();
    pairs.sort_by_key(|(destination, _)| !network.has_hosts(*destination));
    let mut detours = 0;
    for (destination, without) in pairs {
        for target in &by_switch[*destination] {
            attach(network, target, without, &mut graph, &mut rows);
            let left = |&&switch: &&usize| rows[switch].get(target.lid) == PortNum::NONE;
            let with_hosts = |&&switch: &&usize| network.has_hosts(switch);
            if network.has_hosts(*destination)
                && let Some(&from) = without.iter().filter(left).find(with_hosts)
            {
                return Err((from, *destination));
            }
        }
        if network.has_hosts(*destination) {
            let with_hosts = without.iter().filter(|&&switch| network.has_hosts(switch));
            detours += with_hosts.count();
        }
    }
    for (destination, without) in unreached.pairs() {
        for target in &by_switch[*destination] {
            attach_by_shortest_path(network, target, without, &mut rows);
        }
    }
    Ok((rows, detours))
}

/// The channel by which a switch sends to a LID; `None` at its owner's switch and without an entry.
fn next(network: &Network, rows: &[Lft], switch: usize, target: &Target) -> Option<usize> {
    network.channel_by_port(switch, rows[switch].get(target.lid))
}

/// Adds the dependencies of the paths to a LID, which go up and then down.
fn add_dependencies(
    network: &Network,
    target: &Target,
    rows: &[Lft],
    graph: &mut AcyclicDependencies,
) {
    for switch in 0..rows.len() {
        let Some(held) = next(network, rows, switch, target) else {
            continue;
        };
        if let Some(onward) = next(network, rows, network.channels()[held].to, target)
            && !graph.has(held, onward)
        {
            let added = graph.add(held, onward);
            debug_assert!(added, "paths that go up and then down have a cycle");
        }
    }
}

/// Gives switches without an entry for a LID one where that closes no cycle, nearest first.
fn attach(
    network: &Network,
    target: &Target,
    without: &[usize],
    graph: &mut AcyclicDependencies,
    rows: &mut [Lft],
) {
    let mut open: BinaryHeap<Reverse<(usize, bool, usize)>> = BinaryHeap::new();
    let offer = |open: &mut BinaryHeap<_>,
                 graph: &AcyclicDependencies,
                 rows: &[Lft],
                 switch: usize,
                 hops: usize| {
        for channel in network.leaving(switch) {
            let ends = network.channels()[channel];
            if rows[ends.to].get(target.lid) == PortNum::NONE {
                let onward = next(network, rows, switch, target);
                let is_new = onward.is_some_and(|onward| !graph.has(ends.reverse, onward));
                open.push(Reverse((hops + 1, is_new, ends.reverse)));
            }
        }
    };
    for &switch in without {
        for channel in network.leaving(switch) {
            let to = network.channels()[channel].to;
            if rows[to].get(target.lid) != PortNum::NONE {
                let onward = next(network, rows, to, target);
                let is_new = onward.is_some_and(|onward| !graph.has(channel, onward));
                let hops = hops(network, rows, to, target);
                open.push(Reverse((hops + 1, is_new, channel)));
            }
        }
    }
    while let Some(Reverse((hops, _, channel))) = open.pop() {
        let ends = network.channels()[channel];
        if rows[ends.from].get(target.lid) != PortNum::NONE {
            continue;
        }
        let onward = next(network, rows, ends.to, target);
        if onward.is_none_or(|onward| graph.add(channel, onward)) {
            rows[ends.from].set(target.lid, ends.port);
            offer(&mut open, graph, rows, ends.from, hops);
        }
    }
}

/// Hops to the switch of a LID.
fn hops(network: &Network, rows: &[Lft], switch: usize, target: &Target) -> usize {
    path(network, rows, switch, target.lid).count()
}

/// Gives switches without an entry for a LID a shortest path to one that has one.
fn attach_by_shortest_path(
    network: &Network,
    target: &Target,
    without: &[usize],
    rows: &mut [Lft],
) {
    let mut left: Vec<usize> = without.to_vec();
    loop {
        left.retain(|&switch| rows[switch].get(target.lid) == PortNum::NONE);
        let entry = |&switch: &usize| {
            let mut leaving = network.leaving(switch);
            let found = leaving.find(|&channel| {
                rows[network.channels()[channel].to].get(target.lid) != PortNum::NONE
            });
            found.map(|channel| (switch, network.channels()[channel].port))
        };
        let found: Vec<(usize, PortNum)> = left.iter().filter_map(entry).collect();
        if found.is_empty() {
            return;
        }
        for (switch, port) in found {
            rows[switch].set(target.lid, port);
        }
    }
}
