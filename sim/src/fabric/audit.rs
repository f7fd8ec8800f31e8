//! The checkers of the whole fabric: packets balance, no credit exceeds a buffer, no packets wait for each
//! other in a cycle.

use link::{DropReason, Time};
use topologies::NodeId;
use wire::{Lrh, PortNum, Vl};

use super::{Event, Fabric};
use crate::balance::Balance;
use crate::deadlock::Deadlock;
use crate::node::Node;
use crate::numbers::index;

/// From one audit to the next, nanoseconds.
const AUDIT_NS: u64 = 20_000;
/// A head that has not moved for so long counts as blocked, nanoseconds.
const STALL_NS: u64 = 20_000;
/// Drops that are no packets: link control, and what comes in over a link that is down.
const NON_PACKET_DROPS: [DropReason; 2] = [DropReason::BadRecord, DropReason::BadControl];

impl Fabric {
    /// Where all packets are.
    pub(crate) fn balance(&self) -> Balance {
        let copies = self.nodes.iter().map(Node::copies);
        let (copied, replicated) = copies
            .fold(self.copies_before, |(copied, replicated), (c, a)| {
                (copied + c, replicated + a)
            });
        Balance {
            injected: self.tracker.injected,
            copied,
            replicated,
            delivered: self.tracker.delivered,
            queued: self.nodes.iter().map(|node| node.packets_inside()).sum(),
            in_flight: self.in_flight,
            dropped: self.drops().iter().map(|&(_, count)| count).sum(),
            lost: self.counters.lost,
        }
    }

    /// Packets dropped by all devices, by reason, in a stable order; reasons without a drop are
    /// left out.
    pub(crate) fn drops(&self) -> Vec<(DropReason, u64)> {
        let ids = self.graph.ids();
        let ports = ids.flat_map(|id| (1..=self.graph.node(id).ports).map(move |port| (id, port)));
        let ports = ports.filter_map(|(id, port)| self.nodes[id.index()].port(PortNum::new(port)));
        let drops = ports.map(|port| &port.counts().drops);
        let drops: Vec<_> = drops.filter(|drops| drops.has_any()).collect();
        DropReason::ALL
            .iter()
            .filter(|reason| !NON_PACKET_DROPS.contains(reason))
            .map(|&reason| {
                let here: u64 = drops.iter().map(|drops| drops[reason]).sum();
                let crashed = self.dropped_before.get(&reason).copied();
                (reason, here + crashed.unwrap_or(0))
            })
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    /// Packets dropped by a device since it was started.
    pub(crate) fn dropped_by(&self, id: NodeId) -> u64 {
        let drops = self.drops_of(id).into_iter();
        let of_packets = drops.filter(|(reason, _)| !NON_PACKET_DROPS.contains(reason));
        of_packets.map(|(_, count)| count).sum()
    }

    /// Makes an audit and schedules the next one.
    pub(crate) fn audit(&mut self) {
        if self.audits {
            self.check_all();
            self.queue.push(self.now + AUDIT_NS, Event::Audit);
        }
    }

    /// Checks the balance and looks for a cycle.
    pub(crate) fn check_all(&mut self) {
        self.counters.audits += 1;
        let balance = self.balance();
        if !balance.is_balanced() {
            self.tracker
                .report_violation(self.now, format!("packets do not balance: {balance:?}"));
        }
        let overruns = self
            .drops()
            .into_iter()
            .find(|&(reason, _)| reason == DropReason::BufferOverrun);
        if let Some((_, count)) = overruns {
            self.tracker.report_violation(
                self.now,
                format!("{count} packets were sent without credit"),
            );
        }
        if self.deadlock.is_none() {
            self.deadlock = self.find_deadlock();
        }
    }

    /// After packets have been sent: what may still be sent, and the first of them, whose header this is, are no
    /// more than the peer's buffer.
    #[inline]
    pub(crate) fn check_credits(&mut self, node: usize, port: PortNum, first: &Lrh) {
        let vl = first.vl;
        if vl == Vl::MANAGEMENT {
            return;
        }
        let Some(port) = self.nodes[node].port(port) else {
            return;
        };
        let credits = u32::from(port.credits(vl));
        let buffer = port.buffer_blocks(vl);
        if credits + u32::from(link::blocks(first.packet_bytes())) > buffer {
            let name = self
                .graph
                .ids()
                .nth(node)
                .map(|id| &self.graph.node(id).name);
            let what = format!(
                "{name:?} port {} VL {}: {credits} blocks of credit after a packet, buffer \
                 {buffer}",
                port.number(),
                vl.get()
            );
            self.tracker.report_violation(self.now, what);
        }
    }

    /// The cycle that was found, if any.
    pub(crate) fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }

    /// Since when a head must have waited to count as blocked.
    pub(super) fn stalled_before(&self) -> Time {
        self.now - STALL_NS
    }

    /// The device at the other end of a cable, if it is a switch.
    pub(super) fn next_switch(&self, node: usize, port: PortNum) -> Option<(usize, PortNum)> {
        let (peer, peer_port) = self.cables.peer(node, port)?;
        self.nodes[index(peer)]
            .is_switch()
            .then_some((index(peer), peer_port))
    }
}
