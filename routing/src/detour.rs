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
//! of a switch is above (or is) `z`, namely the one it came from; and below such a switch nobody
//! is above `z`. So no second turn upwards can follow. On other fabrics the order is what it is,
//! so the dependencies are checked: every legal turn of the fabric together with the added ones.

use wire::PortNum;

use crate::channels::Channels;
use crate::lids::Lids;
use crate::net::{NOWHERE, Net};
use crate::tables::Lft;

/// Which switches have no legal path to which.
#[derive(Default)]
pub(crate) struct Missing {
    /// (destination, the switches that miss a path), in order of destination.
    pairs: Vec<(u32, Vec<u32>)>,
    /// By switch: how many miss a path to it.
    counts: Vec<usize>,
}

impl Missing {
    /// Notes who, in the connected part of the destination, does not reach it.
    pub(crate) fn note(&mut self, net: &Net<'_>, destination: u32, hops: &[u32]) {
        let part = net.part[destination as usize];
        let without: Vec<u32> = (0..net.len())
            .filter(|&switch| hops[switch as usize] == NOWHERE)
            .filter(|&switch| net.part[switch as usize] == part)
            .collect();
        self.counts.push(without.len());
        if !without.is_empty() {
            self.pairs.push((destination, without));
        }
    }
}

/// Fills in what is missing. Returns how many pairs of switches with hosts were served so; `None`
/// if a pair cannot be served, or not safely.
pub(crate) fn fill(
    net: &Net<'_>,
    lids: &Lids,
    order: &[u32],
    missing: &Missing,
    rows: &mut [Lft],
) -> Option<usize> {
    if missing.pairs.is_empty() {
        return Some(0);
    }
    let destinations = lids_by_switch(net, lids);
    let mut channels = legal_turns(net, order);
    let mut between_hosts = 0;
    for (destination, without) in &missing.pairs {
        let turn = turning_switch(net, missing, net.part[*destination as usize])?;
        if without.binary_search(&turn).is_ok() {
            return None;
        }
        let turn_lid = lids.of_node(net.switches[turn as usize])?.base;
        for &switch in without {
            let port = rows[switch as usize].get(turn_lid);
            if port == PortNum::NONE {
                return None;
            }
            for &lid in &destinations[*destination as usize] {
                rows[switch as usize].set(lid, port);
            }
            let hosts = |switch: u32| net.hosts[switch as usize] > 0;
            between_hosts += usize::from(hosts(switch) && hosts(*destination));
        }
        for &switch in without {
            let here = channels.at(switch, rows[switch as usize].get(turn_lid))?;
            let next = channels.ends(here).to;
            for &lid in &destinations[*destination as usize] {
                if let Some(onward) = channels.at(next, rows[next as usize].get(lid)) {
                    channels.wait(here, onward);
                }
            }
        }
    }
    channels.cycle().is_none().then_some(between_hosts)
}

/// The switch with hosts, of that part of the fabric, that the most others reach.
fn turning_switch(net: &Net<'_>, missing: &Missing, part: u32) -> Option<u32> {
    (0..net.len())
        .filter(|&switch| net.part[switch as usize] == part && net.hosts[switch as usize] > 0)
        .min_by_key(|&switch| missing.counts[switch as usize])
}

fn lids_by_switch(net: &Net<'_>, lids: &Lids) -> Vec<Vec<wire::Lid>> {
    let mut by_switch = vec![Vec::new(); net.switches.len()];
    for range in lids.iter() {
        let Some(end) = range.end else { continue };
        let own = net.place(end.node);
        let switch = if own == NOWHERE {
            net.graph
                .peer(end)
                .map_or(NOWHERE, |peer| net.place(peer.node))
        } else {
            own
        };
        if let Some(all) = by_switch.get_mut(switch as usize) {
            all.extend(range.lids());
        }
    }
    by_switch
}

/// Every dependency that up*/down* allows: all turns but those upwards after going down, and back
/// to where the packet came from.
fn legal_turns(net: &Net<'_>, order: &[u32]) -> Channels {
    let is_down = |from: u32, to: u32| order[from as usize] < order[to as usize];
    let mut channels = Channels::new(net);
    for channel in (0..).take(channels.len()) {
        let ends = channels.ends(channel);
        for link in &net.links[ends.to as usize] {
            let turns_up = is_down(ends.from, ends.to) && !is_down(ends.to, link.to);
            if link.to == ends.from || turns_up {
                continue;
            }
            if let Some(next) = channels.at(ends.to, link.port) {
                channels.wait(channel, next);
            }
        }
    }
    channels
}
