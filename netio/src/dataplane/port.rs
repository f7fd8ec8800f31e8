//! One port of a running device: its link, its carrier, and frames that wait for room.

use link::{Device, Input, Time};
use wire::PortNum;
use wire::udplink::UdpEndpoint;

use crate::NetError;
use crate::clock;
use crate::poll::Epoll;
use crate::transport::{
    Attached, CableEnd, InterfaceChange, Link, LinkCounter, SendBatch, Sent, TunnelPeer,
};

/// Batches that a tunnel sends in a row at most.
const BATCHES_MAX: usize = 32;

/// How long a port waits when the system is short of queue room, nanoseconds.
const RETRY_NS: u64 = 200_000;

/// Why a port sends nothing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It does.
    No,
    /// Until epoll reports room to send.
    UntilWritable,
    /// Until this moment.
    Until(Time),
    /// Until the peer has taken something out of shared memory.
    UntilRoom,
}

/// A change of a port's carrier that the core has to be handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CarrierChange {
    /// None.
    None,
    /// It has come up, or gone down.
    Carrier(bool),
    /// It has gone down and come up again.
    Restart,
}

impl CarrierChange {
    /// Hands it to the core.
    pub(super) fn report<D: Device>(self, device: &mut D, port: PortNum) {
        let now = clock::now();
        match self {
            Self::None => {}
            Self::Carrier(up) => device.handle(now, Input::Carrier { port, up }),
            Self::Restart => {
                device.handle(now, Input::Carrier { port, up: false });
                device.handle(now, Input::Carrier { port, up: true });
            }
        }
    }
}

/// One port of a running device.
pub(super) struct Port {
    pub(super) link: Link,
    pub(super) blocked: Blocked,
    /// More frames may wait than were taken.
    pub(super) is_unread: bool,
    /// Frames that were pulled and not taken, back to back, with their lengths.
    unsent: Vec<u8>,
    unsent_lengths: Vec<usize>,
    /// [`Link::paths`] when they were made.
    unsent_paths: u64,
    /// The carrier as the core was handed it.
    up: bool,
    /// epoll watches for room to write.
    watches_writable: bool,
    /// epoll's name of the port.
    token: u64,
}

impl Port {
    pub(super) fn new(link: Link, token: u64) -> Self {
        Self {
            link,
            blocked: Blocked::No,
            is_unread: false,
            unsent: Vec::new(),
            unsent_lengths: Vec::new(),
            unsent_paths: 0,
            up: false,
            watches_writable: false,
            token,
        }
    }

    /// Whether the core has been handed a carrier; frames that come without one are dropped.
    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// Has epoll watch the link's socket, if there is one.
    pub(super) fn watch(&self, epoll: &Epoll) -> Result<(), NetError> {
        let Some(fd) = self.link.fd() else {
            return Ok(());
        };
        epoll
            .add_for_more(fd, self.token)
            .map_err(|source| NetError::new(format!("watch port {}", self.link.port()), source))
    }

    /// epoll has found room to write: what is kept may go at once.
    pub(super) fn on_writable(&mut self) {
        if self.blocked == Blocked::UntilWritable {
            self.blocked = Blocked::Until(Time::ZERO);
        }
    }

    /// UDP: sets the peer. Frames that were kept for another one are dropped.
    pub(super) fn connect(&mut self, peer: UdpEndpoint) -> Result<CarrierChange, NetError> {
        if !self.link.connect(peer)? {
            return Ok(CarrierChange::None);
        }
        self.drop_unsent();
        Ok(self.carrier_change(true, true))
    }

    /// Tunnel: sets the peer. Frames that were kept for another one are dropped.
    pub(super) fn connect_tunnel(&mut self, peer: &TunnelPeer) -> Result<CarrierChange, NetError> {
        let what = format!("connect port {} to {}", self.link.port(), peer.end.address);
        let Some((tunnel, _)) = self.link.tunnel() else {
            return Err(NetError::refused(what, "its cable is no tunnel"));
        };
        if !tunnel.connect(peer)? {
            return Ok(CarrierChange::None);
        }
        self.drop_unsent();
        if let Blocked::Until(_) = self.blocked {
            self.blocked = Blocked::No;
        }
        Ok(self.carrier_change(true, true))
    }

    /// Tunnel: what a timeout has passed for is sent again, unless the system has not even taken what was sent before.
    pub(super) fn tick_tunnel(&mut self, now: Time) {
        if self.blocked == Blocked::No
            && let Some((tunnel, counters)) = self.link.tunnel()
        {
            tunnel.tick(now, counters);
        }
    }

    /// Tunnel: sends what is to be sent, as much as the system takes; whether there was anything.
    pub(super) fn send_datagrams(
        &mut self,
        batch: &mut SendBatch,
        now: Time,
        epoll: &Epoll,
    ) -> bool {
        let mut any = false;
        // What may be under way is bounded, so that this ends by itself; a path that changes again and again does not end it.
        for _ in 0..BATCHES_MAX {
            batch.clear();
            let is_open = self.blocked == Blocked::No;
            let Some((tunnel, counters)) = self.link.tunnel() else {
                break;
            };
            if !is_open || !tunnel.fill(now, batch, counters) {
                break;
            }
            any = true;
            self.send(batch, now, epoll);
        }
        any
    }

    /// When a tunnel has to send at the latest.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.blocked {
            Blocked::No => self.link.deadline(),
            _ => None,
        }
    }

    /// Shared memory: takes another cable. Frames that were kept for the old one are dropped.
    pub(super) fn attach(
        &mut self,
        end: CableEnd,
        epoll: &Epoll,
    ) -> Result<CarrierChange, NetError> {
        if !self.link.is_shared() {
            let what = format!("attach port {}", self.link.port());
            return Err(NetError::refused(what, "its cable is not in shared memory"));
        }
        // The peer may have it still, so that closing it does not do.
        if let Some(old) = self.link.fd() {
            epoll.remove(old);
        }
        if let Some((link, _)) = self.link.shared() {
            link.attach(end);
        }
        self.drop_unsent();
        self.blocked = Blocked::No;
        self.watch(epoll)?;
        Ok(self.carrier_change(true, true))
    }

    /// Shared memory, tunnel: the change when the cable has turned out to be of no use.
    pub(super) fn cable_change(&mut self) -> CarrierChange {
        let is_gone = match (self.link.shared(), self.up) {
            (_, false) => false,
            (Some((link, _)), true) => !link.is_attached(),
            (None, true) => self.link.tunnel().is_some_and(|(link, _)| link.is_broken()),
        };
        match is_gone {
            true => self.carrier_change(false, false),
            false => CarrierChange::None,
        }
    }

    /// Whether frames wait in shared memory.
    #[inline]
    pub(super) fn has_more(&mut self) -> bool {
        self.link.shared().is_some_and(|(link, _)| link.has_more())
    }

    /// Whether the frames that wait for room in shared memory have some.
    pub(super) fn has_room(&mut self) -> bool {
        let length = self.unsent_lengths.first().copied().unwrap_or(0);
        match (self.blocked, self.link.shared()) {
            (Blocked::UntilRoom, Some((link, counters))) => link.has_room_for(length, counters),
            _ => false,
        }
    }

    /// Shared memory: has the peer ring from now on, or, if `sleeps` is false, no more.
    pub(super) fn arm(&mut self, sleeps: bool) {
        let waits_for_room = self.blocked == Blocked::UntilRoom;
        if let Some((link, _)) = self.link.shared() {
            match sleeps {
                true => link.arm(waits_for_room),
                false => link.disarm(waits_for_room),
            }
        }
    }

    /// veth: takes in a change of an interface.
    pub(super) fn interface_changed(
        &mut self,
        change: &InterfaceChange<'_>,
        epoll: &Epoll,
    ) -> CarrierChange {
        let Some(Attached { carrier, reopened }) = self.link.interface_changed(change) else {
            return CarrierChange::None;
        };
        if reopened {
            // The kernel removes the old socket when it is closed.
            self.drop_unsent();
            self.blocked = Blocked::No;
            self.watches_writable = false;
            if let Err(error) = self.watch(epoll) {
                tracing::error!("{error}");
                return self.carrier_change(false, true);
            }
        }
        self.carrier_change(carrier, reopened)
    }

    /// What the core has to be handed when the carrier is `up`; `anew` if a carrier that stands is
    /// another one than before.
    fn carrier_change(&mut self, up: bool, anew: bool) -> CarrierChange {
        let before = std::mem::replace(&mut self.up, up);
        match (before, up) {
            (true, true) if anew => CarrierChange::Restart,
            (false, false) | (true, true) => CarrierChange::None,
            _ => CarrierChange::Carrier(up),
        }
    }

    /// Sends the frames of `batch`; keeps those that the system does not take.
    pub(super) fn send(&mut self, batch: &mut SendBatch, now: Time, epoll: &Epoll) {
        let (next, blocked) = match self.link.send(batch, 0) {
            Sent::All => return,
            Sent::UntilWritable(next) => (next, Blocked::UntilWritable),
            Sent::UntilLater(next) => (next, Blocked::Until(now + RETRY_NS)),
            Sent::UntilRoom(next) => (next, Blocked::UntilRoom),
        };
        for index in next..batch.len() {
            let frame = batch.frame(index);
            self.unsent.extend_from_slice(frame);
            self.unsent_lengths.push(frame.len());
        }
        self.unsent_paths = self.link.paths();
        self.block(blocked, epoll);
    }

    /// Sends what was kept, if its time has come. Afterwards the port is open, or blocked again.
    pub(super) fn send_again(&mut self, batch: &mut SendBatch, now: Time, epoll: &Epoll) {
        batch.clear();
        if self.unsent_paths != self.link.paths() {
            self.drop_unsent();
        }
        let mut start = 0;
        for &length in &self.unsent_lengths {
            // What is kept was one batch, so it fits into one.
            if let Some(room) = batch.room(length) {
                room.copy_from_slice(&self.unsent[start..start + length]);
                batch.commit(length);
            }
            start += length;
        }
        self.clear_unsent();
        self.block(Blocked::No, epoll);
        self.send(batch, now, epoll);
    }

    fn block(&mut self, blocked: Blocked, epoll: &Epoll) {
        self.blocked = blocked;
        let writable = blocked == Blocked::UntilWritable;
        if writable == self.watches_writable {
            return;
        }
        self.watches_writable = writable;
        if let Some(fd) = self.link.fd()
            && let Err(error) = epoll.modify(fd, self.token, writable)
        {
            tracing::error!("cannot watch port {}: {error}", self.link.port());
        }
    }

    /// Drops the frames that wait for room, and counts them.
    fn drop_unsent(&mut self) {
        let frames = self.unsent_lengths.len();
        let counters = self.link.counters();
        counters.add_many(LinkCounter::SendFailed, frames);
        self.clear_unsent();
    }

    fn clear_unsent(&mut self) {
        self.unsent = Vec::new();
        self.unsent_lengths = Vec::new();
    }
}
