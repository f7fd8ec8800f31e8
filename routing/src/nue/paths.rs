//! Paths to one target after another that together never close a cycle in any layer: the search in the
//! channel dependency graphs, and the graphs' dependencies of the paths found.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::centre::{Forest, centres};
use crate::acyclic::AcyclicDependencies;
use crate::network::Network;
use crate::targets::NONE;

/// How good a channel is: added dependencies, hops, load, channel.
type Offer = (u32, u32, u64, usize);

/// No channel.
const NO_OFFER: Offer = (u32::MAX, u32::MAX, u64::MAX, usize::MAX);

/// The part of a switch without hosts.
const NO_PART: usize = usize::MAX;

/// Which packets are in the layer of a part of the destination switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Division {
    /// Those between it and itself and all later parts, both ways.
    #[default]
    Pairs,
    /// Those to it from everywhere.
    Destinations,
    /// Whichever fit: there is no such part.
    Afterwards,
}

/// The layers' channel dependency graphs, and the paths to one target at a time.
pub(super) struct Paths<'a> {
    pub(super) network: &'a Network,
    /// By layer.
    pub(super) graphs: Vec<AcyclicDependencies>,
    /// One for all layers, or for each.
    pub(super) escape: Vec<Forest>,
    pub(super) division: Division,
    /// By switch: the number of the part that it is in, or [`NO_PART`].
    pub(super) part: Vec<usize>,
    /// The layer of all packets to the target at hand, if it is one for all.
    pub(super) fixed: Option<usize>,
    /// By layer, by dependency: whether it was found to close a cycle.
    pub(super) blocked: Vec<Vec<bool>>,
    /// Those found so for the target at hand.
    pub(super) blocked_now: Vec<(usize, usize)>,
    /// By switch: the channel towards the target, or [`NONE`].
    pub(super) next: Vec<usize>,
    /// By switch: a bit for each layer in which packets to the target leave by that channel. The
    /// dependency of the channel on the next one is in these layers' graphs.
    pub(super) used: Vec<u16>,
    /// By switch: hops to the target.
    pub(super) hops: Vec<u32>,
    /// By switch: the sum of loads of the channels to the target.
    pub(super) load: Vec<u64>,
    /// By switch: how many dependencies its path added that were not there, if that counts.
    pub(super) added: Vec<u32>,
    /// Channels to switches that have a path, from such as may have none: added dependencies, hops,
    /// load, channel. Of a switch's channels the best, and the next one when it closes a cycle.
    open: BinaryHeap<Reverse<Offer>>,
    /// By switch: the best of the channels that it is offered.
    best: Vec<Offer>,
    /// By channel: in which search it was offered.
    offered: Vec<u32>,
    /// Counts searches.
    searches: u32,
    /// Whether paths that need no new dependencies are preferred to shorter ones.
    pub(super) is_frugal: bool,
}

impl<'a> Paths<'a> {
    /// No paths yet to these parts of destination switches, a layer for each, but the escape paths. `sizes`
    /// is how many LIDs a switch delivers to.
    pub(super) fn new(
        network: &'a Network,
        parts: &[Vec<usize>],
        sizes: &[u64],
        division: Division,
    ) -> Self {
        let count = network.switches().len();
        let mut part = vec![NO_PART; count];
        for (number, members) in parts.iter().enumerate() {
            for &switch in members {
                part[switch] = number;
            }
        }
        let mut all = parts.concat();
        all.sort_unstable();
        let no_loads = vec![0; network.channels().len()];
        let tree = |destinations: &[usize]| {
            Forest::new(network, &centres(network, destinations, sizes), &no_loads)
        };
        let escape: Vec<Forest> = match division {
            Division::Pairs => vec![tree(&all)],
            Division::Destinations | Division::Afterwards => {
                parts.iter().map(|members| tree(members)).collect()
            }
        };
        let mut graphs = Vec::with_capacity(parts.len());
        for (number, members) in parts.iter().enumerate() {
            let later = parts[number..].concat();
            let packets = match division {
                Division::Pairs => vec![(&later, members), (members, &later)],
                Division::Destinations | Division::Afterwards => vec![(&all, members)],
            };
            let mut graph = AcyclicDependencies::new(network);
            for (sources, destinations) in packets {
                let mut is_source = vec![false; count];
                for &switch in sources {
                    is_source[switch] = true;
                }
                let tree = &escape[number.min(escape.len() - 1)];
                for (held, next) in tree.dependencies(network, &is_source, destinations) {
                    // Paths in a tree never come back, so none of these closes a cycle.
                    let added = graph.add(held, next);
                    debug_assert!(added, "escape paths have a cycle");
                }
            }
            graphs.push(graph);
        }
        Self {
            network,
            blocked: graphs
                .iter()
                .map(|graph| vec![false; graph.len()])
                .collect(),
            blocked_now: Vec::new(),
            graphs,
            escape,
            division,
            part,
            fixed: None,
            next: vec![NONE; count],
            used: vec![0; count],
            hops: vec![u32::MAX; count],
            load: vec![0; count],
            added: vec![0; count],
            open: BinaryHeap::new(),
            best: vec![NO_OFFER; count],
            offered: vec![0; network.channels().len()],
            searches: 1,
            is_frugal: false,
        }
    }

    /// The layer of packets from a switch to another. Those without hosts are in all parts.
    pub(super) fn layer(&self, from: usize, to: usize) -> usize {
        let part = match self.division {
            Division::Pairs => self.part[from].min(self.part[to]),
            Division::Destinations | Division::Afterwards => self.part[to],
        };
        self.fixed.unwrap_or(if part == NO_PART { 0 } else { part })
    }

    /// By switch: the channel towards the target that was routed last, or [`NONE`].
    pub(super) fn next(&self) -> &[usize] {
        &self.next
    }

    /// By switch: hops to that target; `u32::MAX` where no cables lead there.
    pub(super) fn hops(&self) -> &[u32] {
        &self.hops
    }

    /// Finds paths to a destination from all switches with hosts, and from those on the way.
    pub(super) fn route(&mut self, target: usize, loads: &[u64]) {
        self.is_frugal = false;
        self.begin(target);
        self.offer(target, target, loads);
        loop {
            self.search(target, loads);
            let waiting = self.waiting(target);
            if waiting.is_empty() {
                break;
            }
            if !self.backtrack(waiting, target, loads) {
                self.fall_back(target, loads);
                break;
            }
        }
        self.leave_out_what_no_host_needs(target);
    }

    pub(super) fn begin(&mut self, target: usize) {
        self.next.fill(NONE);
        self.used.fill(0);
        self.hops.fill(u32::MAX);
        (self.hops[target], self.load[target], self.added[target]) = (0, 0, 0);
        self.blocked_now.clear();
        self.open.clear();
        self.end_search();
    }

    /// Forgets what has been offered.
    fn end_search(&mut self) {
        self.searches += 1;
        self.best.fill(NO_OFFER);
    }

    /// Switches that cables join to the target and that have no path, those with hosts first; none if
    /// all that have hosts have one.
    pub(super) fn waiting(&self, target: usize) -> Vec<usize> {
        let component = self.network.component(target);
        let mut waiting: Vec<usize> = (0..self.next.len())
            .filter(|&switch| !self.has_path(switch))
            .filter(|&switch| self.network.component(switch) == component)
            .collect();
        waiting.sort_by_key(|&switch| !self.network.has_hosts(switch));
        if !waiting
            .first()
            .is_some_and(|&first| self.network.has_hosts(first))
        {
            waiting.clear();
        }
        waiting
    }

    pub(super) fn has_path(&self, switch: usize) -> bool {
        self.hops[switch] != u32::MAX
    }

    /// Lets the neighbours of a switch that has a path now use it.
    pub(super) fn offer(&mut self, switch: usize, target: usize, loads: &[u64]) {
        let onward = self.next[switch];
        for channel in self.network.leaving(switch) {
            let ends = self.network.channels()[channel];
            if self.has_path(ends.to) {
                continue;
            }
            let (mut offer, best) = (self.worth(ends.reverse, loads), self.best[ends.to]);
            if self.is_frugal {
                let graph = &self.graphs[self.layer(ends.to, target)];
                let is_new = onward != NONE && !graph.has(ends.reverse, onward);
                offer.0 = self.added[switch] + u32::from(is_new);
            } else if best <= offer {
                self.offered[ends.reverse] = self.searches;
                continue;
            } else {
                self.offered[ends.reverse] = self.searches;
                self.best[ends.to] = offer;
            }
            self.open.push(Reverse(offer));
        }
    }

    /// How good a channel to a switch with a path is, if added dependencies do not count.
    fn worth(&self, channel: usize, loads: &[u64]) -> Offer {
        let to = self.network.channels()[channel].to;
        (
            0,
            self.hops[to] + 1,
            self.load[to] + loads[channel],
            channel,
        )
    }

    /// Opens the best of the channels that a switch is offered behind one that closes a cycle.
    fn open_next(&mut self, switch: usize, refused: Offer, loads: &[u64]) {
        let leaving = self.network.leaving(switch);
        let offered = leaving.filter(|&channel| self.offered[channel] == self.searches);
        let worth = offered.map(|channel| self.worth(channel, loads));
        let next = worth.filter(|&offer| offer > refused).min();
        self.best[switch] = next.unwrap_or(NO_OFFER);
        self.open.extend(next.map(Reverse));
    }

    /// Dijkstra's algorithm, where a path may only go on by a dependency that closes no cycle.
    pub(super) fn search(&mut self, target: usize, loads: &[u64]) {
        while let Some(Reverse(offer)) = self.open.pop() {
            let (added, hops, load, channel) = offer;
            let ends = self.network.channels()[channel];
            if self.has_path(ends.from) {
                continue;
            }
            if !self.attach(ends.from, channel, target) {
                if !self.is_frugal {
                    self.open_next(ends.from, offer, loads);
                }
                continue;
            }
            self.added[ends.from] = added;
            self.hops[ends.from] = hops;
            self.load[ends.from] = load;
            self.offer(ends.from, target, loads);
        }
        self.end_search();
    }

    /// Lets a switch without a path send by a channel to one that has a path, if that closes no cycle.
    pub(super) fn attach(&mut self, switch: usize, channel: usize, target: usize) -> bool {
        self.next[switch] = channel;
        let mut entered = Vec::new();
        let layer = self.layer(switch, target);
        if self.enter(switch, layer, target, &mut entered) {
            return true;
        }
        self.leave(&entered, target);
        self.next[switch] = NONE;
        false
    }

    /// Adds the dependencies of a switch's path to the graph of a layer, up to where they are there. Notes
    /// the switches with the layer; `false` if one closes a cycle.
    pub(super) fn enter(
        &mut self,
        switch: usize,
        layer: usize,
        target: usize,
        entered: &mut Vec<(usize, usize)>,
    ) -> bool {
        let mut at = switch;
        while at != target && self.used[at] & 1 << layer == 0 {
            let to = self.network.channels()[self.next[at]].to;
            if to != target && !self.try_dependency(layer, self.next[at], self.next[to]) {
                return false;
            }
            self.used[at] |= 1 << layer;
            entered.push((at, layer));
            at = to;
        }
        true
    }

    /// Takes back what was entered.
    pub(super) fn leave(&mut self, entered: &[(usize, usize)], target: usize) {
        for &(at, layer) in entered {
            self.used[at] &= !(1 << layer);
            self.remove(self.next[at], layer, target);
        }
    }

    /// Takes the dependency of a switch's channel on the next one away from a layer.
    pub(super) fn remove(&mut self, held: usize, layer: usize, target: usize) {
        let to = self.network.channels()[held].to;
        if to != target {
            self.graphs[layer].remove(held, self.next[to]);
        }
    }

    fn try_dependency(&mut self, layer: usize, held: usize, next: usize) -> bool {
        let number = self.graphs[layer].number(held, next);
        if self.blocked[layer][number] {
            return false;
        }
        let added = self.graphs[layer].add(held, next);
        if !added {
            self.blocked[layer][number] = true;
            self.blocked_now.push((layer, number));
        }
        added
    }

    /// The layers in which packets leave a switch.
    pub(super) fn layers_used(&self, switch: usize) -> impl Iterator<Item = usize> + use<> {
        let used = self.used[switch];
        (0..16).filter(move |layer| used & 1 << layer != 0)
    }

    /// Forgets the paths to the target, and their dependencies.
    pub(super) fn take_back(&mut self, target: usize) {
        for switch in 0..self.next.len() {
            for layer in self.layers_used(switch) {
                self.remove(self.next[switch], layer, target);
            }
        }
        self.unblock();
        self.next.fill(NONE);
        self.used.fill(0);
        self.hops.fill(u32::MAX);
        self.hops[target] = 0;
    }

    /// Forgets which dependencies were found to close cycles for the target at hand.
    pub(super) fn unblock(&mut self) {
        for (layer, number) in self.blocked_now.drain(..) {
            self.blocked[layer][number] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::graph;

    /// The example of the module's documentation.
    #[test]
    fn a_ring_of_five_on_one_vl_has_two_detours_and_no_more() {
        let network = Network::new(&graph("ring-5-1"));
        let hops_from = |layer: &mut Paths<'_>, target| {
            layer.route(target, &vec![0; network.channels().len()]);
            layer.hops().to_vec()
        };
        let all: Vec<usize> = (0..5).collect();
        let mut layer = Paths::new(&network, &[all], &[1; 5], Division::Pairs);
        assert_eq!(hops_from(&mut layer, 0), [0, 1, 2, 2, 1]);
        // 3 > 2 > 1 is taken, so that 4 > 3 > 2 would close the ring.
        assert_eq!(hops_from(&mut layer, 1), [1, 0, 1, 2, 2]);
        assert_eq!(hops_from(&mut layer, 2), [2, 1, 0, 1, 3]);
        // 1 > 2 > 3 is taken, so that 2 > 3 > 4 would.
        assert_eq!(hops_from(&mut layer, 3), [2, 2, 1, 0, 1]);
        assert_eq!(hops_from(&mut layer, 4), [1, 2, 3, 1, 0]);
    }

    #[test]
    fn with_a_layer_for_each_destination_every_path_is_a_shortest_one() {
        let network = Network::new(&graph("torus-4x5-1"));
        let loads = vec![0; network.channels().len()];
        for target in 0..20 {
            let mut layer = Paths::new(&network, &[vec![target]], &[1; 20], Division::Pairs);
            layer.route(target, &loads);
            let hops: Vec<Option<u32>> = layer.hops().iter().copied().map(Some).collect();
            assert_eq!(hops, network.hops_to(target));
        }
    }

    #[test]
    fn the_escape_paths_of_a_layer_serve_every_destination_after_the_others_are_routed() {
        for name in ["torus-4x4-1", "irregular-16-1-4-2", "hypercube-4-1"] {
            let network = Network::new(&graph(name));
            let loads = vec![0; network.channels().len()];
            let all: Vec<usize> = (0..16).collect();
            let mut layer = Paths::new(
                &network,
                core::slice::from_ref(&all),
                &[1; 16],
                Division::Pairs,
            );
            for &target in &all {
                layer.route(target, &loads);
            }
            for &target in &all {
                layer.begin(target);
                layer.fall_back(target, &loads);
                assert!(layer.waiting(target).is_empty(), "{name}");
            }
        }
    }
}
