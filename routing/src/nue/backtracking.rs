//! Paths that change after they were found: local backtracking (DHM16, sections 4.4 to 4.6), for a switch that
//! the search has left without a path.

use super::paths::Paths;
use crate::targets::NONE;

impl Paths<'_> {
    /// Gives one of the switches without a path one, by a neighbour that changes its own.
    pub(super) fn backtrack(&mut self, waiting: Vec<usize>, target: usize, loads: &[u64]) -> bool {
        for switch in waiting {
            let mut ways = Vec::new();
            for channel in self.network.leaving(switch) {
                let by = self.network.channels()[channel].to;
                if by == target || !self.has_path(by) {
                    continue;
                }
                for onward in self.network.leaving(by) {
                    let to = self.network.channels()[onward].to;
                    if self.has_path(to) && onward != self.next[by] && !self.passes(to, by, target)
                    {
                        let load = self.load[to] + loads[onward] + loads[channel];
                        ways.push((self.hops[to] + 2, load, channel, onward));
                    }
                }
            }
            ways.sort_unstable();
            for (_, _, channel, onward) in ways {
                let by = self.network.channels()[channel].to;
                let old = self.next[by];
                if !self.turn(by, onward, target) {
                    continue;
                }
                if self.attach(switch, channel, target) {
                    self.added[switch] = self.added[by];
                    self.refresh(by, loads);
                    self.offer(switch, target, loads);
                    return true;
                }
                if !self.turn(by, old, target) {
                    self.refresh(by, loads);
                }
            }
        }
        false
    }

    /// Whether the path from `from` to the target visits `through`.
    fn passes(&self, from: usize, through: usize, target: usize) -> bool {
        let mut at = from;
        while at != target && at != through {
            at = self.network.channels()[self.next[at]].to;
        }
        at == through
    }

    /// Changes the channel of a switch to one that leads to another switch with a path, if that
    /// closes no cycle with the paths that come in.
    pub(super) fn turn(&mut self, switch: usize, onward: usize, target: usize) -> bool {
        let old = self.next[switch];
        let used = self.used[switch];
        let mut turned: Vec<(usize, usize)> = Vec::new();
        for held in self.arriving(switch) {
            let layers = self.layers_used(self.network.channels()[held].from);
            turned.extend(layers.map(|layer| (layer, held)));
        }
        let layers = self.layers_used(switch);
        self.next[switch] = onward;
        self.used[switch] = 0;
        let mut entered = Vec::new();
        let mut layers = layers.into_iter();
        let mut is_safe = layers.all(|layer| self.enter(switch, layer, target, &mut entered));
        let mut count = 0;
        while is_safe && count < turned.len() {
            let (layer, held) = turned[count];
            is_safe = self.graphs[layer].add(held, onward);
            count += usize::from(is_safe);
        }
        if !is_safe {
            for &(layer, held) in &turned[..count] {
                self.graphs[layer].remove(held, onward);
            }
            self.leave(&entered, target);
            (self.next[switch], self.used[switch]) = (old, used);
            return false;
        }
        for (layer, held) in turned {
            self.graphs[layer].remove(held, old);
        }
        for layer in self.layers_used(switch) {
            self.remove(old, layer, target);
        }
        true
    }

    /// The channels by which other switches' paths come to a switch.
    pub(super) fn arriving(&self, switch: usize) -> Vec<usize> {
        let leaving = self.network.leaving(switch);
        let back = leaving.map(|channel| self.network.channels()[channel].reverse);
        back.filter(|&held| self.next[self.network.channels()[held].from] == held)
            .collect()
    }

    /// Hops and loads of a switch whose channel has changed, and of all whose paths visit it.
    pub(super) fn refresh(&mut self, switch: usize, loads: &[u64]) {
        let mut open = vec![switch];
        while let Some(at) = open.pop() {
            let channel = self.next[at];
            if channel != NONE {
                let to = self.network.channels()[channel].to;
                self.hops[at] = self.hops[to] + 1;
                self.load[at] = self.load[to] + loads[channel];
            }
            let arriving = self.arriving(at);
            open.extend(
                arriving
                    .iter()
                    .map(|&held| self.network.channels()[held].from),
            );
        }
    }
}
