//! A fabric as routing sees it: switches, host ports and the directed channels between switches,
//! densely numbered.
//!
//! Everything here works on this form of a [`Graph`]; it is built once for a computation and
//! borrowed from there on. Switches and host ports are numbered by GUID, channels by their switch
//! and port, so that a result does not depend on the order in which the graph was built or
//! discovered.

mod legal;
mod updown;

use std::collections::{BTreeMap, VecDeque};

use topologies::{Endpoint, Graph, Node, NodeId, NodeKind};
use wire::{Guid, PortNum};

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
    /// Its input port.
    pub to_port: PortNum,
    /// The channel of the other direction.
    pub reverse: usize,
}

/// A host's port that is cabled to a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The port's GUID.
    pub guid: Guid,
    /// The port.
    pub end: Endpoint,
    /// The switch at the other end of its cable.
    pub switch: usize,
    /// The switch's port that leads to the host.
    pub port: PortNum,
    /// Whether it is the aggregation node of its switch: a channel adapter that is part of the switch and
    /// reduces messages (SHARP). Switches of every level have one.
    pub is_aggregation_node: bool,
}

/// Whether a host cabled to a switch is that switch's aggregation node: it says so, or both are one box.
fn is_aggregation_node(host: &Node, switch: &Node) -> bool {
    host.description.contains("Aggregation Node")
        || host.system_image_guid == switch.system_image_guid
}

/// A fabric as numbered switches, host ports and channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    switches: Vec<NodeId>,
    /// By switch.
    guids: Vec<Guid>,
    /// By switch: whether it has an enhanced port 0.
    enhanced: Vec<bool>,
    /// By node of the graph: the number of a switch.
    index: Vec<Option<usize>>,
    hosts: Vec<HostPort>,
    host_at: BTreeMap<Endpoint, usize>,
    /// By switch: the numbers of its hosts.
    hosts_at: Vec<Vec<usize>>,
    /// GUIDs and ports of hosts that are cabled to another host.
    back_to_back: Vec<(Guid, Endpoint)>,
    channels: Vec<Channel>,
    /// Channels of switch `s` are `first[s]..first[s + 1]`.
    first: Vec<usize>,
    /// The channels of each switch, at the same places, in order of neighbour, then of port.
    by_neighbour: Vec<usize>,
    /// By switch and port.
    by_port: Vec<Vec<Option<usize>>>,
    /// By switch: the first switch of its connected component.
    component: Vec<usize>,
}

/// The GUID of a port ([`topologies::Node::port_guid`]).
#[must_use]
pub fn port_guid(graph: &Graph, end: Endpoint) -> Guid {
    graph.node(end.node).port_guid(end.port)
}

/// All ports that have LIDs, by GUID: port 0 of switches, connected ports of hosts.
pub(crate) fn ports_by_guid(graph: &Graph) -> BTreeMap<Guid, Endpoint> {
    let ends = graph.ids().flat_map(|node| {
        let ports: Vec<PortNum> = match graph.node(node).kind {
            NodeKind::Switch => vec![PortNum::MANAGEMENT],
            NodeKind::Host => graph.cables(node).map(|(port, _)| port).collect(),
        };
        ports.into_iter().map(move |port| Endpoint { node, port })
    });
    ends.map(|end| (port_guid(graph, end), end)).collect()
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
        let count = switches.len();
        let mut network = Self {
            guids: switches.iter().map(|&id| graph.node(id).guid).collect(),
            enhanced: (switches.iter())
                .map(|&id| graph.node(id).enhanced_port0)
                .collect(),
            switches,
            index,
            hosts: Vec::new(),
            host_at: BTreeMap::new(),
            hosts_at: vec![Vec::new(); count],
            back_to_back: Vec::new(),
            channels: Vec::new(),
            first: vec![0],
            by_neighbour: Vec::new(),
            by_port: Vec::with_capacity(count),
            component: Vec::new(),
        };
        network.number_hosts(graph);
        network.number_channels(graph);
        network.find_components();
        network
    }

    fn number_hosts(&mut self, graph: &Graph) {
        for node in graph.hosts() {
            for (port, peer) in graph.cables(node) {
                let end = Endpoint { node, port };
                let guid = port_guid(graph, end);
                match self.index[peer.node.index()] {
                    Some(switch) => self.hosts.push(HostPort {
                        guid,
                        end,
                        switch,
                        port: peer.port,
                        is_aggregation_node: is_aggregation_node(
                            graph.node(node),
                            graph.node(peer.node),
                        ),
                    }),
                    None => self.back_to_back.push((guid, end)),
                }
            }
        }
        self.hosts.sort_by_key(|host| (host.guid, host.end));
        for (number, host) in self.hosts.iter().enumerate() {
            self.host_at.insert(host.end, number);
            self.hosts_at[host.switch].push(number);
        }
    }

    fn number_channels(&mut self, graph: &Graph) {
        for (from, &node) in self.switches.iter().enumerate() {
            let mut by_port = Vec::new();
            let first = self.channels.len();
            for (port, peer) in graph.cables(node) {
                let to = self.index[peer.node.index()].filter(|&to| to != from);
                if let Some(to) = to {
                    by_port.resize(port.index() + 1, None);
                    by_port[port.index()] = Some(self.channels.len());
                    self.channels.push(Channel {
                        from,
                        port,
                        to,
                        to_port: peer.port,
                        reverse: 0,
                    });
                }
            }
            let end = self.channels.len();
            self.first.push(end);
            self.by_port.push(by_port);
            self.by_neighbour.extend(first..end);
            self.by_neighbour[first..].sort_by_key(|&channel| (self.channels[channel].to, channel));
        }
        for channel in 0..self.channels.len() {
            let Channel { to, to_port, .. } = self.channels[channel];
            self.channels[channel].reverse = self.channel_by_port(to, to_port).unwrap_or(channel);
        }
    }

    fn find_components(&mut self) {
        const NONE: usize = usize::MAX;
        self.component = vec![NONE; self.switches.len()];
        for first in 0..self.switches.len() {
            if self.component[first] != NONE {
                continue;
            }
            self.component[first] = first;
            let mut open = vec![first];
            while let Some(switch) = open.pop() {
                for channel in self.leaving(switch) {
                    let next = self.channels[channel].to;
                    if self.component[next] == NONE {
                        self.component[next] = first;
                        open.push(next);
                    }
                }
            }
        }
    }

    /// How many nodes the graph has: one more than the largest index of a [`NodeId`].
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.index.len()
    }

    /// The switches in order of GUID.
    #[must_use]
    pub fn switches(&self) -> &[NodeId] {
        &self.switches
    }

    /// The GUIDs of the switches.
    #[must_use]
    pub fn switch_guids(&self) -> &[Guid] {
        &self.guids
    }

    /// Whether a switch has an enhanced port 0, which may have several LIDs.
    #[must_use]
    pub fn has_enhanced_port0(&self, switch: usize) -> bool {
        self.enhanced[switch]
    }

    /// The number of a switch; `None` for a host.
    #[must_use]
    pub fn switch(&self, node: NodeId) -> Option<usize> {
        self.index.get(node.index()).copied().flatten()
    }

    /// The host ports that are cabled to switches, in order of port GUID.
    #[must_use]
    pub fn hosts(&self) -> &[HostPort] {
        &self.hosts
    }

    /// GUIDs and ports of hosts that are cabled to another host instead of a switch.
    #[must_use]
    pub fn back_to_back(&self) -> &[(Guid, Endpoint)] {
        &self.back_to_back
    }

    /// By switch: the numbers of its hosts, in order.
    #[must_use]
    pub fn hosts_at(&self) -> &[Vec<usize>] {
        &self.hosts_at
    }

    /// Whether a switch has hosts.
    #[must_use]
    pub fn has_hosts(&self, switch: usize) -> bool {
        !self.hosts_at[switch].is_empty()
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

    /// The numbers of the channels that leave a switch, by neighbour, then by port.
    #[must_use]
    pub fn leaving_by_neighbour(&self, switch: usize) -> &[usize] {
        &self.by_neighbour[self.leaving(switch)]
    }

    /// The numbers of all channels by switch, then by neighbour, then by port.
    #[must_use]
    pub fn channels_by_neighbour(&self) -> &[usize] {
        &self.by_neighbour
    }

    /// The channel that leaves by a switch's port.
    #[must_use]
    pub fn channel_at(&self, end: Endpoint) -> Option<usize> {
        self.channel_by_port(self.switch(end.node)?, end.port)
    }

    /// The channel that leaves a switch, by number, by a port.
    #[must_use]
    pub fn channel_by_port(&self, switch: usize, port: PortNum) -> Option<usize> {
        self.by_port[switch].get(port.index()).copied().flatten()
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
        let HostPort { switch, port, .. } = self.hosts[host];
        Endpoint {
            node: self.switches[switch],
            port,
        }
    }

    /// The last switch on paths to a port that has LIDs, and the port by which that switch
    /// delivers: port 0 for its own. `None` for a host's port that is not cabled to a switch.
    #[must_use]
    pub fn last_hop(&self, end: Endpoint) -> Option<(usize, PortNum)> {
        match self.switch(end.node) {
            Some(switch) => Some((switch, PortNum::MANAGEMENT)),
            None => {
                let host = self.hosts[*self.host_at.get(&end)?];
                Some((host.switch, host.port))
            }
        }
    }

    /// The first switch of the connected component that a switch is in.
    #[must_use]
    pub fn component(&self, switch: usize) -> usize {
        self.component[switch]
    }

    /// Hops from every switch to `target`; `None` where there is no path.
    #[must_use]
    pub fn hops_to(&self, target: usize) -> Vec<Option<u32>> {
        self.hops_from_any(&[target])
    }

    /// By switch, hops from the nearest of `sources`; `None` where there is no path.
    #[must_use]
    pub fn hops_from_any(&self, sources: &[usize]) -> Vec<Option<u32>> {
        let mut hops = vec![None; self.switches.len()];
        for &source in sources {
            hops[source] = Some(0);
        }
        let mut queue: VecDeque<(usize, u32)> = sources.iter().map(|&s| (s, 0)).collect();
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
