//! Queues in memory that a program and its host share: one producer, one consumer, entries of a fixed number of
//! 64-bit words.
//!
//! ```text
//!  word 0          head: entries that the consumer has taken, ever
//!  word 8          tail: entries that the producer has put in, ever
//!  word 16         completion queues: 0; 1: an event for the next solicited completion; 2: for the next
//!  words 32..      entry n is at 32 + (n % entries) * stride
//! ```
//!
//! Neither side trusts the other: its own index is in its own memory, the other's is read once and bounded, and
//! an entry is copied before it is looked at. A queue pair's queues are filled by the library, completion queues
//! by the host. Access by several threads of one side is for that side to exclude.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use thiserror::Error;

/// Words in front of the entries.
pub const HEADER_WORDS: usize = 32;
/// Entries of a ring at most.
pub const ENTRIES_MAX: u32 = 1 << 20;
/// Words of an entry at most.
pub const STRIDE_MAX: u32 = 1024;

const HEAD: usize = 0;
const TAIL: usize = 8;
const ARMED: usize = 16;

/// For which completion a program is told by its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// The next one of a solicited message, or of a request that failed.
    Solicited = 1,
    /// The next one.
    Next = 2,
}

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    entries: u32,
    stride: u32,
}

/// The other side's index cannot be: it has put in more entries than there is room for, or taken more than
/// there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the other side's index of a shared queue makes no sense")]
pub struct Corrupt;

impl Layout {
    /// A ring with room for at least `entries` of `stride` words; `None` beyond the limits or for 0.
    #[must_use]
    pub fn new(entries: u32, stride: u32) -> Option<Self> {
        let fits = (1..=ENTRIES_MAX).contains(&entries) && (1..=STRIDE_MAX).contains(&stride);
        fits.then(|| Self {
            entries: entries.next_power_of_two(),
            stride,
        })
    }

    /// How many entries it has room for: a power of two.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.entries
    }

    /// Words of an entry.
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.stride as usize
    }

    /// Words of the whole ring.
    #[must_use]
    pub const fn words(&self) -> usize {
        HEADER_WORDS + self.entries as usize * self.stride()
    }

    /// Bytes of the whole ring: the length of its memory file.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.words() * 8
    }

    fn slot<'a>(&self, memory: &'a [AtomicU64], index: u64) -> Option<&'a [AtomicU64]> {
        let index = usize::try_from(index & u64::from(self.entries - 1)).ok()?;
        let start = HEADER_WORDS + index * self.stride();
        memory.get(start..start + self.stride())
    }
}

/// The side that puts entries in.
#[derive(Debug)]
pub struct Producer {
    layout: Layout,
    tail: u64,
    /// The consumer's index when it was last looked at.
    head: u64,
}

impl Producer {
    /// Of a new ring.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self {
            layout,
            tail: 0,
            head: 0,
        }
    }

    /// The ring's shape.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Entries that the consumer has not taken.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn waiting(&mut self, memory: &[AtomicU64]) -> Result<u32, Corrupt> {
        let head = memory.get(HEAD).ok_or(Corrupt)?.load(Ordering::Acquire);
        let waiting = self.tail.wrapping_sub(head);
        // It never goes back, and never beyond what was put in.
        if waiting > self.tail.wrapping_sub(self.head) {
            return Err(Corrupt);
        }
        self.head = head;
        u32::try_from(waiting).map_err(|_| Corrupt)
    }

    /// Puts an entry in; words beyond those given keep their content. Whether there was room for it.
    ///
    /// # Errors
    /// [`Corrupt`]; also if the entry is longer than the ring's, or the memory too short.
    pub fn push(&mut self, memory: &[AtomicU64], entry: &[u64]) -> Result<bool, Corrupt> {
        let entries = u64::from(self.layout.entries);
        if self.tail.wrapping_sub(self.head) >= entries
            && self.waiting(memory)? >= self.layout.entries
        {
            return Ok(false);
        }
        let slot = self.layout.slot(memory, self.tail).ok_or(Corrupt)?;
        let slot = slot.get(..entry.len()).ok_or(Corrupt)?;
        for (word, &value) in slot.iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        let tail = memory.get(TAIL).ok_or(Corrupt)?;
        tail.store(self.tail, Ordering::Release);
        Ok(true)
    }

    /// Of a completion queue into which completions have been put, `solicited` if one of them is: whether the
    /// program is to be told. It is told once for each arming.
    #[must_use]
    pub fn take_arming(&self, memory: &[AtomicU64], solicited: bool) -> bool {
        let Some(armed) = memory.get(ARMED) else {
            return false;
        };
        // Of the two, the tail here and the arming there, one is seen by the other side.
        fence(Ordering::SeqCst);
        match armed.load(Ordering::SeqCst) {
            0 => false,
            1 if !solicited => false,
            _ => armed.swap(0, Ordering::SeqCst) != 0,
        }
    }
}

/// The side that takes entries out.
#[derive(Debug)]
pub struct Consumer {
    layout: Layout,
    head: u64,
    /// The producer's index when it was last looked at.
    tail: u64,
}

impl Consumer {
    /// Of a new ring.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self {
            layout,
            head: 0,
            tail: 0,
        }
    }

    /// The ring's shape.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Entries that can be taken.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn waiting(&mut self, memory: &[AtomicU64]) -> Result<u32, Corrupt> {
        let tail = memory.get(TAIL).ok_or(Corrupt)?.load(Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        let known = self.tail.wrapping_sub(self.head);
        // It never goes back, and never beyond the room.
        if waiting < known || waiting > u64::from(self.layout.entries) {
            return Err(Corrupt);
        }
        self.tail = tail;
        u32::try_from(waiting).map_err(|_| Corrupt)
    }

    /// Copies the next entry into `out`, as much of it as there is room. Whether there was one.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn pop(&mut self, memory: &[AtomicU64], out: &mut [u64]) -> Result<bool, Corrupt> {
        if self.tail == self.head && self.waiting(memory)? == 0 {
            return Ok(false);
        }
        let slot = self.layout.slot(memory, self.head).ok_or(Corrupt)?;
        for (value, word) in out.iter_mut().zip(slot) {
            *value = word.load(Ordering::Relaxed);
        }
        self.head = self.head.wrapping_add(1);
        let head = memory.get(HEAD).ok_or(Corrupt)?;
        head.store(self.head, Ordering::Release);
        Ok(true)
    }

    /// Of a completion queue: asks to be told. Completions that came before may or may not be told: look once
    /// more before waiting. A request for any completion is not weakened by one for solicited ones.
    pub fn arm(&self, memory: &[AtomicU64], arming: Arming) {
        if let Some(armed) = memory.get(ARMED) {
            armed.fetch_max(arming as u64, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(layout: Layout) -> Vec<AtomicU64> {
        (0..layout.words()).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn entries_leave_in_the_order_in_which_they_came_in_however_often_the_ring_wraps() {
        let layout = Layout::new(3, 2).unwrap();
        assert_eq!((layout.entries(), layout.words()), (4, 40));
        let memory = memory(layout);
        let (mut producer, mut consumer) = (Producer::new(layout), Consumer::new(layout));
        let (mut pushed, mut popped) = (0, 0);
        for _ in 0..10 {
            while producer.push(&memory, &[pushed, !pushed]) == Ok(true) {
                pushed += 1;
            }
            assert_eq!(producer.waiting(&memory), Ok(4));
            for _ in 0..3 {
                let mut entry = [0; 2];
                assert_eq!(consumer.pop(&memory, &mut entry), Ok(true));
                assert_eq!(entry, [popped, !popped]);
                popped += 1;
            }
        }
        while consumer.pop(&memory, &mut []) == Ok(true) {
            popped += 1;
        }
        assert_eq!((pushed, consumer.waiting(&memory)), (popped, Ok(0)));
    }

    #[test]
    fn an_index_that_cannot_be_is_found() {
        let layout = Layout::new(4, 1).unwrap();
        let bad = [5, 100, u64::MAX, 1 << 63];
        for index in bad {
            let memory = memory(layout);
            memory[TAIL].store(index, Ordering::Relaxed);
            let mut consumer = Consumer::new(layout);
            assert_eq!(consumer.pop(&memory, &mut [0]), Err(Corrupt), "{index}");
            memory[HEAD].store(index, Ordering::Relaxed);
            let mut producer = Producer::new(layout);
            for _ in 0..4 {
                assert_eq!(producer.push(&memory, &[1]), Ok(true));
            }
            assert_eq!(producer.push(&memory, &[1]), Err(Corrupt), "{index}");
        }
        let memory = memory(layout);
        let (mut producer, mut consumer) = (Producer::new(layout), Consumer::new(layout));
        for _ in 0..4 {
            producer.push(&memory, &[1]).unwrap();
        }
        consumer.pop(&memory, &mut [0]).unwrap();
        memory[TAIL].store(3, Ordering::Relaxed);
        assert_eq!(consumer.waiting(&memory), Err(Corrupt), "it went back");
        assert_eq!(producer.waiting(&memory), Ok(3));
        memory[HEAD].store(0, Ordering::Relaxed);
        assert_eq!(producer.waiting(&memory), Err(Corrupt), "it went back");
    }

    #[test]
    fn memory_that_is_too_short_and_shapes_beyond_the_limits_are_refused() {
        for (entries, stride) in [(0, 1), (1, 0), (ENTRIES_MAX + 1, 1), (1, STRIDE_MAX + 1)] {
            assert_eq!(Layout::new(entries, stride), None);
        }
        let layout = Layout::new(2, 2).unwrap();
        let whole = memory(layout);
        for length in 0..layout.words() {
            let short = &whole[..length];
            let mut producer = Producer::new(layout);
            let pushed = [0; 2].map(|_| producer.push(short, &[1, 2]));
            assert!(pushed.contains(&Err(Corrupt)), "{length} words");
        }
        let mut producer = Producer::new(layout);
        assert_eq!(producer.push(&whole, &[0; 3]), Err(Corrupt));
    }

    #[test]
    fn a_program_is_told_once_for_each_arming() {
        let layout = Layout::new(2, 1).unwrap();
        let memory = memory(layout);
        let (producer, consumer) = (Producer::new(layout), Consumer::new(layout));
        assert!(!producer.take_arming(&memory, true));
        consumer.arm(&memory, Arming::Solicited);
        assert!(!producer.take_arming(&memory, false));
        assert!(producer.take_arming(&memory, true));
        assert!(!producer.take_arming(&memory, true));
        consumer.arm(&memory, Arming::Next);
        consumer.arm(&memory, Arming::Solicited);
        assert!(producer.take_arming(&memory, false), "not weakened");
    }
}
