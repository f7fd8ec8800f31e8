//! The memory of packets: fixed slots in a few sizes, counted references, a limit.
//!
//! A [`Payload`] is a handle on what stands between the LRH and the VCRC of a packet. Slots are
//! made in chunks when they are first needed and kept, so that a device that has seen its busiest
//! moment allocates no more; a device that has been quiet for seconds gives them back
//! ([`Pool::review`]). Slots of one size never serve another: a size that is not in use gives way when
//! another needs its memory. Copies of a multicast packet share one slot.
//!
//! The owner of a [`Payload`] must return it with [`Pool::release`]; the handle is neither
//! `Clone` nor `Copy`, so that this happens once.

use thiserror::Error;

use crate::Time;

/// Slot sizes in bytes. 320 holds a management packet, the larger ones a packet of each MTU with
/// all its headers.
const SIZES: [usize; 7] = [64, 128, 320, 640, 1152, 2176, 4224];
/// By length in units of [`UNIT`], rounded up: the smallest size that has room.
const SIZE_OF_UNITS: [u8; SIZES[SIZES.len() - 1] / UNIT + 1] = sizes_of_units();
/// Every size is a multiple of it, in bytes.
const UNIT: usize = 64;
/// By size: the binary logarithm of the number of slots in a chunk.
const CHUNK_SHIFTS: [u32; SIZES.len()] = chunk_shifts();
/// Bytes of one chunk of slots, about.
const CHUNK_BYTES: usize = 32 * 1024;
/// How often the use of slots is reviewed, nanoseconds.
const REVIEW_NS: u64 = 5_000_000_000;
/// Slots are given back if less than one of so many was in use at any moment since the last review.
const SLOTS_A_USED_ONE: usize = 8;

/// The class of payloads without bytes.
const NO_BYTES: u8 = u8::MAX;

/// A handle on the bytes of one packet between LRH and VCRC.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a payload that is not released is lost memory"]
pub struct Payload {
    class: u8,
    slot: u32,
    len: u16,
}

impl Payload {
    /// How many bytes it has.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The tag of a payload whose bytes are not in the pool ([`Pool::adopt`]).
    #[inline]
    #[must_use]
    pub fn tag(&self) -> Option<u32> {
        (self.class == NO_BYTES).then_some(self.slot)
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Why a pool did not take a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PoolError {
    /// The limit is reached.
    #[error("packet memory is at its limit of {limit} bytes")]
    Full {
        /// The limit, in bytes.
        limit: usize,
    },
    /// No slot is that large.
    #[error("a payload of {len} bytes: at most {max}")]
    TooLong {
        /// The bytes that were offered.
        len: usize,
        /// The largest slot.
        max: usize,
    },
}

/// The slots of one size.
#[derive(Debug, Default)]
struct Class {
    chunks: Vec<Box<[u8]>>,
    /// References to each slot; 0: free.
    references: Vec<u16>,
    free: Vec<u32>,
}

/// The packet memory of one device.
#[derive(Debug)]
#[repr(C)]
pub struct Pool {
    live: usize,
    /// The most handles that were out at a time since the last review.
    most: usize,
    review_at: Time,
    bytes: usize,
    limit: usize,
    classes: [Class; SIZES.len()],
}

impl Pool {
    /// The longest payload that fits a slot, in bytes.
    pub const PAYLOAD_BYTES_MAX: usize = SIZES[SIZES.len() - 1];

    /// An empty pool that grows to about `limit` bytes of slots: not beyond, but at least to one
    /// chunk of each size.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            classes: Default::default(),
            bytes: 0,
            limit,
            live: 0,
            most: 0,
            review_at: Time::ZERO,
        }
    }

    /// A limit with which packets that `buffers` bytes of buffers hold never find the pool full.
    ///
    /// Each size may have had its turn in filling the buffers: with slots of up to twice the length
    /// that is accounted for (blocks of 64 bytes; slots double), and the last packet of each may be
    /// there still.
    #[must_use]
    pub const fn limit_for(buffers: usize) -> usize {
        buffers.saturating_mul(2 * SIZES.len())
    }

    /// Gives all slots back if none is in use and few were for the last seconds. Looks every five
    /// seconds, however often it is called. Returns whether memory was given back: then other
    /// memory that was needed in the busy time can be, too.
    #[inline]
    pub fn review(&mut self, now: Time) -> bool {
        now >= self.review_at && self.review_now(now)
    }

    #[cold]
    fn review_now(&mut self, now: Time) -> bool {
        self.review_at = now + REVIEW_NS;
        let most = std::mem::replace(&mut self.most, self.live);
        let slots: usize = self
            .classes
            .iter()
            .map(|class| class.references.len())
            .sum();
        // A chunk a size is what a quiet device uses.
        let many = self.bytes > CHUNK_BYTES * SIZES.len();
        let quiet = self.live == 0 && most.saturating_mul(SLOTS_A_USED_ONE) < slots && many;
        if quiet {
            self.classes = Default::default();
            self.bytes = 0;
        }
        quiet
    }

    /// Stores a copy of `bytes`.
    ///
    /// # Errors
    /// [`PoolError`]: the limit is reached, or the payload is longer than any slot.
    #[inline]
    pub fn insert(&mut self, bytes: &[u8]) -> Result<Payload, PoolError> {
        let payload = self.allocate(bytes.len())?;
        self.slot_mut(&payload)[..bytes.len()].copy_from_slice(bytes);
        Ok(payload)
    }

    /// A handle on a payload whose bytes are elsewhere, or nowhere: its owner knows it by the tag. It takes no slot.
    #[inline]
    pub fn adopt(&mut self, tag: u32) -> Payload {
        self.live += 1;
        Payload {
            class: NO_BYTES,
            slot: tag,
            len: 0,
        }
    }

    /// The bytes of `payload`; none of one that was adopted.
    #[inline]
    #[must_use]
    pub fn bytes(&self, payload: &Payload) -> &[u8] {
        if payload.class == NO_BYTES {
            return &[];
        }
        let (chunk, at) = place(payload);
        let class = &self.classes[usize::from(payload.class)];
        &class.chunks[chunk][at..at + payload.len()]
    }

    /// A second handle on the same bytes.
    ///
    /// # Panics
    /// At the 65,536th handle on one payload: more than any switch has ports.
    #[inline]
    pub fn share(&mut self, payload: &Payload) -> Payload {
        self.live += 1;
        if payload.class == NO_BYTES {
            return Payload { ..*payload };
        }
        let class = &mut self.classes[usize::from(payload.class)];
        let references = &mut class.references[payload.slot as usize];
        *references = references.checked_add(1).expect("fewer copies than ports");
        Payload { ..*payload }
    }

    /// Gives one handle back; the last one frees the slot.
    #[inline]
    pub fn release(&mut self, payload: Payload) {
        if payload.class == NO_BYTES {
            self.live -= 1;
            return;
        }
        let class = &mut self.classes[usize::from(payload.class)];
        let references = &mut class.references[payload.slot as usize];
        debug_assert!(*references > 0, "a payload was released twice");
        *references = references.saturating_sub(1);
        self.live -= 1;
        if *references == 0 {
            class.free.push(payload.slot);
        }
    }

    /// How many handles are out.
    #[must_use]
    pub fn handles(&self) -> usize {
        self.live
    }

    /// Bytes of all slots made so far.
    #[must_use]
    pub fn bytes_made(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn allocate(&mut self, len: usize) -> Result<Payload, PoolError> {
        let too_long = PoolError::TooLong {
            len,
            max: Self::PAYLOAD_BYTES_MAX,
        };
        let class = *SIZE_OF_UNITS.get(len.div_ceil(UNIT)).ok_or(too_long)?;
        let class_at = usize::from(class);
        let slot = match self.classes[class_at].free.pop() {
            Some(slot) => slot,
            None => self.grow(class_at)?,
        };
        self.classes[class_at].references[slot as usize] = 1;
        self.live += 1;
        self.most = self.most.max(self.live);
        Ok(Payload {
            class,
            slot,
            len: u16::try_from(len).map_err(|_| too_long)?,
        })
    }

    /// Makes one more chunk of slots and takes the first of them.
    #[cold]
    fn grow(&mut self, class_at: usize) -> Result<u32, PoolError> {
        let full = PoolError::Full { limit: self.limit };
        let size = SIZES[class_at];
        let count = slots_a_chunk(class_at);
        let first = self.classes[class_at].references.len();
        if first > 0 && self.bytes + size * count > self.limit {
            self.release_unused();
            if self.bytes + size * count > self.limit {
                return Err(full);
            }
        }
        let class = &mut self.classes[class_at];
        let first_slot = u32::try_from(first).map_err(|_| full)?;
        let last_slot = u32::try_from(first + count - 1).map_err(|_| full)?;
        class.chunks.push(vec![0; size * count].into_boxed_slice());
        class.references.resize(first + count, 0);
        // Room for every slot, so that giving back never allocates.
        class.free.reserve(first + count);
        class.free.extend((first_slot + 1..=last_slot).rev());
        self.bytes += size * count;
        Ok(first_slot)
    }

    /// Gives back the slots of every size of which none is in use.
    pub fn release_unused(&mut self) {
        for (class, size) in self.classes.iter_mut().zip(SIZES) {
            if class.free.len() == class.references.len() {
                self.bytes -= class.references.len() * size;
                *class = Class::default();
            }
        }
    }

    #[inline]
    fn slot_mut(&mut self, payload: &Payload) -> &mut [u8] {
        let (chunk, at) = place(payload);
        let class = &mut self.classes[usize::from(payload.class)];
        &mut class.chunks[chunk][at..]
    }
}

/// The number of slots in a chunk: a power of two, so that finding one is a shift.
#[inline]
const fn slots_a_chunk(class: usize) -> usize {
    1 << CHUNK_SHIFTS[class]
}

const fn chunk_shifts() -> [u32; SIZES.len()] {
    let mut shifts = [0; SIZES.len()];
    let mut class = 0;
    while class < SIZES.len() {
        shifts[class] = (CHUNK_BYTES / SIZES[class]).ilog2();
        class += 1;
    }
    shifts
}

const fn sizes_of_units() -> [u8; SIZES[SIZES.len() - 1] / UNIT + 1] {
    let mut sizes = [0; _];
    let (mut units, mut class) = (0, 0u8);
    while units < sizes.len() {
        if units * UNIT > SIZES[class as usize] {
            class += 1;
        }
        sizes[units] = class;
        units += 1;
    }
    sizes
}

/// Chunk of a payload and the offset in it.
#[inline]
fn place(payload: &Payload) -> (usize, usize) {
    let class = usize::from(payload.class);
    let shift = CHUNK_SHIFTS[class];
    let slot = payload.slot as usize;
    let in_chunk = slot & ((1 << shift) - 1);
    (slot >> shift, in_chunk * SIZES[class])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_payload_reads_as_it_was_written() {
        let mut pool = Pool::new(1 << 20);
        let one = pool.insert(&[1; 280]).unwrap();
        let other = pool.insert(&[9, 0, 0, 0, 0]).unwrap();
        assert_eq!(pool.bytes(&one), [1; 280]);
        assert_eq!(pool.bytes(&other), [9, 0, 0, 0, 0]);
        pool.release(one);
        pool.release(other);
        assert_eq!(pool.handles(), 0);
    }

    #[test]
    fn a_shared_payload_lives_until_its_last_handle_is_back() {
        let mut pool = Pool::new(1 << 20);
        let one = pool.insert(&[1; 100]).unwrap();
        let copy = pool.share(&one);
        pool.release(one);
        let next = pool.insert(&[2; 100]).unwrap();
        assert_eq!(pool.bytes(&copy), [1; 100]);
        pool.release(copy);
        pool.release(next);
        assert_eq!(pool.handles(), 0);
    }

    #[test]
    fn a_pool_at_its_limit_refuses_until_something_is_given_back() {
        let mut pool = Pool::new(0);
        let mut held = Vec::new();
        let refused = loop {
            match pool.insert(&[0; 4000]) {
                Ok(payload) => held.push(payload),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, PoolError::Full { limit: 0 });
        pool.release(held.pop().unwrap());
        assert!(pool.insert(&[0; 4000]).is_ok());
    }

    #[test]
    fn a_size_that_is_not_in_use_gives_way_to_another() {
        let mut pool = Pool::new(256 * 1024);
        for len in [64, 128, 320, 640, 1152, 2176, 4224] {
            // As many as half of the memory holds.
            let held: Vec<_> = (0..128 * 1024 / (2 * len))
                .map(|_| {
                    pool.insert(&vec![0; len])
                        .expect("room for each size in turn")
                })
                .collect();
            assert!(pool.bytes_made() <= 256 * 1024);
            held.into_iter().for_each(|payload| pool.release(payload));
        }
    }

    #[test]
    fn packets_that_buffers_hold_never_find_the_pool_full() {
        let buffers = 256 * 1024;
        let mut pool = Pool::new(Pool::limit_for(buffers));
        let mut kept = Vec::new();
        // One byte more than a slot: the next size, about twice as large. Of each, one stays.
        for len in [1, 65, 129, 321, 641, 1153, 2177] {
            let count = buffers / crate::blocks(len).max(1) as usize / 64;
            let mut held: Vec<_> = (0..count - kept.len())
                .map(|_| pool.insert(&vec![0; len]).expect("within the buffers"))
                .collect();
            kept.extend(held.pop());
            held.into_iter().for_each(|payload| pool.release(payload));
        }
        assert_eq!(pool.handles(), kept.len());
    }

    #[test]
    fn slots_are_given_back_after_a_busy_time_and_made_again() {
        let mut pool = Pool::new(1 << 24);
        let second = |s: u64| Time(s * 1_000_000_000);
        let busy = |pool: &mut Pool| {
            let held: Vec<_> = (0..5000).map(|_| pool.insert(&[0; 280]).unwrap()).collect();
            held.into_iter().for_each(|payload| pool.release(payload));
        };
        assert!(!pool.review(second(0)));
        busy(&mut pool);
        let made = pool.bytes_made();
        assert!(!pool.review(second(5)), "it was busy");
        let one = pool.insert(&[7; 280]).unwrap();
        assert!(!pool.review(second(10)), "a packet is in it");
        assert_eq!((pool.bytes_made(), pool.bytes(&one)), (made, &[7; 280][..]));
        pool.release(one);
        assert!(!pool.review(second(14)), "too soon");
        assert!(pool.review(second(15)));
        assert_eq!(pool.bytes_made(), 0);
        assert!(!pool.review(second(20)), "there is nothing to give back");
        busy(&mut pool);
        assert_eq!((pool.bytes_made(), pool.handles()), (made, 0));
    }

    #[test]
    fn a_payload_longer_than_any_slot_is_refused() {
        let mut pool = Pool::new(1 << 20);
        assert!(matches!(
            pool.insert(&[0; 4225]),
            Err(PoolError::TooLong { .. })
        ));
    }

    #[test]
    fn an_adopted_payload_counts_and_takes_no_memory() {
        let mut pool = Pool::new(0);
        let one = pool.adopt(7);
        let copy = pool.share(&one);
        assert_eq!((one.tag(), copy.tag()), (Some(7), Some(7)));
        assert_eq!((pool.handles(), pool.bytes_made()), (2, 0));
        assert!(pool.bytes(&copy).is_empty());
        pool.release(one);
        pool.release(copy);
        assert_eq!(pool.handles(), 0);
        let stored = pool.insert(&[1; 8]).unwrap();
        assert_eq!(stored.tag(), None);
        pool.release(stored);
    }

    proptest! {
        #[test]
        fn payloads_never_overlap_and_slots_are_used_again(
            steps in prop::collection::vec((0usize..=4224, any::<u8>(), any::<bool>()), 0..300),
        ) {
            let mut pool = Pool::new(usize::MAX);
            let mut held = std::collections::VecDeque::new();
            for (len, byte, free) in steps {
                if free && let Some((payload, byte)) = held.pop_front() {
                    let bytes: &[u8] = pool.bytes(&payload);
                    prop_assert!(bytes.iter().all(|&b| b == byte));
                    pool.release(payload);
                } else {
                    held.push_back((pool.insert(&vec![byte; len]).unwrap(), byte));
                }
            }
            for (payload, byte) in held {
                prop_assert!(pool.bytes(&payload).iter().all(|&b| b == byte));
                pool.release(payload);
            }
            prop_assert_eq!(pool.handles(), 0);
            let made = pool.bytes_made();
            let again = pool.insert(&[0; 1]).unwrap();
            pool.release(again);
            prop_assert!(pool.bytes_made() <= made + CHUNK_BYTES);
        }
    }
}
