//! Paths from and to switches without hosts on one VL, where those of hosts are given.
//!
//! **Problem.** An engine that lets hosts' packets close no credit loop has looked at hosts only. General management
//! sends to port 0 of switches and from there, and between two switches without hosts packets must go down
//! and up again in a tree: by whatever leaf switch is nearest, such paths close loops with each other.
//!
//! **Method.** Entries that hosts' packets follow to hosts stay. All others are chosen anew: the nearest switches first,
//! by turns that packets take already, or else by ones that close no loop
//! ([`crate::acyclic`]). So that two switches without hosts find a way, the turns of a tree of shortest paths
//! come in first: from the switch with hosts that is nearest to all of those without. On a fat tree, whatever it has
//! lost, that closes no loop ([`crate::detour`]). A target that some switch then finds no way to
//! is reached along that tree by all; where even that would close a loop, entries stay as they were, which
//! [`crate::verify()`] tells.
//!
//! ```text
//!    c0    c1      c0 to c1: down to s0 and up, and so for every such pair. With c2 to c0 by s1, c0 to c1 by s0
//!    | \  / |      and c1 to c2 by s2 each would wait for the next.
//!    s0   s1 ..
//! ```
//!
//! Cost: for each LID the channels, and what a search in the graph of dependencies takes for each turn that is
//! added.

use crate::acyclic::AcyclicDependencies;
use crate::network::Network;
use crate::tables::Lft;
use crate::targets::{NONE, Target, enter, hops_along};

/// Changes the entries that no packet between hosts follows. `rows` are tables of all targets in which packets to
/// switches with hosts close no credit loop.
pub(crate) fn complete(network: &Network, targets: &[Target], rows: &mut [Lft]) {
    let count = network.switches().len();
    if (0..count).all(|switch| network.has_hosts(switch)) {
        return;
    }
    let mut paths = SwitchPaths {
        network,
        graph: AcyclicDependencies::new(network),
        next: vec![NONE; count],
        is_reached: vec![false; count],
    };
    let (with_hosts, without): (Vec<&Target>, Vec<&Target>) =
        (targets.iter()).partition(|target| network.has_hosts(target.switch));
    for target in &with_hosts {
        if !paths.take_from_hosts(target, rows) {
            return;
        }
    }
    let parents = paths.add_turns();
    // These have no tree to fall back on, since hosts' packets have their ways.
    for target in with_hosts {
        paths.take_from_hosts(target, rows);
        paths.extend(target.switch);
        enter(network, target, &paths.next, rows);
    }
    for target in without {
        paths.reach(target, &parents);
        enter(network, target, &paths.next, rows);
    }
}

struct SwitchPaths<'a> {
    network: &'a Network,
    graph: AcyclicDependencies,
    /// By switch, for the target at hand: the channel by which it sends, or [`NONE`].
    next: Vec<usize>,
    /// By switch: whether it has a way to the target at hand.
    is_reached: Vec<bool>,
}

impl SwitchPaths<'_> {
    fn begin(&mut self, target: usize) {
        self.next.fill(NONE);
        self.is_reached.fill(false);
        self.is_reached[target] = true;
    }

    /// Takes over the paths to a target that begin at switches with hosts; `false` if they close a loop.
    fn take_from_hosts(&mut self, target: &Target, rows: &[Lft]) -> bool {
        self.begin(target.switch);
        for from in (0..rows.len()).filter(|&from| self.network.has_hosts(from)) {
            let mut at = from;
            let mut held = None;
            while at != target.switch {
                let port = rows[at].get(target.lid);
                let Some(channel) = self.network.channel_by_port(at, port) else {
                    break;
                };
                if let Some(held) = held.replace(channel)
                    && !self.add(held, channel)
                {
                    return false;
                }
                if core::mem::replace(&mut self.is_reached[at], true) {
                    break;
                }
                self.next[at] = channel;
                at = self.network.channels()[channel].to;
            }
        }
        true
    }

    /// Makes sure of a dependency; `false` if it would close a loop.
    fn add(&mut self, held: usize, next: usize) -> bool {
        self.graph.has(held, next) || self.graph.add(held, next)
    }

    /// Adds the turns on the ways to switches without hosts along trees from the switches that are nearest to all
    /// of them, as far as they close no loop. Returns by switch the channel to its parent.
    fn add_turns(&mut self) -> Vec<usize> {
        let network = self.network;
        let count = network.switches().len();
        let roots = roots(network);
        let hops = network.hops_from_any(&roots);
        let mut order: Vec<usize> = (0..count).filter(|&at| hops[at].is_some()).collect();
        order.sort_by_key(|&at| hops[at]);
        let mut parents = vec![NONE; count];
        let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); count];
        for &at in &order {
            let is_nearer = |&channel: &usize| {
                let to = network.channels()[channel].to;
                hops[to].map(|to| to + 1) == hops[at]
            };
            if let Some(up) = network.leaving(at).find(is_nearer) {
                let ends = network.channels()[up];
                parents[at] = up;
                leaving[at].push(up);
                leaving[ends.to].push(ends.reverse);
            }
        }
        // By switch: how many without hosts are at it or below it in its tree; and by component.
        let mut below = vec![0usize; count];
        let mut all = vec![0usize; count];
        for &at in order.iter().rev() {
            below[at] += usize::from(!network.has_hosts(at));
            match parents[at] {
                NONE => all[network.component(at)] = below[at],
                up => below[network.channels()[up].to] += below[at],
            }
        }
        for &at in &order {
            for &onward in &leaving[at] {
                let to = network.channels()[onward].to;
                let beyond = if onward == parents[at] {
                    all[network.component(at)] - below[at]
                } else {
                    below[to]
                };
                for &other in leaving[at].iter().filter(|&&other| other != onward) {
                    if beyond > 0 {
                        let held = network.channels()[other].reverse;
                        self.add(held, onward);
                    }
                }
            }
        }
        parents
    }

    /// Finds ways from all switches to one without hosts.
    fn reach(&mut self, target: &Target, parents: &[usize]) {
        self.begin(target.switch);
        let added = self.extend(target.switch);
        let component = self.network.component(target.switch);
        let is_left = |at: usize| !self.is_reached[at] && self.network.component(at) == component;
        if !(0..parents.len()).any(is_left) {
            return;
        }
        for (held, next) in added {
            self.graph.remove(held, next);
        }
        self.begin(target.switch);
        self.follow_tree(target.switch, parents);
        let ends = |channel: usize| self.network.channels()[channel].to;
        let turns = self.next.iter().filter(|&&held| held != NONE);
        let turns = turns.map(|&held| (held, self.next[ends(held)]));
        let turns: Vec<(usize, usize)> = turns.filter(|&(_, next)| next != NONE).collect();
        if !self.graph.add_all(&turns) {
            self.begin(target.switch);
        }
    }

    /// All ways along the tree.
    fn follow_tree(&mut self, target: usize, parents: &[usize]) {
        // Upwards everywhere but from those above the target.
        self.next.copy_from_slice(parents);
        self.next[target] = NONE;
        let mut at = target;
        while parents[at] != NONE {
            let ends = self.network.channels()[parents[at]];
            self.next[ends.to] = ends.reverse;
            at = ends.to;
        }
        for at in 0..parents.len() {
            self.is_reached[at] |= self.next[at] != NONE;
        }
    }

    /// Extends the ways to a target to the switches that have none: to as near ones as possible, by turns that are
    /// there and else by further ones. Returns the latter.
    fn extend(&mut self, target: usize) -> Vec<(usize, usize)> {
        let network = self.network;
        let mut added = Vec::new();
        let mut by_hops = self.reached_by_hops(target);
        let mut away = 0;
        while away < by_hops.len() {
            let mut farther = Vec::new();
            // Channels on which it would be another turn.
            let mut others = Vec::new();
            for &at in &by_hops[away] {
                for channel in network.leaving(at) {
                    let ends = network.channels()[channel];
                    if self.is_reached[ends.to] {
                        continue;
                    }
                    if at == target || self.graph.has(ends.reverse, self.next[at]) {
                        self.settle(ends.to, ends.reverse);
                        farther.push(ends.to);
                    } else {
                        others.push(ends.reverse);
                    }
                }
            }
            for channel in others {
                let ends = network.channels()[channel];
                let next = self.next[ends.to];
                if !self.is_reached[ends.from] && self.graph.add(channel, next) {
                    added.push((channel, next));
                    self.settle(ends.from, channel);
                    farther.push(ends.from);
                }
            }
            away += 1;
            if !farther.is_empty() {
                by_hops.resize(by_hops.len().max(away + 1), Vec::new());
                by_hops[away].extend(farther);
            }
        }
        added
    }

    /// The switches that have a way to the target at hand, by hops.
    fn reached_by_hops(&self, target: usize) -> Vec<Vec<usize>> {
        let mut by_hops: Vec<Vec<usize>> = Vec::new();
        for (switch, away) in hops_along(self.network, target, &self.next) {
            by_hops.resize(by_hops.len().max(away + 1), Vec::new());
            by_hops[away].push(switch);
        }
        by_hops
    }

    fn settle(&mut self, switch: usize, channel: usize) {
        self.next[switch] = channel;
        self.is_reached[switch] = true;
    }
}

/// In each connected component the switch with hosts that has the fewest hops to all without.
pub(crate) fn roots(network: &Network) -> Vec<usize> {
    let count = network.switches().len();
    let without = without_hosts(network);
    let mut best: Vec<Option<(u64, usize)>> = vec![None; count];
    for switch in (0..count).filter(|&switch| network.has_hosts(switch)) {
        let hops = network.hops_to(switch);
        let sum = without.iter().filter_map(|&other| hops[other]);
        let sum: u64 = sum.map(u64::from).sum();
        let best = &mut best[network.component(switch)];
        if best.is_none_or(|(least, _)| sum < least) {
            *best = Some((sum, switch));
        }
    }
    best.into_iter().flatten().map(|(_, root)| root).collect()
}

/// The switches without hosts.
pub(crate) fn without_hosts(network: &Network) -> Vec<usize> {
    let switches = 0..network.switches().len();
    switches.filter(|&at| !network.has_hosts(at)).collect()
}
