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
//! **Rounds.** A LID that is routed early knows nothing of those that follow, and all switches choose for it at
//! once. So the choice is made again for one LID after another, with the loads of all others: switch by switch
//! from the destination outwards, each after what the nearer ones send has been added, the path with the least
//! sum of squares of loads. A round is kept if the largest load is less than before, or equal and the
//! sum of squares of all is less; after one that is not, or [`ROUNDS_MAX`], it ends. Where all
//! channels carry the same, as in regular fabrics, nothing changes.
//!
//! Last, packets are kept apart ([`apart`]): the largest load stays, and of the paths that it allows those are
//! taken on which packets meet the fewest that go elsewhere.
//!
//! Cost: for each LID, the number of channels that may be chosen, and in a round as many times the hops;
//! memory is the tables', twice.

mod apart;
mod next_hops;

use wire::convert::u64_of;
use wire::{Lid, PortNum};

use apart::Apart;

use crate::lids::{LidRange, Lids};
use crate::network::Network;
use crate::tables::Lft;
use crate::targets::targets;

pub(crate) use next_hops::{NextHops, Offers, UNREACHABLE};

/// More than the load of any channel: at most 2^16 LIDs, each from 2^16 sources.
const USED_BEFORE: u64 = 1 << 40;

/// How many rounds there are at most.
const ROUNDS_MAX: usize = 8;
/// Switches times LIDs of the largest fabric that has rounds.
const ENTRIES_MAX: usize = 1 << 22;

/// Tables by switch for all LIDs. The destinations of `offers` are asked for in order.
pub(crate) fn balanced(
    network: &Network,
    lids: &Lids,
    offers: &mut Offers<'_, impl FnMut(usize, &mut NextHops)>,
) -> Vec<Lft> {
    let rows = evened(network, lids, offers);
    kept_apart(network, lids, rows, offers)
}

/// The same without keeping packets apart: paths turn more alike, and take fewer layers.
pub(crate) fn evened(
    network: &Network,
    lids: &Lids,
    offers: &mut Offers<'_, impl FnMut(usize, &mut NextHops)>,
) -> Vec<Lft> {
    let mut balancer = Balancer::new(network, lids);
    let by_switch = ranges_by_switch(network, lids);
    for (destination, ranges) in by_switch.iter().enumerate() {
        let found = offers.to(destination);
        for &(range, exit) in ranges {
            balancer.port(destination, range, exit, found);
        }
    }
    if network.switches().len() * lids.top().index() > ENTRIES_MAX {
        return balancer.rows;
    }
    for _ in 0..ROUNDS_MAX {
        let before = (balancer.rows.clone(), balancer.loads.clone());
        let unevenness = balancer.unevenness();
        for (destination, ranges) in by_switch.iter().enumerate() {
            let found = offers.to(destination);
            for &(range, exit) in ranges {
                // Several LIDs of one port are to keep apart.
                if exit != PortNum::MANAGEMENT && range.lmc.get() == 0 {
                    balancer.choose_again(range.base, found);
                }
            }
        }
        if balancer.unevenness() >= unevenness {
            (balancer.rows, balancer.loads) = before;
            break;
        }
    }
    balancer.rows
}

/// Tables in which packets meet fewer that go elsewhere, while no channel carries more than the busiest does in the
/// tables given. Their paths must be among those of `offers`.
pub(crate) fn kept_apart(
    network: &Network,
    lids: &Lids,
    mut rows: Vec<Lft>,
    offers: &mut Offers<'_, impl FnMut(usize, &mut NextHops)>,
) -> Vec<Lft> {
    if network.switches().len() * lids.top().index() > ENTRIES_MAX {
        return rows;
    }
    let by_switch = ranges_by_switch(network, lids);
    let mut apart = Apart::new(network, &rows, &targets(network, lids));
    for _ in 0..ROUNDS_MAX {
        let mut has_changed = false;
        for (destination, ranges) in by_switch.iter().enumerate() {
            let found = offers.to(destination);
            for &(range, exit) in ranges {
                if exit != PortNum::MANAGEMENT && range.lmc.get() == 0 {
                    has_changed |= apart.choose(range.base, found, &mut rows);
                }
            }
        }
        if !has_changed {
            break;
        }
    }
    rows
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
    /// By switch, for the LID at hand, in a round: the load of the channel chosen, and where it leads.
    steps: Vec<(u64, usize)>,
}

impl<'n> Balancer<'n> {
    fn new(network: &'n Network, lids: &Lids) -> Self {
        let switches = network.switches().len();
        let sources = network.hosts_at().iter().map(|hosts| u64_of(hosts.len()));
        Self {
            network,
            rows: vec![Lft::new(lids.top()); switches],
            loads: vec![0; network.channels().len()],
            costs: vec![0; switches],
            chosen: vec![0; switches],
            flows: vec![0; switches],
            sources: sources.collect(),
            steps: vec![(0, 0); switches],
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

    /// The largest load, and the sum of squares of all.
    fn unevenness(&self) -> (u64, u128) {
        let largest = self.loads.iter().copied().max().unwrap_or(0);
        let square = |&load: &u64| u128::from(load) * u128::from(load);
        (largest, self.loads.iter().map(square).sum())
    }

    /// Chooses once more for a LID, by the loads of all others.
    fn choose_again(&mut self, lid: Lid, next_hops: &NextHops) {
        let Some((&destination, others)) = next_hops.nearest.split_first() else {
            return;
        };
        for &switch in others {
            let channel = self
                .network
                .channel_by_port(switch, self.rows[switch].get(lid));
            self.chosen[switch] = channel.unwrap_or(self.chosen[switch]);
        }
        self.flows.copy_from_slice(&self.sources);
        for &switch in others.iter().rev() {
            let flow = self.flows[switch];
            self.loads[self.chosen[switch]] -= flow;
            self.flows[self.network.channels()[self.chosen[switch]].to] += flow;
        }
        for &switch in others {
            let flow = self.sources[switch];
            let mut best = (u64::MAX, 0);
            for (channel, to) in next_hops.choices(switch) {
                let mut cost = (self.loads[channel] + flow).pow(2);
                let mut at = to;
                while at != destination && cost < best.0 {
                    let (load, next) = self.steps[at];
                    cost += (load + flow).pow(2);
                    at = next;
                }
                if cost < best.0 {
                    best = (cost, channel);
                }
            }
            let ends = self.network.channels()[best.1];
            self.chosen[switch] = best.1;
            self.rows[switch].set(lid, ends.port);
            self.steps[switch] = (self.loads[best.1], ends.to);
            let mut at = switch;
            while at != destination {
                let (load, next) = &mut self.steps[at];
                *load += flow;
                self.loads[self.chosen[at]] = *load;
                at = *next;
            }
        }
    }

    fn choose(&mut self, lid: Lid, next_hops: &NextHops) {
        let (first, others) = next_hops.nearest.split_first().unwrap_or((&0, &[]));
        self.costs[*first] = 0;
        for &switch in others {
            let mut best = (u64::MAX, 0);
            for (channel, to) in next_hops.choices(switch) {
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
