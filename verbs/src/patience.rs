//! What a program does that finds a completion queue empty, again and again: hosts and switches are processes of this machine, and
//! need the processors that it would poll on.
//!
//! | polls without a completion | what a poll does |
//! |---|---|
//! | the first [`EMPTY_POLLS`] | it returns |
//! | up to [`IDLE_POLLS`], some milliseconds | it leaves the processor to others; if it gets that back late, it sleeps for [`NAP`] |
//! | more | it sleeps for [`NAP`] |
//!
//! A program whose completions have lately taken long to come sleeps from the first on, for an eighth of that time: it is late by less than
//! that, and would have polled for all of it. One that has [`DEEP`] requests more under way sleeps for as long as completions have lately taken, be
//! that less: the host has work meanwhile, and what it leaves to the host and its switches is what bounds them.
//!
//! It is a thread that waits, whichever queues it polls in turn: one of them has a completion, and the wait is over.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Polls without a completion that cost nothing.
const EMPTY_POLLS: u32 = 32;
/// After so many a program sleeps for a moment at each: programs of many processes that all poll would keep hosts and switches from running
/// for longer than their peers wait.
const IDLE_POLLS: u32 = 2048;
/// It does so at once if it takes so long until this program has its processor again: others need it.
const CROWDED: Duration = Duration::from_micros(200);
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(100);
/// Waits of this length are slept through.
const LONG_NS: u64 = 2_000_000;
/// Waits of this length are slept through by a program that has much under way; a sleep takes some 60 us longer than it was asked to.
const DEEP_NS: u64 = 40_000;
/// So many requests under way are much.
const DEEP: u32 = 16;
/// The longest sleep of such a wait.
const NAP_NS_MAX: u64 = 500_000;
/// Parts of a usual wait that a sleep is one of.
const NAPS_A_WAIT: u64 = 8;

/// How a thread waits for completions.
#[derive(Debug)]
struct Patience {
    /// Polls without a completion since the last one with any.
    empty_polls: Cell<u32>,
    /// When the wait began, once it has lasted for some polls.
    began: Cell<Option<Instant>>,
    /// How long waits have been lately, nanoseconds.
    usual_ns: Cell<u64>,
    /// Requests that were still under way when one was last completed, in its send queue.
    under_way: Cell<u32>,
}

thread_local! {
    static PATIENCE: Patience = const { Patience::new() };
}

/// A poll of this thread's has found something.
pub(crate) fn found() {
    PATIENCE.with(Patience::found);
}

/// It was of a request that was sent, and so many are under way in its queue.
pub(crate) fn sent(under_way: u32) {
    PATIENCE.with(|patience| patience.under_way.set(under_way));
}

/// A poll of this thread's has found nothing.
pub(crate) fn wait() {
    PATIENCE.with(Patience::wait);
}

/// How long a poll sleeps of a wait that is usually so long, with so many requests under way.
fn nap_ns(usual_ns: u64, under_way: u32) -> Option<u64> {
    match usual_ns {
        LONG_NS.. => Some((usual_ns / NAPS_A_WAIT).min(NAP_NS_MAX)),
        DEEP_NS.. if under_way >= DEEP => Some(usual_ns.min(NAP_NS_MAX)),
        _ => None,
    }
}

/// The usual wait after one more of `ns`.
fn usual_after(usual_ns: u64, ns: u64) -> u64 {
    usual_ns / 2 + ns / 2
}

impl Patience {
    const fn new() -> Self {
        Self {
            empty_polls: Cell::new(0),
            began: Cell::new(None),
            usual_ns: Cell::new(0),
            under_way: Cell::new(0),
        }
    }

    fn found(&self) {
        if self.empty_polls.replace(0) == 0 {
            return;
        }
        let waited = self.began.take().map_or(0, |began| {
            u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
        });
        self.usual_ns.set(usual_after(self.usual_ns.get(), waited));
    }

    fn wait(&self) {
        let empty = self.empty_polls.get();
        if empty < IDLE_POLLS {
            self.empty_polls.set(empty + 1);
        }
        if empty < EMPTY_POLLS {
            return;
        }
        let now = Instant::now();
        if empty == EMPTY_POLLS {
            self.began.set(Some(now));
        }
        if let Some(nap) = nap_ns(self.usual_ns.get(), self.under_way.get()) {
            return std::thread::sleep(Duration::from_nanos(nap));
        }
        std::thread::yield_now();
        if empty >= IDLE_POLLS || now.elapsed() >= CROWDED {
            std::thread::sleep(NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usual wait after these.
    fn usual(waits: impl IntoIterator<Item = u64>) -> u64 {
        waits.into_iter().fold(0, usual_after)
    }

    #[test]
    fn long_waits_are_slept_through_in_parts_and_short_ones_not() {
        assert_eq!(nap_ns(usual([60_000; 100]), 1), None);
        assert_eq!(nap_ns(usual([2_400_000; 100]), 1), Some(299_999));
        assert_eq!(nap_ns(usual([9_000_000; 3]), 1), Some(500_000));
    }

    #[test]
    fn waits_of_a_program_that_has_much_under_way_are_slept_through_whole_and_the_shortest_not() {
        assert_eq!(nap_ns(usual([100_000; 100]), DEEP - 1), None);
        assert_eq!(nap_ns(usual([100_000; 100]), DEEP), Some(99_999));
        assert_eq!(nap_ns(usual([1_800_000; 100]), DEEP), Some(500_000));
        assert_eq!(nap_ns(usual([20_000; 100]), DEEP), None);
    }

    #[test]
    fn a_program_whose_waits_become_short_polls_again_soon() {
        let long = std::iter::repeat_n(9_000_000, 10);
        let short = std::iter::repeat_n(20_000, 3);
        assert!(nap_ns(usual(long.clone()), 1).is_some());
        assert_eq!(nap_ns(usual(long.chain(short)), 1), None);
    }

    #[test]
    fn a_wait_is_measured_from_when_polls_have_been_in_vain_for_long_to_a_completion() {
        let patience = Patience::new();
        for _ in 0..=EMPTY_POLLS {
            patience.wait();
        }
        let began = patience.began.get().expect("it has begun");
        let earlier = began.checked_sub(Duration::from_millis(4));
        patience.began.set(earlier);
        patience.found();
        let usual = patience.usual_ns.get();
        assert!(usual >= 2_000_000, "{usual}");
        patience.found();
        assert_eq!(patience.usual_ns.get(), usual, "nobody has waited");
    }
}
