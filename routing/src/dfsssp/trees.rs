//! Shortest-path trees that share as few channels as possible.

use super::Target;
use crate::network::Network;

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
        (channel != NONE).then_some(channel as usize)
    }
}

/// A tree for each target in turn.
pub(super) fn trees(network: &Network, targets: &[Target]) -> Vec<Tree> {
    let hosts = network.hosts_at().iter().map(|hosts| hosts.len() as u64);
    let hosts: Vec<u64> = hosts.collect();
    let mut weights = vec![0u64; network.channels().len()];
    // Distances depend on the switch only, and targets at one switch come together or nearly so.
    let mut search = Search::new(network);
    targets
        .iter()
        .map(|target| {
            search.from(target.switch);
            let next = search.tree(&weights);
            if target.host.is_some() {
                search.load(&next, &hosts, &mut weights);
            }
            Tree { next }
        })
        .collect()
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
                next[switch] = u32::try_from(channel).unwrap_or(NONE);
            }
        }
        next
    }

    /// Adds to each channel the hosts whose packets cross it.
    fn load(&self, next: &[u32], hosts: &[u64], weights: &mut [u64]) {
        let mut behind = hosts.to_vec();
        for &switch in self.order.iter().skip(1).rev() {
            if next[switch] != NONE {
                let channel = next[switch] as usize;
                weights[channel] += behind[switch];
                behind[self.network.channels()[channel].to] += behind[switch];
            }
        }
    }
}
