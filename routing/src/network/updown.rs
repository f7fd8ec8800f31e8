//! Up and down: an order on the switches that breaks every cycle of channels.

use super::Network;

/// An orientation of a connected network: breadth-first levels from a root; a channel leads up if
/// it leads to a lower level, or to a smaller number on the same level. A path is legal if it
/// never goes up after it has gone down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpDown {
    root: usize,
    level: Vec<u32>,
    up: Vec<bool>,
    /// Switches so that every up channel leads to an earlier one.
    order: Vec<usize>,
}

impl UpDown {
    /// The orientation from the middle of the network: the switch whose farthest switch is
    /// nearest, then the one with the least sum of distances, then the first.
    ///
    /// `None` if the network has no switch or is not connected.
    #[must_use]
    pub fn new(network: &Network) -> Option<Self> {
        let centre = |switch: &usize| {
            let hops: Option<Vec<u32>> = network.hops_to(*switch).into_iter().collect();
            hops.map(|hops| (hops.iter().copied().max(), hops.iter().sum::<u32>()))
        };
        let root = (0..network.switches().len()).min_by_key(centre)?;
        Self::from_root(network, root)
    }

    /// The orientation from a given root; `None` if some switch cannot be reached from it.
    #[must_use]
    pub fn from_root(network: &Network, root: usize) -> Option<Self> {
        let level: Option<Vec<u32>> = network.hops_to(root).into_iter().collect();
        let level = level?;
        let up = network
            .channels()
            .iter()
            .map(|channel| (level[channel.to], channel.to) < (level[channel.from], channel.from))
            .collect();
        let mut order: Vec<usize> = (0..level.len()).collect();
        order.sort_by_key(|&switch| (level[switch], switch));
        Some(Self {
            root,
            level,
            up,
            order,
        })
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> usize {
        self.root
    }

    /// Hops from the root to a switch.
    #[must_use]
    pub fn level(&self, switch: usize) -> u32 {
        self.level[switch]
    }

    /// Whether a channel leads up.
    #[must_use]
    pub fn is_up(&self, channel: usize) -> bool {
        self.up[channel]
    }

    /// The switches in an order in which up channels lead backwards.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// For every switch the hops to `target` going down only, and the hops of the shortest legal
    /// path.
    #[must_use]
    pub fn hops_to(&self, network: &Network, target: usize) -> LegalHops {
        let mut down: Vec<Option<u32>> = vec![None; network.switches().len()];
        down[target] = Some(0);
        // Down channels lead forward in the order, so the last come first.
        for &switch in self.order.iter().rev() {
            if switch == target {
                continue;
            }
            down[switch] = network
                .leaving(switch)
                .filter(|&channel| !self.up[channel])
                .filter_map(|channel| down[network.channels()[channel].to])
                .min()
                .map(|hops| hops + 1);
        }
        let mut any = down.clone();
        for &switch in &self.order {
            let climbing = network
                .leaving(switch)
                .filter(|&channel| self.up[channel])
                .filter_map(|channel| any[network.channels()[channel].to])
                .min()
                .map(|hops| hops + 1);
            any[switch] = [any[switch], climbing].into_iter().flatten().min();
        }
        LegalHops { down, any }
    }
}

/// Distances along legal paths to one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegalHops {
    /// Going down only.
    pub down: Vec<Option<u32>>,
    /// Going up first, if need be.
    pub any: Vec<Option<u32>>,
}

impl LegalHops {
    /// The hops that are left from `switch` for a packet that has or has not gone down yet.
    #[must_use]
    pub fn left(&self, switch: usize, descending: bool) -> Option<u32> {
        if descending {
            self.down[switch]
        } else {
            self.any[switch]
        }
    }
}
