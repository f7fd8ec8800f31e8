//! The requester of a connection: which packet goes next, and what is repeated (IBA 9.7.2, 9.7.5, 9.7.6).
//!
//! ```text
//!   send queue   | done |  under way  |  cursor: next to be sent  |  waiting  |
//!   numbers             una          next                       (max: highest ever sent, plus one)
//! ```
//!
//! Repeating is going back: the cursor returns to the packet with number `una`.

mod post;
mod send;

use link::Time;
use wire::Psn;

use crate::attributes::QpAttributes;
use crate::memory::Copier;
use crate::ring::Ring;
use crate::stage::{ReadAhead, WriteBehind};
use crate::status::Status;
use crate::work::{Destination, SendOperation, Sge};

/// The longest message in bytes (IBA 9.3.3).
pub(crate) const MESSAGE_MAX: u64 = 1 << 31;
/// An acknowledgement is asked for at least every so many packets.
const ACK_EVERY: u32 = 32;
/// Packets under way at most. A loss costs repeating so many.
const WINDOW_PACKETS: u32 = 2048;
const MODULUS_MASK: u32 = 0x00ff_ffff;

/// A send request in its queue.
#[derive(Debug, Default)]
pub(crate) struct SendWork {
    pub(crate) wr_id: u64,
    pub(crate) operation: SendOperation,
    pub(crate) signaled: bool,
    fence: bool,
    pub(crate) solicited: bool,
    pub(crate) destination: Option<Destination>,
    pub(crate) sges: Vec<Sge>,
    inline: Option<Vec<u8>>,
    is_inline: bool,
    /// Bytes of the message.
    pub(crate) len: u32,
    /// Sequence number of the message, for credits.
    ssn: u32,
    /// Number of its first packet; it has one from when that is sent.
    pub(crate) psn: Psn,
    /// Numbers that it takes: of a READ, packets of the answer.
    pub(crate) packets: u32,
    /// Packets of the answer to a READ that have come.
    pub(crate) answered: u32,
}

impl SendWork {
    /// Copies bytes of the message.
    pub(crate) fn gather(
        &self,
        copier: &mut Copier<'_>,
        from: usize,
        out: &mut [u8],
    ) -> Result<(), Status> {
        if !self.is_inline {
            return copier.gather(&self.sges, from, out);
        }
        let inline = self.inline.as_deref().unwrap_or_default();
        match inline.get(from..from + out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => return Err(Status::LocalLength),
        }
        Ok(())
    }
}

/// Up to which message the peer has receive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credits {
    /// It does not say.
    Unlimited,
    /// Up to this message sequence number.
    UpTo(u32),
}

/// The send queue and how far it has come.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) queue: Ring<SendWork>,
    una: Psn,
    next: Psn,
    max: Psn,
    /// The request that the next packet is of, counted from the head of the queue.
    cursor: usize,
    /// The packet within it.
    cursor_packet: u32,
    /// READs and atomics before the cursor.
    reads: u8,
    credits: Credits,
    last_ssn: u32,
    retries_left: u8,
    rnr_left: u8,
    /// When an answer is overdue.
    overdue_at: Option<Time>,
    /// Until when the peer has asked to wait.
    rnr_until: Option<Time>,
    /// The packet from which was gone back since the last progress.
    recovering: Option<Psn>,
    /// Why the request at the cursor cannot be sent.
    blocked: Option<Status>,
    /// Of the message that is being sent.
    ahead: ReadAhead,
    /// Of the READ that is being answered.
    pub(crate) behind: WriteBehind,
}

impl Requester {
    pub(crate) fn new(requests: u32) -> Self {
        Self {
            queue: Ring::new(requests),
            una: Psn::default(),
            next: Psn::default(),
            max: Psn::default(),
            cursor: 0,
            cursor_packet: 0,
            reads: 0,
            credits: Credits::UpTo(0),
            last_ssn: 0,
            retries_left: 0,
            rnr_left: 0,
            overdue_at: None,
            rnr_until: None,
            recovering: None,
            blocked: None,
            ahead: ReadAhead::default(),
            behind: WriteBehind::default(),
        }
    }

    /// Begins with the numbers and counts of the attributes.
    pub(crate) fn connect(&mut self, attributes: &QpAttributes) {
        self.una = attributes.sq_psn;
        self.next = attributes.sq_psn;
        self.max = attributes.sq_psn;
        self.adopt(attributes);
    }

    /// Takes over changed counts.
    pub(crate) fn adopt(&mut self, attributes: &QpAttributes) {
        self.retries_left = attributes.retry_count;
        self.rnr_left = attributes.rnr_retry;
    }

    pub(crate) fn reset(&mut self) {
        self.queue.clear();
        self.una = Psn::default();
        self.next = self.una;
        self.max = self.una;
        self.credits = Credits::UpTo(0);
        self.last_ssn = 0;
        self.stop();
    }

    /// Nothing is under way any more, and nothing is due.
    pub(crate) fn stop(&mut self) {
        self.una = self.max;
        self.next = self.max;
        self.cursor = 0;
        self.cursor_packet = 0;
        self.reads = 0;
        self.overdue_at = None;
        self.rnr_until = None;
        self.recovering = None;
        self.blocked = None;
        self.ahead = ReadAhead::default();
        self.behind.abandon();
    }

    pub(crate) const fn next(&self) -> Psn {
        self.next
    }

    pub(crate) const fn una(&self) -> Psn {
        self.una
    }

    pub(crate) const fn max(&self) -> Psn {
        self.max
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.una == self.max && self.cursor == 0 && self.cursor_packet == 0
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match (self.rnr_until, self.overdue_at) {
            (Some(rnr), Some(overdue)) => Some(rnr.min(overdue)),
            (rnr, overdue) => rnr.or(overdue),
        }
    }

    /// Goes back to the first packet that is not acknowledged.
    pub(crate) fn go_back(&mut self) {
        self.cursor = 0;
        self.next = self.una;
        self.reads = 0;
        self.overdue_at = None;
        self.blocked = None;
        self.cursor_packet = match self.queue.get(0) {
            Some(work) if self.una != self.max => self.una.since(work.psn),
            _ => 0,
        };
    }

    /// Notes a loss at the first packet in flight; `false` if that one is being recovered already.
    pub(crate) fn note_loss(&mut self) -> bool {
        self.recovering.replace(self.una) != Some(self.una)
    }

    pub(crate) fn clear_loss(&mut self) {
        self.recovering = None;
    }

    /// Takes a retry; `false` if none is left.
    pub(crate) fn take_retry(&mut self) -> bool {
        match self.retries_left.checked_sub(1) {
            Some(left) => {
                self.retries_left = left;
                true
            }
            None => false,
        }
    }

    /// Takes a retry after an RNR NAK; `false` if none is left.
    pub(crate) fn take_rnr_retry(&mut self, allowed: u8) -> bool {
        if allowed == 7 {
            return true;
        }
        match self.rnr_left.checked_sub(1) {
            Some(left) => {
                self.rnr_left = left;
                true
            }
            None => false,
        }
    }

    pub(crate) fn wait_until(&mut self, at: Time) {
        self.rnr_until = Some(at);
    }

    pub(crate) const fn is_waiting(&self) -> bool {
        self.rnr_until.is_some()
    }

    /// Advances the first number under way by `count`: progress.
    pub(crate) fn progress(&mut self, now: Time, count: u32, attributes: &QpAttributes) {
        self.una = self.una.plus(count);
        self.adopt(attributes);
        self.recovering = None;
        self.rnr_until = None;
        if self.next.is_before(self.una) {
            self.next = self.una;
            self.cursor_packet = match self.queue.get(0) {
                Some(work) => self.una.since(work.psn),
                None => 0,
            };
        }
        let timeout = attributes.timeout_ns().filter(|_| self.una != self.max);
        self.overdue_at = timeout.map(|ns| now + ns);
    }

    /// A datagram has left: nothing is awaited.
    pub(crate) fn datagram_sent(&mut self) {
        self.next = self.next.plus(1);
        self.max = self.next;
        self.una = self.next;
    }

    /// Removes the head of the queue, all of whose numbers are before `una`.
    pub(crate) fn pop(&mut self) {
        let answered = self
            .queue
            .get(0)
            .is_some_and(|work| work.operation.is_answered());
        self.queue.pop();
        match self.cursor.checked_sub(1) {
            Some(cursor) => {
                self.cursor = cursor;
                self.reads -= u8::from(answered);
            }
            None => self.cursor_packet = 0,
        }
    }

    /// Takes over how many receive requests the peer has.
    pub(crate) fn adopt_credits(&mut self, credits: Option<u32>, msn: u32) {
        self.credits = match credits {
            None => Credits::Unlimited,
            Some(credits) => Credits::UpTo(msn.wrapping_add(credits) & MODULUS_MASK),
        };
    }

    fn has_credit(&self, work: &SendWork) -> bool {
        match self.credits {
            Credits::Unlimited => true,
            Credits::UpTo(limit) => {
                !work.operation.takes_receive()
                    || limit.wrapping_sub(work.ssn) & MODULUS_MASK < 1 << 23
            }
        }
    }
}
