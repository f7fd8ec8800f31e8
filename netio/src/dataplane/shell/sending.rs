//! What goes out: frames, and events for the control thread.

use crossbeam_channel::TrySendError;
use link::{Device, FrameBuf, Time};
use wire::capture::Direction;

use super::{Shell, shared};
use crate::dataplane::port::Blocked;
use crate::transport::FRAME_BYTES_MAX;

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
