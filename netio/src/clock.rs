//! The clock that all daemons of a machine share.

use std::time::{SystemTime, UNIX_EPOCH};

use link::Time;
use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds of `CLOCK_MONOTONIC`: the origin is the machine's start, so that times of
/// different daemons of one machine can be compared.
#[must_use]
pub fn now() -> Time {
    let spec = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(spec.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(spec.tv_nsec).unwrap_or(0);
    Time(seconds * 1_000_000_000 + nanoseconds)
}

/// What has to be added to times of [`now`] to have nanoseconds since 1970, as the time of day is set at the moment.
#[must_use]
pub fn monotonic_origin_ns() -> u64 {
    let sample = || {
        let before = now();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let after = now();
        let middle = before.0 + after.since_ns(before) / 2;
        let since = wire::convert::nanoseconds(since.unwrap_or_default());
        (after.since_ns(before), since.saturating_sub(middle))
    };
    // Between the clocks the thread may lose its processor: the quickest look is the best.
    let quickest = (0..16).map(|_| sample()).min();
    quickest.map_or(0, |(_, origin)| origin)
}

/// A number that is larger at each start of a process than at the one before: the time of day in
/// milliseconds, cut to 32 bits (it wraps around after 49 days).
#[must_use]
pub fn epoch() -> u32 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u32::try_from(since.as_millis() & u128::from(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_run_backwards() {
        let before = now();
        assert!(before > Time::ZERO);
        assert!(now() >= before);
    }
}
