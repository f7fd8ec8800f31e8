//! The LIDs that tables have entries for, each with the switch that delivers; and rows of such entries.

use topologies::NodeId;
use wire::convert::u64_of;
use wire::{Lid, PortNum};

use crate::lids::Lids;
use crate::network::Network;
use crate::tables::Lft;

/// No channel, in lists of the channels by which switches send to a target.
pub(crate) const NONE: usize = usize::MAX;

/// A LID to be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The LID.
    pub(crate) lid: Lid,
    /// The switch that owns it, or that its host is attached to.
    pub(crate) switch: usize,
    /// The switch's port towards the owner; 0 for the switch itself.
    pub(crate) port: PortNum,
    /// The host, by number; `None` for a switch's own LID.
    pub(crate) host: Option<usize>,
}

/// The LIDs of hosts in order, then those of switches.
pub(crate) fn targets(network: &Network, lids: &Lids) -> Vec<Target> {
    let mut targets = Vec::new();
    for (host, port) in network.hosts().iter().enumerate() {
        for lid in lids.of(port.end).into_iter().flat_map(|range| range.lids()) {
            targets.push(Target {
                lid,
                switch: port.switch,
                port: port.port,
                host: Some(host),
            });
        }
    }
    let own = |(switch, &node): (usize, &NodeId)| {
        let range = lids.of_node(node)?;
        Some(Target {
            lid: range.base,
            switch,
            port: PortNum::MANAGEMENT,
            host: None,
        })
    };
    targets.extend(network.switches().iter().enumerate().filter_map(own));
    targets
}

/// The same by the switch that delivers.
pub(crate) fn by_switch(
    network: &Network,
    targets: impl IntoIterator<Item = Target>,
) -> Vec<Vec<Target>> {
    let mut by_switch = vec![Vec::new(); network.switches().len()];
    for target in targets {
        by_switch[target.switch].push(target);
    }
    by_switch
}

/// Tables by switch. `next` gives the channel by which a switch sends on to a target, which is given by its
/// place; it is not asked at the target's own switch.
pub(crate) fn rows(
    network: &Network,
    lids: &Lids,
    targets: &[Target],
    mut next: impl FnMut(usize, usize) -> Option<usize>,
) -> Vec<Lft> {
    let mut rows = vec![Lft::new(lids.top()); network.switches().len()];
    for (place, target) in targets.iter().enumerate() {
        for (switch, row) in rows.iter_mut().enumerate() {
            if switch == target.switch {
                row.set(target.lid, target.port);
            } else if let Some(channel) = next(switch, place) {
                row.set(target.lid, network.channels()[channel].port);
            }
        }
    }
    rows
}

/// Enters the path to a target into tables by switch. `next`: by switch the channel by which it sends, or
/// [`NONE`], where the entry stays.
pub(crate) fn enter(network: &Network, target: &Target, next: &[usize], rows: &mut [Lft]) {
    for (row, &channel) in rows.iter_mut().zip(next) {
        if channel != NONE {
            row.set(target.lid, network.channels()[channel].port);
        }
    }
}

/// The switches whose paths by `next` end at `target`, with their hops: each behind those that its path visits.
pub(crate) fn hops_along(network: &Network, target: usize, next: &[usize]) -> Vec<(usize, usize)> {
    let mut hops: Vec<Option<usize>> = vec![None; next.len()];
    hops[target] = Some(0);
    let mut found = vec![(target, 0)];
    for from in 0..next.len() {
        let mut trail = Vec::new();
        let mut at = from;
        while hops[at].is_none() && next[at] != NONE {
            trail.push(at);
            at = network.channels()[next[at]].to;
        }
        let Some(known) = hops[at] else {
            continue;
        };
        for (switch, away) in trail.into_iter().rev().zip(known + 1..) {
            hops[switch] = Some(away);
            found.push((switch, away));
        }
    }
    found
}

/// The channels of the path from a switch to a LID, by tables by switch. Ends where the tables lead out of the
/// switches, or after as many channels as there are switches: no path visits a switch twice.
pub(crate) fn path<'a>(
    network: &'a Network,
    rows: &'a [Lft],
    from: usize,
    lid: Lid,
) -> impl Iterator<Item = usize> + 'a {
    let next = move |switch: usize| network.channel_by_port(switch, rows[switch].get(lid));
    core::iter::successors(next(from), move |&held| next(network.channels()[held].to))
        .take(rows.len())
}

/// By channel: how many hosts' packets to how many of the targets that are hosts' cross it.
pub(crate) fn loads<'t>(
    network: &Network,
    rows: &[Lft],
    targets: impl IntoIterator<Item = &'t Target>,
) -> Vec<u64> {
    let mut loads = vec![0; network.channels().len()];
    for target in targets.into_iter().filter(|target| target.host.is_some()) {
        for (from, hosts) in network.hosts_at().iter().enumerate() {
            if !hosts.is_empty() {
                for channel in path(network, rows, from, target.lid) {
                    loads[channel] += u64_of(hosts.len());
                }
            }
        }
    }
    loads
}
