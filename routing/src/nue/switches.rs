//! Paths of switches' own ports where they have no hosts.
//!
//! Management alone sends to such switches or from them, so they are routed after all hosts, by what is
//! left: dependencies that the graph has already are preferred to shorter paths, since where packets turn for
//! one of them they can for the others too. In a tree packets between two such switches must go down and up again.
//! Turns of that kind close cycles if they are at many places, and none if all are at one leaf switch or
//! above it ([`crate::detour`]). So first the turns of a tree of shortest paths from one switch with hosts
//! come into the graph, as far as they close no cycle.

use wire::convert::saturate;

use super::centre::Forest;
use super::paths::Paths;
use crate::switch_paths;
use crate::targets::{NONE, hops_along};

impl Paths<'_> {
    /// Takes away the paths to the target of switches without hosts that no host's packets visit.
    pub(super) fn leave_out_what_no_host_needs(&mut self, target: usize) {
        let mut farthest: Vec<usize> = (0..self.next.len())
            .filter(|&switch| self.next[switch] != NONE && !self.network.has_hosts(switch))
            .collect();
        farthest.sort_by_key(|&switch| core::cmp::Reverse(self.hops[switch]));
        let mut is_gone = false;
        for switch in farthest {
            if !self.arriving(switch).is_empty() {
                continue;
            }
            let held = self.next[switch];
            let to = self.network.channels()[held].to;
            if to != target {
                for layer in self.layers_used(switch) {
                    self.graphs[layer].remove(held, self.next[to]);
                    is_gone |= !self.graphs[layer].has(held, self.next[to]);
                }
            }
            (self.next[switch], self.used[switch], self.hops[switch]) = (NONE, 0, u32::MAX);
        }
        if is_gone {
            self.unblock();
        }
    }

    /// Adds the turns of a tree of shortest paths from a switch with hosts, the nearest to those without,
    /// as far as they close no cycle.
    pub(super) fn add_turns_for_switches(&mut self, loads: &[u64]) {
        let roots = switch_paths::roots(self.network);
        let without = switch_paths::without_hosts(self.network);
        let tree = Forest::new(self.network, &roots, loads);
        let is_without: Vec<bool> = (0..self.next.len())
            .map(|switch| !self.network.has_hosts(switch))
            .collect();
        for (held, next) in tree.dependencies(self.network, &is_without, &without) {
            for graph in &mut self.graphs {
                graph.add(held, next);
            }
        }
    }

    /// Finds paths to a switch without hosts, in the first layer where all that have hosts have one, if there
    /// is one, and else shortest paths; from the others as far as that closes no cycle.
    pub(super) fn route_other(&mut self, target: usize, loads: &[u64]) {
        self.is_frugal = true;
        for layer in 0..self.graphs.len() {
            self.fixed = Some(layer);
            if self.route_in_layer(target, loads) {
                break;
            }
        }
        self.attach_the_rest();
        self.fixed = None;
    }

    fn route_in_layer(&mut self, target: usize, loads: &[u64]) -> bool {
        self.begin(target);
        self.offer(target, target, loads);
        loop {
            self.search(target, loads);
            let waiting = self.waiting(target);
            if waiting.is_empty() {
                return true;
            }
            if !self.backtrack(waiting, target, loads) {
                self.take_back(target);
                return false;
            }
        }
    }

    /// Completes the paths to a destination, of which `next` are those that hosts' packets
    /// take.
    pub(super) fn complete(&mut self, target: usize, next: &[usize], loads: &[u64]) {
        self.is_frugal = true;
        self.begin(target);
        self.next.copy_from_slice(next);
        for (switch, hops) in hops_along(self.network, target, next) {
            self.hops[switch] = saturate(hops);
        }
        for switch in 0..next.len() {
            (self.added[switch], self.load[switch]) = (0, 0);
            if self.has_path(switch) {
                self.offer(switch, target, loads);
            }
        }
        self.search(target, loads);
        self.attach_the_rest();
    }

    /// Gives a path to all switches that are left, nearest first. They have no hosts, and no other
    /// switch sends by them, so that only their own packets take these paths.
    fn attach_the_rest(&mut self) {
        let mut found: Vec<usize> = (0..self.next.len())
            .filter(|&switch| self.has_path(switch))
            .collect();
        if found.len() == self.next.len() {
            return;
        }
        found.sort_by_key(|&switch| self.hops[switch]);
        let mut looked = 0;
        while let Some(&at) = found.get(looked) {
            looked += 1;
            for channel in self.network.leaving(at) {
                let ends = self.network.channels()[channel];
                if !self.has_path(ends.to) {
                    self.next[ends.to] = ends.reverse;
                    self.hops[ends.to] = self.hops[at] + 1;
                    found.push(ends.to);
                }
            }
        }
    }
}
