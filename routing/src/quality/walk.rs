//! Following LIDs through tables, channel by channel.

use std::borrow::Cow;

use topologies::Graph;
use wire::{Lid, PortNum};

use crate::lids::LidRange;
use crate::network::Network;
use crate::tables::{Lft, Tables};

/// Tables with the network that they are for.
pub(super) struct Walker<'a> {
    pub(super) network: Cow<'a, Network>,
    pub(super) tables: &'a Tables,
    /// By switch.
    lfts: Vec<&'a Lft>,
    /// By host.
    ranges: Vec<Option<LidRange>>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(graph: &Graph, tables: &'a Tables) -> Self {
        Self::on(Cow::Owned(Network::new(graph)), tables)
    }

    pub(super) fn on(network: Cow<'a, Network>, tables: &'a Tables) -> Self {
        let switches = network.switches().iter();
        let lfts = switches.map(|&node| tables.lft(node)).collect();
        let hosts = network.hosts().iter();
        let ranges = hosts
            .map(|host| tables.lids.of(host.end).cloned())
            .collect();
        Self {
            network,
            tables,
            lfts,
            ranges,
        }
    }

    pub(super) fn hosts(&self) -> usize {
        self.network.hosts().len()
    }

    /// The LIDs of a host.
    pub(super) fn range(&self, host: usize) -> Option<&LidRange> {
        self.ranges[host].as_ref()
    }

    /// The offset from the base of the LID that a host picks for another, and that LID.
    pub(super) fn dlid(&self, source: usize, destination: usize) -> Option<(u32, Lid)> {
        let range = self.range(destination)?;
        if range.lmc.get() == 0 {
            return Some((0, range.base));
        }
        let hosts = self.network.hosts();
        let (source, destination) = (hosts[source].guid, hosts[destination].guid);
        let offset = self.tables.selection.offset(source, destination);
        let offset = offset % u32::from(range.lmc.lids());
        Some((offset, range.at_offset(offset)))
    }

    /// Calls `visit` for each channel from a switch to a host; false if the LID does not lead there.
    pub(super) fn walk(
        &self,
        from: usize,
        destination: usize,
        lid: Lid,
        mut visit: impl FnMut(usize),
    ) -> bool {
        let host = &self.network.hosts()[destination];
        let last: (usize, PortNum) = (host.switch, host.port);
        let mut at = from;
        for _ in 0..=self.lfts.len() {
            let port = self.lfts[at].get(lid);
            if (at, port) == last {
                return true;
            }
            let Some(channel) = self.network.channel_by_port(at, port) else {
                return false;
            };
            visit(channel);
            at = self.network.channels()[channel].to;
        }
        false
    }
}
