//! What has come in order, and what the peer is told of it.

use wire::convert::u64_of;

use super::Heading;
use crate::Time;

/// How long an acknowledgement waits for data to ride with, nanoseconds.
pub const ACKNOWLEDGE_NS: u64 = 2_000_000;

/// From so many bytes on it does not wait.
pub const ACKNOWLEDGE_BYTES: u64 = 32 * 1024;

/// What becomes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It goes on where the last one ended, but for so many bytes at its beginning that have come before.
    Next {
        /// How many.
        skip: usize,
    },
    /// All of it has come before.
    Duplicate,
    /// Something before it has not come: it will be sent again.
    Gap,
    /// There is none: it acknowledges only.
    Bare,
    /// No honest peer sends this.
    Malformed,
}

/// The receiving side.
#[derive(Clone, Debug, Default)]
#[cfg_attr(test, derive(PartialEq, Eq, PartialOrd, Ord))]
pub(super) struct Receiver {
    /// The position up to which everything has come.
    expected: u64,
    /// Bytes that have come since the last acknowledgement.
    unacknowledged_bytes: u64,
    /// When it is to be sent at the latest.
    due: Option<Time>,
    /// The last gap that was told: where it begins, and the round.
    told: Option<(u64, u8)>,
    /// The next datagram tells a gap.
    nak: bool,
    heard_round: u8,
}

impl Receiver {
    pub(super) fn expected(&self) -> u64 {
        self.expected
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// What the datagram that is sent now says: up to where, whether there is a gap, and in which round.
    pub(super) fn acknowledge(&mut self) -> (u64, bool, u8) {
        self.due = None;
        self.unacknowledged_bytes = 0;
        let nak = std::mem::take(&mut self.nak);
        (self.expected, nak, self.heard_round)
    }

    pub(super) fn take(&mut self, now: Time, heading: &Heading, payload_bytes: usize) -> Arrival {
        let Some(end) = heading.position.checked_add(u64_of(payload_bytes)) else {
            return Arrival::Malformed;
        };
        if payload_bytes == 0 {
            return Arrival::Bare;
        }
        if heading.position > self.expected {
            let gap = (self.expected, heading.round);
            if self.told != Some(gap) {
                self.told = Some(gap);
                self.heard_round = heading.round;
                self.nak = true;
                self.due = Some(now);
            }
            return Arrival::Gap;
        }
        if end <= self.expected {
            self.due = Some(now);
            return Arrival::Duplicate;
        }
        let skip = self.expected - heading.position;
        self.unacknowledged_bytes += end - self.expected;
        self.expected = end;
        self.heard_round = heading.round;
        // What was missing has come.
        self.nak = false;
        let due = match self.unacknowledged_bytes >= ACKNOWLEDGE_BYTES {
            true => now,
            false => now + ACKNOWLEDGE_NS,
        };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        Arrival::Next {
            // It is below the length of the payload.
            skip: usize::try_from(skip).unwrap_or(0),
        }
    }
}
