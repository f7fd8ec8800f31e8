//! Links in shared memory: what the loop looks at without a system call, and how it falls asleep beside it.

use std::io;
use std::sync::atomic::{Ordering, fence};

use link::{Device, Input, Time};

use wire::capture::Direction;

use super::{Prepared, Shell};
use crate::clock;
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
    /// Has the peers that share memory ring from now on, or no more.
    pub(super) fn arm(&mut self, sleeps: bool) {
        for &place in &self.shared {
            self.ports[place].arm(sleeps);
        }
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

    /// Sleeps, to be woken by the peers that share memory as well.
    pub(super) fn sleep(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        let timeout_ns = if self.arm() { timeout_ns } else { Some(0) };
        let began = clock::now();
        let waited = self.io.epoll.wait(timeout_ns);
        self.io.arm(false);
        let has_come = self.has_frames();
        self.spin.slept(clock::now().since_ns(began), has_come);
        waited
    }

    /// Whether frames wait in shared memory.
    pub(super) fn has_frames(&mut self) -> bool {
        let (shared, ports) = (&self.io.shared, &mut self.io.ports);
        shared.iter().any(|&place| ports[place].has_more())
    }

    /// Has the peers ring from now on. Whether the thread may sleep: nothing has come meanwhile.
    fn arm(&mut self) -> bool {
        self.io.arm(true);
        fence(Ordering::SeqCst);
        let (shared, ports) = (&self.io.shared, &mut self.io.ports);
        !shared
            .iter()
            .any(|&place| ports[place].has_more() || ports[place].has_room())
    }

    /// Takes frames out of shared memory on all ports.
    pub(super) fn take_all_frames(&mut self) {
        for index in 0..self.io.shared.len() {
            let place = self.io.shared[index];
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
