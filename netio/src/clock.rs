//! The clock that all daemons of a machine share.

use link::Time;

/// Now, in nanoseconds of `CLOCK_MONOTONIC`: the origin is the machine's start, so that times of
/// different daemons of one machine can be compared.
#[must_use]
pub fn now() -> Time {
    let mut spec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `spec` is a valid timespec to write to; CLOCK_MONOTONIC always exists, so the call
    // cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut spec) };
    let seconds = u64::try_from(spec.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(spec.tv_nsec).unwrap_or(0);
    Time(seconds * 1_000_000_000 + nanoseconds)
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
