//! The escape paths to a target (DHM16, section 4.2), for one that neither the search nor backtracking serves.

use super::paths::{Division, Paths};

/// How many times all switches are looked at for shorter paths after a fall back.
const ROUNDS_MAX: usize = 16;

impl Paths<'_> {
    /// Takes the escape paths to the target instead of what was found, and then makes them as short
    /// as other paths allow. Switches without hosts come in where they can.
    pub(super) fn fall_back(&mut self, target: usize, loads: &[u64]) {
        self.take_back(target);
        let tree = match self.division {
            Division::Pairs => 0,
            Division::Destinations | Division::Afterwards => self.part[target],
        };
        let mut open = vec![target];
        while let Some(at) = open.pop() {
            for channel in self.escape[tree].leaving(at).to_vec() {
                let ends = self.network.channels()[channel];
                if self.has_path(ends.to) {
                    continue;
                }
                // What has no hosts sends in the layers of those that are beyond.
                self.next[ends.to] = ends.reverse;
                if self.network.has_hosts(ends.to) {
                    let added = self.attach(ends.to, ends.reverse, target);
                    debug_assert!(added, "escape paths have a cycle");
                }
                self.hops[ends.to] = self.hops[at] + 1;
                self.load[ends.to] = self.load[at] + loads[ends.reverse];
                open.push(ends.to);
            }
        }
        debug_assert!(self.waiting(target).is_empty(), "escape paths are missing");
        for _ in 0..ROUNDS_MAX {
            if !self.shorten(target, loads) {
                break;
            }
        }
        for switch in 0..self.next.len() {
            if self.has_path(switch) {
                self.offer(switch, target, loads);
            }
        }
        self.search(target, loads);
    }

    /// Gives every switch in turn a shorter path if one closes no cycle; whether any got one.
    fn shorten(&mut self, target: usize, loads: &[u64]) -> bool {
        let mut changed = false;
        for switch in (0..self.next.len()).filter(|&switch| switch != target) {
            if !self.has_path(switch) {
                continue;
            }
            // A switch nearer to the target does not send by this one.
            let mut ways: Vec<(u32, u64, usize)> = Vec::new();
            for channel in self.network.leaving(switch) {
                let to = self.network.channels()[channel].to;
                if self.hops[to] + 1 < self.hops[switch] {
                    ways.push((self.hops[to], self.load[to] + loads[channel], channel));
                }
            }
            ways.sort_unstable();
            let mut ways = ways.into_iter();
            if ways.any(|(_, _, channel)| self.turn(switch, channel, target)) {
                self.refresh(switch, loads);
                changed = true;
            }
        }
        changed
    }
}
