//! What input VLs wait for, in the order of time.
//!
//! At one moment the order is that of ports, of their VLs, and of what is due, which are one number: comparing two of them is one step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use link::Time;
use wire::{PortNum, Vl};

use crate::plane::PortVl;

/// A timed event of an input VL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The look-up of its head is complete.
    Routed,
    /// The packet that left it has passed the crossbar: this many blocks are free.
    Through(u16),
}

/// All timed events of a switch: their moments, and the numbers of what happens.
#[derive(Debug, Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(Time, u64)>>);

/// The number of an event: port, VL, 3 bytes of nothing, whether it is [`Due::Through`], blocks (2 bytes).
#[inline]
fn number(from: PortVl, due: Due) -> u64 {
    let due = match due {
        Due::Routed => 0,
        Due::Through(blocks) => 1 << 16 | u64::from(blocks),
    };
    u64::from(from.port.get()) << 56 | u64::from(from.vl.get()) << 48 | due
}

/// The event of a number.
#[inline]
fn event(number: u64) -> (PortVl, Due) {
    let [port, vl, .., kind, high, low] = number.to_be_bytes();
    let from = PortVl {
        port: PortNum::new(port),
        vl: Vl::truncate(vl),
    };
    let due = match kind {
        0 => Due::Routed,
        _ => Due::Through(u16::from_be_bytes([high, low])),
    };
    (from, due)
}

impl Timers {
    /// Adds an event.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, from: PortVl, due: Due) {
        self.0.push(Reverse((at, number(from, due))));
    }

    /// The next event.
    #[inline]
    pub(crate) fn next(&self) -> Option<(Time, PortVl, Due)> {
        let &Reverse((at, number)) = self.0.peek()?;
        let (from, due) = event(number);
        Some((at, from, due))
    }

    /// The moment of the next event; [`Time::NEVER`] if there is none.
    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        self.0.peek().map_or(Time::NEVER, |&Reverse((at, _))| at)
    }

    /// Takes the next event if its moment has come.
    #[inline]
    pub(crate) fn take(&mut self, now: Time) -> Option<(PortVl, Due)> {
        let &Reverse((at, number)) = self.0.peek()?;
        if at > now {
            return None;
        }
        self.0.pop();
        Some(event(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_port_vl_and_kind() {
        let mut timers = Timers::default();
        let from = |port, vl| PortVl {
            port: PortNum::new(port),
            vl: Vl::constant(vl),
        };
        let events = [
            (Time(1), from(255, 14), Due::Through(u16::MAX)),
            (Time(2), from(1, 3), Due::Routed),
            (Time(2), from(1, 3), Due::Through(1)),
            (Time(2), from(1, 4), Due::Routed),
            (Time(2), from(2, 0), Due::Through(2)),
            (Time(2), from(2, 0), Due::Through(300)),
            (Time(1 << 40), from(1, 0), Due::Routed),
        ];
        for &(at, from, due) in events.iter().rev() {
            timers.push(at, from, due);
        }
        assert_eq!(timers.take(Time(0)), None);
        for (at, from, due) in events {
            assert_eq!(timers.next(), Some((at, from, due)));
            assert_eq!(timers.take(at), Some((from, due)));
        }
        assert_eq!(timers.next_at(), Time::NEVER);
    }
}
