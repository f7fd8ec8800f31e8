//! How long a thread looks at shared memory before it sleeps.
//!
//! To be woken costs several microseconds and a system call of the peer's; to look costs nanoseconds, and a core. So a thread looks for
//! longer when a sleep was short or a look was worth it, and for less after a long sleep, so that one who is sent a packet now and then looks while
//! the answer is under way, and one who only hears keep-alives sleeps at once. (KVM's halt polling is like it.) Between looks it offers its
//! core to others: if one takes it, no core is free, and the thread does not look ahead for a while.

use link::Time;

/// The longest look, and the longest sleep that looking would have saved, nanoseconds.
const LOOK_NS_MAX: u64 = 50_000;

/// The shortest look that is worth it, nanoseconds.
const LOOK_NS_MIN: u64 = 4_000;

/// Who offers its core and gets it back later than this has had company, nanoseconds.
const COMPANY_NS: u64 = 10_000;

/// How long a thread that had company sleeps at once, nanoseconds.
const REST_NS: u64 = 5_000_000;

/// What a thread has learned of its sleeps.
#[derive(Debug, Default)]
pub(super) struct Spin {
    look_ns: u64,
    rests_until: Time,
}

impl Spin {
    /// How long to look now, nanoseconds.
    pub(super) fn look_ns(&self, now: Time) -> u64 {
        match self.rests_until <= now {
            true => self.look_ns,
            false => 0,
        }
    }

    /// The core was offered to others, and came back after so long. Whether to go on looking.
    pub(super) fn offered(&mut self, now: Time, ns: u64) -> bool {
        let is_free = ns <= COMPANY_NS;
        if !is_free {
            self.rests_until = now + REST_NS;
        }
        is_free
    }

    /// Something came while the thread looked.
    pub(super) fn found(&mut self) {
        self.look_ns = (2 * self.look_ns).min(LOOK_NS_MAX);
    }

    /// The thread slept for so long, and then there was something in shared memory or not.
    pub(super) fn slept(&mut self, ns: u64, has_come: bool) {
        if ns > LOOK_NS_MAX {
            let less = self.look_ns / 2;
            self.look_ns = if less < LOOK_NS_MIN { 0 } else { less };
        } else if has_come {
            self.look_ns = (4 * self.look_ns).clamp(2 * LOOK_NS_MIN, LOOK_NS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_make_a_thread_look_longer_and_long_ones_less_until_not_at_all() {
        let mut spin = Spin::default();
        let now = Time(1);
        assert_eq!(spin.look_ns(now), 0);
        spin.slept(10_000, false);
        assert_eq!(spin.look_ns(now), 0, "a deadline has woken it");
        let looks = [(); 3].map(|()| {
            spin.slept(10_000, true);
            spin.look_ns(now)
        });
        assert_eq!(looks, [8_000, 32_000, 50_000]);
        let looks = [(); 4].map(|()| {
            spin.slept(LOOK_NS_MAX + 1, true);
            spin.look_ns(now)
        });
        assert_eq!(looks, [25_000, 12_500, 6_250, 0]);
    }

    #[test]
    fn who_waits_for_answers_now_and_then_goes_on_looking() {
        let mut spin = Spin::default();
        spin.slept(10_000, true);
        for _ in 0..100 {
            spin.found();
            assert_eq!(spin.look_ns(Time(0)), 16_000);
            spin.slept(1_000_000, true);
        }
    }

    #[test]
    fn a_thread_whose_core_others_want_sleeps_at_once_for_a_while() {
        let mut spin = Spin::default();
        spin.slept(1_000, true);
        assert!(spin.offered(Time(0), 500));
        assert_eq!(spin.look_ns(Time(0)), 2 * LOOK_NS_MIN);
        assert!(!spin.offered(Time(0), COMPANY_NS + 1));
        assert_eq!(spin.look_ns(Time(REST_NS - 1)), 0);
        assert_eq!(spin.look_ns(Time(REST_NS)), 2 * LOOK_NS_MIN);
    }
}
