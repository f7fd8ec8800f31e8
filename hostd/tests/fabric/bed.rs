//! A fabric in virtual time: hosts and switches joined by cables with a delay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hostd::addresses::HostNumber;
use hostd::control::{Reply, Request};
use hostd::{ClientId, Command, Event, Host, HostConfig, IpPort};
use link::{Deadline, Device, FrameBuf, Input, PortConfig, PortSet, Time};
use mad::local::{FromAgent, MadMessage, ToAgent};
use switchd::{Switch, SwitchConfig};
use wire::control::{DeviceReply, DeviceRequest, PortStatus};
use wire::mad::{AttributeId, Mad, Method};
use wire::{Guid, Lid, PortNum, Qpn, Sl};

/// One way over a cable.
pub(crate) const CABLE_NS: u64 = 1_000;
/// Room of one frame.
const FRAME_BYTES: usize = 9_000;
/// A program beside the first host.
pub(crate) const CLIENT: ClientId = ClientId(1);

pub(crate) fn lid(number: u16) -> Lid {
    Lid::new(number)
}

pub(crate) fn port(number: u8) -> PortNum {
    PortNum::new(number)
}

enum Node {
    Host(Box<Host>),
    Switch(Box<Switch>),
}

impl Node {
    fn frame(&mut self, now: Time, port: PortNum, bytes: &[u8]) {
        let (head, tail) = (now, now);
        match self {
            Self::Host(host) => host.handle(
                now,
                Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                },
            ),
            Self::Switch(switch) => switch.handle(
                now,
                Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                },
            ),
        }
    }

    fn carrier(&mut self, now: Time, port: PortNum) {
        match self {
            Self::Host(host) => host.handle(now, Input::Carrier { port, up: true }),
            Self::Switch(switch) => switch.handle(now, Input::Carrier { port, up: true }),
        }
    }

    fn tick(&mut self, now: Time) {
        match self {
            Self::Host(host) => host.handle(now, Input::Tick),
            Self::Switch(switch) => switch.handle(now, Input::Tick),
        }
    }

    fn ready(&self, now: Time) -> PortSet {
        match self {
            Self::Host(host) => host.ready(now),
            Self::Switch(switch) => switch.ready(now),
        }
    }

    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        match self {
            Self::Host(host) => host.transmit(now, port, frame),
            Self::Switch(switch) => switch.transmit(now, port, frame),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        match self {
            Self::Host(host) => host.deadline(),
            Self::Switch(switch) => switch.deadline(),
        }
    }
}

/// Decides what becomes of a frame: `false` loses it.
pub(crate) type Fate = Box<dyn FnMut(&mut Vec<u8>) -> bool>;

/// A fabric; nodes are numbered in the order in which they were added.
pub(crate) struct Bed {
    pub(crate) now: Time,
    nodes: Vec<Node>,
    cables: BTreeMap<(usize, PortNum), (usize, PortNum)>,
    flying: BTreeMap<(Time, u64), (usize, PortNum, Vec<u8>)>,
    frames: u64,
    pub(crate) events: Vec<VecDeque<Event>>,
    pub(crate) fate: Fate,
    tids: u64,
    traffic_tick_ns: u64,
    /// Whether hosts have interfaces, with addresses by their number from 1 on.
    has_addresses: bool,
    /// Nodes that do nothing, as a process that is stopped; frames wait for them.
    stopped: BTreeSet<usize>,
    held: Vec<(usize, PortNum, Vec<u8>)>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self {
            now: Time(1_000_000_000),
            nodes: Vec::new(),
            cables: BTreeMap::new(),
            flying: BTreeMap::new(),
            frames: 0,
            events: Vec::new(),
            fate: Box::new(|_| true),
            tids: 0,
            traffic_tick_ns: 0,
            has_addresses: false,
            stopped: BTreeSet::new(),
            held: Vec::new(),
        }
    }

    /// Stops a node, as a signal does with a process.
    pub(crate) fn stop(&mut self, node: usize) {
        self.stopped.insert(node);
    }

    /// Lets a stopped node go on with the frames that have come in the meantime.
    pub(crate) fn resume(&mut self, node: usize) {
        self.stopped.remove(&node);
        let held = std::mem::take(&mut self.held);
        for (to, port, bytes) in held {
            if to == node {
                self.nodes[to].frame(self.now, port, &bytes);
            } else {
                self.held.push((to, port, bytes));
            }
        }
    }

    /// Asks any node what every device answers.
    pub(crate) fn ask_device(&mut self, node: usize, request: DeviceRequest) -> DeviceReply {
        let now = self.now;
        let switch = match &mut self.nodes[node] {
            Node::Switch(switch) => switch,
            Node::Host(_) => {
                return match self.ask(node, Request::Device(request)) {
                    Reply::Device(reply) => reply,
                    other => panic!("{other:?}"),
                };
            }
        };
        let request = switchd::control::Request::Device(request);
        let command = switchd::Command { token: 1, request };
        switch.handle(now, Input::Command(command));
        match switch.poll_event() {
            Some(switchd::Event::Reply {
                reply: switchd::control::Reply::Device(reply),
                ..
            }) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// The ports of every node.
    pub(crate) fn all_ports(&mut self) -> Vec<PortStatus> {
        let mut all = Vec::new();
        for node in 0..self.nodes.len() {
            match self.ask_device(node, DeviceRequest::Ports) {
                DeviceReply::Ports(ports) => all.extend(ports),
                other => panic!("{other:?}"),
            }
        }
        all
    }

    /// Two hosts joined by one cable.
    pub(crate) fn back_to_back(config: PortConfig) -> Self {
        Self::bursting(config, 0)
    }

    /// Two hosts joined by one cable, whose sources are looked at every `traffic_tick_ns`.
    pub(crate) fn bursting(config: PortConfig, traffic_tick_ns: u64) -> Self {
        let mut bed = Self::new();
        bed.traffic_tick_ns = traffic_tick_ns;
        for _ in 0..2 {
            bed.host(config);
        }
        bed.cable((0, 1), (1, 1));
        bed.settle();
        bed
    }

    /// `hosts` hosts on one switch, which is the last node; host `i` on port `i + 1`.
    pub(crate) fn star(hosts: u8, config: PortConfig) -> Self {
        Self::new().with_star(hosts, config)
    }

    /// As [`Self::star`], of hosts with addresses.
    pub(crate) fn star_with_addresses(hosts: u8, config: PortConfig) -> Self {
        let mut bed = Self::new();
        bed.has_addresses = true;
        bed.with_star(hosts, config)
    }

    fn with_star(mut self, hosts: u8, config: PortConfig) -> Self {
        let bed = &mut self;
        for _ in 0..hosts {
            bed.host(config);
        }
        let switch = SwitchConfig {
            name: "s0".to_owned(),
            guid: Guid(0xff00),
            ports: hosts,
            port: config,
            hardware: link::Hardware::default(),
            timing: switchd::Timing::default(),
        };
        bed.add(Node::Switch(Box::new(Switch::new(&switch).unwrap())));
        for host in 0..hosts {
            bed.cable((host.into(), 1), (hosts.into(), host + 1));
        }
        bed.settle();
        self
    }

    fn add(&mut self, node: Node) {
        self.nodes.push(node);
        self.events.push(VecDeque::new());
    }

    fn host(&mut self, port: PortConfig) {
        let number = self.nodes.len();
        let ip = HostNumber::of_position(number).map(|number| IpPort {
            port: PortNum::new(1),
            number,
            interface: Some("ib0".to_owned()),
        });
        let config = HostConfig {
            name: format!("h{number}"),
            guid: Guid(0x1000 * (u64::try_from(number).unwrap() + 1)),
            pid: 1,
            ports: 1,
            hardware: link::Hardware::default(),
            port,
            ip: ip.into_iter().filter(|_| self.has_addresses).collect(),
            traffic_tick_ns: self.traffic_tick_ns,
        };
        self.add(Node::Host(Box::new(Host::new(config).unwrap())));
    }

    fn cable(&mut self, one: (usize, u8), other: (usize, u8)) {
        let one = (one.0, port(one.1));
        let other = (other.0, port(other.1));
        for (end, peer) in [(one, other), (other, one)] {
            self.cables.insert(end, peer);
            self.nodes[end.0].carrier(self.now, end.1);
        }
    }

    pub(crate) fn at(&mut self, host: usize) -> &mut Host {
        match &mut self.nodes[host] {
            Node::Host(host) => host,
            Node::Switch(_) => panic!("node {host} is a switch"),
        }
    }

    /// Takes out all that nodes want to send and tell.
    fn pump(&mut self) {
        for number in (0..self.nodes.len()).filter(|number| !self.stopped.contains(number)) {
            for port in self.nodes[number].ready(self.now).iter() {
                loop {
                    let mut memory = vec![0; FRAME_BYTES];
                    let mut frame = FrameBuf::new(&mut memory, usize::MAX);
                    if self.nodes[number].transmit(self.now, port, &mut frame) == 0 {
                        break;
                    }
                    let mut bytes = frame.as_bytes().to_vec();
                    let lost = !(self.fate)(&mut bytes);
                    if let Some(&(peer, peer_port)) = self.cables.get(&(number, port))
                        && !lost
                    {
                        self.frames += 1;
                        let key = (self.now + CABLE_NS, self.frames);
                        self.flying.insert(key, (peer, peer_port, bytes));
                    }
                }
            }
            if let Node::Host(host) = &mut self.nodes[number] {
                self.events[number].extend(std::iter::from_fn(|| host.poll_event()));
            }
        }
    }

    /// Moves to the next thing that happens; `false` if that is later than `until`.
    fn step(&mut self, until: Time) -> bool {
        self.pump();
        let frame_at = self.flying.first_key_value().map(|(&(at, _), _)| at);
        let due_at = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(number, _)| !self.stopped.contains(number))
            .filter_map(|(_, node)| Some(node.deadline()?.at))
            .min();
        let Some(at) = frame_at
            .into_iter()
            .chain(due_at)
            .min()
            .filter(|&at| at <= until)
        else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(at);
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let (node, port, bytes) = entry.remove();
            if self.stopped.contains(&node) {
                self.held.push((node, port, bytes));
            } else {
                self.nodes[node].frame(self.now, port, &bytes);
            }
        }
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if self.stopped.contains(&number) {
                continue;
            }
            if node.deadline().is_some_and(|due| due.at <= self.now) {
                node.tick(self.now);
            }
        }
        true
    }

    /// Lets `ns` nanoseconds pass.
    pub(crate) fn run(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.step(until) {}
        self.pump();
    }

    /// Lets links come up.
    pub(crate) fn settle(&mut self) {
        self.run(600_000_000);
    }

    /// Runs until `found` finds something, at most ten seconds.
    pub(crate) fn until<T>(&mut self, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        let limit = self.now + 10_000_000_000;
        loop {
            self.pump();
            if let Some(value) = found(self) {
                return value;
            }
            assert!(self.step(limit), "nothing found in ten seconds");
        }
    }

    pub(crate) fn command(&mut self, host: usize, command: Command) {
        let now = self.now;
        self.at(host).handle(now, Input::Command(command));
    }

    /// Asks a host and waits for its answer.
    pub(crate) fn ask(&mut self, host: usize, request: Request) -> Reply {
        self.tids += 1;
        let token = self.tids;
        self.command(
            host,
            Command::Control {
                token,
                port: PortNum::new(1),
                request,
            },
        );
        self.until(|bed| {
            let events = &mut bed.events[host];
            let at = events.iter().position(
                |event| matches!(event, Event::Control { token: t, .. } if *t == token),
            )?;
            match events.remove(at)? {
                Event::Control { reply, .. } => Some(reply),
                _ => None,
            }
        })
    }

    /// Sends a MAD from a client of a host.
    pub(crate) fn send_mad(&mut self, host: usize, client: ClientId, to: Lid, mad: &Mad) {
        let qpn = if mad.class().is_subnet_management() {
            Qpn::SMI
        } else {
            Qpn::GSI
        };
        let message = ToAgent::Send(MadMessage {
            lid: to,
            qpn,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        });
        self.command(host, Command::Mad { client, message });
    }

    /// The next MAD that a client of a host is given.
    pub(crate) fn receive_mad(
        &mut self,
        host: usize,
        client: ClientId,
    ) -> Option<(MadMessage, Mad)> {
        let events = &mut self.events[host];
        let at = events.iter().position(|event| {
            matches!(event, Event::Mad { client: c, message: FromAgent::Received(_) } if *c == client)
        })?;
        match events.remove(at)? {
            Event::Mad {
                message: FromAgent::Received(message),
                ..
            } => {
                let mad = Mad::from_bytes(*message.mad);
                Some((message, mad))
            }
            _ => None,
        }
    }

    /// Sends a request from the first host's client and waits for its answer.
    pub(crate) fn exchange(&mut self, to: Lid, mad: &Mad) -> Mad {
        self.send_mad(0, CLIENT, to, mad);
        self.until(|bed| bed.receive_mad(0, CLIENT)).1
    }

    /// A directed-route request from the first host, along `path`.
    pub(crate) fn directed(
        &mut self,
        method: Method,
        attribute: AttributeId,
        modifier: u32,
        path: &[u8],
        fill: impl FnOnce(&mut Mad),
    ) -> Mad {
        self.tids += 1;
        let path: Vec<PortNum> = path.iter().map(|&number| port(number)).collect();
        let mut mad = Mad::directed_smp(method, attribute, modifier, self.tids, &path).unwrap();
        fill(&mut mad);
        let answer = self.exchange(Lid::PERMISSIVE, &mad);
        assert_eq!(answer.tid(), mad.tid());
        answer
    }
}
