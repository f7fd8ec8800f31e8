//! The external ports of a switch, with cached deadlines.
//!
//! An input concerns one or two ports, but after each input a switch must report which of all its
//! ports are ready and when the next is due. So both times of every port are cached, and only those
//! of ports that were touched (borrowed mutably) are computed anew, when [`Ports::refresh`] is
//! called at the end of each input and each frame.

use std::ops::{Deref, Index, IndexMut};

use link::{Deadline, Port, PortSet, Time};
use wire::PortNum;

/// Ports of one block, whose earliest time is cached.
const BLOCK: usize = 8;

/// A time of each port, and the earliest of them.
#[derive(Debug)]
struct Deadlines {
    /// By port.
    at: Box<[Time]>,
    /// By block of ports: the earliest.
    blocks: Box<[Time]>,
    /// The earliest of all.
    first: Time,
}

impl Deadlines {
    fn new(ports: usize) -> Self {
        let whole = ports.next_multiple_of(BLOCK);
        Self {
            at: vec![Time::NEVER; whole].into_boxed_slice(),
            blocks: vec![Time::NEVER; whole / BLOCK].into_boxed_slice(),
            first: Time::NEVER,
        }
    }

    /// Sets the time of a port.
    #[inline]
    fn set(&mut self, port: usize, at: Time) {
        let before = core::mem::replace(&mut self.at[port], at);
        if before == at {
            return;
        }
        let block = &mut self.blocks[port / BLOCK];
        let first_before = *block;
        if at <= *block {
            *block = at;
        } else if before == *block {
            let start = port / BLOCK * BLOCK;
            *block = earliest(&self.at[start..start + BLOCK]);
        }
        // Only the earliest of a block counts among all.
        if *block <= self.first {
            self.first = *block;
        } else if first_before == self.first {
            self.first = earliest(&self.blocks);
        }
    }

    /// The ports whose time has come.
    #[inline]
    fn due_ports(&self, now: Time) -> PortSet {
        let mut due_ports = PortSet::EMPTY;
        if self.first > now {
            return due_ports;
        }
        let blocks = self.blocks.iter().zip(self.at.chunks_exact(BLOCK));
        for (block, (_, times)) in blocks.enumerate().filter(|&(_, (&first, _))| first <= now) {
            for (index, &at) in times.iter().enumerate() {
                if at <= now
                    && let Ok(number) = u8::try_from(block * BLOCK + index + 1)
                {
                    due_ports.insert(PortNum::new(number));
                }
            }
        }
        due_ports
    }
}

#[inline]
fn earliest(times: &[Time]) -> Time {
    times.iter().fold(Time::NEVER, |first, &at| first.min(at))
}

/// External ports: port n at n - 1.
#[derive(Debug)]
pub(crate) struct Ports {
    ports: Box<[Port]>,
    /// From when on each has something to send.
    ready: Deadlines,
    /// When each needs a tick.
    due: Deadlines,
    /// Borrowed for change since the last refresh.
    touched: PortSet,
}

impl Ports {
    /// Ports with the numbers from 1 on.
    pub(crate) fn new(ports: Vec<Port>) -> Self {
        let mut all = Self {
            touched: ports.iter().map(Port::number).collect(),
            ready: Deadlines::new(ports.len()),
            due: Deadlines::new(ports.len()),
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

    /// The ports that may have changed since the last refresh.
    pub(crate) fn touched(&self) -> PortSet {
        self.touched
    }

    /// Computes anew when the touched ports are ready and due.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        for number in core::mem::take(&mut self.touched).iter() {
            let at = number.index() - 1;
            let times = self.ports[at].poll_times();
            self.ready.set(at, times.ready_at);
            self.due.set(at, times.due_at);
        }
    }

    /// The ports that have something to send.
    #[inline]
    pub(crate) fn ready(&self, now: Time) -> PortSet {
        self.ready.due_ports(now)
    }

    /// The ports that need a tick.
    #[inline]
    pub(crate) fn due(&self, now: Time) -> PortSet {
        self.due.due_ports(now)
    }

    /// When the next port needs a tick; [`Time::NEVER`] if none does.
    #[inline]
    pub(crate) fn due_at(&self) -> Time {
        self.due.first
    }

    /// When the next port needs a tick, and why, if that is before `limit`.
    pub(crate) fn deadline_before(&self, limit: Time) -> Option<Deadline> {
        let first = self.due.first;
        if first >= limit {
            return None;
        }
        let port = self.due.at.iter().position(|&at| at == first)?;
        self.ports[port].deadline()
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
