//! The channel dependency graph where packets have service levels and ports several VLs.
//!
//! Each packet between hosts is followed with its SL: a node of the graph is one VL of one
//! direction of a cable, and what a packet holds depends on what it needs next. Packets to and from
//! switches themselves are left out: engines that need service levels give them to hosts only.

use topologies::Endpoint;
use wire::convert::saturate;
use wire::{Lid, PortNum, Sl, Vl};

use super::Channel;
use crate::dependencies::find_cycle;
use crate::network::Network;
use crate::tables::Tables;
use crate::vl_assignment::VlAssignment;

/// VLs of a channel, data and management.
const VLS: usize = 16;

/// VLs of channels that depend on each other in a cycle, if any do.
pub(super) fn cycle(
    network: &Network,
    tables: &Tables,
    assignment: &VlAssignment,
) -> Option<Vec<Channel>> {
    let mut walker = Walker::new(network, tables, assignment);
    let is_host = |end: Endpoint| network.switch(end.node).is_none();
    let ranges = tables.lids.iter();
    let ranges = ranges.filter(|range| range.end.is_some_and(is_host));
    for lid in ranges.flat_map(|range| range.lids()) {
        walker.followed.fill([0; VLS]);
        for host in network.hosts() {
            let sl = assignment.sl(network.switches()[host.switch], lid);
            walker.follow(host.switch, host.port, lid, sl);
        }
    }
    // Searched in the same order as [`crate::dependencies::Dependencies`].
    let channels = network.channels_by_neighbour();
    let mut rank = vec![0; channels.len()];
    for (place, &channel) in channels.iter().enumerate() {
        rank[channel] = place;
    }
    let next = |node: usize, from: usize| {
        let held = channels[node / VLS] * VLS + node % VLS;
        let onward = *walker.dependencies[held].get(from)?;
        Some((rank[onward / VLS] * VLS + onward % VLS, from + 1))
    };
    let found = find_cycle(walker.dependencies.len(), next)?;
    let named = found.into_iter().map(|node| {
        let Endpoint { node: switch, port } = network.endpoint(channels[node / VLS]);
        Channel {
            switch,
            port,
            vl: Vl::constant(saturate::<u8>(node % VLS)),
        }
    });
    Some(named.collect())
}

struct Walker<'a> {
    network: &'a Network,
    tables: &'a Tables,
    assignment: &'a VlAssignment,
    /// By channel and VL (`16 * channel + vl`): what it depends on.
    dependencies: Vec<Vec<usize>>,
    /// By channel and VL: a bit for each SL that was followed there to the LID at hand.
    followed: Vec<[u16; VLS]>,
}

impl<'a> Walker<'a> {
    fn new(network: &'a Network, tables: &'a Tables, assignment: &'a VlAssignment) -> Self {
        let channels = network.channels().len();
        Self {
            network,
            tables,
            assignment,
            dependencies: vec![Vec::new(); channels * VLS],
            followed: vec![[0; VLS]; channels],
        }
    }

    /// A packet of that SL that comes into a switch by a port; ends where it leaves the switches,
    /// or where one like it was followed before.
    fn follow(&mut self, switch: usize, port: PortNum, lid: Lid, sl: Sl) {
        let (mut at, mut entry) = (switch, port);
        let mut held: Option<usize> = None;
        loop {
            let node = self.network.switches()[at];
            let exit = self.tables.lft(node).get(lid);
            let Some(channel) = self.network.channel_by_port(at, exit) else {
                return;
            };
            let vl = self.assignment.vl(node, entry, exit, sl);
            let needed = channel * VLS + vl.index();
            if let Some(held) = held.replace(needed) {
                let dependencies = &mut self.dependencies[held];
                if !dependencies.contains(&needed) {
                    dependencies.push(needed);
                }
            }
            let followed = &mut self.followed[channel][vl.index()];
            let bit = 1 << sl.get();
            if *followed & bit != 0 {
                return;
            }
            *followed |= bit;
            let ends = self.network.channels()[channel];
            (at, entry) = (ends.to, ends.to_port);
        }
    }
}
