//! What is sent and not acknowledged, and where it is cut.

use wire::convert::u64_of;
use wire::record::record_length;

use super::{Heading, Limits, Timeout, Window};
use crate::Time;

/// A part of the stream, to be sent.
pub(super) struct Part<'a> {
    pub(super) position: u64,
    pub(super) round: u8,
    pub(super) first_record: Option<u16>,
    pub(super) payload: &'a [u8],
    pub(super) is_repeated: bool,
}

/// The sending side.
///
/// ```text
/// memory  ....... unacknowledged, sent ....... unsent ....... room
///                 ▲                           ▲              ▲
///               start                        next           end
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, PartialOrd, Ord))]
pub(super) struct Sender {
    memory: Vec<u8>,
    limits: SenderLimits,
    start: usize,
    next: usize,
    end: usize,
    /// Where the first record at or behind `start` begins, and at or behind `next`.
    start_record: usize,
    next_record: usize,
    /// The position of `start`.
    acknowledged: u64,
    /// Up to where something was sent, ever.
    sent: u64,
    round: u8,
    timeout: Timeout,
    window: Window,
    /// How far memory was needed since the last review.
    needed: usize,
}

/// [`Limits`], as far as a sender needs them.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, PartialOrd, Ord))]
struct SenderLimits {
    unacknowledged_bytes: usize,
    idle_bytes: usize,
    record_bytes: usize,
}

impl Sender {
    pub(super) fn new(limits: Limits) -> Self {
        let Limits {
            unacknowledged_bytes,
            idle_bytes,
            record_bytes,
        } = limits;
        let unacknowledged_bytes = unacknowledged_bytes.max(record_bytes);
        Self {
            memory: Vec::new(),
            limits: SenderLimits {
                unacknowledged_bytes,
                idle_bytes: idle_bytes.max(record_bytes),
                record_bytes,
            },
            start: 0,
            next: 0,
            end: 0,
            start_record: 0,
            next_record: 0,
            acknowledged: 0,
            sent: 0,
            round: 0,
            timeout: Timeout::default(),
            window: Window::new(unacknowledged_bytes),
            needed: 0,
        }
    }

    pub(super) fn unacknowledged_bytes(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        let most = self.limits.unacknowledged_bytes;
        let waiting = self.end - self.start;
        if most - waiting < self.limits.record_bytes {
            return None;
        }
        if self.memory.len() - self.end < self.limits.record_bytes {
            // To move no more than what has gone is cheap on average.
            if self.start > 0 && self.start >= waiting {
                self.move_to_front();
            }
            while self.memory.len() - self.end < self.limits.record_bytes {
                let doubled = (2 * self.memory.len()).min(2 * most);
                self.memory.resize(doubled.max(self.limits.idle_bytes), 0);
            }
        }
        let until = self.memory.len().min(self.start + most);
        Some(&mut self.memory[self.end..until])
    }

    fn move_to_front(&mut self) {
        self.memory.copy_within(self.start..self.end, 0);
        for index in [
            &mut self.next,
            &mut self.end,
            &mut self.start_record,
            &mut self.next_record,
        ] {
            *index -= self.start;
        }
        self.start = 0;
    }

    pub(super) fn commit(&mut self, length: usize) {
        self.end = (self.end + length).min(self.memory.len());
        self.needed = self.needed.max(self.end);
    }

    /// Whether there is something to be sent that may be under way.
    pub(super) fn is_ready(&self) -> bool {
        self.next < self.end && self.next - self.start < self.window.bytes()
    }

    /// The next part, which is empty if there is none.
    pub(super) fn next(&mut self, now: Time, payload_max: usize) -> Part<'_> {
        let position = self.position_of(self.next);
        let length = match self.is_ready() {
            true => payload_max.min(self.end - self.next),
            false => 0,
        };
        let (from, to) = (self.next, self.next + length);
        let end = self.position_of(to);
        let is_repeated = position < self.sent && length > 0;
        let mut first_record = None;
        if length > 0 {
            self.timeout.sent(now, end, is_repeated);
            self.sent = self.sent.max(end);
            self.next = to;
            if self.next_record < to {
                first_record = u16::try_from(self.next_record - from).ok();
                self.next_record = self.record_from(self.next_record, to);
            }
        }
        Part {
            position,
            round: self.round,
            first_record,
            payload: &self.memory[from..to],
            is_repeated,
        }
    }

    fn position_of(&self, index: usize) -> u64 {
        self.acknowledged + u64_of(index - self.start)
    }

    /// Where the first record at or behind `to` begins; one begins at `from`.
    fn record_from(&self, mut from: usize, to: usize) -> usize {
        while from < to {
            let delimiter = self.memory[from..self.end].first_chunk();
            // Whole records are committed, so the end is where one ends.
            let length = delimiter.and_then(|delimiter| record_length(delimiter).ok());
            from = length.map_or(self.end, |length| (from + length).min(self.end));
        }
        from
    }

    /// Whether the peer can have the stream up to `position`.
    pub(super) fn could_acknowledge(&self, position: u64) -> bool {
        position <= self.sent
    }

    /// Takes in what the peer has.
    pub(super) fn acknowledged(&mut self, now: Time, heading: &Heading) {
        let news = heading.acknowledged.saturating_sub(self.acknowledged);
        // It is no more than what is in memory.
        let bytes = usize::try_from(news).unwrap_or(0);
        if bytes > 0 {
            self.advance(bytes);
            self.window.acknowledged(bytes);
            self.timeout
                .acknowledged(now, self.acknowledged, self.next == self.start);
        }
        let is_gap = heading.nak && heading.acknowledged == self.acknowledged;
        if is_gap && heading.heard_round == self.round && self.next > self.start {
            self.window.lost();
            self.go_back();
        }
    }

    /// So many bytes at the front are not needed any more.
    fn advance(&mut self, bytes: usize) {
        self.acknowledged += u64_of(bytes);
        self.start += bytes;
        self.start_record = self.record_from(self.start_record, self.start);
        if self.next < self.start {
            // Some of what it went back to had come.
            self.next = self.start;
            self.next_record = self.start_record;
        }
        if self.start == self.end {
            (self.start, self.next, self.end) = (0, 0, 0);
            (self.start_record, self.next_record) = (0, 0);
        }
    }

    /// Sends everything again that is not acknowledged.
    pub(super) fn go_back(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.next = self.start;
        self.next_record = self.start_record;
        self.timeout.restart();
    }

    /// The peer is there from now on.
    pub(super) fn peer_has_come(&mut self) {
        if self.next > self.start {
            self.go_back();
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.timeout.is_silent()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.timeout.at()
    }

    pub(super) fn tick(&mut self, now: Time) -> bool {
        let passes = self.timeout.passes(now);
        if passes {
            self.window.timed_out();
            self.go_back();
        }
        passes
    }

    pub(super) fn review(&mut self) {
        let needed = std::mem::take(&mut self.needed);
        let idle = self.limits.idle_bytes;
        if needed <= idle && self.end == 0 && self.memory.len() > idle {
            self.memory = Vec::new();
        }
        self.needed = self.end;
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory.len()
    }
}
