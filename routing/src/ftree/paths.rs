//! Paths to one LID after another, up and then down.

use wire::convert::u64_of;

use crate::balance::{NextHops, UNREACHABLE};
use crate::levels::Levels;
use crate::network::Network;

/// No channel.
pub(super) const NONE: usize = usize::MAX;

/// How switches that are not above the destination choose among shortest ways up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// To the LID's way down, as long as no channel carries more than that way does with the packets of all hosts.
    Gather,
    /// To the LID's way down, as long as no channel carries more than the busiest does so far.
    Spread,
}

/// The tree, and what its channels carry so far.
pub(super) struct Paths<'a> {
    network: &'a Network,
    levels: &'a Levels,
    /// Switches, the highest level first.
    top_down: Vec<usize>,
    /// By switch: how many hosts are at it.
    hosts: Vec<u64>,
    /// By switch: how many hosts are at it and below.
    below: Vec<u64>,
    /// By channel: how many hosts' packets to how many LIDs cross it.
    loads: Vec<u64>,
    /// The largest of them.
    load_max: u64,
    rule: Rule,
    /// By switch, for the LID at hand: the channel that leads on, or [`NONE`].
    pub(super) next: Vec<usize>,
    /// By switch: hops to the destination switch, or [`UNREACHABLE`].
    pub(super) hops: Vec<u32>,
    /// By switch: whether its path ends with the LID's own way down.
    on_the_way: Vec<bool>,
}

impl<'a> Paths<'a> {
    pub(super) fn new(network: &'a Network, levels: &'a Levels, rule: Rule) -> Self {
        let count = levels.len();
        let mut top_down: Vec<usize> = (0..count).collect();
        top_down.sort_by_key(|&switch| core::cmp::Reverse(levels[switch]));
        let hosts = network.hosts_at().iter().map(|hosts| u64_of(hosts.len()));
        let mut paths = Self {
            network,
            levels,
            top_down,
            hosts: hosts.collect(),
            below: vec![0; count],
            loads: vec![0; network.channels().len()],
            load_max: 0,
            rule,
            next: vec![NONE; count],
            hops: vec![UNREACHABLE; count],
            on_the_way: vec![false; count],
        };
        paths.count_below();
        paths
    }

    /// Switches in the order of levels, the highest first.
    pub(super) fn top_down(&self) -> &[usize] {
        &self.top_down
    }

    /// Counts each host once for each switch above it.
    fn count_below(&mut self) {
        let mut seen = vec![usize::MAX; self.below.len()];
        for leaf in (0..self.hosts.len()).filter(|&switch| self.network.has_hosts(switch)) {
            let mut open = vec![leaf];
            while let Some(switch) = open.pop() {
                if core::mem::replace(&mut seen[switch], leaf) == leaf {
                    continue;
                }
                self.below[switch] += self.hosts[leaf];
                open.extend(
                    self.upwards(switch)
                        .map(|up| self.network.channels()[up].to),
                );
            }
        }
    }

    fn is_up(&self, channel: usize) -> bool {
        let ends = self.network.channels()[channel];
        self.levels[ends.to] > self.levels[ends.from]
    }

    /// The channels that lead up from a switch, by port.
    fn upwards(&self, switch: usize) -> impl Iterator<Item = usize> + '_ {
        let leaving = self.network.leaving(switch);
        leaving.filter(|&channel| self.is_up(channel))
    }

    /// The channels that lead down from a switch, by port.
    fn downwards(&self, switch: usize) -> impl Iterator<Item = usize> + '_ {
        let leaving = self.network.leaving(switch);
        leaving.filter(|&channel| !self.is_up(channel))
    }

    /// Finds the paths of all switches to one LID of a destination switch, and adds them to the loads if
    /// the LID `counts`.
    pub(super) fn find(&mut self, destination: usize, counts: bool) {
        self.next.fill(NONE);
        self.hops.fill(UNREACHABLE);
        self.on_the_way.fill(false);
        self.hops[destination] = 0;
        let above = self.above(destination);
        let way_down = self.choose_way_down(destination);
        for &switch in above.iter().skip(1) {
            if self.next[switch] == NONE {
                let down = self.downwards(switch).filter(|&channel| {
                    self.hops[self.network.channels()[channel].to] < self.hops[switch]
                });
                let least = down.min_by_key(|&channel| (self.loads[channel], channel));
                self.next[switch] = least.unwrap_or(NONE);
            }
        }
        let limit = match self.rule {
            Rule::Gather => self.load_max.max(way_down),
            Rule::Spread => self.load_max,
        };
        for place in 0..self.top_down.len() {
            let switch = self.top_down[place];
            if self.hops[switch] == UNREACHABLE {
                self.go_up(switch, limit);
            }
            if counts {
                self.add_load(switch);
            }
        }
    }

    /// The channels of all shortest ways up and then down to a destination switch.
    pub(super) fn next_hops(&mut self, destination: usize, next_hops: &mut NextHops) {
        self.hops.fill(UNREACHABLE);
        self.hops[destination] = 0;
        let above = self.above(destination);
        for &switch in above.iter().skip(1) {
            let hops = self.hops[switch];
            let nearer = |&channel: &usize| {
                !self.is_up(channel) && self.hops[self.network.channels()[channel].to] < hops
            };
            let leaving = self.network.leaving_by_neighbour(switch).iter().copied();
            next_hops.set(self.network, switch, hops, leaving.filter(nearer));
        }
        for place in 0..self.top_down.len() {
            let switch = self.top_down[place];
            if self.hops[switch] != UNREACHABLE {
                continue;
            }
            let hops_by = |up: usize| self.hops[self.network.channels()[up].to];
            let best = self.upwards(switch).map(hops_by).min();
            if let Some(best) = best.filter(|&best| best != UNREACHABLE) {
                let leaving = self.network.leaving_by_neighbour(switch).iter().copied();
                let ways = leaving.filter(|&up| self.is_up(up) && hops_by(up) == best);
                next_hops.set(self.network, switch, best + 1, ways);
                self.hops[switch] = best + 1;
            }
        }
    }

    /// The destination and all switches from which it is reached downwards, by level; gives them hops.
    fn above(&mut self, destination: usize) -> Vec<usize> {
        let mut above = vec![destination];
        let mut looked = 0;
        while let Some(&switch) = above.get(looked) {
            looked += 1;
            for up in self.network.leaving(switch) {
                let to = self.network.channels()[up].to;
                if self.hops[to] == UNREACHABLE && self.is_up(up) {
                    self.hops[to] = self.hops[switch] + 1;
                    above.push(to);
                }
            }
        }
        above
    }

    /// Chooses the one way from the top down to the destination that the LID has, from below: always
    /// the cable that keeps the largest load smallest, on the way down and on the ways of others up
    /// to where it begins; then the least sum of both, then the first port. Returns the largest load on it
    /// if all hosts' packets come by it.
    fn choose_way_down(&mut self, destination: usize) -> u64 {
        let all: u64 = self.hosts.iter().sum();
        self.on_the_way[destination] = true;
        let mut at = destination;
        let mut largest = 0;
        loop {
            let cost = |up: usize| {
                let ends = self.network.channels()[up];
                let down = self.loads[ends.reverse] + all - self.below[at];
                let up_loads = self.load_upwards(ends.to);
                (down.max(up_loads), down + up_loads, up)
            };
            let Some((_, _, up)) = self.upwards(at).map(cost).min() else {
                return largest;
            };
            let ends = self.network.channels()[up];
            largest = largest.max(self.loads[ends.reverse] + all - self.below[at]);
            self.next[ends.to] = ends.reverse;
            self.on_the_way[ends.to] = true;
            at = ends.to;
        }
    }

    /// The largest load that a channel up to this switch has if all that is below its start comes by.
    fn load_upwards(&self, switch: usize) -> u64 {
        let others = self.downwards(switch).filter_map(|down| {
            let ends = self.network.channels()[down];
            // From above the destination packets go down.
            (self.hops[ends.to] == UNREACHABLE)
                .then(|| self.loads[ends.reverse] + self.below[ends.to])
        });
        others.max().unwrap_or(0)
    }

    /// Lets a switch that is not above the destination send up: where the path is shortest, then
    /// where no load comes above the limit or at least the largest stays smallest, then where the path
    /// meets the LID's own way down, then where the load is least.
    fn go_up(&mut self, switch: usize, limit: u64) {
        let flow = match self.hosts[switch] {
            0 => self.below[switch],
            hosts => hosts,
        };
        let ways = self.upwards(switch).filter_map(|up| {
            let to = self.network.channels()[up].to;
            let hops = self.hops[to];
            if hops == UNREACHABLE {
                return None;
            }
            let largest = self.path(to).map(|channel| self.loads[channel]).max();
            let largest = largest.unwrap_or(0).max(self.loads[up]) + flow;
            let beside = !self.on_the_way[to];
            Some((hops, largest.max(limit), beside, self.loads[up], up))
        });
        if let Some((hops, _, beside, _, up)) = ways.min() {
            self.next[switch] = up;
            self.hops[switch] = hops + 1;
            self.on_the_way[switch] = !beside;
        }
    }

    /// The channels from a switch that has a path to the destination.
    fn path(&self, switch: usize) -> impl Iterator<Item = usize> + '_ {
        let channel = |switch: usize| Some(self.next[switch]).filter(|&next| next != NONE);
        core::iter::successors(channel(switch), move |&held| {
            channel(self.network.channels()[held].to)
        })
    }

    /// Adds the packets of a switch's hosts to the channels of its path.
    fn add_load(&mut self, switch: usize) {
        let mut at = switch;
        while self.next[at] != NONE {
            let channel = self.next[at];
            self.loads[channel] += self.hosts[switch];
            self.load_max = self.load_max.max(self.loads[channel]);
            at = self.network.channels()[channel].to;
        }
    }
}
