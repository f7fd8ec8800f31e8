//! A fabric in virtual time: the real management agents of every node of a graph, joined by links
//! that take time, lose packets and go down, with subnet managers beside some hosts.
//!
//! There is no dataplane: a packet takes a random time for each hop, drawn from a seed, so that
//! answers overtake each other.
#![allow(dead_code, unreachable_pub)] // each test uses a part

mod node;
mod station;

use std::collections::{BTreeMap, BTreeSet};

use controller::control::{Phase, Status};
use controller::{Sm, SmConfig, SmEvent};
use link::{PortState, Time};
use mad::agent::{Arrival, Next, handle_smp};
use mad::local::{FromAgent, MadMessage, ToAgent};
use mad::sma::Outcome;
use mad::smi::Origin;
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::attr::Attribute;
use wire::{Lid, Lmc, Mad, MadStatus, Method, MgmtClass, PortNum, Qpn, Sl};

pub use node::{BedNode, Change};
use station::{Random, Station};

const HOP_NS_MIN: u64 = 1_000;
const HOP_NS_SPREAD: u64 = 20_000;
/// No scenario takes longer than this, in nanoseconds of virtual time.
const SCENARIO_NS_MAX: u64 = 120_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Packet {
    dlid: Lid,
    slid: Lid,
    qpn: Qpn,
    mad: Mad,
}

enum Event {
    Arrive(Endpoint, Box<Packet>),
    Client(NodeId, FromAgent),
    Trap(NodeId),
}

/// The fabric.
pub struct Bed {
    pub graph: Graph,
    pub now: Time,
    stations: Vec<Station>,
    down: BTreeSet<Endpoint>,
    managers: BTreeMap<NodeId, Sm>,
    registered: BTreeSet<(NodeId, u8)>,
    events: BTreeMap<(Time, u64), Event>,
    last_event: u64,
    random: Random,
    /// How many of a thousand packets are lost on each hop.
    pub loss_per_mille: u64,
    /// Events of the managers, by host.
    pub events_reported: Vec<(NodeId, SmEvent)>,
    /// Answers of subnet administration and other datagrams to hosts without a manager.
    pub received: Vec<(NodeId, MadMessage)>,
}

impl Bed {
    /// The fabric of that graph, all links in Init.
    pub fn new(graph: Graph, seed: u64) -> Self {
        Self::with_vls(graph, seed, 1)
    }

    /// The same with that many data VLs on every port.
    pub fn with_vls(graph: Graph, seed: u64, vls: u8) -> Self {
        let stations = graph
            .ids()
            .map(|id| Station::new(&graph, id, vls))
            .collect();
        let mut bed = Self {
            graph,
            now: Time::ZERO,
            stations,
            down: BTreeSet::new(),
            managers: BTreeMap::new(),
            registered: BTreeSet::new(),
            events: BTreeMap::new(),
            last_event: 0,
            random: Random(seed.wrapping_mul(2).wrapping_add(1)),
            loss_per_mille: 0,
            events_reported: Vec::new(),
            received: Vec::new(),
        };
        let ends: Vec<Endpoint> = bed.graph.links().map(|(a, _)| a).collect();
        for end in ends {
            bed.plug(end);
        }
        bed
    }

    /// The node of that name.
    pub fn id(&self, name: &str) -> NodeId {
        self.graph.find(name).expect("the graph has that node")
    }

    /// What a node is configured to.
    pub fn node(&self, id: NodeId) -> &BedNode {
        &self.stations[id.index()].node
    }

    /// Starts a manager beside a host; another one there ends without notice.
    pub fn start(&mut self, host: NodeId, config: SmConfig) {
        self.registered.retain(|&(node, _)| node != host);
        let mut sm = Sm::new(config).expect("the configuration is sound");
        sm.tick(self.now);
        self.managers.insert(host, sm);
        self.drain(host);
    }

    /// The manager beside a host ends without notice.
    pub fn stop(&mut self, host: NodeId) -> Sm {
        self.registered.retain(|&(node, _)| node != host);
        let station = &mut self.stations[host.index()];
        let port = PortNum::new(1);
        station.sma.set_is_sm(self.now, &station.node, port, false);
        self.managers.remove(&host).expect("there is a manager")
    }

    /// The manager beside a host.
    pub fn manager(&mut self, host: NodeId) -> &mut Sm {
        self.managers.get_mut(&host).expect("there is a manager")
    }

    /// The connection between a manager and its host, which was restarted, is made anew.
    pub fn reconnect(&mut self, host: NodeId) {
        let classes: Vec<u8> = self
            .registered
            .iter()
            .filter(|(node, _)| *node == host)
            .map(|&(_, class)| class)
            .collect();
        for class in classes {
            let registered = true;
            let answer = FromAgent::Registered { class, registered };
            self.at(self.now, Event::Client(host, answer));
        }
    }

    /// How the subnet stands, as the manager beside a host sees it.
    pub fn status(&self, host: NodeId) -> Status {
        self.managers[&host].status(self.now)
    }

    /// What was changed in the nodes since the last call, in order of node.
    pub fn changes(&mut self) -> Vec<(NodeId, Change)> {
        let ids = self.graph.ids();
        ids.zip(&mut self.stations)
            .flat_map(|(id, station)| {
                let changes = core::mem::take(&mut station.node.changes);
                changes.into_iter().map(move |change| (id, change))
            })
            .collect()
    }

    /// The text that a manager last gave for its successor.
    pub fn persisted(&self, host: NodeId) -> Option<String> {
        self.events_reported
            .iter()
            .rev()
            .find_map(|(from, event)| match event {
                SmEvent::Persist(text) if *from == host => Some(text.clone()),
                _ => None,
            })
    }

    /// Whether a node gives no answers to management; it still passes packets on.
    pub fn silence(&mut self, id: NodeId, silent: bool) {
        self.stations[id.index()].silent = silent;
    }

    /// Somebody else sets an attribute of a node.
    pub fn set_behind_the_manager<A: Attribute>(&mut self, id: NodeId, modifier: u32, value: &A) {
        let mut mad = Mad::lid_smp(Method::SET, A::ID, modifier, 1);
        mad.set_smp_attribute(value);
        let answer = self.ask_agent(id, mad);
        assert_eq!(answer.status(), MadStatus::OK);
    }

    /// An attribute of a node.
    pub fn get<A: Attribute>(&mut self, id: NodeId, modifier: u32) -> A {
        let answer = self.ask_agent(id, Mad::lid_smp(Method::GET, A::ID, modifier, 1));
        answer.smp_attribute().expect("the node has that attribute")
    }

    fn ask_agent(&mut self, id: NodeId, mut mad: Mad) -> Mad {
        let port = match self.graph.node(id).kind {
            NodeKind::Switch => PortNum::MANAGEMENT,
            NodeKind::Host => PortNum::new(1),
        };
        let station = &mut self.stations[id.index()];
        let outcome = station
            .sma
            .handle(self.now, &mut station.node, &mut mad, port);
        assert_eq!(outcome, Outcome::Answered);
        mad
    }

    /// Pulls a cable.
    pub fn cut(&mut self, end: Endpoint) {
        let peer = self.graph.peer(end).expect("there is a cable");
        self.down.extend([end, peer]);
        self.link(end, false);
        self.link(peer, false);
    }

    /// Plugs a cable in again, if both its ends are alive.
    pub fn plug(&mut self, end: Endpoint) {
        let peer = self.graph.peer(end).expect("there is a cable");
        let alive = |end: Endpoint| !self.stations[end.node.index()].dead;
        if alive(end) && alive(peer) {
            self.down.remove(&end);
            self.down.remove(&peer);
            self.link(end, true);
            self.link(peer, true);
        }
    }

    /// A device dies: it forgets everything and its cables are down.
    pub fn kill(&mut self, id: NodeId) {
        self.stations[id.index()] = Station::new(&self.graph, id, 1);
        self.stations[id.index()].dead = true;
        let ends: Vec<Endpoint> = self.ends(id);
        for end in ends {
            self.cut(end);
        }
    }

    /// A device comes back, with nothing configured.
    pub fn revive(&mut self, id: NodeId) {
        self.stations[id.index()].dead = false;
        for end in self.ends(id) {
            self.plug(end);
        }
    }

    /// The ports of a node with a cable.
    pub fn ends(&self, id: NodeId) -> Vec<Endpoint> {
        let cables = self.graph.cables(id);
        cables
            .map(|(port, _)| Endpoint { node: id, port })
            .collect()
    }

    fn link(&mut self, end: Endpoint, up: bool) {
        let now = self.now;
        let station = &mut self.stations[end.node.index()];
        if station.dead {
            return;
        }
        let state = if up { PortState::Init } else { PortState::Down };
        if station.node.set_state(end.port, state) && station.node.is_switch() {
            station.sma.link_changed(now);
        }
        self.traps(end.node);
    }

    fn traps(&mut self, id: NodeId) {
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

    fn at(&mut self, at: Time, event: Event) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    /// Runs until the manager beside `host` is up again: it has completed a sweep that began no
    /// earlier than now, and nothing more is wanted of it at once.
    pub fn run_until_up(&mut self, host: NodeId) -> Status {
        let before = self.status(host).generation;
        self.run_until(host, |status| {
            status.phase == Phase::Up && status.generation > before
        })
    }

    /// Runs until the manager's report is as wanted.
    pub fn run_until(&mut self, host: NodeId, wanted: impl Fn(&Status) -> bool) -> Status {
        let limit = self.now + SCENARIO_NS_MAX;
        loop {
            let status = self.status(host);
            if wanted(&status) {
                return status;
            }
            assert!(
                self.now < limit && self.step(),
                "not reached: {status:#?}\n{:#?}",
                self.events_reported
            );
        }
    }

    /// Runs for so long.
    pub fn run_for(&mut self, ns: u64) {
        let end = self.now + ns;
        while self.next_moment().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    fn next_moment(&self) -> Option<Time> {
        let event = self.events.keys().next().map(|&(at, _)| at);
        let deadlines = self.managers.values().filter_map(Sm::deadline);
        deadlines
            .map(|deadline| deadline.at.max(self.now))
            .chain(event)
            .min()
    }

    /// Does what is next. `false` if there is nothing.
    fn step(&mut self) -> bool {
        let Some(moment) = self.next_moment() else {
            return false;
        };
        self.now = self.now.max(moment);
        let due: Vec<NodeId> = self
            .managers
            .iter()
            .filter(|(_, sm)| {
                sm.deadline()
                    .is_some_and(|deadline| deadline.at <= self.now)
            })
            .map(|(&host, _)| host)
            .collect();
        for host in due {
            let now = self.now;
            self.manager(host).tick(now);
            self.drain(host);
        }
        while let Some((&(at, _), _)) = self.events.first_key_value() {
            if at > self.now {
                break;
            }
            match self.events.pop_first() {
                Some((_, Event::Arrive(end, packet))) => self.arrive(end, *packet),
                Some((_, Event::Client(host, message))) => self.client(host, message),
                Some((_, Event::Trap(id))) => self.traps(id),
                None => {}
            }
        }
        true
    }

    fn client(&mut self, host: NodeId, message: FromAgent) {
        let now = self.now;
        if let Some(sm) = self.managers.get_mut(&host) {
            sm.handle(now, message);
            self.drain(host);
        } else if let FromAgent::Received(message) = message {
            self.received.push((host, message));
        }
    }

    /// Takes out what a manager has to send and to tell.
    fn drain(&mut self, host: NodeId) {
        loop {
            let sm = self.manager(host);
            let Some(message) = sm.poll_transmit() else {
                break;
            };
            match message {
                ToAgent::Send(message) => self.write(host, &message),
                ToAgent::Register { class } => {
                    let registered = self.registered.insert((host, class));
                    let answer = FromAgent::Registered { class, registered };
                    self.at(self.now, Event::Client(host, answer));
                }
                ToAgent::Unregister { class } => {
                    self.registered.remove(&(host, class));
                }
                ToAgent::SetIsSm(is_sm) => {
                    let now = self.now;
                    let station = &mut self.stations[host.index()];
                    let port = PortNum::new(1);
                    station.sma.set_is_sm(now, &station.node, port, is_sm);
                    self.traps(host);
                }
            }
        }
        while let Some(event) = self.manager(host).poll_event() {
            self.events_reported.push((host, event));
        }
    }

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

    fn arrive(&mut self, end: Endpoint, packet: Packet) {
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
            })
        };
        if !packet.mad.class().is_subnet_management() {
            return self.at(self.now, Event::Client(id, message(&packet.mad)));
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
}
