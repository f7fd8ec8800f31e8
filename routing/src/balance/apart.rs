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
//! Whom a packet meets from a switch on depends on packets to other LIDs only, and on the nearer switches, which have
//! chosen: it is one number a switch, the same for all that send there.
//!
//! Cost of a round: for each LID the channels that may be chosen, and the hops of those that are better than what
//! there is. Memory: a number for each turn from a channel to a next one.

use wire::Lid;
use wire::convert::{saturate, u64_of, usize_of};

use super::next_hops::NextHops;
use crate::network::{Channel, Network};
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
    turns: Turns,
    /// The largest load that a channel may have.
    limit: u64,
    /// By switch, for the LID at hand: the channel by which it sends, or [`NONE`].
    chosen: Vec<usize>,
    /// By switch, for the LID at hand: how many packets it sends, those of switches behind it included.
    flows: Vec<u64>,
    /// By switch, for the LID at hand, once it has chosen.
    onward: Vec<Onward>,
    /// For the switch at hand: the channels by which others send through it, with their flows.
    behind: Vec<(usize, u64)>,
}

/// What a packet to the LID at hand meets from a switch on.
#[derive(Clone, Copy, Default)]
struct Onward {
    /// Packets to other LIDs, on all channels from there.
    met: u64,
    /// Where the turns onto the first of these channels begin.
    turns: u32,
    /// Whether this and all switches from there on have chosen. Paths of an engine's own need not come nearer with every
    /// hop; what lies behind one that does not is counted anew each time.
    is_settled: bool,
}

/// How many packets go from a channel on to a next one. Those onto one channel lie together: all that send to a LID
/// turn onto few. Counts are of pairs of a host and a LID, of which there are less than 2^16 each, less than 2^32 in all.
struct Turns {
    /// By channel: where the turns onto it begin.
    first: Vec<u32>,
    /// By channel: its place among the channels that end where it ends.
    place: Vec<u32>,
    counts: Vec<u32>,
    /// Where as many turns begin that nobody takes.
    none: u32,
}

impl Turns {
    fn new(network: &Network) -> Self {
        let mut count = 0;
        let mut first = Vec::with_capacity(network.channels().len());
        for channel in network.channels() {
            first.push(saturate::<u32>(count));
            count += network.leaving(channel.from).len();
        }
        let place = |channel: &Channel| channel.reverse - network.leaving(channel.to).start;
        let place = network.channels().iter().map(place);
        let most = (0..network.switches().len()).map(|switch| network.leaving(switch).len());
        Self {
            first,
            place: place.map(saturate::<u32>).collect(),
            counts: vec![0; count + most.max().unwrap_or(0)],
            none: saturate::<u32>(count),
        }
    }

    fn at(&mut self, held: usize, next: usize) -> &mut u32 {
        &mut self.counts[usize_of(self.first[next] + self.place[held])]
    }

    fn count(&self, held: usize, next: usize) -> u64 {
        self.onto(self.first[next], held)
    }

    /// The same for a next channel whose turns begin there.
    fn onto(&self, first: u32, held: usize) -> u64 {
        self.counts[usize_of(first + self.place[held])].into()
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
                        *turns.at(held, channel) += saturate::<u32>(flow);
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
            onward: vec![Onward::default(); sources.len()],
            behind: Vec::new(),
            sources,
        }
    }

    /// Chooses once more for a LID. Whether anything is another way then.
    pub(super) fn choose(&mut self, lid: Lid, next_hops: &NextHops, rows: &mut [Lft]) -> bool {
        let Some((&destination, others)) = next_hops.nearest.split_first() else {
            return false;
        };
        if !self.begin(lid, destination, others, rows) {
            return false;
        }
        let mut has_changed = false;
        for &switch in others {
            let choices = next_hops.choices(switch);
            if self.flows[switch] > 0 && choices.len() > 1 {
                self.find_behind(switch);
                let old = self.chosen[switch];
                let best = self.best(switch, choices, destination);
                if best != old {
                    self.carry(switch, destination, |load, flow| load - flow);
                    self.chosen[switch] = best;
                    self.carry(switch, destination, |load, flow| load + flow);
                    rows[switch].set(lid, self.network.channels()[best].port);
                    has_changed = true;
                }
            }
            self.onward[switch] = self.onward_from(switch);
        }
        has_changed
    }

    /// Takes the paths to a LID from the tables; `false` if one of these switches has none.
    fn begin(&mut self, lid: Lid, destination: usize, others: &[usize], rows: &[Lft]) -> bool {
        self.chosen.fill(NONE);
        for &switch in others {
            let channel = self.network.channel_by_port(switch, rows[switch].get(lid));
            let Some(channel) = channel else {
                return false;
            };
            self.chosen[switch] = channel;
        }
        self.onward.fill(Onward::default());
        self.onward[destination] = Onward {
            met: 0,
            turns: self.turns.none,
            is_settled: true,
        };
        self.flows.copy_from_slice(&self.sources);
        for &switch in others.iter().rev() {
            let to = self.network.channels()[self.chosen[switch]].to;
            self.flows[to] += self.flows[switch];
        }
        true
    }

    /// The channel by which the flow of a switch meets the fewest packets to other LIDs and no load comes above the
    /// limit: the one that it has, or the first that is better.
    fn best(
        &self,
        switch: usize,
        choices: impl Iterator<Item = (usize, usize)>,
        destination: usize,
    ) -> usize {
        let (flow, old) = (self.flows[switch], self.chosen[switch]);
        let largest = self.behind.iter().map(|&(_, flow)| flow).max().unwrap_or(0);
        // Its own packets are on the channel that it has, and on nothing else before the ways come together.
        let mut best = {
            let load = self.loads[old] - flow;
            let to = self.network.channels()[old].to;
            let met = load + self.met_onward(old, to, flow);
            let before = self.behind.iter();
            let before = before.map(|&(held, flow)| (self.turns.count(held, old) - flow) * flow);
            (met * flow - before.sum::<u64>(), old)
        };
        for (channel, to) in choices.filter(|&(channel, _)| channel != old) {
            let load = self.loads[channel];
            let met = (load + self.met_onward(channel, to, 0)) * flow;
            // Of the load no more than all has been met before, by the largest flow at most.
            if met - load * largest >= best.0 {
                continue;
            }
            let before = self.behind.iter();
            let before = before.map(|&(held, flow)| self.turns.count(held, channel) * flow);
            let met = met - before.sum::<u64>();
            if met < best.0 && self.has_room(switch, channel, destination) {
                best = (met, channel);
            }
        }
        best.1
    }

    /// What a packet meets beyond a channel of which it and `own` others of its LID turn on.
    fn met_onward(&self, channel: usize, to: usize, own: u64) -> u64 {
        let onward = match self.onward[to] {
            onward if onward.is_settled => onward,
            _ => self.onward_from(to),
        };
        // Nothing turns on from the destination.
        let both = self.turns.onto(onward.turns, channel);
        onward.met - both.saturating_sub(own)
    }

    /// What a packet meets from a switch on that is not the destination.
    #[inline(never)]
    fn onward_from(&self, switch: usize) -> Onward {
        let channel = self.chosen[switch];
        let to = self.network.channels()[channel].to;
        let own = self.flows[switch];
        let met = self.loads[channel] - own + self.met_onward(channel, to, own);
        Onward {
            met,
            turns: self.turns.first[channel],
            is_settled: self.onward[to].is_settled,
        }
    }

    /// Whether the flow of a switch brings no channel above the limit if it is sent by this one instead of its own.
    fn has_room(&self, switch: usize, first: usize, destination: usize) -> bool {
        let flow = self.flows[switch];
        // Where the way that it has comes together with this one, the flow is there already.
        let mut channel = first;
        loop {
            if self.loads[channel] + flow > self.limit
                && !self.is_on_path(switch, channel, destination)
            {
                return false;
            }
            let at = self.network.channels()[channel].to;
            if at == destination {
                return true;
            }
            channel = self.chosen[at];
        }
    }

    /// Whether a channel is on the path of a switch.
    fn is_on_path(&self, switch: usize, channel: usize, destination: usize) -> bool {
        let mut at = switch;
        while at != destination {
            if self.chosen[at] == channel {
                return true;
            }
            at = self.network.channels()[self.chosen[at]].to;
        }
        false
    }

    /// Changes by the flow of a switch what the channels and turns to the destination carry, those from the channels
    /// behind it into its own included, and what the switches on the way send.
    fn carry(&mut self, switch: usize, destination: usize, changed: impl Fn(u64, u64) -> u64) {
        let flow = self.flows[switch];
        let mut channel = self.chosen[switch];
        let turn = |count: &mut u32, flow| *count = saturate(changed((*count).into(), flow));
        for &(held, flow) in &self.behind {
            turn(self.turns.at(held, channel), flow);
        }
        loop {
            self.loads[channel] = changed(self.loads[channel], flow);
            let at = self.network.channels()[channel].to;
            if at == destination {
                return;
            }
            self.flows[at] = changed(self.flows[at], flow);
            let next = self.chosen[at];
            turn(self.turns.at(channel, next), flow);
            channel = next;
        }
    }

    /// Finds the channels by which switches send to the LID through this one, with their flows.
    fn find_behind(&mut self, switch: usize) {
        self.behind.clear();
        if self.flows[switch] == self.sources[switch] {
            return;
        }
        for leaving in self.network.leaving(switch) {
            let ends = self.network.channels()[leaving];
            let flow = self.flows[ends.to];
            if self.chosen[ends.to] == ends.reverse && flow > 0 {
                self.behind.push((ends.reverse, flow));
            }
        }
    }
}
