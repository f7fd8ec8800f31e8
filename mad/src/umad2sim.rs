//! The server side of the protocol by which programs linked to libibumad use a simulated fabric:
//! stock OpenSM and the infiniband-diags, started with ibsim's client library, speak it.
//!
//! ```text
//!  program            BASE:ctl                         host's MAD clients
//!    | connect ------> handle_control --- Open ------>   |
//!    | <-------------- Control                           |
//!    |                BASE:out<K>                        |
//!    | MAD ----------> handle_data ------ Agent -------> | ---> fabric
//!    | <-------------- next_data <------- handle_agent - | <---
//! ```
//!
//! The client library has no timers and its programs wait for ever, so every request is answered
//! or comes back with status 110: this server sends it again and gives up in the end. It never
//! blocks on a client: what a client does not read waits in a queue of its own. It hands out a
//! request or trap of a class only to the client that has declared itself subnet manager, and only
//! of the classes that such a program registers: the client library crashes on others.
//!
//! Each connected program holds a slot, which is the number of its data socket and its client
//! number at the host. In the upper 16 bits of a transaction id the slot replaces what was there,
//! as ibsim does; the client library keeps its own agent in the next 16 bits.
//!
//! Directed routes: the client library's hop pointer is 0 in both directions. The host's SMI
//! starts a route at 0 and ends the answer's at 0, so nothing needs converting.

mod control;
mod data;

use std::collections::{BTreeMap, VecDeque};

use link::Time;
use wire::mad::{Mad, MgmtClass};
use wire::umad2sim::{ControlDatagram, DataDatagram};
use wire::{Guid, Lid, Qpn};

use crate::local::ToAgent;
use crate::transaction::{Timing, Transactions};

/// The host that programs attach to.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its name: the one by which a program may ask for it.
    pub name: String,
    /// Its node GUID, by which a program may ask for it too.
    pub guid: Guid,
    /// How long a request waits for its answer, and how often it is sent.
    pub timing: Timing,
    /// SMPs and MADs in flight at most, all programs together; more wait in a queue. VL15 has no
    /// flow control: what overruns a switch is lost until it times out.
    pub in_flight_max: usize,
}

impl ServerConfig {
    /// 200 ms, three times: OpenSM's own figures, which this protocol does not carry.
    pub const TIMING: Timing = Timing {
        timeout_ns: 200_000_000,
        attempts: 3,
    };
    /// Enough to keep a fabric busy, few enough for a switch's VL15 buffer.
    pub const IN_FLIGHT_MAX: usize = 64;
}

/// Programs connected at most.
pub const SLOTS_MAX: u16 = 256;
/// Datagrams that wait to be read at most, all programs together; further ones are dropped and
/// counted, but for [`QUEUE_MIN`] of each program.
pub const QUEUE_MAX: usize = 65_536;
/// Datagrams that may wait for a program however many wait for others.
pub const QUEUE_MIN: usize = 256;
/// Requests that wait to be sent at most; further ones come back at once as timed out.
pub const WAITING_MAX: usize = 65_536;
/// Actions that wait for the shell at most; datagrams that come while there are so many are dropped and
/// counted. Only a program that floods its host, or does not read its answers, gets there.
pub const OUTPUTS_MAX: usize = 65_536;
/// The upper 16 bits of the transaction ids of the server's own requests: no slot's.
const OWN_TIDS: u64 = 0xffff << 48;

/// Classes whose unsolicited datagrams a subnet manager receives.
const SM_CLASSES: [MgmtClass; 3] = [
    MgmtClass::SUBN_LID,
    MgmtClass::SUBN_DIR,
    MgmtClass::SUBN_ADM,
];

/// An action for the shell. `A` is how the shell identifies the sender of a control datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<A> {
    /// Send this answer to `to`, from the control socket.
    Control {
        /// Where the request came from.
        to: A,
        /// The 80 bytes.
        bytes: Box<[u8; 80]>,
    },
    /// Bind the data socket `BASE:out<slot>` and connect it to the client's, `BASE:in<id>`. To be
    /// done before the answer that follows is sent.
    Open {
        /// The slot.
        slot: u16,
        /// The id that the program gave: its process id.
        id: u32,
    },
    /// Close the slot's data socket: the program has disconnected.
    Close {
        /// The slot.
        slot: u16,
    },
    /// Send this message to the host, as its client number `slot`.
    Agent {
        /// The slot.
        slot: u16,
        /// The message.
        message: ToAgent,
    },
    /// The host's client number `slot` has disconnected.
    AgentGone {
        /// The slot.
        slot: u16,
    },
}

/// The purpose of a request in flight.
#[derive(Debug)]
enum Purpose<A> {
    /// A program's own MAD, as it came: what goes back when it is given up.
    Program(Box<DataDatagram>),
    /// An attribute that a control request is answered with.
    Control {
        to: A,
        request: Box<ControlDatagram>,
    },
}

/// An in-flight request.
#[derive(Debug)]
struct InFlight<A> {
    slot: u16,
    lid: Lid,
    qpn: Qpn,
    mad: Box<Mad>,
    purpose: Purpose<A>,
}

/// A connected program.
#[derive(Debug)]
struct Slot {
    /// The id that it gave: its process id.
    id: u32,
    is_sm: bool,
    /// Messages that it has not read yet.
    queue: VecDeque<Box<[u8; DataDatagram::LEN]>>,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Datagrams that were malformed, or from a slot that is not connected.
    pub malformed: u64,
    /// Datagrams dropped because a program reads too slowly.
    pub queue_full: u64,
    /// Datagrams dropped because the shell has too much to do.
    pub overloaded: u64,
    /// Requests that came back unanswered.
    pub timed_out: u64,
    /// Datagrams from the fabric that no program requested and none may be given.
    pub unexpected: u64,
}

/// The server of one host.
#[derive(Debug)]
pub struct Server<A> {
    config: ServerConfig,
    slots: BTreeMap<u16, Slot>,
    /// The slot that the shell offers for the next program.
    offered: Option<u16>,
    /// By transaction id: of a program's request with its slot in front, of the server's own with
    /// [`OWN_TIDS`].
    in_flight: Transactions<InFlight<A>>,
    waiting: VecDeque<InFlight<A>>,
    /// The low half of the transaction ids of the server's own requests.
    last_tid: u32,
    outputs: VecDeque<Output<A>>,
    counts: ServerCounts,
}

impl<A: Clone> Server<A> {
    /// A server without programs.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        let limit = config.in_flight_max.max(1);
        Self {
            config,
            slots: BTreeMap::new(),
            offered: None,
            in_flight: Transactions::new(limit),
            waiting: VecDeque::new(),
            last_tid: 0,
            outputs: VecDeque::new(),
            counts: ServerCounts::default(),
        }
    }

    /// The next action, oldest first. Call until `None` after each call that may have
    /// made some.
    pub fn poll_output(&mut self) -> Option<Output<A>> {
        self.outputs.pop_front()
    }

    /// The datagram that the program in `slot` is to be sent next; [`Server::data_sent`] takes it
    /// away. The shell waits for a full socket, without polling it.
    #[must_use]
    pub fn next_data(&self, slot: u16) -> Option<&[u8; 288]> {
        self.slots.get(&slot)?.queue.front().map(|bytes| &**bytes)
    }

    /// Confirms that the data of [`Server::next_data`] has been sent.
    pub fn data_sent(&mut self, slot: u16) {
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.queue.pop_front();
        }
    }

    /// Gives the next program `slot`, below 65,535, if no program has it: one whose data socket the shell
    /// has bound. Without an offer a program gets the lowest slot that is free.
    pub fn offer_slot(&mut self, slot: u16) {
        self.offered = Some(slot);
    }

    /// Whether a program has `slot`.
    #[must_use]
    pub fn is_connected(&self, slot: u16) -> bool {
        self.slots.contains_key(&slot)
    }

    /// The connected programs: slot, and the process id that the program gave, for a shell that
    /// checks whether they still run.
    pub fn programs(&self) -> impl Iterator<Item = (u16, u32)> {
        self.slots.iter().map(|(&slot, program)| (slot, program.id))
    }

    /// Whether a datagram can be taken in; one that cannot is counted.
    fn takes_datagrams(&mut self) -> bool {
        let takes = self.outputs.len() < OUTPUTS_MAX;
        self.counts.overloaded += u64::from(!takes);
        takes
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        self.counts
    }

    /// When a request is due to be sent again or given up.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.in_flight.deadline()
    }

    /// A program has ended without disconnecting: its socket refuses, or its process is gone.
    pub fn program_gone(&mut self, now: Time, slot: u16) {
        if self.slots.remove(&slot).is_none() {
            return;
        }
        let is_its = |request: &InFlight<A>| request.slot == slot;
        self.in_flight.finish_where(is_its);
        self.waiting.retain(|request| !is_its(request));
        self.outputs.push_back(Output::AgentGone { slot });
        self.outputs.push_back(Output::Close { slot });
        self.start_waiting(now);
    }
}

#[cfg(test)]
mod tests;
