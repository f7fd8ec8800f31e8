//! The external ports of a switch, with cached deadlines.
//!
//! An input concerns one or two ports, but after each input a switch must report which of all its
//! ports are ready and when the next is due. So both times of every port are cached, and only those
//! of ports that were touched (borrowed mutably) are computed anew, when [`Ports::refresh`] is
//! called at the end of each input and each frame.

use std::ops::{Deref, Index, IndexMut};

use link::{Deadline, Port, PortSet, Time};
use wire::PortNum;

/// Ports of one block, whose earliest times are cached.
const BLOCK: usize = 8;

/// A time of each port of a block.
type Times = [Time; BLOCK];

/// The times of the ports of one block: those with the numbers `8 n ..`.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Block {
    /// From when on each has something to send.
    ready: Times,
    /// When each needs a tick.
    due: Times,
    /// The earliest of each.
    ready_first: Time,
    due_first: Time,
}

const IDLE: Block = Block {
    ready: [Time::NEVER; BLOCK],
    due: [Time::NEVER; BLOCK],
    ready_first: Time::NEVER,
    due_first: Time::NEVER,
};

/// Sets one of `times`, whose earliest is `first`. Whether that has changed.
#[inline]
fn set(times: &mut Times, first: &mut Time, place: usize, at: Time) -> bool {
    let before = core::mem::replace(&mut times[place], at);
    if at == before || (at > *first && before > *first) {
        return false;
    }
    if at <= *first {
        *first = at;
        return true;
    }
    let earlier = times.iter().fold(Time::NEVER, |first, &at| first.min(at));
    core::mem::replace(first, earlier) != earlier
}

/// The places of the times that have come.
#[inline]
fn come(times: &Times, now: Time) -> u8 {
    let mut places = 0;
    for (place, &at) in times.iter().enumerate() {
        places |= u8::from(at <= now) << place;
    }
    places
}

/// External ports: port n at n - 1.
#[derive(Debug)]
pub(crate) struct Ports {
    ports: Box<[Port]>,
    times: Box<[Block]>,
    /// The earliest times of all.
    ready_first: Time,
    due_first: Time,
    /// Borrowed for change since the last refresh.
    touched: PortSet,
}

impl Ports {
    /// Ports with the numbers from 1 on.
    pub(crate) fn new(ports: Vec<Port>) -> Self {
        let mut all = Self {
            touched: ports.iter().map(Port::number).collect(),
            times: vec![IDLE; ports.len() / BLOCK + 1].into_boxed_slice(),
            ready_first: Time::NEVER,
            due_first: Time::NEVER,
            ports: ports.into_boxed_slice(),
        };
        all.refresh();
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
        let port = self.ports.get_mut(at)?;
        self.touched.insert(port.number());
        Some(port)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        let touched = &mut self.touched;
        self.ports
            .iter_mut()
            .inspect(|port| touched.insert(port.number()))
    }

    /// Those of the ports that may have changed since the last refresh that have events.
    #[inline]
    pub(crate) fn with_events(&self) -> PortSet {
        let touched = self.touched.iter();
        let with_events = touched.filter(|number| self.ports[number.index() - 1].has_events());
        with_events.collect()
    }

    /// Computes anew when the touched ports are ready and due.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        for number in core::mem::take(&mut self.touched).iter() {
            let at = number.index();
            let polled = self.ports[at - 1].poll_times();
            let (block, place) = (&mut self.times[at / BLOCK], at % BLOCK);
            if set(
                &mut block.ready,
                &mut block.ready_first,
                place,
                polled.ready_at,
            ) {
                self.ready_first = self.first_of(|block| block.ready_first);
            }
            let block = &mut self.times[at / BLOCK];
            if set(&mut block.due, &mut block.due_first, place, polled.due_at) {
                self.due_first = self.first_of(|block| block.due_first);
            }
        }
    }

    #[inline]
    fn first_of(&self, first: impl Fn(&Block) -> Time) -> Time {
        let firsts = self.times.iter().map(first);
        firsts.fold(Time::NEVER, Time::min)
    }

    /// The ports that have something to send.
    #[inline]
    pub(crate) fn ready(&self, now: Time) -> PortSet {
        let mut ports = PortSet::EMPTY;
        if self.ready_first <= now {
            for (block, number) in self.times.iter().zip((0u8..).step_by(BLOCK)) {
                if block.ready_first <= now {
                    ports.insert_eight(PortNum::new(number), come(&block.ready, now));
                }
            }
        }
        ports
    }

    /// The ports that need a tick.
    #[inline]
    pub(crate) fn due(&self, now: Time) -> PortSet {
        let mut ports = PortSet::EMPTY;
        if self.due_first <= now {
            for (block, number) in self.times.iter().zip((0u8..).step_by(BLOCK)) {
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
        let mut times = self.times.iter().flat_map(|block| block.due);
        let number = times.position(|at| at == first)?;
        self.ports.get(number.checked_sub(1)?)?.deadline()
    }
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
        let port = &mut self.ports[at];
        self.touched.insert(port.number());
        port
    }
}

#[cfg(test)]
mod tests;
