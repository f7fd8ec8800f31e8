//! Asynchronous events (IBA 11.6.3), and completion events.

use wire::Qpn;

use crate::ids::{CqId, SrqId};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A completion has come to an armed queue. It is to be armed anew for the next one.
    Completion(CqId),
    /// A completion queue has overrun: it takes nothing any more.
    CqError(CqId),
    /// Something has happened to a queue pair.
    QueuePair {
        /// The queue pair.
        qpn: Qpn,
        /// What.
        event: QpEvent,
    },
    /// Fewer requests than its limit are left in a shared receive queue.
    SrqLimitReached(SrqId),
}

/// Asynchronous events of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum QpEvent {
    /// A packet has come from the peer before the queue pair was told to send.
    CommunicationEstablished = 0,
    /// All that was under way is done; the consumer had asked for this.
    SendQueueDrained = 1,
    /// The last receive request from a shared queue is done; the queue pair is in the error state.
    LastRequestReached = 2,
    /// An error that no completion can tell, such as an overrun of its completion queue.
    Fatal = 3,
    /// The peer has sent an invalid request.
    InvalidRequest = 4,
    /// The peer has violated a remote key, an access right or a bound.
    AccessViolation = 5,
}
