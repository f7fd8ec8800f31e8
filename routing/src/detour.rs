//! Paths for pairs of switches that no path joins which first goes up and then down.
//!
//! Where an order of switches has several roots, two roots have no such path between them, and in
//! a damaged tree two leaf switches may have none. A packet that must turn upwards after it went
//! down adds a dependency that up*/down* forbids. The method: all such packets head for one and the
//! same switch with hosts, the *turning switch*, by the tables' own paths, until they meet a switch
//! that has a legal path to the destination; there they turn.
//!
//! On a fat tree this is free of deadlock, whatever is missing. A turn upwards happens only at the
//! turning switch `z` or above it. From there packets go up through switches that are above `z`;
//! where one turns down again it leaves for a switch that is not above `z`, because only one child
//! of a switch is above (or is) `z`, namely the one it came from; and below such a switch none
//! is above `z`. So no second turn upwards can follow. On other fabrics the order is what it is,
//! so the dependencies are checked: every legal turn of the fabric together with the added ones.

use wire::{Lid, PortNum};

use crate::balance::UNREACHABLE;
use crate::dependencies::Dependencies;
use crate::lids::Lids;
use crate::network::Network;
use crate::tables::Lft;

/// Which switches have no legal path to which.
#[derive(Default)]
pub(crate) struct Unreached {
    /// (destination, the switches that have no path), in order of destination.
    pairs: Vec<(usize, Vec<usize>)>,
    /// By switch: how many have no path to it.
    counts: Vec<usize>,
}

impl Unreached {
    /// The pairs: (destination, the switches that have no path), in order of destination.
    pub(crate) fn pairs(&self) -> &[(usize, Vec<usize>)] {
        &self.pairs
    }

    /// Records which switches of the destination's connected component do not reach it. Destinations come in
    /// order; what is said of one again counts for nothing.
    pub(crate) fn record(&mut self, network: &Network, destination: usize, hops: &[u32]) {
        if destination < self.counts.len() {
            return;
        }
        let component = network.component(destination);
        let without: Vec<usize> = (0..hops.len())
            .filter(|&switch| hops[switch] == UNREACHABLE)
            .filter(|&switch| network.component(switch) == component)
            .collect();
        self.counts.push(without.len());
        if !without.is_empty() {
            self.pairs.push((destination, without));
        }
    }
}

/// Adds paths for the pairs that have none. Returns how many pairs of switches with hosts got one;
/// `None` if a pair cannot have one, or not safely.
pub(crate) fn fill(
    network: &Network,
    lids: &Lids,
    order: &[u32],
    unreached: &Unreached,
    rows: &mut [Lft],
) -> Option<usize> {
    if unreached.pairs.is_empty() {
        return Some(0);
    }
    let destinations = lids_by_switch(network, lids);
    let mut dependencies = legal_turns(network, order);
    let mut between_hosts = 0;
    for (destination, without) in &unreached.pairs {
        let turn = turning_switch(network, unreached, network.component(*destination))?;
        if without.binary_search(&turn).is_ok() {
            return None;
        }
        let turn_lid = lids.of_node(network.switches()[turn])?.base;
        for &switch in without {
            let port = rows[switch].get(turn_lid);
            if port == PortNum::NONE {
                return None;
            }
            for &lid in &destinations[*destination] {
                rows[switch].set(lid, port);
            }
            let has_hosts = |switch: usize| network.has_hosts(switch);
            between_hosts += usize::from(has_hosts(switch) && has_hosts(*destination));
        }
        for &switch in without {
            let held = network.channel_by_port(switch, rows[switch].get(turn_lid))?;
            let next = network.channels()[held].to;
            for &lid in &destinations[*destination] {
                if let Some(onward) = network.channel_by_port(next, rows[next].get(lid)) {
                    dependencies.add(held, onward);
                }
            }
        }
    }
    dependencies.cycle().is_none().then_some(between_hosts)
}

/// The switch with hosts, of that connected component, that the most others reach.
fn turning_switch(network: &Network, unreached: &Unreached, component: usize) -> Option<usize> {
    (0..network.switches().len())
        .filter(|&switch| network.component(switch) == component && network.has_hosts(switch))
        .min_by_key(|&switch| unreached.counts[switch])
}

pub(crate) fn lids_by_switch(network: &Network, lids: &Lids) -> Vec<Vec<Lid>> {
    let mut by_switch = vec![Vec::new(); network.switches().len()];
    for range in lids.iter() {
        if let Some((switch, _)) = range.end.and_then(|end| network.last_hop(end)) {
            by_switch[switch].extend(range.lids());
        }
    }
    by_switch
}

/// Every dependency that up*/down* allows: all turns but those upwards after going down, and back
/// to where the packet came from.
fn legal_turns<'n>(network: &'n Network, order: &[u32]) -> Dependencies<'n> {
    let is_down = |from: usize, to: usize| order[from] < order[to];
    let mut dependencies = Dependencies::new(network);
    for (held, ends) in network.channels().iter().enumerate() {
        for next in network.leaving(ends.to) {
            let to = network.channels()[next].to;
            let turns_up = is_down(ends.from, ends.to) && !is_down(ends.to, to);
            if to != ends.from && !turns_up {
                dependencies.add(held, next);
            }
        }
    }
    dependencies
}
