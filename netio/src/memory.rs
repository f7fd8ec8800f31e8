//! Memory that a busy time has taken, given back to the system when it is over.
//!
//! A daemon that sends and receives at full load touches a megabyte of frames, and its device
//! allocates for packets in queues and figures of flows. An allocator keeps what is freed, and pages
//! that were touched stay; a fabric has hundreds of daemons. So the dataplane thread looks every few
//! seconds whether frames were large since the last look, and how much freed memory the allocator holds.

use link::Time;

/// The time between two reviews, nanoseconds.
const REVIEW_NS: u64 = 5_000_000_000;
/// Frames that end below this are those of a quiet daemon: they stay.
const QUIET_BYTES: usize = 4096;
/// Freed bytes that are worth a call of the allocator.
const FREED_BYTES: usize = 128 * 1024;

/// When the next review is due, and what the last one has left.
#[derive(Debug, Default)]
pub(crate) struct Review {
    at: Time,
    /// Freed bytes in the allocator after the last call: those that cannot be given back, and
    /// those that were.
    left: usize,
}

impl Review {
    /// Whether a review is due at `now`; if so, sets when the next one is.
    pub(crate) fn begin_if_due(&mut self, now: Time) -> bool {
        let due = self.at <= now;
        if due {
            self.at = now + REVIEW_NS;
        }
        due
    }

    /// Gives freed memory back, if there is more than the last call has left.
    pub(crate) fn trim(&mut self) {
        let freed = freed_bytes();
        self.left = self.left.min(freed);
        if freed - self.left >= FREED_BYTES {
            trim();
            self.left = freed_bytes();
        }
    }
}

/// Bytes that were allocated, are free, and are with the allocator.
#[cfg(target_env = "gnu")]
fn freed_bytes() -> usize {
    // SAFETY: the call has no conditions; it only takes the allocator's locks.
    unsafe { libc::mallinfo2() }.fordblks
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: the call has no conditions; it only takes the allocator's locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give back by themselves, or not at all.
#[cfg(not(target_env = "gnu"))]
fn freed_bytes() -> usize {
    0
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

/// How far into a buffer frames have reached.
#[derive(Debug, Default)]
pub(crate) struct HighWater {
    /// Since pages were last given back.
    since_release: usize,
    /// Since the last review.
    since_review: usize,
}

impl HighWater {
    /// Frames reach up to `end`.
    #[inline]
    pub(crate) fn note(&mut self, end: usize) {
        self.since_review = self.since_review.max(end);
    }

    /// Gives the pages of `memory` back if frames have reached far into it, but not since the last
    /// review. What is in it is lost.
    pub(crate) fn review(&mut self, memory: &mut [u8]) {
        let since_review = std::mem::take(&mut self.since_review);
        self.since_release = self.since_release.max(since_review);
        if since_review <= QUIET_BYTES && self.since_release > QUIET_BYTES {
            give_back(memory);
            self.since_release = 0;
        }
    }
}

/// Gives the whole pages of `memory` back; they read as zero from now on.
fn give_back(memory: &mut [u8]) {
    // SAFETY: the call has no conditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Some(page) = usize::try_from(page)
        .ok()
        .filter(|page| page.is_power_of_two())
    else {
        return;
    };
    let start = memory.as_ptr().align_offset(page);
    let Some(behind) = memory.get_mut(start..) else {
        return;
    };
    let whole = behind.len() / page * page;
    // SAFETY: the range is whole pages inside memory that is borrowed exclusively and that the
    // allocator has from the system as private and anonymous; so they become zero, which is valid
    // for bytes. A refusal changes nothing.
    unsafe { libc::madvise(behind.as_mut_ptr().cast(), whole, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(memory: &[u8]) -> usize {
        let page = 4096;
        let start = memory.as_ptr().align_offset(page);
        let pages = (memory.len() - start) / page;
        let mut states = vec![0u8; pages];
        let at = memory[start..].as_ptr().cast_mut().cast();
        // SAFETY: the range is whole pages of memory that is mapped, with a byte each in `states`.
        let outcome = unsafe { libc::mincore(at, pages * page, states.as_mut_ptr()) };
        assert_eq!(outcome, 0);
        states.iter().filter(|&&state| state & 1 == 1).count()
    }

    #[test]
    fn pages_of_a_busy_time_are_given_back_once_it_is_over() {
        let mut memory = vec![0u8; 1 << 20];
        let mut high_water = HighWater::default();
        memory.fill(7);
        high_water.note(memory.len());
        high_water.review(&mut memory);
        assert_eq!(memory[500_000], 7, "it was busy");
        assert!(resident(&memory) > 250);
        high_water.note(1000);
        high_water.review(&mut memory);
        assert!(resident(&memory) < 5);
        memory.fill(8);
        high_water.review(&mut memory);
        assert_eq!(memory[500_000], 8, "it was not reported as touched");
    }

    #[test]
    fn freed_memory_is_given_back() {
        let mut review = Review::default();
        assert!(review.begin_if_due(Time(1)));
        assert!(!review.begin_if_due(Time(REVIEW_NS)));
        review.trim();
        let many: Vec<Box<[u8; 4096]>> = (0..2000).map(|_| Box::new([1; 4096])).collect();
        let addresses: Vec<*const u8> = many.iter().map(|one| one.as_ptr()).collect();
        drop(many);
        review.trim();
        assert!(addresses.len() == 2000 && review.left < usize::MAX);
        let left = review.left;
        review.trim();
        assert!(
            review.left <= left + FREED_BYTES,
            "no call for what is gone"
        );
    }
}
