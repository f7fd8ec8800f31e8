//! Communication management: the states of connections between queue pairs, and requests for queue pairs of
//! datagrams (IBA 12.9, 12.11).
//!
//! ```text
//!  active:  connect --> ReqSent --REP--> RepReceived --ready--> Established --disconnect--> DreqSent
//!                          |                 |                      |                          |
//!                     REJ, no answer      REJ, refuse              DREQ                DREP, DREQ, no answer
//!                          v                 v                      v                          v
//!                         gone            TimeWait <----------------+--------------------------+
//!                                            |
//!  passive: REQ --> ReqReceived --grant--> RepSent --RTU, data--> Established       TimeWait --> gone
//!                       |                    |
//!                    refuse, REJ          REJ, no answer: TimeWait
//!                       v
//!                      gone
//! ```
//!
//! An [`Agent`] is the communication manager of one port. It is told what its consumer wants and what comes in,
//! and hands out datagrams and events; time is an argument, and what waits for time is in [`Agent::deadline`].
//!
//! * A message that is not answered in time is sent again, as often as the request says. Who receives one twice
//!   answers twice: [`Rep`] by [`Rtu`], [`wire::cm::Dreq`] by [`wire::cm::Drep`], and [`Req`] that waits for the consumer by
//!   [`wire::cm::Mra`], upon which its sender waits longer.
//! * Whatever comes is checked: a message counts if both communication ids are those of a connection, and if it comes
//!   from the LID with which that was made. What fits no connection is refused, or answered as IBA says.
//! * A queue pair of a peer that asks anew ends its old connection (stale, 12.9.8.3.1).
//! * Left out: alternate paths ([`wire::cm::Lap`] is answered "not supported"), end-to-end contexts, peer to peer.

mod connection;
mod consumer;
mod receive;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use link::Time;
use thiserror::Error;
use wire::cm::{Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use wire::{Lid, Mad, Psn, Qpn, Sl};

use connection::{Connection, State};
pub use consumer::Refusal;

/// Connections and requests at most, those in TimeWait included.
pub const CONNECTIONS_MAX: usize = 8192;
/// Requests of peers that wait for the consumer at most.
const REQUESTS_MAX: usize = 2048;
/// How long a consumer may take, as [`wire::cm::Mra`] says it: 17 s.
const SERVICE_TIMEOUT: u8 = 22;
/// The least and the longest that an answer is awaited, whatever a peer says.
const WAIT_NS: std::ops::RangeInclusive<u64> = 10_000_000..=70_000_000_000;
/// The longest TimeWait.
const TIME_WAIT_NS_MAX: u64 = 4_000_000_000;

/// The time of a 5-bit code: 4.096 us times two to its power.
#[must_use]
pub fn timeout_ns(code: u8) -> u64 {
    4096 << (code & 31)
}

/// The number of a connection, or of a request for a queue pair: the local communication id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CmId(pub u32);

/// How datagrams go to a peer and come from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its LID.
    pub lid: Lid,
    /// Which of the port's own LIDs it knows.
    pub own_lid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Partition key.
    pub pkey: u16,
}

/// What the consumer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmEvent {
    /// A peer asks for a connection with a service that is listened for: [`Agent::grant`] or [`Agent::refuse`].
    Requested {
        /// The connection.
        id: CmId,
        /// What it asks.
        req: Box<Req>,
        /// Where it is.
        route: Route,
    },
    /// The peer grants a connection: [`Agent::ready`] or [`Agent::refuse`].
    Granted {
        /// The connection.
        id: CmId,
        /// How.
        rep: Box<Rep>,
    },
    /// The peer refuses a connection, which is gone.
    Refused {
        /// The connection.
        id: CmId,
        /// Why.
        rej: Box<Rej>,
    },
    /// The peer is ready, or its data has come.
    Established {
        /// The connection.
        id: CmId,
    },
    /// The peer does not answer; the connection is gone.
    Unreachable {
        /// The connection, or the request for a queue pair.
        id: CmId,
    },
    /// The connection has ended. Once for each.
    Disconnected {
        /// The connection.
        id: CmId,
    },
    /// No packet of the connection is on its way any more: its queue pair may be used anew. It is gone.
    TimeWaitOver {
        /// The connection.
        id: CmId,
    },
    /// A peer asks for the queue pair of a service that is listened for: [`Agent::answer`].
    QueuePairRequested {
        /// The request.
        id: CmId,
        /// What it asks.
        req: Box<SidrReq>,
        /// Where it is.
        route: Route,
    },
    /// The answer to [`Agent::ask`]; the request is gone.
    Answered {
        /// The request.
        id: CmId,
        /// It.
        rep: Box<SidrRep>,
    },
}

/// Why the consumer's wish is not fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CmError {
    /// There are as many as there may be.
    #[error("{CONNECTIONS_MAX} connections are there already")]
    Full,
    /// There is none, or not any more.
    #[error("there is no such connection")]
    NoConnection,
    /// Not in this state.
    #[error("the connection is in another state")]
    State,
}

/// The communication manager of a port.
#[derive(Debug)]
pub struct Agent {
    connections: BTreeMap<u32, Connection>,
    /// By the peer's LID and number: connections, and requests for queue pairs.
    by_peer: BTreeMap<(Lid, u32, bool), u32>,
    /// By the peer's LID and queue pair.
    by_peer_qpn: BTreeMap<(Lid, Qpn), u32>,
    /// By own queue pair.
    by_own_qpn: BTreeMap<Qpn, u32>,
    by_due: BTreeSet<(Time, u32)>,
    services: BTreeSet<u64>,
    /// Requests that wait for the consumer.
    waiting: usize,
    /// Connections that wait for their RTU.
    unready: usize,
    out: VecDeque<(Route, Mad)>,
    events: VecDeque<CmEvent>,
    random: u64,
    last_tid: u32,
}

impl Agent {
    /// One without connections, whose numbers follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            connections: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            by_peer_qpn: BTreeMap::new(),
            by_own_qpn: BTreeMap::new(),
            by_due: BTreeSet::new(),
            services: BTreeSet::new(),
            waiting: 0,
            unready: 0,
            out: VecDeque::new(),
            events: VecDeque::new(),
            random: seed,
            last_tid: 0,
        }
    }

    /// Requests for a service come to the consumer from now on.
    pub fn listen(&mut self, service_id: u64) {
        self.services.insert(service_id);
    }

    /// No more; those that have come stay.
    pub fn unlisten(&mut self, service_id: u64) {
        self.services.remove(&service_id);
    }

    /// How many connections and requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Whether a connection waits for its RTU: then data is worth telling ([`Self::data_has_come`]).
    #[must_use]
    pub fn awaits_ready(&self) -> bool {
        self.unready > 0
    }

    /// The next datagram to send.
    pub fn poll_send(&mut self) -> Option<(Route, Mad)> {
        self.out.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CmEvent> {
        self.events.pop_front()
    }

    /// When something is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match self.out.is_empty() && self.events.is_empty() {
            true => self.by_due.first().map(|(due, _)| *due),
            false => Some(Time::ZERO),
        }
    }

    /// A number with 64 random bits (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn draw_u32(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.draw().to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// A packet number at which a connection may start.
    pub fn draw_psn(&mut self) -> Psn {
        Psn::truncate(self.draw_u32())
    }

    /// A communication id that no connection has.
    fn draw_id(&mut self) -> u32 {
        loop {
            let id = self.draw_u32();
            if id != 0 && !self.connections.contains_key(&id) {
                return id;
            }
        }
    }

    fn next_tid(&mut self) -> u64 {
        self.last_tid = self.last_tid.wrapping_add(1);
        u64::from(self.last_tid)
    }

    fn insert(&mut self, id: u32, connection: Connection) {
        let route = connection.route;
        if connection.remote_id != 0 {
            let key = (route.lid, connection.remote_id, connection.is_datagram);
            self.by_peer.insert(key, id);
        }
        if connection.own_qpn != Qpn::default() {
            self.by_own_qpn.insert(connection.own_qpn, id);
        }
        if connection.remote_qpn != Qpn::default() {
            self.by_peer_qpn
                .insert((route.lid, connection.remote_qpn), id);
        }
        self.waiting += usize::from(connection.state.waits_for_consumer());
        self.unready += usize::from(connection.state == State::RepSent);
        if let Some(due) = connection.due {
            self.by_due.insert((due, id));
        }
        self.connections.insert(id, connection);
    }

    fn remove(&mut self, id: u32) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        let lid = connection.route.lid;
        let key = (lid, connection.remote_id, connection.is_datagram);
        if self.by_peer.get(&key) == Some(&id) {
            self.by_peer.remove(&key);
        }
        let key = (lid, connection.remote_qpn);
        if self.by_peer_qpn.get(&key) == Some(&id) {
            self.by_peer_qpn.remove(&key);
        }
        if self.by_own_qpn.get(&connection.own_qpn) == Some(&id) {
            self.by_own_qpn.remove(&connection.own_qpn);
        }
        self.waiting -= usize::from(connection.state.waits_for_consumer());
        self.unready -= usize::from(connection.state == State::RepSent);
        if let Some(due) = connection.due {
            self.by_due.remove(&(due, id));
        }
        Some(connection)
    }

    fn send(&mut self, route: Route, mad: Mad) {
        self.out.push_back((route, mad));
    }

    /// Sends a message of a connection again, if it has one.
    fn repeat(&mut self, id: u32) {
        if let Some(connection) = self.connections.get(&id)
            && let Some(message) = &connection.message
        {
            self.out.push_back((connection.route, **message));
        }
    }

    fn tell(&mut self, connection: &Connection, event: CmEvent) {
        if connection.is_owned {
            self.events.push_back(event);
        }
    }

    /// The connection has ended: what is still on its way may come until TimeWait is over.
    fn enter_time_wait(&mut self, now: Time, id: u32, mut connection: Connection) {
        let wait = timeout_ns(connection.ack_timeout).min(TIME_WAIT_NS_MAX);
        connection.state = State::TimeWait;
        connection.due = Some(now + wait);
        self.insert(id, connection);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {
        while let Some(&(due, id)) = self.by_due.first()
            && due <= now
        {
            let Some(mut connection) = self.remove(id) else {
                self.by_due.remove(&(due, id));
                continue;
            };
            connection.due = None;
            if connection.attempts_left > 0 && connection.state.repeats() {
                connection.attempts_left -= 1;
                connection.due = Some(now + connection.wait_ns);
                self.insert(id, connection);
                self.repeat(id);
                continue;
            }
            self.give_up(now, id, connection);
        }
    }

    /// All repetitions are used up, or TimeWait is over.
    fn give_up(&mut self, now: Time, id: u32, connection: Connection) {
        let own = CmId(id);
        match connection.state {
            State::ReqSent | State::SidrSent => {
                self.tell(&connection, CmEvent::Unreachable { id: own });
            }
            State::RepSent => {
                self.tell(&connection, CmEvent::Unreachable { id: own });
                self.reject(&connection, id, wire::cm::RejReason::TIMEOUT);
                self.enter_time_wait(now, id, connection.abandoned());
            }
            State::DreqSent => {
                self.tell(&connection, CmEvent::Disconnected { id: own });
                self.enter_time_wait(now, id, connection);
            }
            State::TimeWait => self.tell(&connection, CmEvent::TimeWaitOver { id: own }),
            State::SidrAnswered => {}
            State::ReqReceived | State::RepReceived | State::Established | State::SidrReceived => {
                self.insert(id, connection)
            }
        }
    }
}

/// A connection stands.
fn rtu(local_comm_id: u32, remote_comm_id: u32) -> Rtu {
    Rtu {
        local_comm_id,
        remote_comm_id,
        private_data: [0; 224],
    }
}
