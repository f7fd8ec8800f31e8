//! Links in shared memory: what the loop looks at without a system call, and how it falls asleep beside it.

use std::io;
use std::sync::atomic::{Ordering, fence};

use link::{Device, Input, Time};

use wire::capture::Direction;

use super::{Prepared, Shell};
use crate::clock;
use crate::dataplane::port::Blocked;
use crate::transport::LinkCounter;

/// Bytes of a record at most, about: a packet of the longest MTU with all headers.
const RECORD_BYTES: usize = 4224;

/// Bytes of a frame that is sent at most, and, about, those that are taken at once. A frame costs no system call here, so that
/// short ones let the next device work on the first packets while the last ones are made.
pub(super) const FRAME_BYTES: usize = 3 * RECORD_BYTES;

/// From so many bytes on frames are sent: one that takes no more records has them.
pub(super) const SEND_BYTES: usize = FRAME_BYTES - RECORD_BYTES;

/// Frames that are taken from a port a round at most.
const FRAMES_MAX: usize = 64;

/// Rounds without a system call at most, while frames come.
const ROUNDS_MAX: u32 = 32;

/// Looks between two offers of the core to others.
const LOOKS: u32 = 16;

impl<C, E> Prepared<C, E> {
    /// Has no peer ring from now on: the rings of all ports are looked at.
    fn wake_all(&mut self) {
        if self.awake.len() == self.shared.len() {
            return;
        }
        for &place in &self.shared {
            self.ports[place].arm(false);
        }
        self.awake.clone_from(&self.shared);
    }

    /// The peer of a port has rung, and does so no more until the next sleep.
    pub(super) fn wake(&mut self, place: usize) {
        if !self.awake.contains(&place) {
            self.awake.push(place);
        }
    }

    /// The place of the port in shared memory that the `index`th event of epoll is of.
    fn rung(&self, index: usize) -> Option<usize> {
        let place = usize::try_from(self.epoll.ready(index).token).ok()?;
        self.ports.get(place)?.link.is_shared().then_some(place)
    }

    /// Whether peers that share memory have rung, and nothing else has happened.
    fn has_only_rung(&self) -> bool {
        let events = self.epoll.len();
        events > 0 && (0..events).all(|index| self.rung(index).is_some())
    }

    /// Wakes the ports whose peers have rung.
    pub(super) fn wake_rung(&mut self) {
        for index in 0..self.epoll.len() {
            if let Some(place) = self.rung(index) {
                self.wake(place);
            }
        }
    }

    /// Whether frames wait for room in shared memory.
    fn waits_for_room(&self) -> bool {
        let mut ports = self.shared.iter().map(|&place| &self.ports[place]);
        ports.any(|port| port.blocked == Blocked::UntilRoom)
    }

    /// Gives memory back that a busy time has taken.
    pub(super) fn review_shared(&mut self) {
        for &place in &self.shared {
            if let Some((link, _)) = self.ports[place].link.shared() {
                link.review();
            }
        }
    }
}

impl<D: Device> Shell<D> {
    /// Looks at descriptors, for once, in some rounds while there is work without them.
    pub(super) fn poll_seldom(&mut self) -> io::Result<()> {
        self.rounds += 1;
        if self.rounds < ROUNDS_MAX {
            self.io.epoll.skip();
            return Ok(());
        }
        self.rounds = 0;
        self.io.wake_all();
        self.io.epoll.wait(Some(0))
    }

    /// Looks at shared memory for a moment before the thread sleeps, which it may for so long: whether something has come.
    pub(super) fn look_ahead(&mut self, timeout_ns: Option<u64>) -> bool {
        if self.io.shared.is_empty() {
            return false;
        }
        let began = clock::now();
        let most_ns = self.spin.look_ns(began).min(timeout_ns.unwrap_or(u64::MAX));
        let mut now = began;
        if most_ns > 0 {
            self.io.wake_all();
        }
        while now.since_ns(began) < most_ns {
            for _ in 0..LOOKS {
                if self.has_frames() {
                    self.spin.found();
                    return true;
                }
                std::hint::spin_loop();
            }
            // Programs have memory in common with a host, too.
            if self.device.look(now) {
                self.has_looked = true;
                self.spin.found();
                return true;
            }
            let offered = clock::now();
            rustix::thread::sched_yield();
            now = clock::now();
            if !self.spin.offered(now, now.since_ns(offered)) {
                return self.has_frames();
            }
        }
        false
    }

    /// Sleeps, to be woken by the peers that share memory as well. Who has slept for long is woken by one of many as a rule, and
    /// has forgotten the rings of all: only those of ports that were rung for are looked at then, the others go on ringing. Whatever else
    /// wakes the thread has it look at all.
    pub(super) fn sleep(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        if self.io.waits_for_room() {
            self.io.wake_all();
        }
        let timeout_ns = if self.arm() { timeout_ns } else { Some(0) };
        let began = clock::now();
        let waited = self.io.epoll.wait(timeout_ns);
        let now = clock::now();
        self.io.awake.clear();
        match self.spin.look_ns(now) == 0 && self.io.has_only_rung() {
            true => self.io.wake_rung(),
            false => self.io.wake_all(),
        }
        let has_come = self.has_frames();
        self.spin.slept(now.since_ns(began), has_come);
        waited
    }

    /// Whether frames wait in shared memory, of ports whose peers do not ring.
    pub(super) fn has_frames(&mut self) -> bool {
        let (awake, ports) = (&self.io.awake, &mut self.io.ports);
        awake.iter().any(|&place| ports[place].has_more())
    }

    /// Has all peers ring from now on. Whether the thread may sleep: nothing has come meanwhile.
    fn arm(&mut self) -> bool {
        let (awake, ports) = (&self.io.awake, &mut self.io.ports);
        for &place in awake {
            ports[place].arm(true);
        }
        fence(Ordering::SeqCst);
        !awake
            .iter()
            .any(|&place| ports[place].has_more() || ports[place].has_room())
    }

    /// Takes frames out of shared memory on all ports.
    pub(super) fn take_all_frames(&mut self) {
        for index in 0..self.io.awake.len() {
            let place = self.io.awake[index];
            if self.io.ports[place].has_more() {
                self.take_frames(place);
            }
        }
    }

    /// Takes frames out of shared memory and hands them in.
    fn take_frames(&mut self, place: usize) {
        self.idle = false;
        let port = &mut self.io.ports[place];
        let (number, is_up) = (port.link.port(), port.is_up());
        let now = clock::now();
        let Some((link, counters)) = port.link.shared() else {
            return;
        };
        let mut taken_bytes = 0;
        for _ in 0..FRAMES_MAX {
            if taken_bytes >= FRAME_BYTES {
                break;
            }
            let Some(bytes) = link.take(&mut self.io.receive, counters) else {
                break;
            };
            taken_bytes += bytes.len();
            if is_up {
                self.io.taps.offer(number, Direction::Received, now, bytes);
                let input = Input::Frame {
                    port: number,
                    head: now,
                    tail: now,
                    bytes,
                };
                self.device.handle(now, input);
            } else {
                counters.add(LinkCounter::NoCarrier);
            }
        }
        link.has_taken(counters);
        let change = port.cable_change();
        change.report(&mut self.device, number);
    }

    /// Sends frames that were kept where the peer has made room. Takes links down whose memory has turned out to be of no use.
    pub(super) fn send_where_room(&mut self, now: Time) {
        for &place in &self.io.shared {
            let port = &mut self.io.ports[place];
            if port.has_room() {
                self.idle = false;
                port.send_again(&mut self.io.send, now, &self.io.epoll);
            }
            let change = port.cable_change();
            change.report(&mut self.device, port.link.port());
        }
    }
}
