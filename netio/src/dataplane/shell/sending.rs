//! What goes out: frames, and events for the control thread.

use crossbeam_channel::TrySendError;
use link::{Device, FrameBuf, Time};
use wire::capture::Direction;

use super::{Shell, shared};
use crate::dataplane::port::Blocked;
use crate::transport::{FRAME_BYTES_MAX, LinkCounter, Transport};

/// Sending calls a port and pass at most.
const SENDS_MAX: usize = 16;

/// From so many bytes on frames are sent, though there may be more: while the receiver works on them, the next are made.
const SEND_BYTES: usize = 48 * 1024;

/// Passes over all ready ports a round at most.
const PASSES_MAX: usize = 8;

impl<D: Device> Shell<D> {
    /// Sends kept frames whose time has come.
    pub(super) fn send_again(&mut self, now: Time) {
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
    pub(super) fn transmit(&mut self, now: Time) {
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
        if self.io.ports[place].link.transport() == Transport::Tunnel {
            return self.transmit_tunnel(place, now);
        }
        let io = &mut self.io;
        let port = &mut io.ports[place];
        let number = port.link.port();
        let header_bytes = port.link.header_bytes();
        let (frame_bytes, send_bytes) = match port.link.is_shared() {
            true => (shared::FRAME_BYTES, shared::SEND_BYTES),
            false => (FRAME_BYTES_MAX, SEND_BYTES),
        };
        let mut any = false;
        for _ in 0..SENDS_MAX {
            if port.blocked != Blocked::No {
                return any;
            }
            io.send.clear();
            let mut exhausted = false;
            while io.send.bytes() < send_bytes
                && let Some(room) = io.send.room(frame_bytes)
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

    /// Pulls into a tunnel and sends; whether anything was pulled.
    fn transmit_tunnel(&mut self, place: usize, now: Time) -> bool {
        let io = &mut self.io;
        let port = &mut io.ports[place];
        let number = port.link.port();
        let mut any = false;
        for _ in 0..SENDS_MAX {
            if port.blocked != Blocked::No {
                return any;
            }
            let Some((tunnel, counters)) = port.link.tunnel() else {
                return any;
            };
            if tunnel.is_silent() {
                // What waits already is repeated until there is an answer. The port begins anew meanwhile.
                io.send.clear();
                let room = io.send.room(FRAME_BYTES_MAX).unwrap_or_default();
                let mut frame = FrameBuf::new(room, io.frame_packets);
                if self.device.transmit(now, number, &mut frame) == 0 {
                    return any;
                }
                counters.add(LinkCounter::SendFailed);
                any = true;
                continue;
            }
            let (mut pulled, mut exhausted) = (0, false);
            while pulled < SEND_BYTES
                && let Some(room) = tunnel.room()
            {
                let most = room.len().min(FRAME_BYTES_MAX);
                let mut frame = FrameBuf::new(&mut room[..most], io.frame_packets);
                if self.device.transmit(now, number, &mut frame) == 0 {
                    exhausted = true;
                    break;
                }
                io.taps
                    .offer(number, Direction::Sent, now, frame.as_bytes());
                let length = frame.len();
                tunnel.commit(length);
                pulled += length;
            }
            if pulled == 0 {
                return any;
            }
            any = true;
            port.send_datagrams(&mut io.send, now, &io.epoll);
            if exhausted {
                return any;
            }
        }
        any
    }

    /// Has tunnels send what is due: what is to be repeated, and acknowledgements that had nothing to ride with.
    pub(super) fn send_tunnels(&mut self, now: Time) {
        for index in 0..self.io.tunnels.len() {
            let port = &mut self.io.ports[self.io.tunnels[index]];
            port.tick_tunnel(now);
            if port.send_datagrams(&mut self.io.send, now, &self.io.epoll) {
                self.idle = false;
            }
        }
    }

    /// Hands events to the control thread as long as it takes them.
    pub(super) fn deliver_events(&mut self) {
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
}
