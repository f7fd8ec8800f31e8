//! Fully explicit routing: one LID for each destination, whatever that costs in balance (the
//! scheme that LID07 compares with, after Sancho, Robles and Duato).

use wire::convert::usize_of;

use super::LidError;
use super::routes::{Routes, RoutesBuilder};
use crate::network::{Network, UpDown};

/// Routes in which all paths to a destination form one tree of legal paths.
///
/// For each destination in order, the switches are joined to its tree by growing distance; each
/// takes, among its paths of the fewest hops that stay legal, the one whose busiest channel is
/// idlest. A switch whose own path to the tree goes up first can be joined from below only. Cost:
/// hosts times channels.
///
/// # Errors
/// [`LidError::NotConnected`].
pub fn fully_explicit(network: &Network, updown: &UpDown) -> Result<Routes, LidError> {
    let hosts_at = network.hosts_at();
    let mut routes = RoutesBuilder::new(network.hosts().len());
    let mut loads = vec![0u32; network.channels().len()];
    for (destination, host) in network.hosts().iter().enumerate() {
        let mut tree = Tree::new(network, updown, host.switch);
        tree.grow(&loads);
        for (switch, sources) in hosts_at.iter().enumerate() {
            let path = tree.path(switch).ok_or(LidError::NotConnected)?;
            for &source in sources.iter().filter(|&&source| source != destination) {
                for &channel in &path {
                    loads[usize_of(channel)] += 1;
                }
                routes.set(switch, source, destination, &path);
            }
        }
    }
    Ok(routes.finish())
}

struct Tree<'a> {
    network: &'a Network,
    updown: &'a UpDown,
    target: usize,
    /// By switch: the channel towards the target.
    next: Vec<Option<usize>>,
    /// By switch: hops to the target, and the load of the busiest channel on that path.
    reached: Vec<Option<(u32, u32)>>,
}

impl<'a> Tree<'a> {
    fn new(network: &'a Network, updown: &'a UpDown, target: usize) -> Self {
        let mut reached = vec![None; network.switches().len()];
        reached[target] = Some((0, 0));
        Self {
            network,
            updown,
            target,
            next: vec![None; network.switches().len()],
            reached,
        }
    }

    /// First all switches that go down all the way, from the target upwards; then the others, from
    /// the root downwards, over a neighbour above. So every switch that must be entered from above
    /// by others keeps a path down if it has one.
    fn grow(&mut self, loads: &[u32]) {
        let order = self.updown.order();
        for &switch in order.iter().rev() {
            self.join(switch, loads, false);
        }
        for &switch in order {
            if self.next[switch].is_none() {
                self.join(switch, loads, true);
            }
        }
    }

    fn join(&mut self, switch: usize, loads: &[u32], up: bool) {
        if switch == self.target {
            return;
        }
        let best = self
            .network
            .leaving(switch)
            .filter(|&channel| self.updown.is_up(channel) == up)
            .filter_map(|channel| {
                let (hops, busiest) = self.reached[self.network.channels()[channel].to]?;
                Some((hops + 1, busiest.max(loads[channel]), channel))
            })
            .min();
        if let Some((hops, busiest, channel)) = best {
            self.next[switch] = Some(channel);
            self.reached[switch] = Some((hops, busiest));
        }
    }

    fn path(&self, from: usize) -> Option<Vec<u32>> {
        let mut path = Vec::new();
        let mut at = from;
        while at != self.target {
            let channel = self.next[at]?;
            path.extend(u32::try_from(channel));
            at = self.network.channels()[channel].to;
        }
        Some(path)
    }
}
