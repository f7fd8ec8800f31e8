//! A ring of frames in memory that two processes share: one writes, the other one reads.
//!
//! ```text
//!  words   0 ....... 1 ............. 8 ....... 9 ............. 512 ................ 512 + CAPACITY
//!          head      wants room      tail      asleep          entries
//!          └── written by the sender ┘         └ by the receiver (and put out by the sender)
//! ```
//!
//! An entry is a word with the frame's length and the frame, filled up to whole words. Head and tail count words
//! from the beginning and never wrap; an entry lies at its count modulo the capacity, and may go on at the start.
//! Each side keeps its own count for itself and publishes it; what it reads of the other's is copied once and
//! checked: a count cannot run ahead of what is possible, a length cannot exceed what was published. A ring that
//! fails a check is never used again. What is published is complete, so a side that is killed at any instruction leaves
//! a ring that makes sense.
//!
//! Nobody needs a system call while both sides run. A side that goes to sleep says so ([`Receiver::arm`],
//! [`Sender::arm`]) and looks again; the other one, once it has published, looks whether it must ring a doorbell. Between
//! publishing (or saying so) and looking, both have a fence, so that one of the two sees what the other did.
//!
//! A ring that is empty starts over at its beginning once it has come far ([`QUIET_WORDS`]): a quiet link touches a few
//! pages, and a busy one stays in the caches.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use thiserror::Error;
use wire::convert::{u64_of, usize_of};

use crate::shared_memory::SharedMemory;
use crate::words;

/// Words that entries may take.
pub const CAPACITY: usize = 1 << 15;

/// Words of a ring, with the page of its counts in front.
pub const RING_WORDS: usize = ENTRIES + CAPACITY;

/// The longest frame, bytes.
pub const FRAME_BYTES_MAX: usize = u16::MAX as usize;

/// The place behind which an empty ring starts over, words.
pub const QUIET_WORDS: usize = 1024;

/// Where the words are.
const HEAD: usize = 0;
const WANTS_ROOM: usize = 1;
const TAIL: usize = 8;
const ASLEEP: usize = 9;
const ENTRIES: usize = 512;

/// In the first word of an entry: there is no frame in it, the number of words to leave out is beside it.
const SKIP: u64 = 1 << 32;

/// What the other side has put into the ring makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// Its count is behind what it was, or ahead of what is possible.
    #[error("the peer's count is {theirs} where this end's is {own}")]
    Count {
        /// What it has published.
        theirs: u64,
        /// The other count.
        own: u64,
    },
    /// The first word of an entry has no length that is possible.
    #[error("an entry begins with {word:#x}, with {published} words published")]
    Entry {
        /// The word.
        word: u64,
        /// Words that were published from this one on.
        published: u64,
    },
}

/// One ring of a shared memory.
#[derive(Clone, Debug)]
struct Ring {
    memory: Arc<SharedMemory>,
    base: usize,
}

impl Ring {
    /// The ring number `index` of the memory.
    ///
    /// # Panics
    /// If the memory has no such ring.
    fn new(memory: Arc<SharedMemory>, index: usize) -> Self {
        let base = index * RING_WORDS;
        assert!(memory.words().len() >= base + RING_WORDS);
        Self { memory, base }
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.memory.words()[self.base + at]
    }

    /// The word of entries with this count.
    #[inline]
    fn entry(&self, count: u64) -> &AtomicU64 {
        self.word(ENTRIES + place(count))
    }

    /// The words with these counts: up to the end of the ring, and on from its start.
    #[inline]
    fn entries(&self, counts: Range<u64>) -> (&[AtomicU64], &[AtomicU64]) {
        let start = place(counts.start);
        let length = usize_of(counts.end - counts.start);
        let first = length.min(CAPACITY - start);
        let entries = &self.memory.words()[self.base + ENTRIES..self.base + RING_WORDS];
        (&entries[start..start + first], &entries[..length - first])
    }
}

/// The place of a count in the ring.
#[inline]
fn place(count: u64) -> usize {
    usize_of(count % u64_of(CAPACITY))
}

/// Words of an entry with a frame of so many bytes.
#[inline]
fn entry_words(length: usize) -> u64 {
    1 + u64_of(length.div_ceil(8))
}

/// The end of a ring that writes.
#[derive(Debug)]
pub struct Sender {
    ring: Ring,
    /// Words written.
    head: u64,
    /// Words that the receiver had taken when it was last looked.
    tail: u64,
    /// The furthest place that was written to since pages were given back.
    touched: usize,
    /// And since the last look whether to do so.
    touched_lately: usize,
}

impl Sender {
    /// Writes to ring number `index` of a memory, which is new.
    ///
    /// # Panics
    /// If the memory has no such ring.
    #[must_use]
    pub fn new(memory: Arc<SharedMemory>, index: usize) -> Self {
        Self {
            ring: Ring::new(memory, index),
            head: 0,
            tail: 0,
            touched: 0,
            touched_lately: 0,
        }
    }

    /// Writes a frame, 1 to [`FRAME_BYTES_MAX`] bytes, and publishes it; `false` if there is no room for it. Afterwards,
    /// once for many, [`Self::must_ring`].
    ///
    /// # Errors
    /// [`RingError`]
    #[inline]
    pub fn send(&mut self, frame: &[u8]) -> Result<bool, RingError> {
        if frame.is_empty() || frame.len() > FRAME_BYTES_MAX {
            return Ok(true);
        }
        let words = entry_words(frame.len());
        self.start_over_if_empty(words)?;
        if !self.has_room(words)? {
            return Ok(false);
        }
        self.ring
            .entry(self.head)
            .store(u64_of(frame.len()), Ordering::Relaxed);
        let (one, other) = self.ring.entries(self.head + 1..self.head + words);
        let (front, behind) = frame.split_at(frame.len().min(one.len() * 8));
        words::write(one, front);
        words::write(other, behind);
        let reached = match other.is_empty() {
            true => place(self.head) + usize_of(words),
            false => CAPACITY,
        };
        self.touched_lately = self.touched_lately.max(reached);
        self.head += words;
        self.ring.word(HEAD).store(self.head, Ordering::Release);
        Ok(true)
    }

    /// Whether a frame of so many bytes would be taken.
    ///
    /// # Errors
    /// [`RingError`]
    pub fn has_room_for(&mut self, length: usize) -> Result<bool, RingError> {
        self.has_room(entry_words(length))
    }

    #[inline]
    fn has_room(&mut self, words: u64) -> Result<bool, RingError> {
        if self.room() >= words {
            return Ok(true);
        }
        self.look()?;
        Ok(self.room() >= words)
    }

    #[inline]
    fn room(&self) -> u64 {
        u64_of(CAPACITY) - (self.head - self.tail)
    }

    /// Takes over how far the receiver has come.
    #[inline]
    fn look(&mut self) -> Result<(), RingError> {
        let theirs = self.ring.word(TAIL).load(Ordering::Acquire);
        if !(self.tail..=self.head).contains(&theirs) {
            let own = self.head;
            return Err(RingError::Count { theirs, own });
        }
        self.tail = theirs;
        Ok(())
    }

    /// Has the next entry of so many words lie at the beginning of the ring, if the ring is empty and has come far.
    #[inline]
    fn start_over_if_empty(&mut self, words: u64) -> Result<(), RingError> {
        let at = place(self.head);
        // What is left out is taken until the receiver has seen it.
        if at < QUIET_WORDS || words > u64_of(at) {
            return Ok(());
        }
        if self.tail != self.head {
            self.look()?;
        }
        if self.tail == self.head {
            let left_out = u64_of(CAPACITY - at);
            let word = self.ring.entry(self.head);
            word.store(SKIP | left_out, Ordering::Relaxed);
            self.head += left_out;
        }
        Ok(())
    }

    /// Whether the receiver sleeps and must be rung for, once, after frames have been published.
    #[must_use]
    #[inline]
    pub fn must_ring(&self) -> bool {
        put_out(self.ring.word(ASLEEP))
    }

    /// Says that this side sleeps until there is room; a fence and [`Self::has_room_for`] follow.
    pub fn arm(&self) {
        self.ring.word(WANTS_ROOM).store(1, Ordering::Relaxed);
    }

    /// Says that it does not sleep any more.
    pub fn disarm(&self) {
        self.ring.word(WANTS_ROOM).store(0, Ordering::Relaxed);
    }

    /// Gives pages back that a busy time has touched, if there was none since the last call. To be called every few
    /// seconds.
    pub fn review(&mut self) {
        let lately = std::mem::take(&mut self.touched_lately);
        self.touched = self.touched.max(lately);
        let was_busy = self.touched > QUIET_WORDS + PAGE_WORDS;
        let is_quiet =
            lately <= QUIET_WORDS + PAGE_WORDS && place(self.head) <= QUIET_WORDS + PAGE_WORDS;
        if was_busy && is_quiet && self.look().is_ok() && self.tail == self.head {
            let kept = ENTRIES + (QUIET_WORDS + PAGE_WORDS).next_multiple_of(PAGE_WORDS);
            let words = self.ring.base + kept..self.ring.base + RING_WORDS;
            self.ring.memory.discard(words);
            self.touched = 0;
        }
    }
}

/// Words of a page.
pub(crate) const PAGE_WORDS: usize = 512;

/// The end of a ring that reads.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    /// Words taken.
    tail: u64,
    /// Words that were published when it was last looked.
    head: u64,
}

impl Receiver {
    /// Reads from ring number `index` of a memory, which is new.
    ///
    /// # Panics
    /// If the memory has no such ring.
    #[must_use]
    pub fn new(memory: Arc<SharedMemory>, index: usize) -> Self {
        Self {
            ring: Ring::new(memory, index),
            tail: 0,
            head: 0,
        }
    }

    /// Whether there is anything, or the peer's count makes no sense.
    #[must_use]
    #[inline]
    pub fn has_more(&self) -> bool {
        self.head != self.tail || self.ring.word(HEAD).load(Ordering::Acquire) != self.head
    }

    /// Copies the next frame into `into`, which has room for [`FRAME_BYTES_MAX`] bytes, and how long it is; `None` if
    /// there is none. Afterwards, once for many, [`Self::must_ring`].
    ///
    /// # Errors
    /// [`RingError`]
    #[inline]
    pub fn receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, RingError> {
        // Two entries without a frame do not follow each other: the second would have been an empty ring's again.
        for _ in 0..2 {
            if self.head == self.tail && !self.look()? {
                return Ok(None);
            }
            let published = self.head - self.tail;
            let word = self.ring.entry(self.tail).load(Ordering::Relaxed);
            let wrong = RingError::Entry { word, published };
            if word & SKIP != 0 {
                let left_out = word & !SKIP;
                let rest = u64_of(CAPACITY - place(self.tail));
                if left_out != rest || left_out > published {
                    return Err(wrong);
                }
                self.take(left_out);
                continue;
            }
            let length = usize::try_from(word).unwrap_or(usize::MAX);
            if length == 0 || length > FRAME_BYTES_MAX.min(into.len()) {
                return Err(wrong);
            }
            let words = entry_words(length);
            if words > published {
                return Err(wrong);
            }
            let (one, other) = self.ring.entries(self.tail + 1..self.tail + words);
            let (front, behind) = into[..length].split_at_mut(length.min(one.len() * 8));
            words::read(one, front);
            words::read(other, behind);
            self.take(words);
            return Ok(Some(length));
        }
        Err(RingError::Entry {
            word: SKIP,
            published: self.head - self.tail,
        })
    }

    /// Takes over how far the sender has come; whether there is anything.
    #[inline]
    fn look(&mut self) -> Result<bool, RingError> {
        let theirs = self.ring.word(HEAD).load(Ordering::Acquire);
        let ahead = theirs.wrapping_sub(self.tail);
        if ahead > u64_of(CAPACITY) || theirs < self.head {
            let own = self.tail;
            return Err(RingError::Count { theirs, own });
        }
        self.head = theirs;
        Ok(ahead > 0)
    }

    #[inline]
    fn take(&mut self, words: u64) {
        self.tail += words;
        self.ring.word(TAIL).store(self.tail, Ordering::Release);
    }

    /// Whether the sender sleeps until there is room and must be rung for, once, after frames have been taken.
    #[must_use]
    #[inline]
    pub fn must_ring(&self) -> bool {
        put_out(self.ring.word(WANTS_ROOM))
    }

    /// Says that this side sleeps until there is more; a fence and [`Self::has_more`] follow.
    pub fn arm(&self) {
        self.ring.word(ASLEEP).store(1, Ordering::Relaxed);
    }

    /// Says that it does not sleep any more.
    pub fn disarm(&self) {
        self.ring.word(ASLEEP).store(0, Ordering::Relaxed);
    }
}

/// Puts a signal out; whether it was up. What was published before is seen by a side that puts it up later.
#[inline]
fn put_out(signal: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    signal.load(Ordering::Relaxed) != 0 && signal.swap(0, Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests;
