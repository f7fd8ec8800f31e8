//! Shortest-path trees that share as few channels as possible.

use wire::convert::{saturate, u64_of, usize_of};

use crate::network::Network;
use crate::targets::Target;

/// No channel.
const NONE: u32 = u32::MAX;

/// The paths of all switches to one LID.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    next: Box<[u32]>,
}

impl Tree {
    /// The channel by which a switch sends; `None` at the target and where there is no path.
    pub(super) fn next(&self, switch: usize) -> Option<usize> {
        let channel = self.next[switch];
        (channel != NONE).then_some(usize_of(channel))
    }
}

/// How trees are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// By load, for each LID by itself and again in rounds: not by trees from here.
    EveryLid {
        /// Whether packets are kept apart last.
        keeps_apart: bool,
    },
    /// By load: so many trees at most for the LIDs at one switch, which take them in turn.
    Balanced {
        /// How many.
        trees: usize,
    },
    /// One for each switch, of the first channels whatever they carry: such paths turn alike and take
    /// fewer layers.
    First,
}

/// A tree for each target. A switch with hosts has the tree of its first host's LID.
pub(super) fn trees(network: &Network, targets: &[Target], choice: Choice) -> Vec<Tree> {
    let hosts = network.hosts_at().iter().map(|hosts| u64_of(hosts.len()));
    let hosts: Vec<u64> = hosts.collect();
    let none = vec![0u64; network.channels().len()];
    let mut weights = none.clone();
    let most = match choice {
        Choice::EveryLid { .. } => usize::MAX,
        Choice::Balanced { trees } => trees,
        Choice::First => 1,
    };
    // Distances depend on the switch only, and targets at one switch come together or nearly so.
    let mut search = Search::new(network);
    // By switch: its trees, and how many LIDs of hosts have taken one.
    let mut found: Vec<(Vec<Tree>, usize)> = vec![(Vec::new(), 0); network.switches().len()];
    let mut tree = |target: &Target| {
        let (own, taken) = &mut found[target.switch];
        let number = if target.host.is_some() {
            *taken % most
        } else {
            0
        };
        search.from(target.switch);
        if number == own.len() {
            let by = match choice {
                Choice::EveryLid { .. } | Choice::Balanced { .. } => &weights,
                Choice::First => &none,
            };
            own.push(Tree {
                next: search.tree(by),
            });
        }
        let tree = own[number].clone();
        if target.host.is_some() {
            *taken += 1;
            search.load(&tree.next, &hosts, &mut weights);
        }
        tree
    };
    targets.iter().map(&mut tree).collect()
}

struct Search<'a> {
    network: &'a Network,
    target: Option<usize>,
    hops: Vec<u32>,
    /// Switches by distance, the target first.
    order: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(network: &'a Network) -> Self {
        Self {
            network,
            target: None,
            hops: Vec::new(),
            order: Vec::new(),
        }
    }

    fn from(&mut self, target: usize) {
        if self.target == Some(target) {
            return;
        }
        self.target = Some(target);
        self.hops.clear();
        self.hops.resize(self.network.switches().len(), u32::MAX);
        self.hops[target] = 0;
        self.order.clear();
        self.order.push(target);
        let mut place = 0;
        while let Some(&switch) = self.order.get(place) {
            place += 1;
            for channel in self.network.leaving(switch) {
                let next = self.network.channels()[channel].to;
                if self.hops[next] == u32::MAX {
                    self.hops[next] = self.hops[switch] + 1;
                    self.order.push(next);
                }
            }
        }
    }

    /// For each switch the channel that leads nearer with the least weight on the whole path, then
    /// the first.
    fn tree(&self, weights: &[u64]) -> Box<[u32]> {
        let mut next = vec![NONE; self.hops.len()].into_boxed_slice();
        let mut weight_to = vec![0u64; self.hops.len()];
        for &switch in self.order.iter().skip(1) {
            let nearer = self.network.leaving(switch).filter_map(|channel| {
                let to = self.network.channels()[channel].to;
                (self.hops[to] + 1 == self.hops[switch])
                    .then(|| (weight_to[to] + weights[channel], channel))
            });
            if let Some((weight, channel)) = nearer.min() {
                weight_to[switch] = weight;
                next[switch] = saturate(channel);
            }
        }
        next
    }

    /// Adds to each channel the hosts whose packets cross it.
    fn load(&self, next: &[u32], hosts: &[u64], weights: &mut [u64]) {
        let mut behind = hosts.to_vec();
        for &switch in self.order.iter().skip(1).rev() {
            if next[switch] != NONE {
                let channel = usize_of(next[switch]);
                weights[channel] += behind[switch];
                behind[self.network.channels()[channel].to] += behind[switch];
            }
        }
    }
}
