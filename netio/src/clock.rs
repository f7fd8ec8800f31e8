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
