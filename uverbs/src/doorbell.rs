//! Doorbells: which queues have new work, in memory that a program and its host share.
//!
//! ```text
//!  word 0           1 while the host sleeps
//!  word 8           not 0 if a bit may be set
//!  words 64..320    a bit a queue: queue n is bit n % 64 of word 64 + n / 64
//! ```
//!
//! The library puts entries into a queue's ring, then rings ([`ring`]); if that says so it writes a 1 (eight
//! bytes) to the event descriptor that came with [`crate::Reply::Opened`]. The host takes the bits
//! ([`take`]), looks at the queues, and before it sleeps says so ([`sleep`]).

use std::sync::atomic::{AtomicU64, Ordering};

/// Queues with a doorbell that a context has at most.
pub const QUEUES_MAX: u32 = 16_384;
/// Words of the page.
pub const WORDS: usize = 512;

const ASLEEP: usize = 0;
const RUNG: usize = 8;
const FIRST: usize = 64;
const BITS_WORDS: usize = (QUEUES_MAX / 64) as usize;

fn place(queue: u32) -> Option<(usize, u64)> {
    let word = usize::try_from(queue / 64).ok()?;
    (queue < QUEUES_MAX).then(|| (FIRST + word, 1 << (queue % 64)))
}

/// Tells the host that a queue has new entries. Whether it sleeps, and must be woken by the event descriptor.
#[must_use]
pub fn ring(page: &[AtomicU64], queue: u32) -> bool {
    let Some((word, bit)) = place(queue) else {
        return false;
    };
    let (Some(bits), Some(rung), Some(asleep)) = (page.get(word), page.get(RUNG), page.get(ASLEEP))
    else {
        return false;
    };
    bits.fetch_or(bit, Ordering::SeqCst);
    // Of the two, this store and the host's of "asleep", one is seen by the other side.
    rung.store(1, Ordering::SeqCst);
    asleep.load(Ordering::SeqCst) != 0 && asleep.swap(0, Ordering::SeqCst) != 0
}

/// Takes the doorbells that have been rung, and calls `look` with each queue. Whether there were any.
pub fn take(page: &[AtomicU64], mut look: impl FnMut(u32)) -> bool {
    let mut any = false;
    match page.get(RUNG) {
        // Before the bits are looked at, so that no later one is missed.
        Some(rung) if rung.load(Ordering::SeqCst) != 0 => rung.store(0, Ordering::SeqCst),
        _ => return false,
    }
    let words = page.iter().skip(FIRST).take(BITS_WORDS);
    for (base, word) in (0u32..).step_by(64).zip(words) {
        if word.load(Ordering::SeqCst) == 0 {
            continue;
        }
        let mut bits = word.swap(0, Ordering::SeqCst);
        while bits != 0 {
            any = true;
            look(base + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
    any
}

/// Says that the host sleeps. Whether it must not, because a doorbell has been rung meanwhile.
#[must_use]
pub fn sleep(page: &[AtomicU64]) -> bool {
    if let Some(asleep) = page.get(ASLEEP) {
        asleep.store(1, Ordering::SeqCst);
    }
    let rung = page.get(RUNG);
    rung.is_some_and(|rung| rung.load(Ordering::SeqCst) != 0)
}

/// Says that the host is awake.
pub fn wake(page: &[AtomicU64]) {
    if let Some(asleep) = page.get(ASLEEP) {
        asleep.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn what_is_rung_is_seen_once_and_a_sleeping_host_is_woken_once() {
        let page = page();
        assert!(!ring(&page, 3), "awake");
        assert!(sleep(&page), "a doorbell was rung");
        wake(&page);
        let mut seen = Vec::new();
        assert!(take(&page, |queue| seen.push(queue)));
        assert!(!sleep(&page));
        let rung = [QUEUES_MAX - 1, 64, 63].map(|queue| ring(&page, queue));
        assert_eq!(rung, [true, false, false]);
        assert!(take(&page, |queue| seen.push(queue)));
        assert_eq!(seen, [3, 63, 64, QUEUES_MAX - 1]);
        assert!(!take(&page, |_| panic!("no doorbell is left")));
        assert!(!ring(&page, QUEUES_MAX), "there is no such queue");
        assert!(!sleep(&[]) && !ring(&[], 0), "memory that is too short");
    }
}
