//! Inspection of a twin: the remaining fabric, its packets, violations.

use std::collections::BTreeMap;

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::control::PortStatus;
use wire::sa::PathRecord;
use wire::{Guid, Mad, PortNum, Vl, convert};

use super::Twin;
use crate::deadlock::Deadlock;
use crate::fabric::RunCounters;
use crate::node::Node;
use crate::numbers::number;
use crate::packet_tracker::Violation;

/// Counts of datagrams between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Put on the cables of hosts.
    pub sent: u64,
    /// Come to hosts whole.
    pub delivered: u64,
    /// Multicast copies that have come to hosts.
    pub copies: u64,
    /// Datagrams of hosts whose order and number were not checked, since too many were remembered.
    pub unchecked: u64,
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

    /// The devices and cables that are there and that cables join to the first manager's host.
    #[must_use]
    pub fn remaining(&self) -> Graph {
        self.manager_host(0)
            .map_or_else(Graph::new, |host| self.joined_to(host))
    }

    /// The devices and cables that are there and that cables join to a device.
    #[must_use]
    pub fn joined_to(&self, device: NodeId) -> Graph {
        let graph = &self.fabric.graph;
        let mut joined = vec![false; graph.len()];
        let mut next = vec![device];
        while let Some(node) = next.pop() {
            if self.is_down(node) || core::mem::replace(&mut joined[node.index()], true) {
                continue;
            }
            let cables = graph.cables(node);
            let whole = cables.filter(|&(port, _)| !self.is_unplugged(Endpoint { node, port }));
            next.extend(whole.map(|(_, peer)| peer.node));
        }
        let mut remaining = Graph::new();
        let mut places = vec![None; graph.len()];
        for id in graph.ids().filter(|id| joined[id.index()]) {
            // Names and GUIDs were unique already.
            places[id.index()] = remaining.add(graph.node(id).clone()).ok();
        }
        for (one, other) in graph.links() {
            let place = |end: Endpoint| {
                Some(Endpoint {
                    node: places[end.node.index()]?,
                    port: end.port,
                })
            };
            if let (Some(one_there), Some(other_there)) = (place(one), place(other))
                && !self.is_unplugged(one)
            {
                // The ports were free in the whole graph, too.
                let _ = remaining.connect(one_there, other_there);
            }
        }
        remaining
    }

    /// Answers a Get of an attribute of a device in place, without a packet and without a key.
    pub fn read(&mut self, device: NodeId, mad: &mut Mad) {
        let now = self.fabric.now;
        match &mut self.fabric.nodes[device.index()] {
            Node::Switch(switch) => switch.read_own(now, mad),
            Node::Host(host) => host.read_attribute(now, mad),
            Node::TrafficHost(_) => {}
        }
    }

    /// State and counters of a device's ports, as its control socket gives them.
    #[must_use]
    pub fn ports(&self, device: NodeId) -> Vec<PortStatus> {
        match &self.fabric.nodes[device.index()] {
            Node::Switch(switch) => switch.port_statuses(),
            Node::Host(host) => host.port_statuses(),
            Node::TrafficHost(_) => Vec::new(),
        }
    }

    /// The path record that the first manager which has the subnet up gives one host port for another, by port
    /// GUIDs.
    #[must_use]
    pub fn path_record(&self, source: Guid, destination: Guid) -> Option<PathRecord> {
        let managers = self.fabric.management.managers.iter();
        let mut running = managers.filter_map(|manager| manager.sm.as_ref());
        running.find_map(|sm| sm.path_record(source, destination))
    }

    /// From now on it is a violation that a datagram between hosts comes to a port that is not to have
    /// it by its P_Key. `tables`: the P_Key tables that hosts are to have. Packets of the default
    /// partition are not looked at: its full members depend on the manager.
    pub fn check_partitions(&mut self, tables: &BTreeMap<NodeId, Vec<u16>>) {
        if let Some(datagrams) = &mut self.fabric.datagrams {
            let tables = tables.iter();
            datagrams.partitions = tables
                .map(|(host, keys)| (number(host.index()), keys.clone()))
                .collect();
        }
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
            unchecked: datagrams.map_or(0, |datagrams| datagrams.unchecked),
            dropped: self.fabric.drops().iter().map(|&(_, count)| count).sum(),
            lost: self.fabric.counters.lost,
        }
    }

    /// Packets of any kind that a device has dropped since it was started.
    #[must_use]
    pub fn dropped_by(&self, device: NodeId) -> u64 {
        self.fabric.dropped_by(device)
    }

    /// Violations in a fabric that must be idle: packets that are stuck, credits that were not
    /// returned. Lost credit updates are repeated within two keep-alives: let that time pass before.
    #[must_use]
    pub fn quiescence_violations(&self) -> Vec<String> {
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
