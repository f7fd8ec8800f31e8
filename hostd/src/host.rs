//! The host: a channel adapter and the services behind its queue pairs.
//!
//! ```text
//!              +-----------------------------------------------------------+
//!  frame ----> | port -> VL15 ---------------> QP0: SMI, SMA               |
//!              |      -> data VLs ---> QP1: PMA, CM, MAD clients           |
//!              |                    -> QP 0x1b0..0x1b3: ping, traffic      | <---> commands,
//!  frame <---- | port <- outbox <- answers, MADs, pings                    |       events
//!              |      <- source (when a VL has room)                        |
//!              +-----------------------------------------------------------+
//! ```
//!
//! A host with several ports has all of this once a port, but for its identity: each port has a LID, MAD
//! clients, queue pairs and traffic of its own. An agent answers for its port; a Get of PortInfo of another port
//! of the adapter is answered from that port's agent, a Set of it is refused.
//!
//! | queue pair | what it is | Q_Key |
//! |---|---|---|
//! | 0 | subnet management: SMI, SMA and MAD clients | - |
//! | 1 | general services: PMA, communication management and MAD clients | 0x80010000 |
//! | 0x1b0 | answers pings | 0x1bed |
//! | 0x1b1 | counts traffic and acknowledges it | 0x1bed |
//! | 0x1b2 | asks pings | 0x1bed |
//! | 0x1b3 | sends traffic | 0x1bed |
//! | 0x1b4 | IP over InfiniBand, of a port with addresses | of its partition's group, 0xb1b |
//! | from 0x10400 on | of programs, by verbs | their own |
//!
//! All but QP0 are queue pairs of the port's [`transport::Engine`]; those of the host itself are direct ones.
//!
//! Time must have one origin in all hosts of a fabric (`CLOCK_MONOTONIC` in daemons of one
//! machine): one-way latency is the difference of two hosts' times.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use link::{
    Arrival, ConfigError, Deadline, Device, FrameBuf, Hardware, Input, Port, PortConfig, PortSet,
    PortState, Time,
};
use mad::local::{FromAgent, ToAgent};
use mad::sma::Identity;
use transport::Memory;
use wire::control::{DeviceReply, DeviceRequest, PortStatus};
use wire::{Guid, Lid, Mad, PortNum};

use crate::clients::ClientId;
use crate::connections::{FromCm, ToCm};
use crate::control::{Reply, Request};
use crate::endpoint::Endpoint;
use crate::ipoib::{FromIp, IpPort, ToIp};
use crate::memory::ProgramMemory;
use crate::verbs::{FromVerbs, ToVerbs};

/// The port that counts where none is named.
const FIRST: PortNum = PortNum::new(1);

/// The configuration of a host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HostConfig {
    /// Its name; its node description too, unless [`HostConfig::hardware`] has another.
    pub name: String,
    /// Node GUID. Port `p` has this plus `p`, unless [`HostConfig::hardware`] has another.
    pub guid: Guid,
    /// Ports, 1..=[`Self::PORTS_MAX`].
    pub ports: u8,
    /// The host's identity and attributes, and its links with rates of their own.
    pub hardware: Hardware,
    /// Process id, reported to the local control side.
    pub pid: u32,
    /// The configuration of each port. Its node GUID is replaced by `guid`, and every port gets epochs of
    /// its own.
    pub port: PortConfig,
    /// Which ports have internet addresses.
    pub ip: Vec<IpPort>,
    /// Flows with a rate send no more often than this, in nanoseconds, then in one burst: a daemon
    /// cannot hold tens of thousands of wake-ups a second. 0 sends packet by packet (virtual time).
    pub traffic_tick_ns: u64,
}

impl HostConfig {
    /// The most ports that a host can have.
    pub const PORTS_MAX: u8 = 254;
    /// The tick of a daemon: a millisecond.
    pub const LIVE_TRAFFIC_TICK_NS: u64 = 1_000_000;
}

/// A command of the shell.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// A message of a client of a MAD socket.
    Mad {
        /// The client.
        client: ClientId,
        /// The message.
        message: ToAgent,
    },
    /// A client of a MAD socket has disconnected.
    MadGone {
        /// The client.
        client: ClientId,
    },
    /// A request on the control socket, answered by one [`Event::Control`] with the same token.
    /// `Endpoints` and `Connect` are for the transport: the shell answers them itself.
    Control {
        /// Chosen by the shell.
        token: u64,
        /// The port that it is asked of; of the first for 0. A request that any device serves is asked of
        /// the host.
        port: PortNum,
        /// The request.
        request: Request,
    },
    /// The shell has dropped messages of clients of MAD sockets, because the command queue was
    /// full.
    MadsDropped {
        /// How many.
        count: u32,
    },
    /// A message of a program's verbs context.
    Verbs {
        /// The context.
        client: ClientId,
        /// The message.
        message: ToVerbs,
    },
    /// A verbs context has ended.
    VerbsGone {
        /// The context.
        client: ClientId,
    },
    /// A message of a program's channel of connections.
    Cm {
        /// The channel.
        client: ClientId,
        /// The message.
        message: ToCm,
    },
    /// A channel of connections has ended.
    CmGone {
        /// The channel.
        client: ClientId,
    },
    /// From the interface of a port with addresses.
    Ip {
        /// The port.
        port: PortNum,
        /// The message.
        message: ToIp,
    },
}

/// An event for the shell.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Event {
    /// For a client of a MAD socket.
    Mad {
        /// The client.
        client: ClientId,
        /// The message.
        message: FromAgent,
    },
    /// The answer to [`Command::Control`].
    Control {
        /// The request's token.
        token: u64,
        /// The answer.
        reply: Reply,
    },
    /// A port's logical state has changed.
    PortState(PortState),
    /// `Shutdown` was requested: the peers are being informed; exit when [`Device::ready`] is empty.
    Shutdown,
    /// For a verbs context.
    Verbs {
        /// The context.
        client: ClientId,
        /// The message.
        message: FromVerbs,
    },
    /// For a channel of connections.
    Cm {
        /// The channel.
        client: ClientId,
        /// The message.
        message: FromCm,
    },
    /// For the interface of a port with addresses.
    Ip {
        /// The port.
        port: PortNum,
        /// The message.
        message: FromIp,
    },
}

/// A host without IO.
#[derive(Debug)]
pub struct Host {
    name: String,
    pid: u32,
    /// Port 1 and the following; at least one.
    endpoints: Vec<Endpoint>,
    /// Clients of other ports than the first. One leaves when it disconnects.
    attached: BTreeMap<ClientId, PortNum>,
}

impl Host {
    /// A host whose cables are not plugged yet.
    ///
    /// # Errors
    /// [`ConfigError`]: which setting of the ports is out of range.
    pub fn new(config: HostConfig) -> Result<Self, ConfigError> {
        let ports = (1..=config.ports.clamp(1, HostConfig::PORTS_MAX)).map(PortNum::new);
        let endpoints = ports.map(|port| Endpoint::new(&config, port));
        Ok(Self {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            name: config.name,
            pid: config.pid,
            attached: BTreeMap::new(),
        })
    }

    /// Has the queue pairs of programs' verbs read and write memory by what `make` makes, once for each port. A
    /// program is the space of its context's number. Without it there is no memory.
    pub fn set_memory(&mut self, mut make: impl FnMut() -> Box<dyn Memory + Send>) {
        for endpoint in &mut self.endpoints {
            endpoint.set_memory(ProgramMemory::new(make()));
        }
    }

    /// The identity of the host.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.first().identity()
    }

    /// Port 1, for tests and the simulator.
    #[must_use]
    pub fn port(&self) -> &Port {
        self.first().port()
    }

    /// A port; `None` if the host does not have it.
    #[must_use]
    pub fn port_of(&self, number: PortNum) -> Option<&Port> {
        Some(self.endpoint(number)?.port())
    }

    /// How many packets are inside the host: 0 when all have been processed, sent or dropped.
    #[must_use]
    pub fn packets_inside(&self) -> usize {
        self.endpoints.iter().map(Endpoint::packets_inside).sum()
    }

    /// State and counters of all ports, as [`DeviceReply::Ports`] has them.
    #[must_use]
    pub fn port_statuses(&self) -> Vec<PortStatus> {
        self.endpoints.iter().map(Endpoint::port_status).collect()
    }

    /// Answers a Get of an attribute of port 1 in place, without a key: what the host holds, but a protected
    /// M_Key, which is shown to a request that gives it. For tests and the simulator.
    pub fn read_attribute(&mut self, now: Time, mad: &mut Mad) {
        self.endpoints[0].read_attribute(now, mad);
    }

    /// Base LID of port 1; 0 before a subnet manager has set it.
    #[must_use]
    pub fn lid(&self) -> Lid {
        self.first().lid()
    }

    fn first(&self) -> &Endpoint {
        &self.endpoints[0]
    }

    fn endpoint(&self, port: PortNum) -> Option<&Endpoint> {
        self.endpoints.get(port.index().checked_sub(1)?)
    }

    fn endpoint_mut(&mut self, port: PortNum) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(port.index().checked_sub(1)?)
    }

    /// The port of a client.
    fn of_client(&mut self, client: ClientId) -> &mut Endpoint {
        let port = self.attached.get(&client).copied().unwrap_or(FIRST);
        &mut self.endpoints[port.index() - 1]
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Mad {
                client,
                message: ToAgent::Attach { port },
            } => {
                if self.endpoint(port).is_some() {
                    self.attached.insert(client, port);
                }
            }
            Command::Mad { client, message } => {
                let endpoint = self.of_client(client);
                endpoint.handle_mad_message(now, client, message);
            }
            Command::MadGone { client } => {
                self.of_client(client).handle_mad_disconnect(now, client);
                self.attached.remove(&client);
            }
            Command::MadsDropped { count } => self.endpoints[0].count_dropped_mads(count),
            Command::Control {
                token,
                port,
                request,
            } => self.control(now, token, port, request),
            Command::Verbs { client, message } => self.verbs(now, client, message),
            Command::Cm { client, message } => {
                let endpoint = self.of_client(client);
                endpoint.handle_cm_message(now, client, message);
            }
            Command::CmGone { client } => self.of_client(client).close_cm(now, client),
            Command::Ip { port, message } => {
                if let Some(endpoint) = self.endpoint_mut(port) {
                    endpoint.handle_ip(now, message);
                }
            }
            Command::VerbsGone { client } => {
                self.of_client(client).close_verbs(client);
                self.attached.remove(&client);
            }
        }
    }

    fn verbs(&mut self, now: Time, client: ClientId, message: ToVerbs) {
        if let ToVerbs::Open { port } = message {
            if self.endpoint(port).is_none() {
                let message = FromVerbs::Reply(uverbs::Reply::Refused {
                    errno: uverbs::errno::ENOENT,
                    why: self.no_such_port(port),
                });
                return self.endpoints[0].push_event(Event::Verbs { client, message });
            }
            self.attached.insert(client, port);
        }
        let endpoint = self.of_client(client);
        endpoint.handle_verbs_message(now, client, message);
    }

    fn control(&mut self, now: Time, token: u64, port: PortNum, request: Request) {
        let reply = match request {
            Request::Device(request) => Reply::Device(self.device(now, request)),
            request => {
                let port = if port == PortNum::MANAGEMENT {
                    FIRST
                } else {
                    port
                };
                match self.endpoint_mut(port) {
                    Some(endpoint) => return endpoint.control(now, token, request),
                    None => Reply::Refused(self.no_such_port(port)),
                }
            }
        };
        self.endpoints[0].push_event(Event::Control { token, reply });
    }

    fn no_such_port(&self, port: PortNum) -> String {
        match self.endpoints.len() {
            1 => format!("a host has port 1 only, not {port}"),
            ports => format!("this host has ports 1 to {ports}, not {port}"),
        }
    }

    fn device(&mut self, now: Time, request: DeviceRequest) -> DeviceReply {
        match request {
            DeviceRequest::Identify => DeviceReply::Identity {
                name: self.name.clone(),
                guid: self.identity().node_guid,
                pid: self.pid,
            },
            DeviceRequest::Ports => DeviceReply::Ports(self.port_statuses()),
            DeviceRequest::Lanes => {
                let ports = self.endpoints.iter().map(Endpoint::port);
                DeviceReply::Lanes(ports.map(Port::lanes).collect())
            }
            DeviceRequest::Cable { port, plugged } => match self.endpoint_mut(port) {
                Some(endpoint) => {
                    endpoint.set_plugged(now, plugged);
                    DeviceReply::Done
                }
                None => DeviceReply::Refused(self.no_such_port(port)),
            },
            DeviceRequest::Shutdown => {
                for endpoint in &mut self.endpoints {
                    endpoint.set_plugged(now, false);
                }
                self.endpoints[0].push_event(Event::Shutdown);
                DeviceReply::Done
            }
            DeviceRequest::Endpoints
            | DeviceRequest::Connect { .. }
            | DeviceRequest::Attach { .. }
            | DeviceRequest::Attached
            | DeviceRequest::ConnectTunnel { .. } => {
                DeviceReply::Refused("the ends of cables belong to the daemon".to_owned())
            }
        }
    }

    /// Has SMPs about other ports than the one that they came in by answered.
    fn answer_about_siblings(&mut self, now: Time) {
        for asked in 0..self.endpoints.len() {
            if !self.endpoints[asked].asks_about_siblings() {
                continue;
            }
            for other in (0..self.endpoints.len()).filter(|&other| other != asked) {
                if let Ok([asked, other]) = self.endpoints.get_disjoint_mut([asked, other]) {
                    asked.mirror(other);
                }
            }
            self.endpoints[asked].handle_about_siblings(now);
            self.endpoints[asked].advance(now);
        }
    }
}

impl Device for Host {
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<'_, Command>) {
        match input {
            // A port that the host does not have: an error of the shell, ignored.
            Input::Frame {
                port,
                head,
                tail,
                bytes,
            } => {
                if let Some(endpoint) = self.endpoint_mut(port) {
                    endpoint.frame(Arrival { now, head, tail }, bytes);
                }
            }
            Input::Carrier { port, up } => {
                if let Some(endpoint) = self.endpoint_mut(port) {
                    endpoint.carrier(now, up);
                }
            }
            // A host's packets have bytes: programs read them.
            Input::Handed { .. } | Input::Credits { .. } | Input::Tick => {}
            Input::Command(command) => self.command(now, command),
        }
        for endpoint in &mut self.endpoints {
            endpoint.advance(now);
        }
        self.answer_about_siblings(now);
    }

    fn ready(&self, now: Time) -> PortSet {
        let mut ready = PortSet::EMPTY;
        let endpoints = self.endpoints.iter();
        for endpoint in endpoints.filter(|endpoint| endpoint.is_ready(now)) {
            ready.insert(endpoint.number());
        }
        ready
    }

    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        match self.endpoint_mut(port) {
            Some(endpoint) => endpoint.transmit(now, frame),
            None => 0,
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.endpoints.iter_mut().find_map(Endpoint::poll_event)
    }

    fn deadline(&self) -> Option<Deadline> {
        let deadlines = self.endpoints.iter().map(Endpoint::deadline);
        deadlines.fold(None, Deadline::earlier)
    }

    fn record_reads(&mut self) {
        for endpoint in &mut self.endpoints {
            endpoint.memory_mut().record();
        }
    }

    /// Of each port that has read: its number, the length (4 bytes), and what memory answered.
    fn take_reads(&mut self, out: &mut Vec<u8>) {
        for endpoint in &mut self.endpoints {
            let number = endpoint.number();
            let answers = endpoint.memory_mut().recorded();
            if let Ok(len @ 1..) = u32::try_from(answers.len()) {
                out.push(number.get());
                out.extend_from_slice(&len.to_le_bytes());
                out.append(answers);
            }
            answers.clear();
        }
    }

    fn replay_reads(&mut self, reads: &[u8]) {
        let mut rest = reads;
        while let Some((&[port, a, b, c, d], behind)) = rest.split_first_chunk() {
            let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
            let (answers, behind) = behind.split_at(len.min(behind.len()));
            if let Some(endpoint) = self.endpoint_mut(PortNum::new(port)) {
                endpoint.memory_mut().replay(answers);
            }
            rest = behind;
        }
    }
}
