//! What is known of a connection.

use link::Time;
use wire::{Mad, Qpn};

use super::Route;

/// Where a connection stands (IBA 12.9.7), or a request for a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A REQ waits for its answer.
    ReqSent,
    /// The consumer is asked.
    ReqReceived,
    /// A REP waits for its RTU.
    RepSent,
    /// The consumer prepares its queue pair.
    RepReceived,
    /// The connection stands.
    Established,
    /// A DREQ waits for its DREP.
    DreqSent,
    /// The connection has ended.
    TimeWait,
    /// A SIDR_REQ waits for its answer.
    SidrSent,
    /// The consumer is asked.
    SidrReceived,
    /// The answer is kept, as it may have been lost.
    SidrAnswered,
}

impl State {
    /// Whether the message is sent again when no answer comes.
    pub(super) const fn repeats(self) -> bool {
        matches!(
            self,
            Self::ReqSent | Self::RepSent | Self::DreqSent | Self::SidrSent
        )
    }

    /// Whether a request of a peer waits for the consumer.
    pub(super) const fn waits_for_consumer(self) -> bool {
        matches!(self, Self::ReqReceived | Self::SidrReceived)
    }
}

/// A connection, or a request for a queue pair of datagrams.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) state: State,
    pub(super) route: Route,
    /// The peer's number of it; 0 while it is not known.
    pub(super) remote_id: u32,
    pub(super) own_qpn: Qpn,
    pub(super) remote_qpn: Qpn,
    /// The message that waits for an answer, or that answers duplicates.
    pub(super) message: Option<Box<Mad>>,
    /// Transaction id of the messages that make the connection.
    pub(super) tid: u64,
    pub(super) attempts_left: u8,
    pub(super) wait_ns: u64,
    pub(super) due: Option<Time>,
    pub(super) retries: u8,
    /// The time that TimeWait takes, as a code.
    pub(super) ack_timeout: u8,
    /// It is a request for a queue pair.
    pub(super) is_datagram: bool,
    /// The service of a request for a queue pair.
    pub(super) service_id: u64,
    /// Whether the consumer wants to hear of it.
    pub(super) is_owned: bool,
}

impl Connection {
    /// One that the consumer does not hear of any more.
    pub(super) fn abandoned(self) -> Self {
        Self {
            is_owned: false,
            ..self
        }
    }

    /// Waits for the answer to a message that has just been sent.
    pub(super) fn awaits(&mut self, now: Time, state: State, message: Mad) {
        self.state = state;
        self.message = Some(Box::new(message));
        self.attempts_left = self.retries;
        self.due = Some(now + self.wait_ns);
    }

    /// Waits for nothing.
    pub(super) fn rests(&mut self, state: State) {
        self.state = state;
        self.message = None;
        self.due = None;
    }
}
