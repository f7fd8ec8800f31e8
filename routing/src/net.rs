//! A graph seen in an order of its own, so that tables do not depend on the order in which nodes
//! were found: switches by GUID, host ports by GUID, cables by port.

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Guid, PortNum};

use crate::lids::port_guid;

/// "No switch".
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A cable from a switch to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The port here.
    pub(crate) port: PortNum,
    /// The switch there.
    pub(crate) to: u32,
    /// The port there.
    pub(crate) to_port: PortNum,
}

/// A connected port of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    pub(crate) guid: Guid,
    pub(crate) end: Endpoint,
    /// Its switch, or [`NOWHERE`] if its cable leads to another host.
    pub(crate) switch: u32,
    /// The switch's port.
    pub(crate) port: PortNum,
}

pub(crate) struct Net<'g> {
    pub(crate) graph: &'g Graph,
    /// By GUID; everything else here speaks of switches by their place in this list.
    pub(crate) switches: Vec<NodeId>,
    /// By node: the switch's place.
    places: Vec<u32>,
    /// By switch: cables to other switches in order of neighbour, then of port.
    pub(crate) links: Vec<Vec<Link>>,
    /// Host ports by GUID.
    pub(crate) ends: Vec<HostPort>,
    /// By switch: how many host ports it has.
    pub(crate) hosts: Vec<u32>,
    /// By switch: which connected part of the fabric it is in, named by its first switch.
    pub(crate) part: Vec<u32>,
}

impl<'g> Net<'g> {
    pub(crate) fn new(graph: &'g Graph) -> Self {
        let mut switches: Vec<NodeId> = graph.switches().collect();
        switches.sort_by_key(|&id| graph.node(id).guid);
        let mut places = vec![NOWHERE; graph.len()];
        for (place, id) in (0..).zip(&switches) {
            places[id.index()] = place;
        }
        let links = switches
            .iter()
            .map(|&id| links_of(graph, &places, id))
            .collect();
        let mut net = Self {
            graph,
            hosts: vec![0; switches.len()],
            part: vec![NOWHERE; switches.len()],
            switches,
            places,
            links,
            ends: Vec::new(),
        };
        net.find_ends();
        net.find_parts();
        net
    }

    fn find_ends(&mut self) {
        for host in self.graph.hosts() {
            for (port, peer) in self.graph.cables(host) {
                let end = Endpoint { node: host, port };
                let switch = self.places[peer.node.index()];
                if let Some(hosts) = self.hosts.get_mut(switch as usize) {
                    *hosts += 1;
                }
                self.ends.push(HostPort {
                    guid: port_guid(self.graph, end),
                    end,
                    switch,
                    port: peer.port,
                });
            }
        }
        self.ends.sort_by_key(|end| (end.guid, end.end));
    }

    fn find_parts(&mut self) {
        for first in 0..self.len() {
            if self.part[first as usize] != NOWHERE {
                continue;
            }
            self.part[first as usize] = first;
            let mut open = vec![first];
            while let Some(switch) = open.pop() {
                for link in &self.links[switch as usize] {
                    if self.part[link.to as usize] == NOWHERE {
                        self.part[link.to as usize] = first;
                        open.push(link.to);
                    }
                }
            }
        }
    }

    /// How many switches there are.
    pub(crate) fn len(&self) -> u32 {
        // NodeId is 32 bits wide, so the count fits.
        u32::try_from(self.switches.len()).unwrap_or(NOWHERE)
    }

    /// The place of a switch; [`NOWHERE`] for a host.
    pub(crate) fn place(&self, node: NodeId) -> u32 {
        self.places[node.index()]
    }
}

fn links_of(graph: &Graph, places: &[u32], id: NodeId) -> Vec<Link> {
    let mut links: Vec<Link> = graph
        .cables(id)
        .filter(|(_, peer)| peer.node != id && graph.node(peer.node).kind == NodeKind::Switch)
        .map(|(port, peer)| Link {
            port,
            to: places[peer.node.index()],
            to_port: peer.port,
        })
        .collect();
    links.sort_by_key(|link| (link.to, link.port));
    links
}
