//! The external ports of a switch, with cached deadlines.
//!
//! An input concerns one or two ports, but after each input a switch must report which of all its
//! ports are ready and when the next is due. So both times of every port are cached, and only those
//! of ports that were touched (borrowed mutably) are computed anew, when [`Ports::refresh`] is
//! called at the end of each input and each frame.

use std::ops::{Deref, Index, IndexMut};

use link::{Deadline, Port, PortSet, Time};
use wire::PortNum;
use wire::convert::usize_of;

/// Ports of one block, whose earliest time is cached.
const BLOCK: usize = 8;
/// Ports that were touched are kept in one word if their numbers are below.
const WORD: usize = 64;

/// When the ports of one block, those with the numbers `8 n ..`, are next to be looked at.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Block {
    /// When each needs a tick.
    due: [Time; BLOCK],
    /// From when on each has something to send.
    ready: [Time; BLOCK],
    /// The earliest tick.
    due_first: Time,
}

const IDLE: Block = Block {
    due: [Time::NEVER; BLOCK],
    ready: [Time::NEVER; BLOCK],
    due_first: Time::NEVER,
};

impl Block {
    /// Sets when a port needs a tick. Whether the earliest of the block has changed.
    #[inline]
    fn set_due(&mut self, place: usize, at: Time) -> bool {
        let before = core::mem::replace(&mut self.due[place], at);
        if at == before || (at > self.due_first && before > self.due_first) {
            return false;
        }
        if at <= self.due_first {
            self.due_first = at;
            return true;
        }
        let first = earliest(&self.due);
        core::mem::replace(&mut self.due_first, first) != first
    }
}

#[inline]
fn earliest(times: &[Time; BLOCK]) -> Time {
    times.iter().fold(Time::NEVER, |first, &at| first.min(at))
}

/// The places of the times that have come.
#[inline]
fn come(times: &[Time; BLOCK], now: Time) -> u8 {
    let mut places = 0;
    for (place, &at) in times.iter().enumerate() {
        places |= u8::from(at <= now) << place;
    }
    places
}

/// External ports: port n at n - 1.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ports {
    ports: Box<[Port]>,
    /// Borrowed for change since the last refresh, of those with numbers below [`WORD`]: a bit each.
    touched: u64,
    /// When the next of all needs a tick.
    due_first: Time,
    /// No other port than `ready` has something to send before.
    ready_later: Time,
    blocks: Box<[Block]>,
    /// Those that had something to send when that was last computed.
    ready: PortSet,
    /// As `touched`, of the other ports, and whether there are any.
    touched_beyond: PortSet,
    has_touched_beyond: bool,
    /// One of the ports that the last refresh looked at had events.
    have_events: bool,
}

impl Ports {
    /// Ports with the numbers from 1 on.
    pub(crate) fn new(ports: Vec<Port>) -> Self {
        let mut all = Self {
            touched: 0,
            due_first: Time::NEVER,
            ready_later: Time::NEVER,
            blocks: vec![IDLE; ports.len() / BLOCK + 1].into_boxed_slice(),
            ready: PortSet::EMPTY,
            touched_beyond: PortSet::EMPTY,
            has_touched_beyond: false,
            have_events: false,
            ports: ports.into_boxed_slice(),
        };
        (0..all.ports.len()).for_each(|at| all.touch(at));
        all.refresh(Time::ZERO);
        all
    }

    /// The port of this number, if there is one; there is no port 0.
    #[inline]
    pub(crate) fn by_number(&self, number: PortNum) -> Option<&Port> {
        self.ports.get(number.index().checked_sub(1)?)
    }

    /// As [`Ports::by_number`], for change.
    #[inline]
    pub(crate) fn by_number_mut(&mut self, number: PortNum) -> Option<&mut Port> {
        self.get_mut(number.index().checked_sub(1)?)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Port> {
        if at >= self.ports.len() {
            return None;
        }
        self.touch(at);
        self.ports.get_mut(at)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        (0..self.ports.len()).for_each(|at| self.touch(at));
        self.ports.iter_mut()
    }

    /// Notes that the port at `at` is borrowed for change.
    #[inline]
    fn touch(&mut self, at: usize) {
        let number = at + 1;
        if number < WORD {
            self.touched |= 1 << number;
        } else if let Some(port) = self.ports.get(at) {
            self.touched_beyond.insert(port.number());
            self.has_touched_beyond = true;
        }
    }

    /// Whether ports have events, as the last refresh found it.
    #[inline]
    pub(crate) fn have_events(&self) -> bool {
        self.have_events
    }

    /// The ports that have events.
    pub(crate) fn with_events(&self) -> PortSet {
        let with_events = self.ports.iter().filter(|port| port.has_events());
        with_events.map(Port::number).collect()
    }

    /// Computes anew when the touched ports are ready and due.
    #[inline]
    pub(crate) fn refresh(&mut self, now: Time) {
        self.have_events = false;
        let mut touched = core::mem::take(&mut self.touched);
        while touched != 0 {
            self.refresh_one(now, first_of(touched));
            touched &= touched - 1;
        }
        if core::mem::take(&mut self.has_touched_beyond) {
            for number in core::mem::take(&mut self.touched_beyond).iter() {
                self.refresh_one(now, number.index());
            }
        }
        if self.ready_later <= now {
            self.look_at_all(now);
        }
    }

    #[inline]
    fn refresh_one(&mut self, now: Time, number: usize) {
        let port = &self.ports[number - 1];
        let polled = port.poll_times();
        self.have_events |= port.has_events();
        let block = &mut self.blocks[number / BLOCK];
        let place = number % BLOCK;
        let is_ready = polled.ready_at <= now;
        if block.ready[place] == polled.ready_at && block.due[place] == polled.due_at && !is_ready {
            return;
        }
        block.ready[place] = polled.ready_at;
        if polled.ready_at <= now {
            self.ready.insert(port.number());
        } else {
            self.ready.remove(port.number());
            self.ready_later = self.ready_later.min(polled.ready_at);
        }
        if block.set_due(number % BLOCK, polled.due_at) {
            let firsts = self.blocks.iter().map(|block| block.due_first);
            self.due_first = firsts.fold(Time::NEVER, Time::min);
        }
    }

    /// Computes anew which ports are ready: the time of one that was not may have come.
    #[cold]
    fn look_at_all(&mut self, now: Time) {
        self.ready = self.ready_by(now);
        let times = self.blocks.iter().flat_map(|block| block.ready);
        let later = times.filter(|&at| at > now);
        self.ready_later = later.fold(Time::NEVER, Time::min);
    }

    /// The ports whose time to send has come.
    fn ready_by(&self, now: Time) -> PortSet {
        let mut ports = PortSet::EMPTY;
        for (block, number) in self.blocks.iter().zip((0u8..).step_by(BLOCK)) {
            ports.insert_eight(PortNum::new(number), come(&block.ready, now));
        }
        ports
    }

    /// The ports that have something to send.
    #[inline]
    pub(crate) fn ready(&self, now: Time) -> PortSet {
        if self.ready_later <= now {
            return self.ready_by(now);
        }
        self.ready
    }

    /// Reads what a packet needs of a port, see [`Switch::read_ahead`](crate::Switch::read_ahead).
    #[inline]
    pub(crate) fn read_ahead(&self, number: PortNum) -> u64 {
        let times = &self.blocks[number.index() / BLOCK];
        let port = self.by_number(number).map_or(0, Port::read_ahead);
        port ^ times.due_first.0
            ^ times.ready[0].0
            ^ times.due[0].0
            ^ u64::from(self.ready.is_empty())
    }

    /// The ports that need a tick.
    #[inline]
    pub(crate) fn due(&self, now: Time) -> PortSet {
        let mut ports = PortSet::EMPTY;
        if self.due_first <= now {
            for (block, number) in self.blocks.iter().zip((0u8..).step_by(BLOCK)) {
                if block.due_first <= now {
                    ports.insert_eight(PortNum::new(number), come(&block.due, now));
                }
            }
        }
        ports
    }

    /// When the next port needs a tick; [`Time::NEVER`] if none does.
    #[inline]
    pub(crate) fn due_at(&self) -> Time {
        self.due_first
    }

    /// When the next port needs a tick, and why, if that is before `limit`.
    pub(crate) fn deadline_before(&self, limit: Time) -> Option<Deadline> {
        let first = self.due_first;
        if first >= limit {
            return None;
        }
        let mut times = self.blocks.iter().flat_map(|block| block.due);
        let number = times.position(|at| at == first)?;
        self.ports.get(number.checked_sub(1)?)?.deadline()
    }
}

/// The number of the lowest bit of a word that is not 0.
#[inline]
fn first_of(word: u64) -> usize {
    usize_of(word.trailing_zeros())
}

impl Deref for Ports {
    type Target = [Port];

    #[inline]
    fn deref(&self) -> &[Port] {
        &self.ports
    }
}

impl Index<usize> for Ports {
    type Output = Port;

    #[inline]
    fn index(&self, at: usize) -> &Port {
        &self.ports[at]
    }
}

impl IndexMut<usize> for Ports {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Port {
        self.touch(at);
        &mut self.ports[at]
    }
}

#[cfg(test)]
mod tests;
