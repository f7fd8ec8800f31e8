//! Detours where no single turning switch serves all pairs ([`crate::detour`]): several cores, say, that
//! no leaf switch has in common.
//!
//! For each destination the switches that have no legal path to it are served in the order of the hops
//! that they come to need: a switch sends to a neighbour that is served already, by a channel whose
//! dependencies close no cycle together with those of all paths so far. Dependencies that are there
//! anyway come first, since each new one narrows the choice of those that follow.
//!
//! Cost: for each pair without a path the channels of its switch, for each new dependency
//! [`AcyclicDependencies::add`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wire::Lid;

use crate::acyclic::AcyclicDependencies;
use crate::detour::{Unreached, lids_by_switch};
use crate::lids::Lids;
use crate::network::Network;
use crate::tables::Lft;

/// Adds paths for the pairs that have none. Returns how many pairs of switches with hosts got one;
/// `None` if a pair cannot have one, or not safely.
pub(super) fn fill(
    network: &Network,
    lids: &Lids,
    unreached: &Unreached,
    rows: &mut [Lft],
) -> Option<usize> {
    let destinations = lids_by_switch(network, lids);
    let mut dependencies = used_turns(network, lids, rows)?;
    let mut between_hosts = 0;
    for (destination, without) in unreached.pairs() {
        let mut search = Search {
            network,
            lids: &destinations[*destination],
            hops: hops(network, rows, *destination, &destinations[*destination]),
            open: BinaryHeap::new(),
        };
        search.serve(without, rows, &mut dependencies)?;
        let has_hosts = |&&switch: &&usize| network.has_hosts(switch);
        if network.has_hosts(*destination) {
            between_hosts += without.iter().filter(has_hosts).count();
        }
    }
    Some(between_hosts)
}

/// The dependencies of all paths from all switches; `None` if they have a cycle.
fn used_turns(network: &Network, lids: &Lids, rows: &[Lft]) -> Option<AcyclicDependencies> {
    let mut used = AcyclicDependencies::new(network);
    for lid in lids.iter().flat_map(|range| range.lids()) {
        for (switch, row) in rows.iter().enumerate() {
            let Some(held) = network.channel_by_port(switch, row.get(lid)) else {
                continue;
            };
            let next = network.channels()[held].to;
            if let Some(onward) = network.channel_by_port(next, rows[next].get(lid))
                && !used.has(held, onward)
                && !used.add(held, onward)
            {
                return None;
            }
        }
    }
    Some(used)
}

/// By switch the hops to a destination, by the tables; `None` where they do not lead there.
fn hops(network: &Network, rows: &[Lft], destination: usize, lids: &[Lid]) -> Vec<Option<u32>> {
    let mut hops = vec![None; rows.len()];
    hops[destination] = Some(0);
    let Some(&lid) = lids.first() else {
        return hops;
    };
    for from in 0..rows.len() {
        let mut trail = Vec::new();
        let mut at = from;
        while hops[at].is_none() && trail.len() <= rows.len() {
            trail.push(at);
            match network.channel_by_port(at, rows[at].get(lid)) {
                Some(channel) => at = network.channels()[channel].to,
                None => break,
            }
        }
        let Some(mut away) = hops[at] else { continue };
        for switch in trail.into_iter().rev() {
            away += 1;
            hops[switch] = Some(away);
        }
    }
    hops
}

struct Search<'a> {
    network: &'a Network,
    /// The LIDs of the destination.
    lids: &'a [Lid],
    /// By switch; `None` where it is not served yet.
    hops: Vec<Option<u32>>,
    /// Channels from switches that are not served to such as are: hops, whether it adds a dependency,
    /// the channel.
    open: BinaryHeap<Reverse<(u32, bool, usize)>>,
}

impl Search<'_> {
    fn serve(
        &mut self,
        without: &[usize],
        rows: &mut [Lft],
        dependencies: &mut AcyclicDependencies,
    ) -> Option<()> {
        for &switch in without {
            for channel in self.network.leaving(switch) {
                self.offer(channel, rows, dependencies);
            }
        }
        while let Some(Reverse((hops, _, channel))) = self.open.pop() {
            let ends = self.network.channels()[channel];
            if self.hops[ends.from].is_some() {
                continue;
            }
            let onward = self.onward(channel, rows).into_iter();
            let added: Vec<(usize, usize)> = onward.map(|next| (channel, next)).collect();
            if !dependencies.add_all(&added) {
                continue;
            }
            self.hops[ends.from] = Some(hops);
            for &lid in self.lids {
                rows[ends.from].set(lid, ends.port);
            }
            for leaving in self.network.leaving(ends.from) {
                let reverse = self.network.channels()[leaving].reverse;
                self.offer(reverse, rows, dependencies);
            }
        }
        let mut all = without.iter();
        all.all(|&switch| self.hops[switch].is_some()).then_some(())
    }

    fn offer(&mut self, channel: usize, rows: &[Lft], dependencies: &AcyclicDependencies) {
        let ends = self.network.channels()[channel];
        if let (None, Some(hops)) = (self.hops[ends.from], self.hops[ends.to]) {
            let onward = self.onward(channel, rows);
            let adds = onward.iter().any(|&next| !dependencies.has(channel, next));
            self.open.push(Reverse((hops + 1, adds, channel)));
        }
    }

    /// The channels that packets take next behind a channel.
    fn onward(&self, channel: usize, rows: &[Lft]) -> Vec<usize> {
        let to = self.network.channels()[channel].to;
        let next = |&lid: &Lid| self.network.channel_by_port(to, rows[to].get(lid));
        self.lids.iter().filter_map(next).collect()
    }
}
