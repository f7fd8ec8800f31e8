//! The switches of a fabric and the directed channels between them, densely numbered.
//!
//! Every scheme that reasons about channels (loads, dependencies, up and down) works on this form
//! of a [`Graph`]. Switches and hosts are numbered by GUID, channels by their switch and port, so
//! that a result does not depend on the order in which the graph was built or discovered.

mod legal;
mod updown;

use topologies::{Endpoint, Graph, NodeId};
use wire::PortNum;

use crate::lids::port_guid;

pub use legal::{LegalPaths, PathLimit, PathsTooMany};
pub use updown::{LegalHops, UpDown};

/// One direction of a cable between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The switch that sends.
    pub from: usize,
    /// Its output port.
    pub port: PortNum,
    /// The switch that receives.
    pub to: usize,
    /// The channel of the other direction.
    pub reverse: usize,
}

/// Where a host's port is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The switch.
    pub switch: usize,
    /// The switch's port that leads to the host.
    pub port: PortNum,
}

/// A fabric as numbered switches, hosts and channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    switches: Vec<NodeId>,
    hosts: Vec<Endpoint>,
    homes: Vec<Home>,
    /// By node of the graph: the number of a switch.
    index: Vec<Option<usize>>,
    channels: Vec<Channel>,
    /// Channels of switch `s` are `first[s]..first[s + 1]`.
    first: Vec<usize>,
}

impl Network {
    /// Numbers a graph. Each host port that is cabled to a switch counts as a host of its own.
    /// Cables between two ports of one switch carry nothing and are left out.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let mut switches: Vec<NodeId> = graph.switches().collect();
        switches.sort_by_key(|&id| graph.node(id).guid);
        let mut index = vec![None; graph.len()];
        for (number, &node) in switches.iter().enumerate() {
            index[node.index()] = Some(number);
        }
        let mut hosts: Vec<(Endpoint, Home)> = graph
            .hosts()
            .flat_map(|node| {
                graph
                    .cables(node)
                    .map(move |(port, peer)| (Endpoint { node, port }, peer))
            })
            .filter_map(|(end, peer)| {
                let switch = index[peer.node.index()]?;
                let port = peer.port;
                Some((end, Home { switch, port }))
            })
            .collect();
        hosts.sort_by_key(|&(end, _)| (port_guid(graph, end), end));
        let (hosts, homes) = hosts.into_iter().unzip();
        let mut network = Self {
            switches,
            hosts,
            homes,
            index,
            channels: Vec::new(),
            first: vec![0],
        };
        network.number_channels(graph);
        network
    }

    fn number_channels(&mut self, graph: &Graph) {
        for (from, &node) in self.switches.iter().enumerate() {
            for (port, peer) in graph.cables(node) {
                if let Some(to) = self.index[peer.node.index()].filter(|&to| to != from) {
                    self.channels.push(Channel {
                        from,
                        port,
                        to,
                        reverse: 0,
                    });
                }
            }
            self.first.push(self.channels.len());
        }
        for channel in 0..self.channels.len() {
            let reverse = graph
                .peer(self.endpoint(channel))
                .and_then(|peer| self.channel_at(peer));
            self.channels[channel].reverse = reverse.unwrap_or(channel);
        }
    }

    /// The switches in order of GUID.
    #[must_use]
    pub fn switches(&self) -> &[NodeId] {
        &self.switches
    }

    /// The hosts' ports in order of port GUID.
    #[must_use]
    pub fn hosts(&self) -> &[Endpoint] {
        &self.hosts
    }

    /// Where each host's port is attached.
    #[must_use]
    pub fn homes(&self) -> &[Home] {
        &self.homes
    }

    /// The number of a switch; `None` for a host.
    #[must_use]
    pub fn switch(&self, node: NodeId) -> Option<usize> {
        self.index.get(node.index()).copied().flatten()
    }

    /// All channels, by switch and port.
    #[must_use]
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The numbers of the channels that leave a switch, by port.
    #[must_use]
    pub fn leaving(&self, switch: usize) -> core::ops::Range<usize> {
        self.first[switch]..self.first[switch + 1]
    }

    /// The channel that leaves by a switch's port.
    #[must_use]
    pub fn channel_at(&self, end: Endpoint) -> Option<usize> {
        let switch = self.switch(end.node)?;
        let range = self.leaving(switch);
        let place = self.channels[range.clone()]
            .binary_search_by_key(&end.port, |channel| channel.port)
            .ok()?;
        Some(range.start + place)
    }

    /// The output port of a channel.
    #[must_use]
    pub fn endpoint(&self, channel: usize) -> Endpoint {
        let Channel { from, port, .. } = self.channels[channel];
        Endpoint {
            node: self.switches[from],
            port,
        }
    }

    /// The port of its switch that leads to a host.
    #[must_use]
    pub fn last_endpoint(&self, host: usize) -> Endpoint {
        let Home { switch, port } = self.homes[host];
        Endpoint {
            node: self.switches[switch],
            port,
        }
    }

    /// The numbers of the hosts at each switch, in order.
    #[must_use]
    pub fn hosts_at(&self) -> Vec<Vec<usize>> {
        let mut at = vec![Vec::new(); self.switches.len()];
        for (host, home) in self.homes.iter().enumerate() {
            at[home.switch].push(host);
        }
        at
    }

    /// Hops from every switch to `target`; `None` where there is no way.
    #[must_use]
    pub fn hops_to(&self, target: usize) -> Vec<Option<u32>> {
        let mut hops = vec![None; self.switches.len()];
        hops[target] = Some(0);
        let mut queue = std::collections::VecDeque::from([(target, 0)]);
        while let Some((switch, away)) = queue.pop_front() {
            for channel in self.leaving(switch) {
                let next = self.channels[channel].to;
                if hops[next].is_none() {
                    hops[next] = Some(away + 1);
                    queue.push_back((next, away + 1));
                }
            }
        }
        hops
    }
}

#[cfg(test)]
pub(crate) mod tests;
