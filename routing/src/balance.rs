//! Choosing among equal paths so that cables carry equal loads.
//!
//! An engine says, for each destination switch, by which channels each switch may send on
//! ([`NextHops`]). For each destination LID in turn, the path with the least load is taken: from
//! the destination outwards every switch picks the channel that makes the sum of loads to the
//! destination smallest (ties: the neighbour with the smallest GUID, then the lowest port); then
//! every channel's load grows by the number of host ports whose packets to this LID it carries. The
//! load of a channel is thus the number of (source, LID) pairs that cross it.
//!
//! The LIDs of one port take different paths as far as there are any: a channel that an earlier LID
//! of the same port uses counts more than any load.
//!
//! Switches' own LIDs follow the least load, and add none.
//!
//! Cost: for each LID, the number of channels that may be chosen; memory is the tables'.

use wire::{Lid, PortNum};

use crate::lids::{LidRange, Lids};
use crate::network::Network;
use crate::tables::Lft;

/// More than the load of any channel: at most 2^16 LIDs, each from 2^16 sources.
const USED_BEFORE: u64 = 1 << 40;

/// "The destination cannot be reached", as a number of hops.
pub(crate) const UNREACHABLE: u32 = u32::MAX;

/// Which channels lead towards one destination switch.
#[derive(Default)]
pub(crate) struct NextHops {
    /// By switch: hops to the destination, or [`UNREACHABLE`].
    pub(crate) hops: Vec<u32>,
    /// By switch: where its choices begin and end.
    choices: Vec<(usize, usize)>,
    /// (channel, the switch it leads to).
    channels: Vec<(usize, usize)>,
    /// Switches that reach the destination, nearest first.
    nearest: Vec<usize>,
}

impl NextHops {
    /// Forgets everything: no switch reaches `destination` but itself.
    fn reset(&mut self, switches: usize, destination: usize) {
        self.hops.clear();
        self.hops.resize(switches, UNREACHABLE);
        self.hops[destination] = 0;
        self.choices.clear();
        self.choices.resize(switches, (0, 0));
        self.channels.clear();
        self.nearest.clear();
    }

    /// Gives a switch that is `hops` away its choices, of which there must be one at least, in
    /// order of preference where loads are equal.
    pub(crate) fn set(
        &mut self,
        network: &Network,
        switch: usize,
        hops: u32,
        channels: impl Iterator<Item = usize>,
    ) {
        let first = self.channels.len();
        let with_ends = channels.map(|channel| (channel, network.channels()[channel].to));
        self.channels.extend(with_ends);
        self.choices[switch] = (first, self.channels.len());
        self.hops[switch] = hops;
    }

    /// Sorts [`Self::nearest`].
    fn sort(&mut self) {
        let hops = &self.hops;
        let reach = (0..hops.len()).filter(|&switch| hops[switch] != UNREACHABLE);
        self.nearest.extend(reach);
        self.nearest.sort_by_key(|&switch| hops[switch]);
    }

    fn choices(&self, switch: usize) -> &[(usize, usize)] {
        let (first, end) = self.choices[switch];
        &self.channels[first..end]
    }
}

/// Tables by switch for all LIDs. `next_hops` is asked once for each switch, in order.
pub(crate) fn balanced(
    network: &Network,
    lids: &Lids,
    mut next_hops: impl FnMut(usize, &mut NextHops),
) -> Vec<Lft> {
    let mut balancer = Balancer::new(network, lids);
    let mut found = NextHops::default();
    for (destination, ranges) in ranges_by_switch(network, lids).into_iter().enumerate() {
        found.reset(network.switches().len(), destination);
        next_hops(destination, &mut found);
        found.sort();
        for (range, exit) in ranges {
            balancer.port(destination, range, exit, &found);
        }
    }
    balancer.rows
}

/// By switch: the LIDs that are there, and the port to their owner.
fn ranges_by_switch<'l>(network: &Network, lids: &'l Lids) -> Vec<Vec<(&'l LidRange, PortNum)>> {
    let mut ranges = vec![Vec::new(); network.switches().len()];
    for range in lids.iter() {
        if let Some((switch, port)) = range.end.and_then(|end| network.last_hop(end)) {
            ranges[switch].push((range, port));
        }
    }
    ranges
}

struct Balancer<'n> {
    network: &'n Network,
    rows: Vec<Lft>,
    /// By channel.
    loads: Vec<u64>,
    /// By switch, for the LID at hand: load on the path to the destination, channel chosen, sources.
    costs: Vec<u64>,
    chosen: Vec<usize>,
    flows: Vec<u64>,
    sources: Vec<u64>,
}

impl<'n> Balancer<'n> {
    fn new(network: &'n Network, lids: &Lids) -> Self {
        let switches = network.switches().len();
        let sources = network.hosts_at().iter().map(|hosts| hosts.len() as u64);
        Self {
            network,
            rows: vec![Lft::new(lids.top()); switches],
            loads: vec![0; network.channels().len()],
            costs: vec![0; switches],
            chosen: vec![0; switches],
            flows: vec![0; switches],
            sources: sources.collect(),
        }
    }

    /// All LIDs of one port, which is behind port `exit` of the destination switch.
    fn port(&mut self, destination: usize, range: &LidRange, exit: PortNum, next_hops: &NextHops) {
        let several = range.lmc.get() > 0;
        let mut used = Vec::new();
        for lid in range.lids() {
            self.rows[destination].set(lid, exit);
            self.choose(lid, next_hops);
            if exit == PortNum::MANAGEMENT {
                continue;
            }
            self.add_load(next_hops);
            if several {
                for &switch in &next_hops.nearest[1..] {
                    let channel = self.chosen[switch];
                    self.loads[channel] += USED_BEFORE;
                    used.push(channel);
                }
            }
        }
        for channel in used {
            self.loads[channel] -= USED_BEFORE;
        }
    }

    fn choose(&mut self, lid: Lid, next_hops: &NextHops) {
        let (first, others) = next_hops.nearest.split_first().unwrap_or((&0, &[]));
        self.costs[*first] = 0;
        for &switch in others {
            let mut best = (u64::MAX, 0);
            for &(channel, to) in next_hops.choices(switch) {
                let cost = self.loads[channel] + self.costs[to];
                if cost < best.0 {
                    best = (cost, channel);
                }
            }
            self.costs[switch] = best.0;
            self.chosen[switch] = best.1;
            self.rows[switch].set(lid, self.network.channels()[best.1].port);
        }
    }

    fn add_load(&mut self, next_hops: &NextHops) {
        self.flows.copy_from_slice(&self.sources);
        for &switch in next_hops.nearest.iter().skip(1).rev() {
            let channel = self.chosen[switch];
            let flow = self.flows[switch];
            self.loads[channel] += flow;
            self.flows[self.network.channels()[channel].to] += flow;
        }
    }
}
