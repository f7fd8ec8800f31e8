//! The channel dependency graph, and cycles in it.
//!
//! A channel is the direction of a cable from one switch to another. A packet that holds channel
//! `a` and needs `b` next makes `a` depend on `b`. Packets can wait for each other for ever exactly
//! where this graph has a cycle (Dally and Seitz 1987), which is called a credit loop. Channels
//! from and to hosts are left out: nothing depends on a source's channel, and a destination's depends on nothing.

use wire::convert::usize_of;

use crate::network::Network;

/// The dependencies among the channels of a network.
///
/// Cycles are searched for in the order of [`Network::channels_by_neighbour`]: a channel's place in
/// that order is its *rank*.
pub(crate) struct Dependencies<'n> {
    network: &'n Network,
    /// By channel.
    rank: Vec<usize>,
    /// By rank: where its bits begin in `bits`. A bit stands for a channel of the switch that the
    /// channel leads to, by rank.
    first: Vec<usize>,
    bits: Vec<u64>,
}

impl<'n> Dependencies<'n> {
    /// No dependencies.
    pub(crate) fn new(network: &'n Network) -> Self {
        let channels = network.channels_by_neighbour();
        let mut rank = vec![0; channels.len()];
        let (mut first, mut words) = (Vec::with_capacity(channels.len() + 1), 0);
        for (place, &channel) in channels.iter().enumerate() {
            rank[channel] = place;
            first.push(words);
            let to = network.channels()[channel].to;
            words += network.leaving(to).len().div_ceil(64);
        }
        first.push(words);
        Self {
            network,
            rank,
            first,
            bits: vec![0; words],
        }
    }

    /// Makes `held` depend on `next`, which begins where `held` ends.
    pub(crate) fn add(&mut self, held: usize, next: usize) {
        let onward = self.network.leaving(self.network.channels()[held].to);
        let bit = self.rank[next] - onward.start;
        self.bits[self.first[self.rank[held]] + bit / 64] |= 1 << (bit % 64);
    }

    /// The first dependency of the channel of a rank from number `from` on: its rank, and the
    /// number to go on from.
    fn next(&self, rank: usize, from: usize) -> Option<(usize, usize)> {
        let words = &self.bits[self.first[rank]..self.first[rank + 1]];
        let channel = self.network.channels_by_neighbour()[rank];
        let onward = self
            .network
            .leaving(self.network.channels()[channel].to)
            .start;
        let mut mask = u64::MAX << (from % 64);
        for (word, &bits) in words.iter().enumerate().skip(from / 64) {
            let found = bits & mask;
            if found != 0 {
                let bit = word * 64 + usize_of(found.trailing_zeros());
                return Some((onward + bit, bit + 1));
            }
            mask = u64::MAX;
        }
        None
    }

    /// Channels that depend on each other in a cycle, in order; `None` if there are none.
    pub(crate) fn cycle(&self) -> Option<Vec<usize>> {
        let found = find_cycle(self.rank.len(), |rank, from| self.next(rank, from))?;
        let channels = self.network.channels_by_neighbour();
        Some(found.into_iter().map(|rank| channels[rank]).collect())
    }
}

/// A cycle in a graph of nodes `0..len`, in order; `None` if there is none. `next(node, from)` is a
/// successor of the node, and what to ask with for the next one; `from` is 0 at first.
pub(crate) fn find_cycle(
    len: usize,
    next: impl Fn(usize, usize) -> Option<(usize, usize)>,
) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Done,
    }
    let mut seen = vec![Seen::No; len];
    // The path being walked: node, and which of its successors comes next.
    let mut path: Vec<(usize, usize)> = Vec::new();
    for start in 0..len {
        if seen[start] != Seen::No {
            continue;
        }
        seen[start] = Seen::OnPath;
        path.push((start, 0));
        while let Some((node, from)) = path.last_mut() {
            let Some((successor, resume)) = next(*node, *from) else {
                seen[*node] = Seen::Done;
                path.pop();
                continue;
            };
            *from = resume;
            match seen[successor] {
                Seen::No => {
                    seen[successor] = Seen::OnPath;
                    path.push((successor, 0));
                }
                Seen::OnPath => {
                    let cycle = path.iter().map(|&(node, _)| node);
                    return Some(cycle.skip_while(|&node| node != successor).collect());
                }
                Seen::Done => {}
            }
        }
    }
    None
}
