//! Following LIDs through tables, channel by channel.

use topologies::{Endpoint, Graph};
use wire::Lid;

use crate::network::Network;
use crate::tables::Tables;

/// Tables with the network that they are for.
pub(super) struct Walker<'a> {
    pub(super) network: Network,
    pub(super) tables: &'a Tables,
}

impl<'a> Walker<'a> {
    pub(super) fn new(graph: &Graph, tables: &'a Tables) -> Self {
        Self {
            network: Network::new(graph),
            tables,
        }
    }

    pub(super) fn hosts(&self) -> usize {
        self.network.hosts().len()
    }

    /// The LID that a host picks for another.
    pub(super) fn dlid(&self, source: usize, destination: usize) -> Option<Lid> {
        let hosts = self.network.hosts();
        self.tables
            .dlid_for(hosts[source].guid, hosts[destination].guid)
    }

    /// Calls `visit` for each channel from a switch to a host; false if the LID does not lead there.
    pub(super) fn walk(
        &self,
        from: usize,
        destination: usize,
        lid: Lid,
        mut visit: impl FnMut(usize),
    ) -> bool {
        let last = self.network.last_endpoint(destination);
        let mut at = from;
        for _ in 0..=self.network.switches().len() {
            let node = self.network.switches()[at];
            let port = self.tables.lft(node).get(lid);
            let output = Endpoint { node, port };
            if output == last {
                return true;
            }
            let Some(channel) = self.network.channel_at(output) else {
                return false;
            };
            visit(channel);
            at = self.network.channels()[channel].to;
        }
        false
    }
}
