//! Link-level retry: a cable over a network that loses, reorders and repeats datagrams loses nothing, and keeps order.
//!
//! InfiniBand's links do not lose: what is sent under credits arrives. So each end keeps what it has sent until the other end
//! has acknowledged it, and sends it again from there when it was lost (go-back-N). The records of one direction are a stream
//! of bytes, which is cut anew whenever it is sent: a path that takes shorter datagrams from now on, or longer ones, changes nothing
//! else.
//!
//! ```text
//!         room, commit                        next                                   take
//! port ───────────────► unacknowledged bytes ──────► datagram ─ ─ ─ ─► datagram ─────────────► port
//!                        ▲      ▲        ▲                                │ Next: in order
//!             acknowledged   next      end                                │ Gap: dropped, NAK once a round
//!                        ▲                                                │ Duplicate: dropped, acknowledged again
//!                        └───────── acknowledged, NAK: ride with data ────┘
//! ```
//!
//! * **Acknowledgements** ride with data, else leave by themselves after [`ACKNOWLEDGE_NS`], after [`ACKNOWLEDGE_BYTES`], and at once for
//!   what came twice.
//! * **A gap** is told by a NAK, once for each *round*, which is how often the sender has gone back: what was under way when it did
//!   does not make it go back again, and a repetition that is lost too is told of anew.
//! * **A timeout** (after RFC 6298: twice as long each time, between [`Timeout::LEAST_NS`] and [`Timeout::MOST_NS`]) repeats what no NAK told of:
//!   the last datagrams before a pause, lost NAKs.
//! * **How much is under way** follows losses: a window that grows while nothing is lost, by as much as is acknowledged at first and by
//!   [`Window::STEP_BYTES`] a round trip later, falls to seven tenths at a NAK and to its least at a timeout. What is kept is bounded ([`Limits`]);
//!   when it is full the port's records wait, as for credits.
//!
//! Both ends begin at position 0 when they are told of each other. What of this is wrong for an earlier life of the peer is
//! for the caller to keep out, and so is what others forge. A heading that no honest peer sends is [`Arrival::Malformed`] and changes nothing.
//! Left out on purpose: selective repetition, because order must hold; probing for a longer path, which the system does.
//!
//! RFC 6298 (Computing TCP's Retransmission Timer), RFC 8085 (UDP Usage Guidelines).

mod receiver;
mod sender;
mod timeout;
mod window;

#[cfg(test)]
mod tests;

use wire::record::STREAM_RECORD_MAX;

use crate::Time;

use receiver::Receiver;
pub use receiver::{ACKNOWLEDGE_BYTES, ACKNOWLEDGE_NS, Arrival};
use sender::Sender;
pub use timeout::Timeout;
pub use window::Window;

/// What one end keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that wait for their acknowledgement, at most. Memory is up to twice as much.
    pub unacknowledged_bytes: usize,
    /// Bytes of memory while there is little to do.
    pub idle_bytes: usize,
    /// The longest record, bytes.
    pub record_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unacknowledged_bytes: 512 * 1024,
            idle_bytes: 2 * STREAM_RECORD_MAX,
            record_bytes: STREAM_RECORD_MAX,
        }
    }
}

/// What goes in front of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(PartialOrd, Ord))]
pub struct Heading {
    /// Where the payload stands in the stream.
    pub position: u64,
    /// Up to where the sender has the stream of the other direction.
    pub acknowledged: u64,
    /// How often the sender has gone back, modulo 256.
    pub round: u8,
    /// The round of the last datagram that the sender has taken or missed something before.
    pub heard_round: u8,
    /// The sender has seen a gap behind `acknowledged` in that round.
    pub nak: bool,
    /// Where in the payload the first record begins, if one does.
    pub first_record: Option<u16>,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// What goes in front of it.
    pub heading: Heading,
    /// A part of the stream; nothing if it acknowledges only.
    pub payload: &'a [u8],
    /// Whether some of it was sent before.
    pub is_repeated: bool,
}

/// One end of a cable with retry.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, PartialOrd, Ord))]
pub struct Retry {
    sender: Sender,
    receiver: Receiver,
    /// Something of the peer has come.
    has_heard: bool,
}

impl Retry {
    /// One whose peer begins, too.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            sender: Sender::new(limits),
            receiver: Receiver::default(),
            has_heard: false,
        }
    }

    /// Room for more records, at least for the longest one; `None` while too much is unacknowledged.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.sender.room()
    }

    /// Takes whole records over: the first `length` bytes of the room given last.
    pub fn commit(&mut self, length: usize) {
        self.sender.commit(length);
    }

    /// The next datagram to be sent at `now`, with a payload of `payload_max` bytes at most; `None` if there is nothing to send.
    pub fn next(&mut self, now: Time, payload_max: usize) -> Option<Segment<'_>> {
        let is_due = self.receiver.is_due(now);
        if !is_due && !self.sender.is_ready() {
            return None;
        }
        let (acknowledged, nak, heard_round) = self.receiver.acknowledge();
        let part = self.sender.next(now, payload_max);
        let heading = Heading {
            position: part.position,
            acknowledged,
            round: part.round,
            heard_round,
            nak,
            first_record: part.first_record,
        };
        Some(Segment {
            heading,
            payload: part.payload,
            is_repeated: part.is_repeated,
        })
    }

    /// Some of what was handed out last has not left: everything that is unacknowledged is cut and sent anew.
    pub fn rewind(&mut self) {
        self.sender.go_back();
    }

    /// Takes in a datagram of the peer with so many bytes of payload.
    pub fn take(&mut self, now: Time, heading: &Heading, payload_bytes: usize) -> Arrival {
        if !self.sender.could_acknowledge(heading.acknowledged) {
            return Arrival::Malformed;
        }
        let arrival = self.receiver.take(now, heading, payload_bytes);
        if arrival == Arrival::Malformed {
            return arrival;
        }
        self.sender.acknowledged(now, heading);
        if !std::mem::replace(&mut self.has_heard, true) {
            // What was sent before the peer knew of this end is lost.
            self.sender.peer_has_come();
        }
        arrival
    }

    /// Something has to be sent, or repeated, no later than this.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match (self.sender.deadline(), self.receiver.deadline()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Goes back if a timeout has passed; whether it has.
    pub fn tick(&mut self, now: Time) -> bool {
        self.sender.tick(now)
    }

    /// Whether the peer has acknowledged nothing for about a second, though it was sent the same again and again. What is written now is of
    /// no use to it: a port that hears nothing for so long begins anew.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.sender.is_silent()
    }

    /// Bytes that wait for their acknowledgement, sent or not.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> usize {
        self.sender.unacknowledged_bytes()
    }

    /// The position up to which the stream of the peer has come.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.receiver.expected()
    }

    /// Gives memory back that has not been needed since the last call.
    pub fn review(&mut self) {
        self.sender.review();
    }
}
