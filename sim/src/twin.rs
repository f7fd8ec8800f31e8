//! The twin of a live fabric: hosts, switches and the subnet managers that the daemons are made of,
//! in virtual time.
//!
//! Nothing is installed from outside: a manager discovers the fabric and programs it by packets
//! that cross it, as on a live one. Hosts answer what their control sockets would be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller::SmConfig;
use controller::control::{Phase, Status};
use hostd::control::{Reply, Request};
use hostd::{ClientId, Command, FromVerbs, Host};
use link::{Counts, Device, Input, PortConfig, Time};
use switchd::{Switch, Timing};
use thiserror::Error;
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::PortNum;

use crate::fabric::Fabric;
use crate::faults::{FaultError, FaultPlan};
use crate::model::{CreditReturn, Model};
use crate::node::Node;
use crate::numbers::number;
use crate::packet_tracker::PacketTracker;

mod inspect;
mod outage;

pub use inspect::DatagramCounts;

/// How long is waited at a time, nanoseconds.
const STEP_NS: u64 = 1_000_000;

/// The configuration of a twin.
#[derive(Clone, Debug)]
pub struct TwinConfig {
    /// Propagation delay of a cable ("fly time" in the papers), nanoseconds.
    pub flight_ns: u64,
    /// Every port of every device, as the daemons' link options make it.
    pub port: PortConfig,
    /// How long packets take inside switches.
    pub timing: Timing,
    /// The subnet manager beside the first host.
    pub manager: SmConfig,
    /// Further subnet managers, each beside the host of that name.
    pub further_managers: Vec<(String, SmConfig)>,
    /// Faults, timed from the start.
    pub faults: FaultPlan,
}

impl Default for TwinConfig {
    fn default() -> Self {
        Self {
            flight_ns: 1_000,
            port: PortConfig::default(),
            timing: Timing::default(),
            manager: SmConfig::default(),
            further_managers: Vec::new(),
            faults: FaultPlan::default(),
        }
    }
}

/// An error of a twin.
#[derive(Debug, Error)]
pub enum TwinError {
    /// A switch cannot be built.
    #[error(transparent)]
    Switch(#[from] switchd::SwitchError),
    /// A host cannot be built.
    #[error(transparent)]
    Port(#[from] link::ConfigError),
    /// The manager cannot be built.
    #[error(transparent)]
    Manager(#[from] controller::ConfigError),
    /// The faults name what is not there.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// No host for the subnet manager.
    #[error("a fabric without hosts has no place for the subnet manager")]
    NoHost,
    /// No such host.
    #[error("there is no host {0:?}")]
    NoSuchHost(String),
    /// It did not happen in the time given.
    #[error("{what} did not happen within {within_ns} ns of virtual time")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        within_ns: u64,
    },
}

/// A fabric with hosts, switches and a subnet manager.
#[derive(Debug)]
pub struct Twin {
    fabric: Fabric,
    token: u64,
    /// Devices that have crashed and not been started again.
    down: BTreeSet<NodeId>,
    /// Ends of cables that are pulled.
    unplugged: BTreeSet<Endpoint>,
}

impl Twin {
    /// A fabric whose cables have just been put in; its manager runs beside the first host. A host has
    /// one manager: of several that are configured beside one, the first counts.
    ///
    /// # Errors
    /// [`TwinError`]: what cannot be built.
    pub fn new(graph: &Graph, config: &TwinConfig) -> Result<Self, TwinError> {
        config.faults.check(graph)?;
        let nodes: Result<Vec<Node>, TwinError> =
            graph.ids().map(|id| device(graph, id, config)).collect();
        let model = Model {
            flight_ns: config.flight_ns,
            credits: CreditReturn::Packets,
            ..Model::mlid04(1)
        };
        // The manager is a client of port 1.
        let is_cabled = |&host: &NodeId| {
            let port = PortNum::new(1);
            graph.peer(Endpoint { node: host, port }).is_some()
        };
        let first = graph.hosts().find(is_cabled).or(graph.hosts().next());
        let beside = first.ok_or(TwinError::NoHost)?;
        let mut fabric = Fabric::assemble(
            Arc::new(graph.clone()),
            None,
            model,
            (nodes?, vec![None; graph.len()]),
            PacketTracker::new(&[], 1, None, true),
            config.faults.clone(),
        );
        fabric.management.devices = Some((config.port, config.timing));
        fabric.datagrams = Some(Box::default());
        let mut places = vec![beside];
        fabric
            .management
            .add(number(beside.index()), config.manager.clone());
        for (name, manager) in &config.further_managers {
            let host = graph.find(name);
            let host = host.filter(|&host| graph.node(host).kind == NodeKind::Host);
            let host = host.ok_or_else(|| TwinError::NoSuchHost(name.clone()))?;
            if !places.contains(&host) {
                places.push(host);
                let host = number(host.index());
                fabric.management.add(host, manager.clone());
            }
        }
        for (one, other) in graph.links() {
            for end in [one, other] {
                fabric.nodes[end.node.index()].carrier(Time::ZERO, end.port, true);
                fabric.service(number(end.node.index()));
            }
        }
        for manager in 0..places.len() {
            fabric.start_manager(manager)?;
        }
        fabric.schedule_faults(Time::ZERO);
        Ok(Self {
            fabric,
            token: 0,
            down: BTreeSet::new(),
            unplugged: BTreeSet::new(),
        })
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> Time {
        self.fabric.now
    }

    /// Lets `ns` nanoseconds pass.
    pub fn run_for(&mut self, ns: u64) {
        let until = self.fabric.now + ns;
        self.fabric.run(until);
    }

    /// How the subnet stands, as the first manager that has brought it up sees it, or else the first
    /// manager that runs.
    #[must_use]
    pub fn status(&self) -> Status {
        let all = 0..self.managers();
        let known = || all.clone().filter_map(|at| self.status_of(at));
        let up = known().find(|status| status.phase == Phase::Up);
        up.or_else(|| known().next()).unwrap_or_default()
    }

    /// Whether a manager is to sweep the whole subnet again, or does so; `None` if it does not run, or
    /// waits for its host, which is down.
    #[must_use]
    pub fn is_sweep_due(&self, manager: usize) -> Option<bool> {
        let manager = self.fabric.management.managers.get(manager)?;
        let sm = manager.sm.as_ref().filter(|_| !manager.is_host_down);
        Some(sm?.is_sweep_due())
    }

    /// How the subnet stands as a manager sees it; `None` while it does not run.
    #[must_use]
    pub fn status_of(&self, manager: usize) -> Option<Status> {
        let manager = self.fabric.management.managers.get(manager)?;
        Some(manager.sm.as_ref()?.status(self.now()))
    }

    /// Lets time pass until the subnet is up.
    ///
    /// # Errors
    /// [`TwinError::Timeout`] if it is not within `within_ns`.
    pub fn run_until_up(&mut self, within_ns: u64) -> Result<Status, TwinError> {
        let limit = self.now() + within_ns;
        while self.now() < limit {
            self.run_for(STEP_NS);
            let status = self.status();
            if status.phase == Phase::Up {
                return Ok(status);
            }
        }
        Err(TwinError::Timeout {
            what: "the subnet coming up",
            within_ns,
        })
    }

    /// Asks a host's first port with a cable, or as `HOST:PORT` another one, what its control socket would
    /// be asked; the answer comes later. The token is for [`Twin::reply`].
    ///
    /// # Errors
    /// [`TwinError::NoSuchHost`].
    pub fn request(&mut self, host: &str, request: Request) -> Result<u64, TwinError> {
        let unknown = || TwinError::NoSuchHost(host.to_owned());
        let (id, port) = self.end_port(host).ok_or_else(unknown)?;
        self.token += 1;
        let token = self.token;
        let now = self.now();
        let Node::Host(device) = &mut self.fabric.nodes[id.index()] else {
            return Err(unknown());
        };
        let command = Command::Control {
            token,
            port,
            request,
        };
        device.handle(now, Input::Command(command));
        self.fabric.service(number(id.index()));
        Ok(token)
    }

    /// Hands a command to a host: what a program beside it says.
    ///
    /// # Errors
    /// [`TwinError::NoSuchHost`].
    pub fn command(&mut self, host: &str, command: Command) -> Result<(), TwinError> {
        let now = self.now();
        let device = self.host_mut(host);
        let device = device.ok_or_else(|| TwinError::NoSuchHost(host.to_owned()))?;
        device.handle(now, Input::Command(command));
        if let Some(id) = self.fabric.graph.find(host) {
            self.fabric.service(number(id.index()));
        }
        Ok(())
    }

    /// What the verbs of a host have told a program next: the host's name, and whom.
    pub fn told(&mut self) -> Option<(String, ClientId, FromVerbs)> {
        let (host, client, message) = self.fabric.management.told.pop_front()?;
        let id = NodeId::from_index(crate::numbers::index(host));
        Some((self.fabric.graph.node(id).name.clone(), client, message))
    }

    /// The port that `HOST` or `HOST:PORT` names.
    fn end_port(&self, name: &str) -> Option<(NodeId, PortNum)> {
        let graph = &self.fabric.graph;
        if let Some(id) = graph.find(name) {
            let first = graph.cables(id).next().map(|(port, _)| port);
            return Some((id, first.unwrap_or(PortNum::new(1))));
        }
        let (host, port) = name.rsplit_once(':')?;
        Some((graph.find(host)?, PortNum::new(port.parse().ok()?)))
    }

    /// Lets time pass until a host has answered.
    ///
    /// # Errors
    /// [`TwinError::Timeout`] if it has not within `within_ns`.
    pub fn reply(&mut self, token: u64, within_ns: u64) -> Result<Reply, TwinError> {
        let limit = self.now() + within_ns;
        loop {
            if let Some(reply) = self.fabric.management.replies.remove(&token) {
                return Ok(reply);
            }
            if self.now() >= limit {
                return Err(TwinError::Timeout {
                    what: "an answer",
                    within_ns,
                });
            }
            self.run_for(STEP_NS);
        }
    }

    /// Counters and drops of every connected port, by device and port.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(String, PortNum), Counts> {
        let graph = &self.fabric.graph;
        let ends = graph
            .ids()
            .flat_map(|id| graph.cables(id).map(move |(port, _)| (id, port)));
        ends.filter_map(|(id, port)| {
            let counts = self.fabric.nodes[id.index()].port(port)?.counts().clone();
            Some(((graph.node(id).name.clone(), port), counts))
        })
        .collect()
    }

    /// A switch, for what tests look at.
    #[must_use]
    pub fn switch(&self, name: &str) -> Option<&Switch> {
        match &self.fabric.nodes[self.fabric.graph.find(name)?.index()] {
            Node::Switch(switch) => Some(switch),
            Node::TrafficHost(_) | Node::Host(_) => None,
        }
    }

    /// A host, for what tests look at.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&Host> {
        match &self.fabric.nodes[self.fabric.graph.find(name)?.index()] {
            Node::Host(host) => Some(host),
            Node::TrafficHost(_) | Node::Switch(_) => None,
        }
    }

    /// A host, for what belongs to it beside its commands: the memory of programs.
    pub fn host_mut(&mut self, name: &str) -> Option<&mut Host> {
        match &mut self.fabric.nodes[self.fabric.graph.find(name)?.index()] {
            Node::Host(host) => Some(host),
            Node::TrafficHost(_) | Node::Switch(_) => None,
        }
    }
}

fn device(graph: &Graph, id: NodeId, config: &TwinConfig) -> Result<Node, TwinError> {
    Ok(match graph.node(id).kind {
        NodeKind::Switch => Node::switch(graph, id, config.port, config.timing)?,
        NodeKind::Host => Node::host(graph, id, config.port)?,
    })
}
