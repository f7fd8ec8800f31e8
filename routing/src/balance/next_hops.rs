//! What an engine lets the balancer choose from.

use crate::network::Network;

/// "The destination cannot be reached", as a number of hops.
pub(crate) const UNREACHABLE: u32 = u32::MAX;

/// Which channels lead towards one destination switch.
#[derive(Default)]
pub(crate) struct NextHops {
    /// By switch: hops to the destination, or [`UNREACHABLE`].
    pub(crate) hops: Vec<u32>,
    /// By switch: where its choices begin and end.
    choices: Vec<(usize, usize)>,
    /// (channel, the switch it leads to).
    channels: Vec<(usize, usize)>,
    /// Switches that reach the destination, nearest first.
    pub(super) nearest: Vec<usize>,
}

impl NextHops {
    /// Asks for the channels to another destination.
    pub(super) fn find(
        &mut self,
        network: &Network,
        destination: usize,
        next_hops: &mut impl FnMut(usize, &mut Self),
    ) {
        self.reset(network.switches().len(), destination);
        next_hops(destination, self);
        self.sort();
    }

    /// Forgets everything: no switch reaches `destination` but itself.
    fn reset(&mut self, switches: usize, destination: usize) {
        self.hops.clear();
        self.hops.resize(switches, UNREACHABLE);
        self.hops[destination] = 0;
        self.choices.clear();
        self.choices.resize(switches, (0, 0));
        self.channels.clear();
        self.nearest.clear();
    }

    /// Gives a switch that is `hops` away its choices, of which there must be one at least, in
    /// order of preference where loads are equal.
    pub(crate) fn set(
        &mut self,
        network: &Network,
        switch: usize,
        hops: u32,
        channels: impl Iterator<Item = usize>,
    ) {
        let first = self.channels.len();
        let with_ends = channels.map(|channel| (channel, network.channels()[channel].to));
        self.channels.extend(with_ends);
        self.choices[switch] = (first, self.channels.len());
        self.hops[switch] = hops;
    }

    /// Sorts [`Self::nearest`].
    fn sort(&mut self) {
        let hops = &self.hops;
        let reach = (0..hops.len()).filter(|&switch| hops[switch] != UNREACHABLE);
        self.nearest.extend(reach);
        self.nearest.sort_by_key(|&switch| hops[switch]);
    }

    pub(super) fn choices(&self, switch: usize) -> &[(usize, usize)] {
        let (first, end) = self.choices[switch];
        &self.channels[first..end]
    }
}
