//! Captures: copies of the packets that pass a port, for a local program that may be slow, or stop.
//!
//! ```text
//!  frame in or out ──► Taps::offer ──► chunks of one tap ──► channel ──► Captured::next (control thread)
//!                       filter, copy    CHUNKS_MAX              QUEUE
//! ```
//!
//! The dataplane thread copies what passes the filter into chunks of its own and hands them on at the end of each round, if
//! there is room in the channel. It takes no lock, makes no system call and waits for nobody: a packet that does not fit is counted as
//! lost in the capture, and passes the port as any other. Without a tap a frame costs one look at a set of ports.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use link::{PortSet, Time};
use tokio::sync::mpsc;
use wire::capture::{CaptureRequest, Direction, PacketHeader};
use wire::{Format, Record, Records, convert};

use super::handle::{Handle, RequestError};

/// A chunk takes no more packets from so many bytes on. With one more packet it fits into a message.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks of a tap that wait on the dataplane thread at most.
const CHUNKS_MAX: usize = 48;

/// Chunks of a tap that wait for the control thread at most.
const QUEUE: usize = 16;

/// How long chunks wait before they are offered again while a device is at rest, nanoseconds.
pub(super) const OFFER_NS: u64 = 20_000_000;

/// The dataplane thread's end of one capture.
#[derive(Debug)]
pub struct Tap {
    number: u64,
    wanted: CaptureRequest,
    /// The last one is being filled.
    chunks: VecDeque<Vec<u8>>,
    chunks_out: mpsc::Sender<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

impl Tap {
    fn takes(&self, direction: Direction) -> bool {
        self.wanted.direction.is_none_or(|only| only == direction)
    }

    fn offer(&mut self, direction: Direction, at: Time, record: &Record<'_>) {
        if !self.wanted.filter.takes(record.kind, record.bytes) {
            return;
        }
        let has_room = |chunk: &Vec<u8>| chunk.len() < CHUNK_BYTES;
        if !self.chunks.back().is_some_and(has_room) {
            if self.chunks.len() == CHUNKS_MAX {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            self.chunks.push_back(Vec::new());
        }
        let Some(chunk) = self.chunks.back_mut() else {
            return;
        };
        let captured = record.bytes.len().min(self.wanted.snap_len.into());
        let header = PacketHeader {
            at_ns: at.0,
            direction,
            kind: record.kind,
            captured_len: convert::saturate(captured),
            wire_len: convert::saturate(record.bytes.len()),
        };
        chunk.extend_from_slice(&header.to_bytes::<{ PacketHeader::LEN }>());
        chunk.extend_from_slice(&record.bytes[..captured]);
    }

    /// Hands on what there is room for; whether somebody still listens.
    fn flush(&mut self) -> bool {
        while let Some(chunk) = self.chunks.pop_front() {
            match self.chunks_out.try_send(chunk) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(chunk)) => {
                    self.chunks.push_front(chunk);
                    return true;
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
        }
        !self.chunks_out.is_closed()
    }
}

impl Drop for Tap {
    /// What could not be handed on is lost.
    fn drop(&mut self) {
        self.flush();
        let packets: usize = self.chunks.iter().map(|chunk| packets_in(chunk)).sum();
        self.lost
            .fetch_add(convert::u64_of(packets), Ordering::Relaxed);
    }
}

fn packets_in(chunk: &[u8]) -> usize {
    wire::capture::CapturedPackets::new(chunk).count()
}

/// The taps of a device.
#[derive(Debug, Default)]
pub struct Taps {
    taps: Vec<Tap>,
    /// The ports that have one.
    ports: PortSet,
}

impl Taps {
    /// Shows the taps of a port the records of a frame. Here, so that a frame without taps costs next to nothing.
    #[inline]
    pub fn offer(&mut self, port: wire::PortNum, direction: Direction, at: Time, frame: &[u8]) {
        if self.ports.contains(port) {
            self.copy(port, direction, at, frame);
        }
    }

    #[cold]
    fn copy(&mut self, port: wire::PortNum, direction: Direction, at: Time, frame: &[u8]) {
        let taps = self.taps.iter_mut();
        for tap in taps.filter(|tap| tap.wanted.port == port && tap.takes(direction)) {
            for record in Records::new(frame).flatten() {
                tap.offer(direction, at, &record);
            }
        }
    }

    /// Adds a tap. How many there may be is the control thread's business.
    pub fn add(&mut self, tap: Tap) {
        self.ports.insert(tap.wanted.port);
        self.taps.push(tap);
    }

    /// Ends a tap, if it is there.
    pub fn remove(&mut self, number: u64) {
        self.keep(|tap| tap.number != number);
    }

    /// Hands on what has been copied, and ends taps to which nobody listens any more. Whether something still waits.
    #[inline]
    pub fn flush(&mut self) -> bool {
        if self.taps.is_empty() {
            return false;
        }
        self.keep(Tap::flush);
        self.taps.iter().any(|tap| !tap.chunks.is_empty())
    }

    fn keep(&mut self, is_kept: impl FnMut(&mut Tap) -> bool) {
        self.taps.retain_mut(is_kept);
        self.ports = self.taps.iter().map(|tap| tap.wanted.port).collect();
    }
}

/// The control thread's end of one capture. Dropping it ends the capture.
#[derive(Debug)]
pub struct Captured {
    number: u64,
    chunks: mpsc::Receiver<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

impl Captured {
    /// Both ends of a capture.
    #[must_use]
    pub fn new(number: u64, wanted: CaptureRequest) -> (Tap, Self) {
        let (chunks_out, chunks) = mpsc::channel(QUEUE);
        let lost = Arc::<AtomicU64>::default();
        let tap = Tap {
            number,
            wanted,
            chunks: VecDeque::new(),
            chunks_out,
            lost: Arc::clone(&lost),
        };
        let captured = Self {
            number,
            chunks,
            lost,
        };
        (tap, captured)
    }

    /// The next packets, as messages have them behind their header; `None` when the capture has ended. Nothing is lost if the future is
    /// dropped.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.chunks.recv().await
    }

    /// As [`Self::next`], of what is there; `None` if that is nothing.
    pub fn try_next(&mut self) -> Option<Vec<u8>> {
        self.chunks.try_recv().ok()
    }

    /// Packets that passed the filter and did not fit. Final once [`Self::next`] has told the end.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Has the dataplane thread hand on what it has, and end the capture.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn stop<C>(&self, handle: &Handle<C>) -> Result<(), RequestError> {
        handle.untap(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::capture::{CapturedPackets, Filter};
    use wire::{PortNum, RecordKind};

    const PORT: PortNum = PortNum::new(3);

    /// A frame of one data packet of so many bytes, LRH to VCRC.
    fn frame(len: u16) -> Vec<u8> {
        let mut frame = vec![1, 0];
        frame.extend(len.to_be_bytes());
        let words = ((len - 2) / 4).to_be_bytes();
        frame.extend([0x00, 0x02, 0, 5, words[0], words[1], 0, 9]);
        frame.resize(4 + usize::from(len), 0xaa);
        frame
    }

    fn wanted(snap_len: u16, filter: &str) -> CaptureRequest {
        CaptureRequest {
            port: PORT,
            direction: Some(Direction::Received),
            snap_len,
            filter: filter.parse::<Filter>().unwrap(),
        }
    }

    #[test]
    fn packets_of_the_port_and_direction_that_pass_the_filter_are_copied_up_to_the_snap_length() {
        let mut taps = Taps::default();
        let (tap, mut captured) = Captured::new(1, wanted(20, "slid=9"));
        taps.add(tap);
        let (tap, mut other) = Captured::new(2, wanted(20, "slid=8"));
        taps.add(tap);
        taps.offer(PORT, Direction::Received, Time(7), &frame(50));
        taps.offer(PORT, Direction::Sent, Time(8), &frame(50));
        let next_port = PortNum::new(4);
        taps.offer(next_port, Direction::Received, Time(9), &frame(50));
        assert!(!taps.flush());
        let chunk = captured.chunks.try_recv().unwrap();
        let packets: Vec<_> = CapturedPackets::new(&chunk).map(Result::unwrap).collect();
        let [packet] = packets[..] else {
            panic!("{packets:?}");
        };
        let header = PacketHeader {
            at_ns: 7,
            direction: Direction::Received,
            kind: RecordKind::Data,
            captured_len: 20,
            wire_len: 50,
        };
        assert_eq!(packet.header, header);
        assert_eq!(packet.bytes, &frame(50)[4..24]);
        assert!(captured.chunks.try_recv().is_err());
        assert!(other.chunks.try_recv().is_err());
    }

    #[test]
    fn what_nobody_takes_is_bounded_and_counted_to_the_last_packet() {
        let mut taps = Taps::default();
        let (tap, mut captured) = Captured::new(1, wanted(u16::MAX, ""));
        taps.add(tap);
        let frame = frame(4002);
        let offered = 10_000u64;
        for _ in 0..offered {
            taps.offer(PORT, Direction::Received, Time(1), &frame);
            taps.flush();
        }
        assert!(taps.flush(), "something waits");
        let waiting = &taps.taps[0].chunks;
        assert_eq!(waiting.len(), CHUNKS_MAX);
        let bytes: usize = waiting.iter().map(Vec::len).sum();
        assert!(bytes <= CHUNKS_MAX * (CHUNK_BYTES + 4096), "{bytes}");
        taps.remove(1);
        let mut seen = 0;
        while let Ok(chunk) = captured.chunks.try_recv() {
            seen += packets_in(&chunk);
        }
        assert_eq!(convert::u64_of(seen) + captured.lost(), offered);
        assert!(captured.lost() > 0);
    }

    #[test]
    fn a_tap_ends_when_nobody_listens_any_more() {
        let mut taps = Taps::default();
        let (tap, captured) = Captured::new(1, wanted(100, ""));
        taps.add(tap);
        drop(captured);
        assert!(!taps.flush());
        assert!(taps.taps.is_empty());
        assert!(taps.ports.is_empty());
    }
}
