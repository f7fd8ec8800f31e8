//! The server side of the host's libibumad: what the kernel's `ib_umad` is to that library elsewhere.
//!
//! ```text
//!  program             <node>.ibumad                host's MAD clients
//!    | Open ----------> open                            |
//!    | Register ------> register --- RegisterMethods -> |
//!    | <--------------- Registered <------------------- |
//!    | user MAD ------> handle_data ---- Send --------> | ---> fabric
//!    | <--------------- next_data <----- Received ----- | <---
//! ```
//!
//! A descriptor belongs to a port and has agents. An agent's requests wait for their answers here: they are
//! sent again, and in the end come back with the status `ETIMEDOUT`. An agent that leaves RMPP to the kernel
//! leaves it to this server ([`crate::rmpp`]): a long MAD goes out in segments, segments come in as one
//! MAD, and control packets are not seen. Other agents are given data segments as they come, and control
//! packets only if they have said that they handle RMPP themselves.
//!
//! In a request's transaction id the upper half becomes the agent's number plus one, and the answer gets its
//! own half back. Unlike the kernel, which refuses a MAD at once, this server has it come back with the status
//! that the kernel's call would have had: a program's call does not wait for the host.

mod agents;
mod data;
mod deliver;
mod describe;
mod protocol;
pub mod sysfs;
mod transfers;

use std::collections::{BTreeMap, VecDeque};

use link::Time;
use wire::PortNum;
use wire::mad::Mad;
use wire::umad::UserMadHeader;

pub use protocol::{Adapter, AdapterPort, AgentRequest, Refusal, Reply, Request};

use crate::local::{FromAgent, ToAgent};
use crate::transaction::Transactions;
use agents::Agent;
use describe::Describing;
use transfers::{Incoming, Outgoing, TransferKey};

/// Descriptors open at most, all programs together.
pub const DESCRIPTORS_MAX: usize = 512;
/// Agents of one descriptor at most.
pub const AGENTS_MAX: usize = 4096;
/// Requests of one descriptor in flight at most. VL15 has no flow control: what overruns a switch is lost
/// until it times out.
pub const IN_FLIGHT_MAX: usize = 64;
/// Requests of one descriptor that wait to be sent at most; further ones come back as timed out.
pub const WAITING_MAX: usize = 8192;
/// MADs that wait for a program to read them, of one descriptor; further ones are dropped and counted.
pub const QUEUE_MAX: usize = 8192;
/// Bytes of them at most.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Transfers of one descriptor under way at most, in each direction.
pub const TRANSFERS_MAX: usize = 512;
/// Bytes of the transfers that one descriptor sends at most.
pub const TRANSFER_BYTES_MAX: usize = 128 << 20;
/// Actions that wait for the shell at most; MADs that come while there are so many are dropped and counted.
pub const OUTPUTS_MAX: usize = 65_536;
/// Bytes of one message of a descriptor or of [`Request::Send`] at most; a longer user MAD comes in several.
pub const PART_BYTES: usize = 64 << 10;
/// Bytes of a user MAD at most.
pub const USER_MAD_BYTES_MAX: usize = crate::rmpp::PAYLOAD_MAX + Mad::LEN + UserMadHeader::LEN;
/// Descriptions asked for at the same time at most.
pub const DESCRIPTIONS_MAX: usize = 256;

/// The lowest number of a descriptor; the lower ones are the server's own clients, by port.
const FIRST_DESCRIPTOR: u32 = 256;

/// An action for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this message to the host, as its client with this number.
    Agent {
        /// The descriptor, or below 256 the port whose client it is.
        client: u32,
        /// The message.
        message: ToAgent,
    },
    /// The host's client with this number has disconnected.
    AgentGone {
        /// The descriptor.
        client: u32,
    },
    /// Answer this request.
    Reply {
        /// The number that the shell gave it.
        request: u64,
        /// The answer.
        reply: Reply,
    },
}

/// A request in flight, or waiting.
#[derive(Debug)]
struct Outstanding {
    /// As the program gave it.
    header: UserMadHeader,
    /// As it is sent.
    mad: Box<Mad>,
    /// The transaction id that the program gave it.
    tid: u64,
}

/// A descriptor of a port.
#[derive(Debug)]
struct Descriptor {
    agents: BTreeMap<u32, Agent>,
    /// Registrations that the host has not answered yet, oldest first: the shell's request, the agent.
    registering: VecDeque<(u64, u32)>,
    in_flight: Transactions<Outstanding>,
    waiting: VecDeque<Outstanding>,
    outgoing: BTreeMap<TransferKey, Outgoing>,
    outgoing_bytes: usize,
    incoming: BTreeMap<TransferKey, Incoming>,
    /// User MADs that the program has not read yet: header and MAD.
    queue: VecDeque<Box<[u8]>>,
    queue_bytes: usize,
}

impl Descriptor {
    fn new() -> Self {
        Self {
            agents: BTreeMap::new(),
            registering: VecDeque::new(),
            in_flight: Transactions::new(IN_FLIGHT_MAX),
            waiting: VecDeque::new(),
            outgoing: BTreeMap::new(),
            outgoing_bytes: 0,
            incoming: BTreeMap::new(),
            queue: VecDeque::new(),
            queue_bytes: 0,
        }
    }

    fn deadline(&self) -> Option<Time> {
        let outgoing = self.outgoing.values().filter_map(Outgoing::deadline);
        let incoming = self.incoming.values().map(Incoming::deadline);
        let transfers = outgoing.chain(incoming).min();
        let due = [self.in_flight.deadline(), transfers];
        due.into_iter().flatten().min()
    }
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// User MADs that were too short or too long, or of an agent that is not registered.
    pub malformed: u64,
    /// MADs dropped because a program reads too slowly.
    pub queue_full: u64,
    /// MADs dropped because the shell has too much to do.
    pub overloaded: u64,
    /// Requests that came back unanswered.
    pub timed_out: u64,
    /// MADs from the fabric that no agent waits for.
    pub unexpected: u64,
    /// Control packets of RMPP that were of no transfer.
    pub stray_control: u64,
    /// Transfers that were ended before they were complete.
    pub transfers_failed: u64,
}

/// The server of one host.
#[derive(Debug)]
pub struct Server {
    /// How many ports the host has.
    ports: u8,
    descriptors: BTreeMap<u32, Descriptor>,
    /// The number that the last descriptor got.
    last: u32,
    /// For which ports the server's own client has been attached.
    attached: Vec<PortNum>,
    describing: VecDeque<Describing>,
    /// The transaction id of the last question of a description.
    last_tid: u64,
    outputs: VecDeque<Output>,
    counts: ServerCounts,
}

impl Server {
    /// A server without programs, for a host with so many ports.
    #[must_use]
    pub fn new(ports: u8) -> Self {
        Self {
            ports,
            descriptors: BTreeMap::new(),
            last: FIRST_DESCRIPTOR,
            attached: Vec::new(),
            describing: VecDeque::new(),
            last_tid: 0,
            outputs: VecDeque::new(),
            counts: ServerCounts::default(),
        }
    }

    /// The next action, oldest first. Call until `None` after each call that may have made some.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        self.counts
    }

    /// Whether the host has this port.
    #[must_use]
    pub fn has_port(&self, port: PortNum) -> bool {
        (1..=self.ports).contains(&port.get())
    }

    /// Opens a descriptor of a port; its number.
    ///
    /// # Errors
    /// [`Refusal::Absent`] for a port that the host does not have, [`Refusal::Full`] when
    /// [`DESCRIPTORS_MAX`] are open.
    pub fn open(&mut self, port: PortNum) -> Result<u32, Refusal> {
        if !self.has_port(port) {
            return Err(Refusal::Absent);
        }
        if self.descriptors.len() >= DESCRIPTORS_MAX {
            return Err(Refusal::Full);
        }
        // No more than that are taken, so one is free.
        let number = loop {
            self.last = self.last.wrapping_add(1) & 0x00ff_ffff;
            if self.last >= FIRST_DESCRIPTOR && !self.descriptors.contains_key(&self.last) {
                break self.last;
            }
        };
        self.descriptors.insert(number, Descriptor::new());
        self.outputs.push_back(Output::Agent {
            client: number,
            message: ToAgent::Attach { port },
        });
        Ok(number)
    }

    /// A descriptor has been closed by the last process that had it.
    pub fn close(&mut self, descriptor: u32) {
        if self.descriptors.remove(&descriptor).is_some() {
            let client = descriptor;
            self.outputs.push_back(Output::AgentGone { client });
        }
    }

    /// Sets or clears IsSM of a port.
    pub fn set_is_sm(&mut self, port: PortNum, is_sm: bool) {
        if self.has_port(port) {
            self.send_own(port, ToAgent::SetIsSm(is_sm));
        }
    }

    /// Sends a message of the server's own client of a port.
    fn send_own(&mut self, port: PortNum, message: ToAgent) {
        let client = u32::from(port.get());
        if !self.attached.contains(&port) {
            self.attached.push(port);
            let message = ToAgent::Attach { port };
            self.outputs.push_back(Output::Agent { client, message });
        }
        self.outputs.push_back(Output::Agent { client, message });
    }

    /// What the program with a descriptor is to be given next: header and MAD. [`Self::data_sent`] takes it
    /// away.
    #[must_use]
    pub fn next_data(&self, descriptor: u32) -> Option<&[u8]> {
        let queue = &self.descriptors.get(&descriptor)?.queue;
        queue.front().map(|bytes| &**bytes)
    }

    /// Confirms that the data of [`Self::next_data`] has been sent.
    pub fn data_sent(&mut self, descriptor: u32) {
        if let Some(descriptor) = self.descriptors.get_mut(&descriptor)
            && let Some(bytes) = descriptor.queue.pop_front()
        {
            descriptor.queue_bytes -= bytes.len();
        }
    }

    /// Handles a message of the host for a client of this server.
    pub fn handle_agent(&mut self, now: Time, client: u32, message: FromAgent) {
        match message {
            FromAgent::Received(message) if client < FIRST_DESCRIPTOR => {
                self.described(&message);
            }
            FromAgent::Received(message) => self.received(now, client, &message),
            FromAgent::Registered { registered, .. } => self.registered(client, registered),
        }
    }

    /// When something is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let descriptors = self.descriptors.values();
        descriptors.filter_map(Descriptor::deadline).min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {
        let is_due = |descriptor: &Descriptor| descriptor.deadline().is_some_and(|at| at <= now);
        let due = self.descriptors.iter();
        let due: Vec<u32> = due
            .filter(|(_, descriptor)| is_due(descriptor))
            .map(|(&number, _)| number)
            .collect();
        for number in due {
            self.retry_requests(now, number);
            self.poll_transfers(now, number);
            self.start_waiting(now, number);
        }
    }

    /// Has a MAD wait until the program reads it; drops and counts it if too much waits.
    fn queue(&mut self, descriptor: u32, header: &UserMadHeader, mad: &[u8]) {
        let Some(to) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let bytes = agents::user_mad(header, mad);
        let is_full = to.queue.len() >= QUEUE_MAX
            || to.queue_bytes + bytes.len() > QUEUE_BYTES_MAX && !to.queue.is_empty();
        if is_full {
            self.counts.queue_full += 1;
            return;
        }
        to.queue_bytes += bytes.len();
        to.queue.push_back(bytes);
    }

    /// Whether a MAD can be taken in; one that cannot is counted.
    fn takes_mads(&mut self) -> bool {
        let takes = self.outputs.len() < OUTPUTS_MAX;
        self.counts.overloaded += u64::from(!takes);
        takes
    }

    /// How many actions wait for the shell.
    #[must_use]
    pub fn outputs_waiting(&self) -> usize {
        self.outputs.len()
    }

    /// Drops a description that is under way for this request: its answer is not needed any more.
    pub fn forget(&mut self, request: u64) {
        self.describing
            .retain(|describing| !describing.is_for(request));
    }
}

#[cfg(test)]
mod tests;
