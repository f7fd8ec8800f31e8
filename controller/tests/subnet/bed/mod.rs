//! A fabric in virtual time: the real management agents of every node of a graph, joined by links
//! that take time, lose packets and go down, with subnet managers beside some hosts.
//!
//! There is no dataplane: a packet takes a random time for each hop, drawn from a seed, so that
//! answers overtake each other.
#![allow(dead_code, unreachable_pub)] // each test uses a part

mod node;
mod packets;
mod station;
mod time;

use std::collections::{BTreeMap, BTreeSet};

use controller::control::Status;
use controller::{Remembered, Sm, SmConfig, SmEvent};
use link::{PortState, Time};
use mad::local::{FromAgent, MadMessage, ToAgent};
use mad::sma::Outcome;
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::attr::Attribute;
use wire::{Lid, Mad, MadStatus, Method, MgmtClass, PortNum};

pub use node::{BedNode, Change};
pub use station::Lie;
use station::{Random, Station};
use time::Event;

/// The fabric.
pub struct Bed {
    pub graph: Graph,
    pub now: Time,
    stations: Vec<Station>,
    down: BTreeSet<Endpoint>,
    managers: BTreeMap<NodeId, Sm>,
    /// A host that answers what comes by a directed route to it, or is to go on through it, by itself.
    pub pretend: Option<(NodeId, Lie)>,
    /// What has come for managers that stand still.
    halted: BTreeMap<NodeId, Vec<FromAgent>>,
    registered: BTreeSet<(NodeId, u8)>,
    /// The number of each manager, from 1.
    numbers: BTreeMap<NodeId, u64>,
    /// How long it takes to compute what managers leave to others, nanoseconds.
    pub computing_ns: u64,
    events: BTreeMap<(Time, u64), Event>,
    last_event: u64,
    random: Random,
    /// How many of a thousand packets are lost on each hop.
    pub loss_per_mille: u64,
    /// The M_Key with which a test asks agents.
    pub m_key: u64,
    /// What the managers persist for each other.
    shared: Remembered,
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
            pretend: None,
            halted: BTreeMap::new(),
            registered: BTreeSet::new(),
            numbers: BTreeMap::new(),
            computing_ns: 0,
            events: BTreeMap::new(),
            last_event: 0,
            random: Random(seed.wrapping_mul(2).wrapping_add(1)),
            loss_per_mille: 0,
            m_key: 0,
            shared: Remembered::default(),
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
        *self.numbers.entry(host).or_default() += 1;
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

    /// The manager beside a host stands still (SIGSTOP): what comes for it waits.
    pub fn halt(&mut self, host: NodeId) {
        self.halted.entry(host).or_default();
    }

    /// It goes on (SIGCONT).
    pub fn proceed(&mut self, host: NodeId) {
        let now = self.now;
        for message in self.halted.remove(&host).expect("it stands still") {
            self.manager(host).handle(now, message);
            self.drain(host);
        }
    }

    /// The manager beside a host.
    pub fn manager(&mut self, host: NodeId) -> &mut Sm {
        self.managers.get_mut(&host).expect("there is a manager")
    }

    /// The manager beside a host hangs: the host has it, and it does not answer.
    pub fn hang(&mut self, host: NodeId) -> Sm {
        self.managers.remove(&host).expect("there is a manager")
    }

    /// A manager that was stopped goes on where it was; if its host was restarted meanwhile, it has to
    /// register again.
    pub fn resume(&mut self, host: NodeId, sm: Sm, is_host_restarted: bool) {
        self.managers.insert(host, sm);
        let station = &mut self.stations[host.index()];
        let port = PortNum::new(1);
        station.sma.set_is_sm(self.now, &station.node, port, true);
        let classes = [
            MgmtClass::SUBN_LID,
            MgmtClass::SUBN_DIR,
            MgmtClass::SUBN_ADM,
        ];
        let registered = classes.map(|class| (host, class.0));
        self.registered.extend(registered);
        self.registered.insert((host, wire::vendor::CLASS.0));
        if is_host_restarted {
            self.reconnect(host);
        }
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

    /// A node's answers to management are changed from now on; `None`: they are its own again.
    pub fn lie(&mut self, id: NodeId, lie: Option<Lie>) {
        self.stations[id.index()].lie = lie;
    }

    /// Sets an attribute of a node without the manager.
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
        mad.set_m_key(self.m_key);
        let station = &mut self.stations[id.index()];
        let outcome = station
            .sma
            .handle(self.now, &mut station.node, &mut mad, port, Lid::ZERO);
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

    /// A cable breaks, which only the port at this end notices.
    pub fn cut_unnoticed_by_the_peer(&mut self, end: Endpoint) {
        let peer = self.graph.peer(end).expect("there is a cable");
        self.down.extend([end, peer]);
        self.link(end, false);
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
                ToAgent::ReadOwn(_) | ToAgent::Attach { .. } => {
                    unreachable!("a manager has no driver, and its shell has chosen the port")
                }
                ToAgent::RegisterMethods(_) | ToAgent::UnregisterMethods(_) => {
                    unreachable!("a manager registers whole classes")
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
        while let Some(work) = self.manager(host).poll_work() {
            let at = self.now + self.computing_ns;
            self.at(at, Event::Computed(host, self.numbers[&host], work));
        }
        while let Some(event) = self.manager(host).poll_event() {
            match &event {
                SmEvent::Persist(text) => self.shared.guid2lid = Some(text.clone()),
                SmEvent::PersistConnections(text) => self.shared.connections = Some(text.clone()),
                SmEvent::PersistGroups(text) => self.shared.groups = Some(text.clone()),
                SmEvent::PersistAliases(text) => self.shared.aliases = Some(text.clone()),
                SmEvent::Recall => {
                    let shared = self.shared.clone();
                    self.manager(host).recall(&shared);
                }
                _ => {}
            }
            self.events_reported.push((host, event));
        }
    }
}
