//! A tree of shortest paths to each switch.

use wire::convert::{saturate, u64_of, usize_of};

use crate::layers::PairPaths;
use crate::network::Network;

/// No link.
const NONE: u32 = u32::MAX;

/// What a pair of hosts adds to the load of a link of one cable; a link of `n` cables gets the `n`th
/// part.
const LOAD: u64 = 1 << 16;

/// The paths between all switches. A link is all cables from one switch to another, and is known by
/// the first of its channels.
pub(super) struct Trees<'a> {
    network: &'a Network,
    /// `next[destination][switch]`: a link, or [`NONE`].
    next: Vec<Box<[u32]>>,
    /// By channel that is a link: how many cables it has.
    cables: Vec<usize>,
    /// By channel that is a link: the place of its first cable among all channels by neighbour.
    places: Vec<usize>,
}

impl<'a> Trees<'a> {
    /// Trees whose links are chosen by load if `balanced`, and else by number only.
    pub(super) fn new(network: &'a Network, balanced: bool) -> Self {
        let count = network.channels().len();
        let mut trees = Self {
            network,
            next: Vec::with_capacity(network.switches().len()),
            cables: vec![0; count],
            places: vec![0; count],
        };
        let mut links: Vec<Vec<usize>> = vec![Vec::new(); network.switches().len()];
        for (place, &channel) in network.channels_by_neighbour().iter().enumerate() {
            let ends = network.channels()[channel];
            match links[ends.from].last() {
                Some(&link) if network.channels()[link].to == ends.to => trees.cables[link] += 1,
                _ => {
                    links[ends.from].push(channel);
                    (trees.cables[channel], trees.places[channel]) = (1, place);
                }
            }
        }
        let mut loads = vec![0u64; count];
        for destination in 0..network.switches().len() {
            let tree = trees.tree(&links, destination, &mut loads);
            if !balanced {
                loads.fill(0);
            }
            trees.next.push(tree);
        }
        trees
    }

    /// Paths to a switch; adds to the loads.
    fn tree(&self, links: &[Vec<usize>], destination: usize, loads: &mut [u64]) -> Box<[u32]> {
        let network = self.network;
        let hops = network.hops_to(destination);
        let mut order: Vec<usize> = (0..hops.len()).filter(|&at| hops[at].is_some()).collect();
        order.sort_by_key(|&at| hops[at]);
        let mut next = vec![NONE; hops.len()].into_boxed_slice();
        let mut load_to = vec![0u64; hops.len()];
        for &at in order.iter().skip(1) {
            let nearer = links[at].iter().filter_map(|&link| {
                let to = network.channels()[link].to;
                let is_nearer = hops[to].map(|to| to + 1) == hops[at];
                is_nearer.then(|| (load_to[to] + loads[link], link))
            });
            if let Some((load, link)) = nearer.min() {
                load_to[at] = load;
                next[at] = saturate(link);
            }
        }
        let sources = network.hosts_at();
        let mut behind: Vec<u64> = sources.iter().map(|hosts| u64_of(hosts.len())).collect();
        let receivers = u64_of(sources[destination].len());
        for &at in order.iter().skip(1).rev() {
            let link = usize_of(next[at]);
            loads[link] += behind[at] * receivers * (LOAD / u64_of(self.cables[link]));
            behind[network.channels()[link].to] += behind[at];
        }
        next
    }

    /// The link by which a switch sends to another; `None` at the end of the path, and where there is
    /// none.
    pub(super) fn next(&self, switch: usize, destination: usize) -> Option<usize> {
        let link = self.next[destination][switch];
        (link != NONE).then_some(usize_of(link))
    }

    /// The channels of a link, by port.
    pub(super) fn cables(&self, link: usize) -> &'a [usize] {
        let first = self.places[link];
        &self.network.channels_by_neighbour()[first..first + self.cables[link]]
    }
}

impl PairPaths for Trees<'_> {
    /// Those of links.
    fn dependencies(&self, from: usize, to: usize, list: &mut Vec<(usize, usize)>) {
        let mut held = None;
        let mut at = from;
        while let Some(link) = self.next(at, to) {
            if let Some(held) = held.replace(link) {
                list.push((held, link));
            }
            at = self.network.channels()[link].to;
        }
    }
}
