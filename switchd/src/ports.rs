//! The external ports of a switch, and when each of them next wants something.
//!
//! Whatever happens concerns one or two ports, but a switch is asked after each of them which of
//! all its ports are ready and when the next is due. So both moments of every port are kept, and
//! only those of ports that were touched (borrowed for change) are looked up anew, when
//! [`Ports::refresh`] is called at the end of each input and each frame.

use std::ops::{Deref, Index, IndexMut};

use link::{Deadline, Port, PortSet, Time};

/// External ports: port n at n - 1.
#[derive(Debug)]
pub(crate) struct Ports {
    ports: Vec<Port>,
    /// Borrowed for change since the last refresh.
    touched: PortSet,
    /// By port: from when on it has something to send, and when it wants a tick.
    ready_at: Vec<Time>,
    due_at: Vec<Time>,
}

impl Ports {
    pub(crate) fn new(ports: Vec<Port>) -> Self {
        let mut all = Self {
            touched: ports.iter().map(Port::number).collect(),
            ready_at: vec![Time::NEVER; ports.len()],
            due_at: vec![Time::NEVER; ports.len()],
            ports,
        };
        all.refresh();
        all
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

    /// Looks up anew what the touched ports want.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        for number in core::mem::take(&mut self.touched).iter() {
            let at = number.index() - 1;
            let port = &self.ports[at];
            self.ready_at[at] = port.ready_at();
            self.due_at[at] = port.deadline().map_or(Time::NEVER, |deadline| deadline.at);
        }
    }

    /// The ports that have something to send.
    #[inline]
    pub(crate) fn ready(&self, now: Time) -> PortSet {
        let mut ready = PortSet::EMPTY;
        for (at, port) in self.ready_at.iter().zip(&self.ports) {
            if *at <= now {
                ready.insert(port.number());
            }
        }
        ready
    }

    /// The ports that want a tick.
    pub(crate) fn due(&self, now: Time) -> PortSet {
        let mut due = PortSet::EMPTY;
        for (at, port) in self.due_at.iter().zip(&self.ports) {
            if *at <= now {
                due.insert(port.number());
            }
        }
        due
    }

    /// When the next port wants a tick, and why, if that is before `limit`.
    #[inline]
    pub(crate) fn deadline_before(&self, limit: Time) -> Option<Deadline> {
        let mut earliest = limit;
        let mut place = None;
        for (at, &due) in self.due_at.iter().enumerate() {
            if due < earliest {
                earliest = due;
                place = Some(at);
            }
        }
        self.ports[place?].deadline()
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
