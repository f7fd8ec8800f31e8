//! What an engine lets the balancer choose from.

use wire::convert::{saturate, usize_of};

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
    /// (channel, the switch it leads to), in few bytes, since they are read most of all.
    channels: Vec<(u32, u32)>,
    /// Switches that reach the destination, nearest first.
    pub(super) nearest: Vec<usize>,
}

impl NextHops {
    /// Asks for the channels to another destination.
    fn find(
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
        let with_ends = channels.map(|channel| {
            let to = network.channels()[channel].to;
            (saturate::<u32>(channel), saturate::<u32>(to))
        });
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

    /// The channels that a switch may send by, and where they lead.
    pub(super) fn choices(
        &self,
        switch: usize,
    ) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone + '_ {
        let (first, end) = self.choices[switch];
        let ways = self.channels[first..end].iter();
        ways.map(|&(channel, to)| (usize_of(channel), usize_of(to)))
    }

    /// About how many numbers it holds.
    fn len(&self) -> usize {
        self.channels.len() + 4 * self.hops.len()
    }
}

/// Numbers that are kept for all destinations at most.
const KEPT_MAX: usize = 1 << 23;

/// Which channels lead towards each destination switch. An engine is asked for each once, and again only where
/// there is no room to keep the answer.
pub(crate) struct Offers<'n, F> {
    network: &'n Network,
    next_hops: F,
    /// By destination.
    kept: Vec<Option<NextHops>>,
    room: usize,
    /// Those that are not kept: the last.
    last: NextHops,
}

impl<'n, F: FnMut(usize, &mut NextHops)> Offers<'n, F> {
    pub(crate) fn new(network: &'n Network, next_hops: F) -> Self {
        Self {
            network,
            next_hops,
            kept: (0..network.switches().len()).map(|_| None).collect(),
            room: KEPT_MAX,
            last: NextHops::default(),
        }
    }

    /// Those to a destination.
    pub(crate) fn to(&mut self, destination: usize) -> &NextHops {
        let kept = &mut self.kept[destination];
        if kept.is_none() {
            self.last
                .find(self.network, destination, &mut self.next_hops);
            if let Some(room) = self.room.checked_sub(self.last.len()) {
                self.room = room;
                *kept = Some(core::mem::take(&mut self.last));
            }
        }
        kept.as_ref().unwrap_or(&self.last)
    }
}
