//! Packets on their way: through links and switches to the agents and managers of nodes.

use mad::agent::{Arrival, Next, handle_smp};
use mad::local::{FromAgent, MadMessage};
use mad::smi::Origin;
use topologies::{Endpoint, NodeId, NodeKind};
use wire::{Lid, Lmc, Mad, Method, MgmtClass, PortNum, Qpn, Sl};

use super::Bed;
use super::time::Event;

/// The shortest time of a packet on a link, nanoseconds.
const HOP_NS_MIN: u64 = 1_000;
/// How much longer it takes at most, nanoseconds.
const HOP_NS_SPREAD: u64 = 20_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    dlid: Lid,
    slid: Lid,
    qpn: Qpn,
    mad: Mad,
}

impl Bed {
    /// A program beside `host` sends a MAD.
    pub fn write(&mut self, host: NodeId, message: &MadMessage) {
        let mad = Mad::from_bytes(*message.mad);
        // A directed route begins and ends without LIDs.
        let own = match message.lid {
            Lid::PERMISSIVE => Lid::PERMISSIVE,
            _ => self.address(host).0,
        };
        let packet = Packet {
            dlid: message.lid,
            slid: own,
            qpn: message.qpn,
            mad,
        };
        let to_itself = message.lid == Lid::PERMISSIVE || self.has_lid(host, message.lid);
        if to_itself {
            self.take(host, Origin::Here, packet);
        } else {
            self.route(host, packet);
        }
    }

    /// LID and LMC of a node.
    pub fn address(&self, id: NodeId) -> (Lid, Lmc) {
        let port = match self.graph.node(id).kind {
            NodeKind::Switch => PortNum::MANAGEMENT,
            NodeKind::Host => PortNum::new(1),
        };
        let settings = self.stations[id.index()].sma.settings(port);
        (settings.lid, settings.lmc)
    }

    fn has_lid(&self, id: NodeId, lid: Lid) -> bool {
        let (base, lmc) = self.address(id);
        lid.belongs_to(base, lmc)
    }

    /// A LID-routed packet leaves a node by its table.
    fn route(&mut self, id: NodeId, packet: Packet) {
        if self.has_lid(id, packet.dlid) {
            return self.take(id, Origin::Here, packet);
        }
        let port = match self.graph.node(id).kind {
            NodeKind::Host => PortNum::new(1),
            NodeKind::Switch => self.node(id).exit(packet.dlid),
        };
        self.leave(Endpoint { node: id, port }, packet);
    }

    fn leave(&mut self, end: Endpoint, packet: Packet) {
        let lost = self.random.below(1000) < self.loss_per_mille;
        let delay = HOP_NS_MIN + self.random.below(HOP_NS_SPREAD);
        if let Some(peer) = self.graph.peer(end)
            && !self.down.contains(&end)
            && !lost
        {
            self.at(self.now + delay, Event::Arrive(peer, Box::new(packet)));
        }
    }

    pub(super) fn arrive(&mut self, end: Endpoint, packet: Packet) {
        if self.down.contains(&end) {
            return;
        }
        let directed = packet.dlid == Lid::PERMISSIVE;
        if directed || self.has_lid(end.node, packet.dlid) {
            self.take(end.node, Origin::Port(end.port), packet);
        } else if self.graph.node(end.node).kind == NodeKind::Switch {
            self.route(end.node, packet);
        }
    }

    /// A packet is for this node.
    fn take(&mut self, id: NodeId, origin: Origin, packet: Packet) {
        let message = |mad: &Mad| {
            FromAgent::Received(MadMessage {
                lid: packet.slid,
                qpn: packet.qpn,
                sl: Sl::default(),
                mad: Box::new(*mad.as_bytes()),
                way: None,
            })
        };
        if !packet.mad.class().is_subnet_management() {
            return self.at(self.now, Event::Client(id, message(&packet.mad)));
        }
        if let (Some(pretend), Origin::Port(_)) = (&mut self.pretend, origin)
            && pretend.0 == id
            && packet.dlid == Lid::PERMISSIVE
            && !packet.mad.is_returning()
        {
            let mut mad = packet.mad;
            (pretend.1)(&mut mad);
            mad.set_method(Method::GET_RESP);
            mad.set_returning(true);
            let end = Endpoint {
                node: id,
                port: PortNum::new(1),
            };
            return self.leave(end, Packet { mad, ..packet });
        }
        let sm_here = self.registered.contains(&(id, MgmtClass::SUBN_LID.0));
        let now = self.now;
        let station = &mut self.stations[id.index()];
        let mut mad = packet.mad;
        let arrival = Arrival {
            origin,
            slid: packet.slid,
            dlid: packet.dlid,
        };
        let next = handle_smp(
            now,
            &mut station.sma,
            &mut station.node,
            &mut mad,
            arrival,
            sm_here,
        );
        let answered = !packet.mad.method().is_response() && mad.method().is_response();
        if station.silent && answered {
            return;
        }
        if let Some(lie) = station.lie.as_mut().filter(|_| answered) {
            lie(&mut mad);
        }
        let packet = Packet { mad, ..packet };
        match next {
            Next::Directed(port) => self.leave(Endpoint { node: id, port }, packet),
            Next::ToLid { dlid, slid } => self.route(
                id,
                Packet {
                    dlid,
                    slid,
                    ..packet
                },
            ),
            Next::Client => self.at(self.now, Event::Client(id, message(&mad))),
            Next::Discard(_) => {}
        }
        self.traps(id);
    }

    pub(super) fn traps(&mut self, id: NodeId) {
        let now = self.now;
        while let Some(trap) = self.stations[id.index()].sma.poll_trap(now) {
            let packet = Packet {
                dlid: trap.dlid,
                slid: trap.slid,
                qpn: Qpn::SMI,
                mad: trap.mad,
            };
            self.route(id, packet);
        }
        if let Some(at) = self.stations[id.index()].sma.deadline() {
            self.at(at, Event::Trap(id));
        }
    }
}
