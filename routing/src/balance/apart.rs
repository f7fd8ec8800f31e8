//! Keeping packets out of each other's way.
//!
//! Loads say how many packets cross a channel, not how many of them there are at a time. Packets to one LID share
//! the last cable to its port anyway, so that it costs nothing if they share cables before; packets to different
//! LIDs that meet share a cable that each could have had for itself. So it is better if all packets to a LID
//! come down by one way and no others do than if two LIDs take half of two ways each, though the loads are
//! the same.
//!
//! ```text
//!  spine 0    spine 1      h0 by spine 0 and h1 by spine 1: no two packets meet on the way down
//!      \       /           each from half of the leaves by spine 0, from the others by spine 1: two packets,
//!       leaf 0             one to h0 and one to h1, meet every other time
//!       h0  h1
//! ```
//!
//! Counted are the pairs of packets to different LIDs that meet on a path, however many channels they share:
//! on a channel with load `L`, of which `m` is to one LID, each packet to that LID meets `L - m` others, less those
//! that it has met on the channel before. (Packets that part and meet again count twice.) For one LID after another,
//! each switch from the nearest to the destination on moves all that it sends there, that of switches behind it
//! included, to where it meets the fewest, if that is fewer than where it is. No channel gets more
//! load than the largest that there was. The count becomes less with every move, so that it ends.
//!
//! Cost of a round: for each LID the number of channels that may be chosen times the hops, and the channels. Memory:
//! a number for each turn from a channel to a next one.

use wire::Lid;
use wire::convert::u64_of;

use super::next_hops::NextHops;
use crate::network::Network;
use crate::tables::Lft;
use crate::targets::{Target, path};

/// No channel.
const NONE: usize = usize::MAX;

/// Loads, and the paths to the LID at hand.
pub(super) struct Apart<'a> {
    network: &'a Network,
    /// By switch: how many hosts are at it.
    sources: Vec<u64>,
    /// By channel.
    loads: Vec<u64>,
    turns: Turns<'a>,
    /// The largest load that a channel may have.
    limit: u64,
    /// By switch, for the LID at hand: the channel by which it sends, or [`NONE`].
    chosen: Vec<usize>,
    /// By switch, for the LID at hand: how many packets it sends, those of switches behind it included.
    flows: Vec<u64>,
}

/// How many packets go from a channel on to a next one.
struct Turns<'a> {
    network: &'a Network,
    /// By channel: where the turns from it begin.
    first: Vec<usize>,
    counts: Vec<u64>,
}

impl<'a> Turns<'a> {
    fn new(network: &'a Network) -> Self {
        let mut count = 0;
        let mut first = Vec::with_capacity(network.channels().len());
        for channel in network.channels() {
            first.push(count);
            count += network.leaving(channel.to).len();
        }
        Self {
            network,
            first,
            counts: vec![0; count],
        }
    }

    fn at(&mut self, held: usize, next: usize) -> &mut u64 {
        let place = self.place(held, next);
        &mut self.counts[place]
    }

    fn count(&self, held: usize, next: usize) -> u64 {
        self.counts[self.place(held, next)]
    }

    fn place(&self, held: usize, next: usize) -> usize {
        let between = self.network.channels()[held].to;
        self.first[held] + next - self.network.leaving(between).start
    }
}

impl<'a> Apart<'a> {
    /// For these tables.
    pub(super) fn new(network: &'a Network, rows: &[Lft], targets: &[Target]) -> Self {
        let sources = network.hosts_at().iter().map(|hosts| u64_of(hosts.len()));
        let sources: Vec<u64> = sources.collect();
        let mut loads = vec![0; network.channels().len()];
        let mut turns = Turns::new(network);
        for target in targets.iter().filter(|target| target.host.is_some()) {
            for (from, &flow) in sources.iter().enumerate().filter(|&(_, &flow)| flow > 0) {
                let mut held = None;
                for channel in path(network, rows, from, target.lid) {
                    loads[channel] += flow;
                    if let Some(held) = held.replace(channel) {
                        *turns.at(held, channel) += flow;
                    }
                }
            }
        }
        Self {
            network,
            limit: loads.iter().copied().max().unwrap_or(0),
            loads,
            turns,
            chosen: vec![NONE; sources.len()],
            flows: vec![0; sources.len()],
            sources,
        }
    }

    /// Chooses once more for a LID. Whether anything is another way then.
    pub(super) fn choose(&mut self, lid: Lid, next_hops: &NextHops, rows: &mut [Lft]) -> bool {
        let Some((&destination, others)) = next_hops.nearest.split_first() else {
            return false;
        };
        if !self.begin(lid, others, rows) {
            return false;
        }
        let mut has_changed = false;
        for &switch in others {
            let flow = self.flows[switch];
            let choices = next_hops.choices(switch);
            if flow == 0 || choices.len() < 2 {
                continue;
            }
            let old = self.chosen[switch];
            let behind = self.behind(switch);
            self.carry(switch, &behind, destination, |load, flow| *load -= flow);
            let mut best = (self.cost(flow, &behind, old, destination), old);
            for &(channel, _) in choices.iter().filter(|&&(channel, _)| channel != old) {
                let cost = self.cost(flow, &behind, channel, destination);
                if cost < best.0 {
                    best = (cost, channel);
                }
            }
            self.chosen[switch] = best.1;
            self.carry(switch, &behind, destination, |load, flow| *load += flow);
            if best.1 != old {
                rows[switch].set(lid, self.network.channels()[best.1].port);
                has_changed = true;
            }
        }
        has_changed
    }

    /// Takes the paths to a LID from the tables; `false` if one of these switches has none.
    fn begin(&mut self, lid: Lid, others: &[usize], rows: &[Lft]) -> bool {
        self.chosen.fill(NONE);
        for &switch in others {
            let channel = self.network.channel_by_port(switch, rows[switch].get(lid));
            let Some(channel) = channel else {
                return false;
            };
            self.chosen[switch] = channel;
        }
        self.flows.copy_from_slice(&self.sources);
        for &switch in others.iter().rev() {
            let to = self.network.channels()[self.chosen[switch]].to;
            self.flows[to] += self.flows[switch];
        }
        true
    }

    /// Changes by the flow of a switch what the channels and turns to the destination carry, those from the channels
    /// behind it into its own included, and what the switches on the way send.
    fn carry(
        &mut self,
        switch: usize,
        behind: &[(usize, u64)],
        destination: usize,
        change: impl Fn(&mut u64, u64),
    ) {
        let flow = self.flows[switch];
        let mut channel = self.chosen[switch];
        for &(held, flow) in behind {
            change(self.turns.at(held, channel), flow);
        }
        loop {
            change(&mut self.loads[channel], flow);
            let at = self.network.channels()[channel].to;
            if at == destination {
                return;
            }
            change(&mut self.flows[at], flow);
            let next = self.chosen[at];
            change(self.turns.at(channel, next), flow);
            channel = next;
        }
    }

    /// The channels by which switches send to the LID through this one, with their flows.
    fn behind(&self, switch: usize) -> Vec<(usize, u64)> {
        let channels = self.network.leaving(switch).filter_map(|leaving| {
            let ends = self.network.channels()[leaving];
            let is_used = self.chosen[ends.to] == ends.reverse;
            is_used.then(|| (ends.reverse, self.flows[ends.to]))
        });
        channels.filter(|&(_, flow)| flow > 0).collect()
    }

    /// What the flow of a switch, which is on no channel now, costs by a channel: by how much loads come above the limit,
    /// then how many packets to other LIDs its packets meet.
    fn cost(
        &self,
        flow: u64,
        behind: &[(usize, u64)],
        first: usize,
        destination: usize,
    ) -> (u64, i128) {
        let mut above = 0;
        let mut met: i128 = (behind.iter())
            .map(|&(held, flow)| -i128::from(self.turns.count(held, first)) * i128::from(flow))
            .sum();
        let (mut channel, mut own) = (first, 0);
        loop {
            let load = self.loads[channel];
            above += (load + flow).saturating_sub(self.limit);
            met += i128::from(load - own) * i128::from(flow);
            let at = self.network.channels()[channel].to;
            if at == destination {
                return (above, met);
            }
            let next = self.chosen[at];
            let both = self.turns.count(channel, next) - own;
            met -= i128::from(both) * i128::from(flow);
            (channel, own) = (next, self.flows[at]);
        }
    }
}
