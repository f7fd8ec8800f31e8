//! What comes in: frames, changes of interfaces, doorbells, requests of the control thread.

use link::{Device, Input};
use wire::PortNum;
use wire::capture::Direction;

use super::{Shell, TOKEN_CARRIERS, TOKEN_DOORBELLS, TOKEN_REQUESTS};
use crate::clock;
use crate::dataplane::handle::Request;
use crate::dataplane::port::Port;
use crate::event::Doorbells;
use crate::transport::{LinkCounter, RECEIVE_MAX};

/// Receiving calls a port and round at most.
const RECEIVES_MAX: usize = 4;

/// Requests a round at most.
const REQUESTS_A_ROUND: usize = 256;

/// How long a thread that is stopping goes on sending at most, nanoseconds.
const FLUSH_NS: u64 = 100_000_000;

impl<D: Device> Shell<D> {
    /// Takes in what has made epoll return: interfaces first, so that frames find their carrier;
    /// requests last, because they may end it.
    pub(super) fn take_input(&mut self) {
        let (mut requests, mut carriers) = (false, false);
        for index in 0..self.io.epoll.len() {
            match self.io.epoll.ready(index).token {
                TOKEN_REQUESTS => requests = true,
                TOKEN_CARRIERS => carriers = true,
                TOKEN_DOORBELLS => self.take_doorbells(),
                _ => {}
            }
        }
        self.io.wake_rung();
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
                let Some(bytes) = port.link.records(now, &mut self.io.receive, index) else {
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
            let change = port.cable_change();
            change.report(&mut self.device, port.link.port());
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
            Request::ConnectTunnel(number, peer) => {
                let Some(port) = self.port(number) else {
                    return;
                };
                match port.connect_tunnel(&peer) {
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
                self.io.wake(place);
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
}
