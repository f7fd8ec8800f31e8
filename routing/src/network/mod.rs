//! The switches of a fabric and the directed channels between them, densely numbered.
//!
//! Every scheme that reasons about channels (loads, dependencies, up and down) works on this form
//! of a [`Graph`]. Switches and hosts are numbered by GUID, channels by their switch and port, so
//! that a result does not depend on the order in which the graph was built or discovered.

mod legal;
mod updown;

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::PortNum;

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

/// Where a host is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The switch.
    pub switch: usize,
    /// The switch's port that leads to the host.
    pub port: PortNum,
    /// The host's own port.
    pub host_port: PortNum,
}

/// A fabric as numbered switches, hosts and channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    switches: Vec<NodeId>,
    hosts: Vec<NodeId>,
    homes: Vec<Home>,
    /// Dense number of each node of the graph, among its kind.
    index: Vec<Option<usize>>,
    channels: Vec<Channel>,
    /// Channels of switch `s` are `first[s]..first[s + 1]`.
    first: Vec<usize>,
}

impl Network {
    /// Numbers a graph. A host counts if a cable leads from it to a switch; of several its lowest
    /// port is taken. Cables between two ports of one switch carry nothing and are left out.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let by_guid = |kind| {
            let mut nodes: Vec<NodeId> = graph
                .ids()
                .filter(|&id| graph.node(id).kind == kind)
                .collect();
            nodes.sort_by_key(|&id| graph.node(id).guid);
            nodes
        };
        let mut index = vec![None; graph.len()];
        let switches = by_guid(NodeKind::Switch);
        for (number, &node) in switches.iter().enumerate() {
            index[node.index()] = Some(number);
        }
        let (mut hosts, mut homes) = (Vec::new(), Vec::new());
        for node in by_guid(NodeKind::Host) {
            let home = graph.cables(node).find_map(|(host_port, peer)| {
                let is_switch = graph.node(peer.node).kind == NodeKind::Switch;
                let switch = index[peer.node.index()].filter(|_| is_switch)?;
                Some(Home {
                    switch,
                    port: peer.port,
                    host_port,
                })
            });
            if let Some(home) = home {
                index[node.index()] = Some(hosts.len());
                hosts.push(node);
                homes.push(home);
            }
        }
        let mut channels = Vec::new();
        let mut first = vec![0];
        for (from, &node) in switches.iter().enumerate() {
            for (port, peer) in graph.cables(node) {
                if graph.node(peer.node).kind == NodeKind::Switch && peer.node != node {
                    channels.push(Channel {
                        from,
                        port,
                        to: index[peer.node.index()].unwrap_or(from),
                        reverse: 0,
                    });
                }
            }
            first.push(channels.len());
        }
        let mut network = Self {
            switches,
            hosts,
            homes,
            index,
            channels,
            first,
        };
        for channel in 0..network.channels.len() {
            let Channel { from, port, .. } = network.channels[channel];
            let node = network.switches[from];
            let reverse = graph
                .peer(Endpoint { node, port })
                .and_then(|peer| network.channel_at(peer));
            network.channels[channel].reverse = reverse.unwrap_or(channel);
        }
        network
    }

    /// The switches in order of GUID.
    #[must_use]
    pub fn switches(&self) -> &[NodeId] {
        &self.switches
    }

    /// The hosts in order of GUID.
    #[must_use]
    pub fn hosts(&self) -> &[NodeId] {
        &self.hosts
    }

    /// Where each host is attached.
    #[must_use]
    pub fn homes(&self) -> &[Home] {
        &self.homes
    }

    /// A node's number among the switches or hosts.
    #[must_use]
    pub fn number(&self, node: NodeId) -> Option<usize> {
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
        let switch = self.number(end.node)?;
        if self.switches.get(switch) != Some(&end.node) {
            return None;
        }
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

    /// The port by which a host sends.
    #[must_use]
    pub fn host_endpoint(&self, host: usize) -> Endpoint {
        Endpoint {
            node: self.hosts[host],
            port: self.homes[host].host_port,
        }
    }

    /// The port of its switch that leads to a host.
    #[must_use]
    pub fn last_endpoint(&self, host: usize) -> Endpoint {
        let Home { switch, port, .. } = self.homes[host];
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
