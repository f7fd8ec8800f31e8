//! How long an answer may take, by how long answers have taken: the smoothed round trip and four times its variation
//! (RFC 6298, section 2), within bounds.

/// No first attempt waits longer, nanoseconds.
const TIMEOUT_NS_MAX: u64 = 2_000_000_000;

/// The round trips so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    timeout_ns_min: u64,
    /// SRTT and RTTVAR, nanoseconds; `None` before the first measurement.
    smoothed: Option<(u64, u64)>,
}

impl RoundTrip {
    /// Nothing measured yet. No timeout is below `timeout_ns_min`.
    pub(super) fn new(timeout_ns_min: u64) -> Self {
        Self {
            timeout_ns_min,
            smoothed: None,
        }
    }

    /// An answer has come after `round_trip_ns`.
    pub(super) fn measured(&mut self, round_trip_ns: u64) {
        self.smoothed = Some(match self.smoothed {
            None => (round_trip_ns, round_trip_ns / 2),
            Some((smoothed, variation)) => {
                let off = smoothed.abs_diff(round_trip_ns);
                let variation = variation - variation / 4 + off / 4;
                (smoothed - smoothed / 8 + round_trip_ns / 8, variation)
            }
        });
    }

    /// How long to wait for an answer.
    pub(super) fn timeout_ns(&self) -> u64 {
        let (smoothed, variation) = self.smoothed.unwrap_or_default();
        let wanted = smoothed.saturating_add(variation.saturating_mul(4));
        wanted.min(TIMEOUT_NS_MAX).max(self.timeout_ns_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_timeout_is_the_smoothed_round_trip_and_four_variations() {
        let mut trips = RoundTrip::new(MS);
        assert_eq!(trips.timeout_ns(), MS);
        trips.measured(80 * MS);
        assert_eq!(trips.timeout_ns(), (80 + 4 * 40) * MS);
        trips.measured(160 * MS);
        // RTTVAR 3/4 * 40 + 1/4 * 80, SRTT 7/8 * 80 + 1/8 * 160.
        assert_eq!(trips.timeout_ns(), (90 + 4 * 50) * MS);
    }

    #[test]
    fn it_stays_within_its_bounds_and_comes_near_to_round_trips_that_are_all_the_same() {
        let mut trips = RoundTrip::new(20 * MS);
        trips.measured(u64::MAX);
        assert_eq!(trips.timeout_ns(), TIMEOUT_NS_MAX);
        let mut trips = RoundTrip::new(20 * MS);
        for _ in 0..200 {
            trips.measured(100 * MS);
        }
        assert!(
            (100 * MS..101 * MS).contains(&trips.timeout_ns()),
            "{trips:?}"
        );
        for _ in 0..200 {
            trips.measured(MS);
        }
        assert_eq!(trips.timeout_ns(), 20 * MS);
    }
}
