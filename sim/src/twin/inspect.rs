//! What can be seen of a twin from outside: what is left of its fabric, where its packets are, what
//! its checkers have found.

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{PortNum, Vl, convert};

use super::Twin;
use crate::deadlock::Deadlock;
use crate::fabric::RunCounters;
use crate::node::Node;
use crate::packet_tracker::Violation;

/// Unicast datagrams between hosts, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Put on the cables of hosts.
    pub sent: u64,
    /// Come to hosts whole.
    pub delivered: u64,
    /// Multicast copies that have come to hosts.
    pub copies: u64,
    /// Packets of any kind that devices have dropped, those of crashed devices among them.
    pub dropped: u64,
    /// Packets of any kind lost on cables and in crashed devices.
    pub lost: u64,
}

impl Twin {
    /// The topology, whole.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.fabric.graph
    }

    /// The devices and cables that are there and that cables join to the manager's host.
    #[must_use]
    pub fn surviving(&self) -> Graph {
        let graph = &self.fabric.graph;
        let mut joined = vec![false; graph.len()];
        let mut next: Vec<NodeId> = self.manager_host().into_iter().collect();
        while let Some(node) = next.pop() {
            if self.is_down(node) || core::mem::replace(&mut joined[node.index()], true) {
                continue;
            }
            let cables = graph.cables(node);
            let whole = cables.filter(|&(port, _)| !self.is_cut(Endpoint { node, port }));
            next.extend(whole.map(|(_, peer)| peer.node));
        }
        let mut surviving = Graph::new();
        let mut places = vec![None; graph.len()];
        for id in graph.ids().filter(|id| joined[id.index()]) {
            // Names and GUIDs were unique already.
            places[id.index()] = surviving.add(graph.node(id).clone()).ok();
        }
        for (one, other) in graph.links() {
            let place = |end: Endpoint| {
                Some(Endpoint {
                    node: places[end.node.index()]?,
                    port: end.port,
                })
            };
            if let (Some(one_there), Some(other_there)) = (place(one), place(other))
                && !self.is_cut(one)
            {
                // The ports were free in the whole graph, too.
                let _ = surviving.connect(one_there, other_there);
            }
        }
        surviving
    }

    /// What the checkers have found: the first violations.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.fabric.tracker.violations
    }

    /// Packets that wait for each other in a cycle just now.
    #[must_use]
    pub fn find_deadlock(&self) -> Option<Deadlock> {
        self.fabric.find_deadlock()
    }

    /// How often something has happened.
    #[must_use]
    pub fn run_counters(&self) -> RunCounters {
        self.fabric.counters
    }

    /// Datagrams between hosts.
    #[must_use]
    pub fn datagrams(&self) -> DatagramCounts {
        let datagrams = self.fabric.datagrams.as_deref();
        DatagramCounts {
            sent: datagrams.map_or(0, |datagrams| datagrams.sent),
            delivered: datagrams.map_or(0, |datagrams| datagrams.delivered),
            copies: datagrams.map_or(0, |datagrams| datagrams.copies),
            dropped: self.fabric.drops().iter().map(|&(_, count)| count).sum(),
            lost: self.fabric.counters.lost,
        }
    }

    /// What is not as it must be in a fabric in which nothing is under way: packets that have got
    /// stuck, credits that have not come back. Give it time to be repeated what was lost: two
    /// keep-alives.
    #[must_use]
    pub fn unrest(&self) -> Vec<String> {
        let mut found = Vec::new();
        let graph = &self.fabric.graph;
        for id in graph.ids().filter(|&id| !self.is_down(id)) {
            let name = &graph.node(id).name;
            let inside = match &self.fabric.nodes[id.index()] {
                Node::Host(host) => convert::u64_of(host.packets_inside()),
                other => other.packets_inside(),
            };
            if inside > 0 {
                found.push(format!("{name}: {inside} packets have not left it"));
            }
            for (port, _) in graph.cables(id) {
                found.extend(self.missing_credits(id, port));
            }
        }
        found
    }

    /// Credits that a port should have, and has not.
    fn missing_credits(&self, id: NodeId, number: PortNum) -> Option<String> {
        let (peer, peer_port) = self.fabric.cables.peer(id.index(), number)?;
        let port = self.fabric.nodes[id.index()].port(number)?;
        let peer = self.fabric.nodes[crate::numbers::index(peer)].port(peer_port)?;
        if port.state() != link::PortState::Active || peer.state() != link::PortState::Active {
            return None;
        }
        let full = peer.config().buffer_blocks();
        let full = full.min(u32::from(link::CREDIT_BLOCKS_MAX));
        let vls = port.operational_vls().min(peer.operational_vls());
        let short = (0..vls)
            .map(Vl::constant)
            .find(|&vl| u32::from(port.credits(vl)) != full)?;
        let name = &self.fabric.graph.node(id).name;
        let credits = port.credits(short);
        Some(format!(
            "{name} port {number} VL {short}: {credits} blocks of credit, and the buffer behind it \
             holds {full}"
        ))
    }

    /// The names of devices of a kind that run.
    #[must_use]
    pub fn running(&self, kind: NodeKind) -> Vec<String> {
        let graph = &self.fabric.graph;
        let running = graph.ids().filter(|&id| !self.is_down(id));
        let nodes = running.map(|id| graph.node(id));
        let wanted = nodes.filter(|node| node.kind == kind);
        wanted.map(|node| node.name.clone()).collect()
    }
}
