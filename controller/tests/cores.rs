//! The subnet manager over the real switches and hosts, in virtual time: what it programs is
//! proved by pings that cross the dataplane.

use std::collections::{BTreeMap, BTreeSet};

use controller::control::{Phase, Status};
use controller::{Sm, SmConfig};
use hostd::control::{PingRequest, PingResult, Reply, Request};
use hostd::{ClientId, Host, HostConfig};
use link::{Device, FrameBuf, Input, PortConfig, Time};
use switchd::{Switch, SwitchConfig, Timing};
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Lid, PortNum, Sl};

const CABLE_NS: u64 = 1_000;
const FRAME_BYTES: usize = 60_000;
/// The manager's connection to its host.
const MANAGER: ClientId = ClientId(1);
/// No scenario takes longer than this, in nanoseconds of virtual time.
const SCENARIO_NS_MAX: u64 = 60_000_000_000;
const HOST_PORT: PortNum = PortNum::new(1);

enum Core {
    Switch(Box<Switch>),
    Host(Box<Host>),
}

struct Fabric {
    graph: Graph,
    cores: Vec<Core>,
    dead: BTreeSet<NodeId>,
    now: Time,
    frames: BTreeMap<(Time, u64), (Endpoint, Vec<u8>)>,
    frames_sent: u64,
    due: BTreeMap<NodeId, Time>,
    manager: (NodeId, Sm),
    pings: BTreeMap<NodeId, Vec<PingResult>>,
}

fn core(graph: &Graph, id: NodeId, start: u32) -> Core {
    let node = graph.node(id);
    let port = PortConfig {
        epoch_seed: start,
        ..PortConfig::default()
    };
    match node.kind {
        NodeKind::Switch => Core::Switch(Box::new(
            Switch::new(&SwitchConfig {
                name: node.name.clone(),
                guid: node.guid,
                ports: node.ports,
                port,
                hardware: link::Hardware::default(),
                timing: Timing::default(),
            })
            .expect("the configuration is sound"),
        )),
        NodeKind::Host => Core::Host(Box::new(
            Host::new(HostConfig {
                name: node.name.clone(),
                guid: node.guid,
                pid: 0,
                ports: 1,
                hardware: link::Hardware::default(),
                port,
                ip: Vec::new(),
                traffic_tick_ns: 0,
            })
            .expect("the configuration is sound"),
        )),
    }
}

impl Fabric {
    /// Plugs all cables and starts a manager beside the first host.
    fn start(name: &str, config: SmConfig) -> Self {
        let graph = topologies::parse(name).expect("the topology exists").graph;
        let host = graph.hosts().next().expect("there is a host");
        let mut fabric = Self {
            cores: graph.ids().map(|id| core(&graph, id, 1)).collect(),
            dead: BTreeSet::new(),
            now: Time(1),
            frames: BTreeMap::new(),
            frames_sent: 0,
            due: BTreeMap::new(),
            manager: (host, Sm::new(config).expect("the configuration is sound")),
            pings: BTreeMap::new(),
            graph,
        };
        for id in fabric.graph.ids() {
            fabric.plug_all(id);
        }
        fabric
    }

    fn plug_all(&mut self, id: NodeId) {
        let cables: Vec<_> = self.graph.cables(id).collect();
        for (port, peer) in cables {
            if !self.dead.contains(&peer.node) {
                self.input(id, Input::Carrier { port, up: true });
                let port = peer.port;
                self.input(peer.node, Input::Carrier { port, up: true });
            }
        }
    }

    /// A device dies; its cables go down at once.
    fn kill(&mut self, id: NodeId) {
        self.dead.insert(id);
        self.due.remove(&id);
        let cables: Vec<_> = self.graph.cables(id).collect();
        for (_, peer) in cables {
            let port = peer.port;
            self.input(peer.node, Input::Carrier { port, up: false });
        }
    }

    /// It is started again.
    fn revive(&mut self, id: NodeId) {
        self.dead.remove(&id);
        self.cores[id.index()] = core(&self.graph, id, 1_000);
        self.plug_all(id);
    }

    fn input(&mut self, id: NodeId, input: Input<'_, hostd::Command>) {
        if self.dead.contains(&id) {
            return;
        }
        let now = self.now;
        match (&mut self.cores[id.index()], input) {
            (Core::Host(host), input) => host.handle(now, input),
            (Core::Switch(switch), Input::Carrier { port, up }) => {
                switch.handle(now, Input::Carrier { port, up });
            }
            // What is sent here has bytes.
            (Core::Switch(_), Input::Handed { .. } | Input::Credits { .. }) => {}
            (Core::Switch(switch), Input::Tick | Input::Command(_)) => {
                switch.handle(now, Input::Tick);
            }
            (
                Core::Switch(switch),
                Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                },
            ) => {
                let frame = Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                };
                switch.handle(now, frame);
            }
        }
        self.output(id);
    }

    /// Takes out all that a device has to send and to tell.
    fn output(&mut self, id: NodeId) {
        let now = self.now;
        let mut memory = vec![0; FRAME_BYTES];
        loop {
            let ready = match &self.cores[id.index()] {
                Core::Switch(switch) => switch.ready(now),
                Core::Host(host) => host.ready(now),
            };
            let mut sent = false;
            for port in ready.iter() {
                let mut frame = FrameBuf::new(&mut memory, usize::MAX);
                let records = match &mut self.cores[id.index()] {
                    Core::Switch(switch) => switch.transmit(now, port, &mut frame),
                    Core::Host(host) => host.transmit(now, port, &mut frame),
                };
                if records == 0 {
                    continue;
                }
                sent = true;
                if let Some(peer) = self.graph.peer(Endpoint { node: id, port }) {
                    self.frames_sent += 1;
                    let at = (now + CABLE_NS, self.frames_sent);
                    self.frames.insert(at, (peer, frame.as_bytes().to_vec()));
                }
            }
            if !sent {
                break;
            }
        }
        let deadline = match &self.cores[id.index()] {
            Core::Switch(switch) => switch.deadline(),
            Core::Host(host) => host.deadline(),
        };
        match deadline {
            Some(deadline) => self.due.insert(id, deadline.at),
            None => self.due.remove(&id),
        };
        let mut events = Vec::new();
        if let Core::Host(host) = &mut self.cores[id.index()] {
            events.extend(core::iter::from_fn(|| host.poll_event()));
        }
        for event in events {
            match event {
                hostd::Event::Mad { message, .. } => {
                    self.manager.1.handle(now, message);
                    self.exchange_all();
                }
                hostd::Event::Control {
                    reply: Reply::Ping(results),
                    ..
                } => {
                    self.pings.insert(id, results);
                }
                hostd::Event::Control { .. }
                | hostd::Event::PortState(_)
                | hostd::Event::Verbs { .. }
                | hostd::Event::Cm { .. }
                | hostd::Event::Ip { .. }
                | hostd::Event::Shutdown => {}
            }
        }
    }

    /// Hands the manager's messages to its host.
    fn exchange_all(&mut self) {
        while let Some(message) = self.manager.1.poll_transmit() {
            let command = hostd::Command::Mad {
                client: MANAGER,
                message,
            };
            self.input(self.manager.0, Input::Command(command));
        }
        while self.manager.1.poll_event().is_some() {}
    }

    fn step(&mut self) {
        let frame = self.frames.keys().next().map(|&(at, _)| at);
        let device = self.due.values().min().copied();
        let manager = self.manager.1.deadline().map(|deadline| deadline.at);
        let next = [frame, device, manager].into_iter().flatten().min();
        self.now = self.now.max(next.expect("something is always due"));
        if manager.is_some_and(|at| at <= self.now) {
            self.manager.1.tick(self.now);
            self.exchange_all();
        }
        while let Some((&key, _)) = self.frames.first_key_value() {
            if key.0 > self.now {
                break;
            }
            if let Some((end, bytes)) = self.frames.remove(&key) {
                let frame = Input::Frame {
                    port: end.port,
                    head: self.now,
                    tail: self.now,
                    bytes: &bytes,
                };
                self.input(end.node, frame);
            }
        }
        let due: Vec<NodeId> = self
            .due
            .iter()
            .filter(|&(_, &at)| at <= self.now)
            .map(|(&id, _)| id)
            .collect();
        for id in due {
            self.input(id, Input::Tick);
        }
    }

    fn run_until(&mut self, wanted: impl Fn(&Self) -> bool) {
        let limit = self.now + SCENARIO_NS_MAX;
        while !wanted(self) {
            assert!(self.now < limit, "not reached: {:#?}", self.status());
            self.step();
        }
    }

    fn status(&self) -> Status {
        self.manager.1.status(self.now)
    }

    fn run_until_up(&mut self) -> Status {
        let before = self.status().generation;
        self.run_until(|fabric| {
            let status = fabric.status();
            status.phase == Phase::Up && status.generation > before
        });
        self.status()
    }

    fn lid(&self, id: NodeId) -> Lid {
        match &self.cores[id.index()] {
            Core::Host(host) => host.lid(),
            Core::Switch(_) => Lid::ZERO,
        }
    }

    /// Checks that every host reaches every LID of every other through the dataplane.
    fn assert_pings(&mut self, lids: u16) {
        let hosts: Vec<NodeId> = self.graph.hosts().collect();
        let targets: Vec<Lid> = hosts
            .iter()
            .flat_map(|&id| (0..lids).map(move |offset| (id, offset)))
            .map(|(id, offset)| Lid::new(self.lid(id).get() + offset))
            .collect();
        self.pings.clear();
        for &id in &hosts {
            let request = Request::Ping(PingRequest {
                targets: targets.clone(),
                count: 1,
                interval_us: 0,
                size: 290,
                sl: Sl::constant(3),
                pkey: 0,
                timeout_ms: 1_000,
            });
            let command = hostd::Command::Control {
                token: 7,
                port: PortNum::new(1),
                request,
            };
            self.input(id, Input::Command(command));
        }
        let all = hosts.len();
        self.run_until(|fabric| fabric.pings.len() == all);
        for (id, results) in &self.pings {
            for result in results {
                let name = &self.graph.node(*id).name;
                assert_eq!(result.received, 1, "{name} to LID {}", result.dlid);
            }
        }
    }
}

#[test]
fn every_host_pings_every_lid_of_every_other_before_and_after_a_root_is_lost() {
    let mut fabric = Fabric::start("fat-tree-4-3", SmConfig::default());
    let status = fabric.run_until_up();
    assert_eq!((status.switches, status.hosts, status.links), (20, 16, 48));
    assert_eq!((status.lmc, status.active_ports), (2, 96));
    assert!(status.warnings.is_empty(), "{:?}", status.warnings);
    fabric.assert_pings(4);

    let root = fabric.graph.find("s0.0.1").expect("there is a root");
    fabric.kill(root);
    let killed = fabric.now;
    let status = fabric.run_until_up();
    assert!(fabric.now.since_ns(killed) < 300_000_000);
    assert_eq!((status.switches, status.lmc), (19, 2));
    fabric.assert_pings(4);

    fabric.revive(root);
    fabric.run_until(|fabric| {
        let status = fabric.status();
        status.phase == Phase::Up && !status.degraded && status.switches == 20
    });
    fabric.assert_pings(4);
}

#[test]
fn an_irregular_fabric_carries_pings_between_all_hosts() {
    let mut fabric = Fabric::start("irregular-8-2-3-7", SmConfig::default());
    let status = fabric.run_until_up();
    let is_measured = status.engine.contains("busiest cable / bisection");
    assert!(is_measured, "{}", status.engine);
    fabric.assert_pings(1);
}

#[test]
fn a_host_port_is_ready_for_data_when_the_subnet_is_up() {
    let mut fabric = Fabric::start("star-3", SmConfig::default());
    fabric.run_until_up();
    for id in fabric.graph.hosts() {
        let Core::Host(host) = &fabric.cores[id.index()] else {
            panic!("a host is a host");
        };
        assert_eq!(host.port().state(), link::PortState::Active);
        assert_eq!(host.identity().port_guid(HOST_PORT).0 & 1, 1);
    }
}
