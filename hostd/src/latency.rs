//! A summary of durations in fixed memory, however many there are.

use hdrhistogram::Histogram;

use wire::convert::saturate;

use crate::control::Latency;

/// The longest duration of the histogram: an hour.
const NS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits of percentiles.
const DIGITS: u8 = 2;

/// A set of durations in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    /// `None` until there is a first one, which saves memory in a large fabric.
    histogram: Option<Box<Histogram<u32>>>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    samples: u64,
}

impl Durations {
    pub(crate) const fn new() -> Self {
        Self {
            histogram: None,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            samples: 0,
        }
    }

    /// Adds one duration.
    pub(crate) fn record(&mut self, ns: u64) {
        self.samples += 1;
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        if self.histogram.is_none() {
            self.histogram = Histogram::new_with_max(NS_MAX, DIGITS).ok().map(Box::new);
        }
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(ns);
        }
    }

    /// Their summary.
    pub(crate) fn summary(&self) -> Latency {
        let Some(histogram) = &self.histogram else {
            return Latency::default();
        };
        let mean_ns = self.sum_ns / u128::from(self.samples.max(1));
        // A bucket's upper end may lie above the longest duration that was seen.
        let at = |quantile| {
            histogram
                .value_at_quantile(quantile)
                .clamp(self.min_ns, self.max_ns)
        };
        Latency {
            samples: self.samples,
            min_ns: self.min_ns,
            mean_ns: saturate::<u64>(mean_ns),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_of_no_durations() {
        assert_eq!(Durations::new().summary(), Latency::default());
    }

    #[test]
    fn percentiles_have_two_digits_and_the_ends_are_exact() {
        let mut durations = Durations::new();
        for ns in 1..=100_000u64 {
            durations.record(ns);
        }
        let summary = durations.summary();
        assert_eq!((summary.min_ns, summary.max_ns), (1, 100_000));
        assert_eq!(summary.mean_ns, 50_000);
        for (found, exact) in [(summary.p50_ns, 50_000), (summary.p99_ns, 99_000)] {
            assert!(
                found.abs_diff(exact) * 100 <= exact,
                "{found} is not {exact}"
            );
        }
    }

    #[test]
    fn a_duration_beyond_the_range_saturates() {
        let mut durations = Durations::new();
        durations.record(u64::MAX);
        assert_eq!(durations.summary().max_ns, u64::MAX);
    }
}
