//! The queue of future events: a timing wheel of nanoseconds for near ones, a heap for far ones.
//!
//! Almost everything in a fabric happens within a few microseconds (a flight, a routing time, the
//! bytes of a packet), so that an event costs a push and a pop of a list; keep-alives and the
//! like wait in a heap until the wheel reaches them. The lists of all slots share one array, whose places are used again at
//! once: it stays as short as events wait. Two events of one moment happen in the order
//! in which they were scheduled, which is what makes a run reproducible.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use link::Time;
use wire::convert::{saturate, u64_of, usize_of};

use crate::numbers::{index, number};

/// Slots of the wheel, a nanosecond each.
const SLOTS: usize = 4096;
const SLOTS_NS: u64 = SLOTS as u64;
/// Words of the bit map of slots.
const WORDS: usize = SLOTS / 64;

/// Events in the order of time and, within a moment, of scheduling.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    /// All events in the slots are at or after this moment, and less than [`SLOTS`] after it.
    base: u64,
    slots: Box<[Slot; SLOTS]>,
    /// Events in slots, each with the place of the next one of its slot.
    waiting: Vec<(E, u32)>,
    /// The first unused place of `waiting`; an unused place names the next.
    unused: u32,
    /// Bit per slot: it holds events.
    occupied: [u64; WORDS],
    /// Bit per word of `occupied`: it is not zero.
    busy: u64,
    far: BinaryHeap<Reverse<(u64, u64, E)>>,
    scheduled: u64,
}

/// No place.
const NONE: u32 = u32::MAX;

/// The events of one moment: the places of the first and of the last.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

const EMPTY: Slot = Slot {
    first: NONE,
    last: NONE,
};

/// The slot of a moment.
fn slot(at: u64) -> usize {
    usize_of(at % SLOTS_NS)
}

impl<E: Copy + Ord> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self {
            base: 0,
            slots: Box::new([EMPTY; SLOTS]),
            waiting: Vec::new(),
            unused: NONE,
            occupied: [0; WORDS],
            busy: 0,
            far: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// Lets `event` happen at `at`, or now if that is past.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, event: E) {
        let at = at.0.max(self.base);
        if at - self.base < SLOTS_NS {
            self.put(slot(at), event);
        } else {
            self.scheduled += 1;
            self.far.push(Reverse((at, self.scheduled, event)));
        }
    }

    #[inline]
    fn put(&mut self, slot: usize, event: E) {
        let place = self.unused;
        let place = match self.waiting.get_mut(index(place)) {
            Some(unused) => {
                self.unused = unused.1;
                *unused = (event, NONE);
                place
            }
            None => {
                self.waiting.push((event, NONE));
                number(self.waiting.len() - 1)
            }
        };
        let list = &mut self.slots[slot % SLOTS];
        let last = core::mem::replace(&mut list.last, place);
        match self.waiting.get_mut(index(last)) {
            Some(last) => last.1 = place,
            None => {
                list.first = place;
                self.occupied[slot / 64 % WORDS] |= 1 << (slot % 64);
                self.busy |= 1 << (slot / 64 % WORDS);
            }
        }
    }

    /// The next event and its moment, if that is not after `until`.
    #[inline]
    pub(crate) fn pop(&mut self, until: Time) -> Option<(Time, E)> {
        loop {
            let here = slot(self.base);
            let list = &mut self.slots[here];
            let place = list.first;
            if let Some(taken) = self.waiting.get_mut(index(place)) {
                if self.base > until.0 {
                    return None;
                }
                let (event, next) = *taken;
                list.first = next;
                if next == NONE {
                    list.last = NONE;
                }
                taken.1 = core::mem::replace(&mut self.unused, place);
                return Some((Time(self.base), event));
            }
            let word = &mut self.occupied[here / 64];
            *word &= !(1 << (here % 64));
            if *word == 0 {
                self.busy &= !(1 << (here / 64));
            }
            let next = self.next_moment().filter(|&at| at <= until.0)?;
            self.advance(next);
        }
    }

    /// The event that [`EventQueue::pop`] gives next, if it is a near one and none is pushed before it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<E> {
        let here = &self.slots[slot(self.base) % SLOTS];
        let place = match here.first {
            NONE => {
                // The slot of `base` is empty and may still be marked as occupied.
                let after = self.base + 1;
                let word = slot(after) / 64 % WORDS;
                let bits = self.occupied[word] & (u64::MAX << (slot(after) % 64));
                if bits == 0 {
                    return None;
                }
                let found = word * 64 + index(bits.trailing_zeros());
                self.slots[found % SLOTS].first
            }
            place => place,
        };
        self.waiting.get(index(place)).map(|&(event, _)| event)
    }

    /// The moment of the next event; the slot of `base` is empty.
    fn next_moment(&self) -> Option<u64> {
        let here = slot(self.base);
        let first = here / 64;
        // From `here` to the end of its word, then word by word, and last what is before `here`.
        let ahead = self.occupied[first] & (u64::MAX << (here % 64));
        let (word, bits) = match ahead {
            0 => {
                let others = self.busy.rotate_right(saturate(first + 1));
                let word = (first + 1 + index(others.trailing_zeros())) % WORDS;
                (word, self.occupied[word])
            }
            _ => (first, ahead),
        };
        if bits != 0 {
            let found = word * 64 + index(bits.trailing_zeros());
            return Some(self.base + u64_of((found + SLOTS - here) % SLOTS));
        }
        self.far.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Moves the wheel to `to`, and what has come near into its slots.
    fn advance(&mut self, to: u64) {
        self.base = to;
        while let Some(&Reverse((at, _, event))) = self.far.peek() {
            if at - self.base >= SLOTS_NS {
                break;
            }
            self.far.pop();
            self.put(slot(at), event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_scheduling() {
        let mut queue = EventQueue::new();
        let times = [5, 3, 5, 900_000, 4096, 4095, 8191, 900_000, 5, 12_288];
        for (number, &at) in (0u32..).zip(&times) {
            queue.push(Time(at), number);
        }
        let mut expected: Vec<(u64, u32)> = times.iter().copied().zip(0..).collect();
        expected.sort_unstable();
        let mut seen = Vec::new();
        while let Some((at, number)) = queue.pop(Time::NEVER) {
            seen.push((at.0, number));
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_event_of_the_present_moment_comes_before_the_next_moment() {
        let mut queue = EventQueue::new();
        queue.push(Time(10), 1);
        queue.push(Time(11), 2);
        assert_eq!(queue.pop(Time(20)), Some((Time(10), 1)));
        queue.push(Time(10), 3);
        queue.push(Time(4), 4);
        let rest: Vec<u32> = core::iter::from_fn(|| queue.pop(Time(20)))
            .map(|(_, event)| event)
            .collect();
        assert_eq!(rest, [3, 4, 2]);
    }

    #[test]
    fn what_is_seen_ahead_is_what_comes_next() {
        let mut queue = EventQueue::new();
        for (number, at) in (0u32..).zip([3, 3, 5, 40, 64, 130, 9000]) {
            queue.push(Time(at), number);
        }
        let mut seen = Vec::new();
        while let Some((_, number)) = queue.pop(Time::NEVER) {
            if let Some(next) = queue.peek() {
                assert_eq!(next, number + 1);
                seen.push(next);
            }
        }
        assert_eq!(seen, [1, 2, 3]);
    }

    #[test]
    fn nothing_after_the_limit_is_given_out() {
        let mut queue = EventQueue::new();
        queue.push(Time(50_000), 1);
        assert_eq!(queue.pop(Time(49_999)), None);
        queue.push(Time(49_000), 2);
        assert_eq!(queue.pop(Time(49_999)), Some((Time(49_000), 2)));
        assert_eq!(queue.pop(Time(50_000)), Some((Time(50_000), 1)));
    }
}
