//! Effects of faults on the devices and cables of a fabric.

use std::sync::Arc;

use link::{DropReason, PortConfig, PortState};
use topologies::{NodeId, NodeKind};
use wire::PortNum;
use wire::convert::saturate;

use super::{Event, Fabric};
use crate::faults::{CableEnd, FaultKind};
use crate::node::Node;
use crate::numbers::{index, number};

/// From one check of a cable that was put in again to the next, until its links are up, nanoseconds.
const LINK_CHECK_NS: u64 = 10_000;

impl Fabric {
    fn locate(&self, end: &CableEnd) -> Option<(usize, PortNum)> {
        Some((self.graph.find(&end.node)?.index(), end.port))
    }

    /// Applies one fault.
    pub(crate) fn apply_fault(&mut self, what: &FaultKind) {
        let place = what.end().and_then(|end| self.locate(end));
        match (what, place) {
            (FaultKind::LinkDown(_), Some((node, port))) => self.unplug(node, port),
            (FaultKind::LinkUp(_), Some((node, port))) => self.plug(node, port),
            (
                FaultKind::Rates {
                    loss_ppm,
                    corruption_ppm,
                    ..
                },
                Some((node, port)),
            ) => self
                .cables
                .set_rates(node, port, *loss_ppm, *corruption_ppm),
            (FaultKind::CreditLoss { loss_ppm, .. }, Some((node, port))) => {
                self.cables.set_credit_loss(node, port, *loss_ppm);
            }
            (
                FaultKind::SmpImpairment {
                    duplication_ppm,
                    delay_ppm,
                    delay_ns_max,
                    ..
                },
                Some((node, port)),
            ) => self.cables.set_smp_impairment(
                node,
                port,
                (*duplication_ppm, *delay_ppm),
                *delay_ns_max,
            ),
            (FaultKind::Crash(name), _) => self.crash(name),
            (FaultKind::Restart(name), _) => self.restart(name),
            (
                FaultKind::SlowDrain {
                    node,
                    ns_per_packet,
                },
                _,
            ) => self.drain_slowly(node, *ns_per_packet),
            (_, None) => {}
        }
    }

    pub(crate) fn both_ends(&self, node: usize, port: PortNum) -> Vec<(usize, PortNum)> {
        let other = self.cables.other_end(node, port);
        let other = other.map(|(node, port)| (index(node), port));
        core::iter::once((node, port)).chain(other).collect()
    }

    pub(crate) fn unplug(&mut self, node: usize, port: PortNum) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.note_change(self.now);
        }
        for (node, port) in self.both_ends(node, port) {
            self.cables.set_up(node, port, false);
            self.nodes[node].carrier(self.now, port, false);
            self.service(number(node));
        }
    }

    pub(crate) fn plug(&mut self, node: usize, port: PortNum) {
        let ends = self.both_ends(node, port);
        for &(node, port) in &ends {
            self.cables.set_up(node, port, true);
        }
        for (node, port) in ends {
            self.nodes[node].carrier(self.now, port, true);
            self.service(number(node));
        }
        self.queue
            .push(self.now + LINK_CHECK_NS, Event::LinkCheck(number(node)));
    }

    /// Activates the ports of a device, and of its neighbours towards it, whose links have come up
    /// again; schedules another check while a link is still coming up.
    pub(crate) fn check_links(&mut self, node: usize) {
        if self.tables.is_none() {
            // A subnet manager activates them.
            return;
        }
        let graph = Arc::clone(&self.graph);
        let id = NodeId::from_index(node);
        let mut again = false;
        for (port, peer) in graph.cables(id) {
            if self.cables.peer(node, port).is_none() {
                continue;
            }
            let ends = [(id, port), (peer.node, peer.port)];
            let states = ends.map(|(id, port)| {
                let port = self.nodes[id.index()].port(port);
                port.map_or(PortState::Down, link::Port::state)
            });
            if states.contains(&PortState::Down) {
                again = true;
                continue;
            }
            for ((id, port), state) in ends.into_iter().zip(states) {
                if state == PortState::Init
                    && let Err(error) = self.activate_port(id, port)
                {
                    self.tracker.report_violation(self.now, error.to_string());
                }
                self.service(number(id.index()));
            }
        }
        if again {
            self.queue
                .push(self.now + LINK_CHECK_NS, Event::LinkCheck(number(node)));
        }
    }

    pub(crate) fn crash(&mut self, name: &str) {
        let Some(id) = self.graph.find(name) else {
            return;
        };
        let node = id.index();
        let ports: Vec<PortNum> = self.graph.cables(id).map(|(port, _)| port).collect();
        for port in ports {
            // Pulling the cables counts no drop twice: ports count what they drop.
            self.unplug(node, port);
        }
        self.counters.lost += self.nodes[node].packets_inside();
        let (copied, replicated) = self.nodes[node].copies();
        self.copies_before.0 += copied;
        self.copies_before.1 += replicated;
        for (reason, count) in self.drops_of(id) {
            *self.dropped_before.entry(reason).or_default() += count;
        }
        match self.rebuilt(id) {
            Ok(rebuilt) => {
                self.nodes[node] = rebuilt;
                self.unconfigured.insert(node);
            }
            Err(error) => self.tracker.report_violation(self.now, error),
        }
    }

    /// The device as it is after a start.
    fn rebuilt(&self, id: NodeId) -> Result<Node, String> {
        let started = self.counters.events;
        let epoch_seed = saturate::<u32>(started % u64::from(u32::MAX / 2)) + 2;
        let node = self.graph.node(id);
        let Some((port, timing)) = self.management.devices else {
            let port = self.model.port(node.guid, epoch_seed);
            return Node::switch(&self.graph, id, port, self.model.timing())
                .map_err(|error| error.to_string());
        };
        let port = PortConfig { epoch_seed, ..port };
        match node.kind {
            NodeKind::Switch => {
                Node::switch(&self.graph, id, port, timing).map_err(|error| error.to_string())
            }
            NodeKind::Host => Node::host(&self.graph, id, port).map_err(|error| error.to_string()),
        }
    }

    fn drain_slowly(&mut self, name: &str, ns_per_packet: u64) {
        let Some(id) = self.graph.find(name) else {
            return;
        };
        if let Node::TrafficHost(host) = &mut self.nodes[id.index()] {
            host.drain_slowly(self.now, ns_per_packet);
            // The next tick takes what waits.
            self.nodes[id.index()].tick(self.now);
            self.service(number(id.index()));
        }
    }

    pub(super) fn drops_of(&self, id: NodeId) -> Vec<(DropReason, u64)> {
        let ports = (1..=self.graph.node(id).ports).map(PortNum::new);
        let ports = ports.filter_map(|port| self.nodes[id.index()].port(port));
        let all = ports.flat_map(|port| port.counts().drops.iter());
        all.filter(|&(_, count)| count > 0).collect()
    }

    pub(crate) fn restart(&mut self, name: &str) {
        let Some(id) = self.graph.find(name) else {
            return;
        };
        let node = id.index();
        let graph = Arc::clone(&self.graph);
        for (port, _) in graph.cables(id) {
            let ends = self.both_ends(node, port);
            for &(node, port) in &ends {
                self.cables.set_up(node, port, true);
            }
            for (node, port) in ends {
                self.nodes[node].carrier(self.now, port, true);
                self.service(number(node));
            }
        }
        self.queue
            .push(self.now + LINK_CHECK_NS, Event::LinkCheck(number(node)));
    }
}
