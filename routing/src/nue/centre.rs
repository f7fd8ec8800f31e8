//! The switch in the middle of a layer's destinations, and the tree of escape paths from there.

use crate::network::Network;
use crate::targets::NONE;

/// In each connected component with destinations the switch with the largest betweenness
/// centrality (Brandes 2001), counted over the shortest paths between destinations only, so that
/// switches outside the convex subgraph of the destinations have none. `sizes` is how many LIDs a
/// destination has. Ties: the switch with the smallest GUID.
pub(super) fn centres(network: &Network, destinations: &[usize], sizes: &[u64]) -> Vec<usize> {
    let count = network.switches().len();
    let mut centrality = vec![-1.0; count];
    let mut size = vec![0.0; count];
    for &switch in destinations {
        centrality[switch] = 0.0;
        size[switch] = wire::convert::real(sizes[switch]);
    }
    let mut search = Brandes::new(count);
    for &source in destinations {
        search.from(network, source, &size);
        for &switch in search.order.iter().skip(1) {
            if search.delta[switch] > 0.0 {
                centrality[switch] =
                    f64::max(centrality[switch], 0.0) + size[source] * search.delta[switch];
            }
        }
    }
    let mut best: Vec<Option<usize>> = vec![None; count];
    for switch in (0..count).filter(|&switch| centrality[switch] >= 0.0) {
        let best = &mut best[network.component(switch)];
        if best.is_none_or(|old| centrality[old] < centrality[switch]) {
            *best = Some(switch);
        }
    }
    best.into_iter().flatten().collect()
}

/// One round of Brandes' algorithm.
struct Brandes {
    hops: Vec<u32>,
    /// How many shortest paths from the source.
    paths: Vec<f64>,
    /// How much of the traffic from the source to destinations passes.
    delta: Vec<f64>,
    /// Switches by distance.
    order: Vec<usize>,
}

impl Brandes {
    fn new(count: usize) -> Self {
        Self {
            hops: vec![0; count],
            paths: vec![0.0; count],
            delta: vec![0.0; count],
            order: Vec::new(),
        }
    }

    fn from(&mut self, network: &Network, source: usize, size: &[f64]) {
        self.hops.fill(u32::MAX);
        self.paths.fill(0.0);
        self.delta.fill(0.0);
        self.order.clear();
        self.order.push(source);
        (self.hops[source], self.paths[source]) = (0, 1.0);
        let mut looked = 0;
        while let Some(&at) = self.order.get(looked) {
            looked += 1;
            for channel in network.leaving(at) {
                let to = network.channels()[channel].to;
                if self.hops[to] == u32::MAX {
                    self.hops[to] = self.hops[at] + 1;
                    self.order.push(to);
                }
                if self.hops[to] == self.hops[at] + 1 {
                    self.paths[to] += self.paths[at];
                }
            }
        }
        for &at in self.order.iter().rev() {
            let share = (size[at] + self.delta[at]) / self.paths[at];
            for channel in network.leaving(at) {
                let to = network.channels()[channel].to;
                if self.hops[to] + 1 == self.hops[at] {
                    self.delta[to] += self.paths[to] * share;
                }
            }
        }
    }
}

/// Trees of shortest paths, one from each root.
pub(super) struct Forest {
    /// By switch: the channel to its parent, or [`NONE`].
    parent: Vec<usize>,
    /// By switch: the channels of the tree that leave it.
    leaving: Vec<Vec<usize>>,
    /// Switches of the trees, parents first.
    order: Vec<usize>,
}

impl Forest {
    /// Trees from these roots. Among channels that lead nearer the one with the least load is
    /// taken, then the first.
    pub(super) fn new(network: &Network, roots: &[usize], loads: &[u64]) -> Self {
        let count = network.switches().len();
        let hops = network.hops_from_any(roots);
        let mut order: Vec<usize> = (0..count).filter(|&at| hops[at].is_some()).collect();
        order.sort_by_key(|&at| hops[at]);
        let mut forest = Self {
            parent: vec![NONE; count],
            leaving: vec![Vec::new(); count],
            order,
        };
        for &at in &forest.order {
            let nearer = network.leaving(at).filter(|&channel| {
                let to = network.channels()[channel].to;
                hops[to].map(|to| to + 1) == hops[at]
            });
            if let Some(channel) = nearer.min_by_key(|&channel| (loads[channel], channel)) {
                let ends = network.channels()[channel];
                forest.parent[at] = channel;
                forest.leaving[at].push(channel);
                forest.leaving[ends.to].push(ends.reverse);
            }
        }
        forest
    }

    /// The channels of the trees that leave a switch.
    pub(super) fn leaving(&self, switch: usize) -> &[usize] {
        &self.leaving[switch]
    }

    /// The dependencies of the paths along the trees from these sources to these destinations.
    pub(super) fn dependencies(
        &self,
        network: &Network,
        sources: &[bool],
        destinations: &[usize],
    ) -> Vec<(usize, usize)> {
        let mut is_destination = vec![false; self.parent.len()];
        for &switch in destinations {
            is_destination[switch] = true;
        }
        let to = self.beyond(network, &is_destination);
        let from = self.beyond(network, sources);
        let mut dependencies = Vec::new();
        for &at in &self.order {
            for &back in &self.leaving[at] {
                // What comes in by a channel comes from beyond its reverse.
                if !from(back) {
                    continue;
                }
                let held = network.channels()[back].reverse;
                let onward = self.leaving[at].iter().copied();
                let onward = onward.filter(|&next| next != back && to(next));
                dependencies.extend(onward.map(|next| (held, next)));
            }
        }
        dependencies
    }

    /// Whether there is a switch of these beyond a channel of a tree.
    fn beyond<'s>(
        &'s self,
        network: &'s Network,
        wanted: &[bool],
    ) -> impl Fn(usize) -> bool + use<'s> {
        // By switch: how many are in its subtree; by component: how many there are.
        let mut below: Vec<usize> = wanted.iter().map(|&wanted| wanted.into()).collect();
        let mut all = vec![0usize; below.len()];
        for &at in self.order.iter().rev() {
            match self.parent[at] {
                NONE => all[network.component(at)] = below[at],
                channel => below[network.channels()[channel].to] += below[at],
            }
        }
        move |channel| {
            let ends = network.channels()[channel];
            if self.parent[ends.from] == channel {
                all[network.component(ends.from)] > below[ends.from]
            } else {
                below[ends.to] > 0
            }
        }
    }
}
