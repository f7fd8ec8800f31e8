//! The loop itself.

mod shared;

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use link::{Device, FrameBuf, Input, Time};
use tokio::sync::Notify;
use wire::PortNum;
use wire::capture::Direction;

use super::handle::Request;
use super::port::{Blocked, Port};
use super::spin::Spin;
use super::tap::{self, Taps};
use crate::NetError;
use crate::clock;
use crate::event::Doorbells;
use crate::memory::Review;
use crate::poll::{Epoll, EventFd};
use crate::transport::{
    Carriers, FRAME_BYTES_MAX, Link, LinkCounter, RECEIVE_MAX, ReceiveBatch, SendBatch,
};

/// The shortest sleep of a thread that had nothing to do in the last round, nanoseconds.
pub(super) const PAUSE_NS: u64 = 50_000;

/// Receiving calls a port and round at most.
const RECEIVES_MAX: usize = 4;

/// Sending calls a port and pass at most.
const SENDS_MAX: usize = 16;

/// From so many bytes on frames are sent, though there may be more: while the receiver works on them, the next are made.
const SEND_BYTES: usize = 48 * 1024;

/// Passes over all ready ports a round at most.
const PASSES_MAX: usize = 8;

/// Requests a round at most.
const REQUESTS_A_ROUND: usize = 256;

/// How long a thread that is stopping goes on sending at most, nanoseconds.
const FLUSH_NS: u64 = 100_000_000;

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
        let shared = links.iter().enumerate().filter_map(is_shared).collect();
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
            shared,
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
            self.deliver_events();
            self.tapped = self.io.taps.flush();
            if self.memory.begin_if_due(now) {
                self.io.receive.review();
                self.io.send.review();
                self.io.review_shared();
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

    /// Takes in what has made epoll return: interfaces first, so that frames find their carrier;
    /// requests last, because they may end it.
    fn take_input(&mut self) {
        let (mut requests, mut carriers) = (false, false);
        for index in 0..self.io.epoll.len() {
            match self.io.epoll.ready(index).token {
                TOKEN_REQUESTS => requests = true,
                TOKEN_CARRIERS => carriers = true,
                TOKEN_DOORBELLS => self.take_doorbells(),
                _ => {}
            }
        }
        if carriers {
            self.take_interface_changes();
        }
        if std::mem::take(&mut self.unread) {
            for place in 0..self.io.ports.len() {
                if std::mem::take(&mut self.io.ports[place].is_unread) {
                    self.receive(place);
                }
            }
        }
        self.take_all_frames();
        for index in 0..self.io.epoll.len() {
            let ready = self.io.epoll.ready(index);
            let Ok(place) = usize::try_from(ready.token) else {
                continue;
            };
            if place < self.io.ports.len() && !self.io.ports[place].link.is_shared() {
                if ready.writable {
                    self.io.ports[place].on_writable();
                }
                self.receive(place);
            }
        }
        if requests {
            self.take_requests();
        }
    }

    fn take_doorbells(&mut self) {
        self.idle = false;
        if let Some(Err(error)) = self.io.doorbells.as_ref().map(Doorbells::clear) {
            tracing::error!("cannot take doorbells: {error}");
        }
        self.device.handle(clock::now(), Input::Tick);
    }

    fn take_interface_changes(&mut self) {
        self.idle = false;
        let Some(carriers) = &mut self.io.carriers else {
            return;
        };
        let (ports, epoll, device) = (&mut self.io.ports, &self.io.epoll, &mut self.device);
        carriers.receive(|change| {
            for port in ports.iter_mut() {
                let change = port.interface_changed(change, epoll);
                change.report(device, port.link.port());
            }
        });
    }

    /// Receives on one port and hands in what has come.
    fn receive(&mut self, place: usize) {
        let port = &mut self.io.ports[place];
        for _ in 0..RECEIVES_MAX {
            let count = port.link.receive(&mut self.io.receive);
            if count == 0 {
                return;
            }
            self.idle = false;
            let now = clock::now();
            for index in 0..count {
                let Some(bytes) = port.link.records(&self.io.receive.frame(index)) else {
                    continue;
                };
                if port.is_up() {
                    let number = port.link.port();
                    self.io.taps.offer(number, Direction::Received, now, bytes);
                    let input = Input::Frame {
                        port: port.link.port(),
                        head: now,
                        tail: now,
                        bytes,
                    };
                    self.device.handle(now, input);
                } else {
                    port.link.counters().add(LinkCounter::NoCarrier);
                }
            }
            if count < RECEIVE_MAX {
                return;
            }
        }
        // epoll tells of what comes from now on.
        port.is_unread = true;
        self.unread = true;
        self.more = true;
    }

    fn take_requests(&mut self) {
        self.idle = false;
        // Before the channel is looked at, so that no request sent in between is missed.
        if let Err(error) = self.io.channels.request_wake.take() {
            tracing::error!("cannot take requests: {error}");
        }
        for _ in 0..REQUESTS_A_ROUND {
            match self.io.channels.requests.try_recv() {
                Ok(request) => self.execute(request),
                Err(_) => return self.io.channels.room.notify_waiters(),
            }
        }
        self.io.channels.room.notify_waiters();
        self.io.channels.request_wake.signal();
    }

    fn execute(&mut self, request: Request<D::Command>) {
        match request {
            Request::Command(command) => {
                self.device.handle(clock::now(), Input::Command(command));
            }
            Request::Connect(number, peer) => {
                let Some(port) = self.port(number) else {
                    return;
                };
                match port.connect(peer) {
                    Ok(change) => change.report(&mut self.device, number),
                    Err(error) => tracing::error!("{error}"),
                }
            }
            Request::Attach(number, end) => {
                let Some(place) = self.io.places[number.index()].map(usize::from) else {
                    return;
                };
                match self.io.ports[place].attach(*end, &self.io.epoll) {
                    Ok(change) => change.report(&mut self.device, number),
                    Err(error) => tracing::error!("{error}"),
                }
            }
            Request::Tap(tap) => self.io.taps.add(*tap),
            Request::Untap(number) => self.io.taps.remove(number),
            Request::Stop => self.stopping = Some(clock::now() + FLUSH_NS),
        }
    }

    fn port(&mut self, number: PortNum) -> Option<&mut Port> {
        let place = self.io.places[number.index()]?;
        self.io.ports.get_mut(usize::from(place))
    }

    /// Sends kept frames whose time has come.
    fn send_again(&mut self, now: Time) {
        for port in &mut self.io.ports {
            if let Blocked::Until(at) = port.blocked
                && at <= now
            {
                self.idle = false;
                port.send_again(&mut self.io.send, now, &self.io.epoll);
            }
        }
        self.send_where_room(now);
    }

    /// Pulls and sends on all ready ports, until none is ready or a bound is hit. What leaves one
    /// port may make room that makes another ready, hence several passes.
    fn transmit(&mut self, now: Time) {
        for _ in 0..PASSES_MAX {
            let mut any = false;
            for number in self.device.ready(now).iter() {
                if let Some(place) = self.io.places[number.index()] {
                    any |= self.transmit_port(usize::from(place), now);
                }
            }
            if !any {
                return;
            }
            self.idle = false;
        }
        self.more = true;
    }

    /// Pulls and sends on one port; whether anything was pulled.
    fn transmit_port(&mut self, place: usize, now: Time) -> bool {
        let io = &mut self.io;
        let port = &mut io.ports[place];
        let number = port.link.port();
        let header_bytes = port.link.header_bytes();
        let mut any = false;
        for _ in 0..SENDS_MAX {
            if port.blocked != Blocked::No {
                return any;
            }
            io.send.clear();
            let mut exhausted = false;
            while io.send.bytes() < SEND_BYTES
                && let Some(room) = io.send.room(FRAME_BYTES_MAX)
            {
                let (header, room) = room.split_at_mut(header_bytes);
                let mut frame = FrameBuf::new(room, io.frame_packets);
                if self.device.transmit(now, number, &mut frame) == 0 {
                    exhausted = true;
                    break;
                }
                let frame_bytes = frame.as_bytes();
                io.taps.offer(number, Direction::Sent, now, frame_bytes);
                let length = header_bytes + frame_bytes.len();
                port.link.write_header(header);
                io.send.commit(length);
            }
            if io.send.len() == 0 {
                return any;
            }
            any = true;
            port.send(&mut io.send, now, &io.epoll);
            if exhausted {
                return any;
            }
        }
        any
    }

    /// Hands events to the control thread as long as it takes them.
    fn deliver_events(&mut self) {
        let mut any = false;
        while let Some(event) = self.undelivered.take().or_else(|| self.device.poll_event()) {
            match self.io.channels.events.try_send(event) {
                Ok(()) => any = true,
                Err(TrySendError::Full(event)) => {
                    self.undelivered = Some(event);
                    break;
                }
                // The control thread has dropped its receiver.
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
        if any {
            self.io.channels.wake();
        }
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
