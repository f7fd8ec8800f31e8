//! The loop itself: it waits, has the device take in and send, and ends. What comes in is [`intake`]'s, what goes out
//! [`sending`]'s, cables in shared memory are [`shared`]'s.

mod intake;
mod sending;
mod shared;

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use link::{Device, Input, Time};
use tokio::sync::Notify;
use wire::PortNum;

use super::handle::Request;
use super::port::{Blocked, Port};
use super::spin::Spin;
use super::tap::{self, Taps};
use crate::NetError;
use crate::clock;
use crate::event::Doorbells;
use crate::memory::Review;
use crate::poll::{Epoll, EventFd};
use crate::transport::{Carriers, Link, ReceiveBatch, SendBatch, Transport};

/// The shortest sleep of a thread that had nothing to do in the last round, nanoseconds.
pub(super) const PAUSE_NS: u64 = 50_000;

/// How long an event waits for the control thread before it is offered again, nanoseconds.
const OFFER_NS: u64 = 1_000_000;

/// epoll's names of what is no port. Ports are named by their place in the list.
const TOKEN_REQUESTS: u64 = u64::MAX;
const TOKEN_CARRIERS: u64 = u64::MAX - 1;
const TOKEN_DOORBELLS: u64 = u64::MAX - 2;

/// Both channels to the control thread.
pub(super) struct Channels<C, E> {
    pub(super) requests: Receiver<Request<C>>,
    pub(super) request_wake: Arc<EventFd>,
    /// Notified when requests were taken, for senders that wait for room.
    pub(super) room: Arc<Notify>,
    pub(super) events: Sender<E>,
    pub(super) event_wake: Arc<EventFd>,
}

impl<C, E> Channels<C, E> {
    /// Wakes the control thread.
    fn wake(&self) {
        self.event_wake.signal();
    }
}

/// Wakes the control thread when the dataplane thread ends in whatever way, so that it sees the
/// closed channel.
struct WakeAtEnd {
    events: Arc<EventFd>,
    room: Arc<Notify>,
}

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.events.signal();
        self.room.notify_waiters();
    }
}

/// All that the loop needs but the core, opened where errors can still be reported.
pub(super) struct Prepared<C, E> {
    // Fields are dropped in this order: the channel closes, then the control thread is woken.
    channels: Channels<C, E>,
    _end: WakeAtEnd,
    ports: Vec<Port>,
    /// The places in `ports` of those in shared memory.
    shared: Vec<usize>,
    /// Those of them whose rings are looked at, since their peers do not ring.
    awake: Vec<usize>,
    /// The places in `ports` of tunnels.
    tunnels: Vec<usize>,
    /// The place in `ports` of each port number.
    places: Box<[Option<u8>; 256]>,
    epoll: Epoll,
    carriers: Option<Carriers>,
    doorbells: Option<Doorbells>,
    receive: ReceiveBatch,
    send: SendBatch,
    frame_packets: usize,
    taps: Taps,
}

impl<C, E> Prepared<C, E> {
    pub(super) fn new(
        links: Vec<Link>,
        channels: Channels<C, E>,
        doorbells: Option<Doorbells>,
        frame_packets: usize,
    ) -> Result<Self, NetError> {
        let failed = |source| NetError::new("set up the dataplane thread", source);
        let epoll = Epoll::new().map_err(failed)?;
        epoll
            .add(&*channels.request_wake, TOKEN_REQUESTS)
            .map_err(failed)?;
        let carriers = if links.iter().any(Link::has_interface) {
            let carriers = Carriers::open()?;
            epoll.add(carriers.fd(), TOKEN_CARRIERS).map_err(failed)?;
            Some(carriers)
        } else {
            None
        };
        if let Some(doorbells) = &doorbells {
            epoll.add(doorbells, TOKEN_DOORBELLS).map_err(failed)?;
        }
        let mut places = Box::new([None; 256]);
        let mut ports = Vec::with_capacity(links.len());
        let is_shared = |(place, link): (usize, &Link)| link.is_shared().then_some(place);
        let shared: Vec<usize> = links.iter().enumerate().filter_map(is_shared).collect();
        let is_tunnel = |(place, link): (usize, &Link)| {
            (link.transport() == Transport::Tunnel).then_some(place)
        };
        let tunnels = links.iter().enumerate().filter_map(is_tunnel).collect();
        for (place, link) in (0u8..=254).zip(links) {
            places[link.port().index()] = Some(place);
            let port = Port::new(link, u64::from(place));
            port.watch(&epoll)?;
            ports.push(port);
        }
        Ok(Self {
            _end: WakeAtEnd {
                events: Arc::clone(&channels.event_wake),
                room: Arc::clone(&channels.room),
            },
            channels,
            ports,
            awake: Vec::clone(&shared),
            shared,
            tunnels,
            places,
            epoll,
            carriers,
            doorbells,
            receive: ReceiveBatch::new(),
            send: SendBatch::new(),
            frame_packets,
            taps: Taps::default(),
        })
    }

    /// Gives memory back that a busy time has taken, and looks what the paths take now.
    fn review_tunnels(&mut self) {
        for &place in &self.tunnels {
            if let Some((tunnel, counters)) = self.ports[place].link.tunnel() {
                tunnel.review(counters);
            }
        }
    }

    /// Runs `device` until a request to stop.
    pub(super) fn run<D: Device<Command = C, Event = E>>(self, device: D) {
        Shell {
            io: self,
            device,
            undelivered: None,
            more: true,
            unread: false,
            idle: false,
            kept_awake: false,
            rounds: 0,
            tapped: false,
            has_looked: false,
            spin: Spin::default(),
            stopping: None,
            memory: Review::default(),
        }
        .run();
    }
}

struct Shell<D: Device> {
    io: Prepared<D::Command, D::Event>,
    device: D,
    /// An event that the full channel did not take.
    undelivered: Option<D::Event>,
    /// A bound was hit: there is work left.
    more: bool,
    /// Of some port more frames may wait than were taken.
    unread: bool,
    /// Nothing came and nothing went in the last round.
    idle: bool,
    /// The device did not let the thread sleep before it.
    kept_awake: bool,
    /// Rounds since the last system call, while frames come by shared memory.
    rounds: u32,
    /// Captured packets wait.
    tapped: bool,
    /// The device has found something in shared memory before this round.
    has_looked: bool,
    spin: Spin,
    /// When the thread ends at the latest, once a request to stop has come.
    stopping: Option<Time>,
    memory: Review,
}

impl<D: Device> Shell<D> {
    fn run(mut self) {
        loop {
            if let Err(error) = self.wait() {
                tracing::error!("the dataplane cannot wait: {error}");
                return;
            }
            self.more = false;
            self.idle = true;
            self.take_input();
            let now = clock::now();
            let has_looked = std::mem::take(&mut self.has_looked);
            self.idle &= !self.device.look(now) && !has_looked;
            if self.device.deadline().is_some_and(|due| due.at <= now) {
                self.device.handle(now, Input::Tick);
            }
            self.send_again(now);
            self.transmit(now);
            self.send_tunnels(now);
            self.deliver_events();
            self.tapped = self.io.taps.flush();
            if self.memory.begin_if_due(now) {
                self.io.receive.review();
                self.io.send.review();
                self.io.review_shared();
                self.io.review_tunnels();
                self.memory.trim();
            }
            if let Some(latest) = self.stopping
                && (now >= latest || self.nothing_to_send(now))
            {
                return;
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) -> io::Result<()> {
        if self.has_frames() {
            return self.poll_seldom();
        }
        let timeout_ns = self.timeout_ns();
        if timeout_ns == Some(0) {
            return self.io.epoll.wait(timeout_ns);
        }
        if self.look_ahead(timeout_ns) {
            return self.poll_seldom();
        }
        self.rounds = 0;
        if self.device.may_sleep() {
            self.kept_awake = false;
            if self.io.shared.is_empty() {
                return self.io.epoll.wait(timeout_ns);
            }
            return self.sleep(timeout_ns);
        }
        // What is in shared memory wakes nobody. Others may say again and again that there is something, and put nothing in.
        let in_vain = std::mem::replace(&mut self.kept_awake, true) && self.idle;
        self.io.epoll.wait(Some(if in_vain { PAUSE_NS } else { 0 }))
    }

    /// How long to sleep at most; `None` is for ever.
    fn timeout_ns(&self) -> Option<u64> {
        if self.more {
            return Some(0);
        }
        let mut until = self.device.deadline().map(|due| due.at);
        let mut no_later = |at: Time| until = Some(until.map_or(at, |until| until.min(at)));
        for port in &self.io.ports {
            if let Blocked::Until(at) = port.blocked {
                no_later(at);
            }
        }
        for &place in &self.io.tunnels {
            if let Some(due) = self.io.ports[place].deadline() {
                no_later(due);
            }
        }
        if let Some(latest) = self.stopping {
            no_later(latest);
        }
        let least_ns = if self.idle { PAUSE_NS } else { 0 };
        let now = clock::now();
        if self.undelivered.is_some() {
            no_later(now + OFFER_NS);
        }
        if self.tapped {
            no_later(now + tap::OFFER_NS);
        }
        until.map(|until| until.since_ns(now).max(least_ns))
    }

    fn nothing_to_send(&self, now: Time) -> bool {
        let has_link = |number: PortNum| {
            self.io.places[number.index()]
                .and_then(|place| self.io.ports.get(usize::from(place)))
                .is_some_and(Port::is_up)
        };
        self.io.ports.iter().all(|port| port.blocked == Blocked::No)
            && self.undelivered.is_none()
            && !self.device.ready(now).iter().any(has_link)
    }
}
