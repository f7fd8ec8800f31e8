//! Follows a packet through the switches by their multicast forwarding tables.

use std::collections::{BTreeMap, BTreeSet};

use topologies::{Endpoint, Graph, NodeKind};
use wire::{Lid, PortNum};

use super::mft::Mft;

/// The delivery of one multicast packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// By host port: copies received.
    pub received: BTreeMap<Endpoint, u32>,
    /// Output ports by which copies left switches, each with how many.
    pub sent: BTreeMap<Endpoint, u32>,
    /// The first loop met: the output ports on it, in order. Copies on it go round for ever.
    pub forwarding_loop: Option<Vec<Endpoint>>,
    /// Ports without a cable that a copy was sent to.
    pub lost: BTreeSet<Endpoint>,
    /// Ports whose copies a switch did not know where to send.
    pub wasted: BTreeSet<Endpoint>,
}

/// Follows a packet to `mlid` from a host's port. A switch sends a copy to each port of its row but
/// the one by which the packet came. Copies that meet on one cable are followed once; a loop is
/// walked through once.
pub fn deliver<'a>(
    graph: &Graph,
    mft: impl Fn(topologies::NodeId) -> &'a Mft,
    source: Endpoint,
    mlid: Lid,
) -> Delivery {
    let mut delivery = Delivery::default();
    let Some(first) = graph.peer(source) else {
        return delivery;
    };
    // Where a copy comes in, and how many output ports it took before the last; depth first.
    let mut open: Vec<(Endpoint, usize)> = vec![(first, 0)];
    // The output ports on the way to the copy at hand, the source's own first.
    let mut path: Vec<Endpoint> = Vec::new();
    let mut followed: BTreeSet<Endpoint> = BTreeSet::new();
    while let Some((entry, depth)) = open.pop() {
        let out = graph.peer(entry).unwrap_or(source);
        path.truncate(depth);
        if graph.node(entry.node).kind == NodeKind::Host {
            *delivery.received.entry(entry).or_default() += 1;
            continue;
        }
        if !followed.insert(entry) {
            if let Some(start) = path.iter().position(|&port| port == out) {
                let found = path[start..].to_vec();
                delivery.forwarding_loop.get_or_insert(found);
            }
            continue;
        }
        path.push(out);
        let row = mft(entry.node).get(mlid);
        let ports: Vec<PortNum> = row.iter().filter(|&port| port != entry.port).collect();
        if ports.is_empty() && depth > 0 {
            delivery.wasted.insert(out);
        }
        for port in ports.into_iter().rev() {
            let out = Endpoint {
                node: entry.node,
                port,
            };
            *delivery.sent.entry(out).or_default() += 1;
            match graph.peer(out) {
                Some(next) => open.push((next, path.len())),
                None if port == PortNum::MANAGEMENT => {}
                None => {
                    delivery.lost.insert(out);
                }
            }
        }
    }
    delivery
}

/// A fault of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryProblem {
    /// Copies go round these output ports.
    Loop(Vec<Endpoint>),
    /// A receiver gets no copy.
    Missed(Endpoint),
    /// A receiver gets more copies than one.
    Repeated(Endpoint, u32),
    /// The packet comes back to its source.
    Returned,
    /// A host that is no receiver gets a copy.
    Stray(Endpoint),
    /// A copy is sent to a port without a cable.
    Lost(Endpoint),
    /// A copy is sent to a switch that has nowhere to send it.
    Wasted(Endpoint),
    /// Two copies cross one cable.
    Doubled(Endpoint),
}

/// Holds a delivery against what it should be: each receiver but the source gets one copy, no other
/// host any, the source none, and no cable carries two.
#[must_use]
pub fn check(
    delivery: &Delivery,
    source: Endpoint,
    receivers: &BTreeSet<Endpoint>,
) -> Vec<DeliveryProblem> {
    let mut problems: Vec<DeliveryProblem> = Vec::new();
    problems.extend(delivery.forwarding_loop.clone().map(DeliveryProblem::Loop));
    for &receiver in receivers.iter().filter(|&&receiver| receiver != source) {
        match delivery.received.get(&receiver) {
            None => problems.push(DeliveryProblem::Missed(receiver)),
            Some(1) => {}
            Some(&copies) => problems.push(DeliveryProblem::Repeated(receiver, copies)),
        }
    }
    for &end in delivery.received.keys() {
        if end == source {
            problems.push(DeliveryProblem::Returned);
        } else if !receivers.contains(&end) {
            problems.push(DeliveryProblem::Stray(end));
        }
    }
    problems.extend(delivery.lost.iter().copied().map(DeliveryProblem::Lost));
    problems.extend(delivery.wasted.iter().copied().map(DeliveryProblem::Wasted));
    let doubled = delivery.sent.iter().filter(|&(_, &copies)| copies > 1);
    problems.extend(doubled.map(|(&port, _)| DeliveryProblem::Doubled(port)));
    problems
}

#[cfg(test)]
mod tests;
