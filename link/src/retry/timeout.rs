//! How long to wait for an acknowledgement: RFC 6298, with other limits.

use crate::Time;

/// A timeout, and the round trips that it follows.
#[derive(Clone, Debug, Default)]
#[cfg_attr(test, derive(PartialEq, Eq, PartialOrd, Ord))]
pub struct Timeout {
    /// Smoothed round trip and its variation, nanoseconds, once there is one.
    round_trip_ns: Option<(u64, u64)>,
    /// How often in a row it has passed.
    passed: u32,
    /// When it passes.
    at: Option<Time>,
    /// A position whose acknowledgement is timed, and since when. Never one that was sent twice (Karn).
    timed: Option<(u64, Time)>,
}

impl Timeout {
    /// The shortest, nanoseconds: longer than a peer keeps an acknowledgement and than a busy machine has it wait.
    pub const LEAST_NS: u64 = 20_000_000;
    /// The longest, nanoseconds: half of the silence after which a link goes down, unless that is set otherwise.
    pub const MOST_NS: u64 = 500_000_000;
    /// The first, nanoseconds.
    const FIRST_NS: u64 = 50_000_000;

    /// So many in a row take about a second.
    const SILENT: u32 = 5;

    fn length_ns(&self) -> u64 {
        let base = match self.round_trip_ns {
            Some((smoothed, variation)) => smoothed + 4 * variation,
            None => Self::FIRST_NS,
        };
        let doubled = base
            .max(Self::LEAST_NS)
            .saturating_mul(1 << self.passed.min(6));
        doubled.min(Self::MOST_NS)
    }

    pub(super) fn at(&self) -> Option<Time> {
        self.at
    }

    /// Whether it has passed so often that a peer or its network is gone.
    pub(super) fn is_silent(&self) -> bool {
        self.passed >= Self::SILENT
    }

    /// Something up to `end` was sent, for the first time or not.
    pub(super) fn sent(&mut self, now: Time, end: u64, is_repeated: bool) {
        if self.at.is_none() {
            self.at = Some(now + self.length_ns());
        }
        if self.timed.is_none() && !is_repeated {
            self.timed = Some((end, now));
        }
    }

    /// Everything up to `position` is acknowledged; `is_all` if nothing more is under way.
    pub(super) fn acknowledged(&mut self, now: Time, position: u64, is_all: bool) {
        self.passed = 0;
        if let Some((end, since)) = self.timed
            && position >= end
        {
            self.timed = None;
            self.sample(now.since_ns(since));
        }
        self.at = (!is_all).then(|| now + self.length_ns());
    }

    fn sample(&mut self, round_trip_ns: u64) {
        // Absurd ones would overflow what follows.
        let measured = round_trip_ns.min(60 * Self::MOST_NS);
        self.round_trip_ns = Some(match self.round_trip_ns {
            None => (measured, measured / 2),
            Some((smoothed, variation)) => (
                (7 * smoothed + measured) / 8,
                (3 * variation + smoothed.abs_diff(measured)) / 4,
            ),
        });
    }

    /// Everything is sent again: what is timed is not told from its repetition.
    pub(super) fn restart(&mut self) {
        self.at = None;
        self.timed = None;
    }

    /// Whether it has passed at `now`; if so, the next one is longer.
    pub(super) fn passes(&mut self, now: Time) -> bool {
        let passes = self.at.is_some_and(|at| at <= now);
        if passes {
            self.passed = self.passed.saturating_add(1);
            self.at = None;
        }
        passes
    }
}
