//! A summary of durations in little memory, however many there are.
//!
//! Buckets are as wide as a 64th of the power of two that they begin behind, so that the middle of a
//! bucket is within 0.8 % of what fell into it. A histogram over the whole range (from nanoseconds to an
//! hour) would take 18 KiB a flow; a host of a large fabric has hundreds of flows, whose durations
//! spread over a few powers of two each. So the buckets of a power of two are made when the first
//! duration falls among them: 256 bytes each.

use wire::convert::{saturate, u64_of, usize_of};

use crate::control::{Histogram, Latency};

/// Bits of a bucket's place among those of its power of two.
const SUB_BITS: u32 = 6;
/// Buckets of one power of two.
const SUB: usize = 1 << SUB_BITS;
/// The longest duration that has a bucket of its own; longer ones fall into the last: 73 minutes.
const NS_MAX: u64 = (1 << 42) - 1;
/// Groups of buckets: one of single nanoseconds below 64, one of each power of two from there on.
const GROUPS: usize = (42 - SUB_BITS + 1) as usize;

/// Counts of one power of two.
type Group = Box<[u32; SUB]>;

/// A set of durations in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    groups: [Option<Group>; GROUPS],
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    samples: u64,
}

/// The group and the place in it of the bucket that `ns` falls into.
#[inline]
fn bucket_of(ns: u64) -> (usize, usize) {
    let ns = ns.min(NS_MAX);
    let exponent = (ns | 1).ilog2().max(SUB_BITS - 1);
    let group = (exponent + 1 - SUB_BITS) as usize;
    // Below 64 the durations themselves; above, the six bits behind the highest one.
    let shift = exponent.saturating_sub(SUB_BITS);
    let place = usize_of(ns >> shift) % SUB;
    (group, place)
}

/// The middle of a bucket.
fn middle(group: usize, place: usize) -> u64 {
    let place = u64_of(place);
    match group.checked_sub(1) {
        None => place,
        Some(shift) => (((1 << SUB_BITS) + place) << shift) + (1 << shift) / 2,
    }
}

/// The number of a bucket among all, in order of what falls into them.
fn number(group: usize, place: usize) -> u16 {
    saturate::<u16>(group * SUB + place)
}

/// A summary of `samples` durations in `buckets`, which are in ascending order.
fn summary<B: Iterator<Item = (u16, u64)>>(
    samples: u64,
    sum_ns: u128,
    (min_ns, max_ns): (u64, u64),
    buckets: impl Fn() -> B,
) -> Latency {
    if samples == 0 {
        return Latency::default();
    }
    // What at least so many thousandths of the durations do not exceed.
    let quantile = |thousandths: u64| {
        let wanted = u128::from(samples) * u128::from(thousandths);
        let mut below = 0u128;
        for (bucket, count) in buckets() {
            below += u128::from(count) * 1000;
            if below >= wanted {
                let bucket = usize::from(bucket);
                let middle = middle(bucket / SUB, bucket % SUB);
                return middle.max(min_ns).min(max_ns);
            }
        }
        // Counts that have saturated.
        max_ns
    };
    Latency {
        samples,
        min_ns,
        mean_ns: saturate::<u64>(sum_ns / u128::from(samples)),
        p50_ns: quantile(500),
        p90_ns: quantile(900),
        p99_ns: quantile(990),
        p999_ns: quantile(999),
        max_ns,
    }
}

impl Histogram {
    /// Adds all durations of another one.
    pub fn add(&mut self, other: &Self) {
        if other.samples == 0 {
            return;
        }
        let is_first = self.samples == 0;
        self.min_ns = if is_first {
            other.min_ns
        } else {
            self.min_ns.min(other.min_ns)
        };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.samples = self.samples.saturating_add(other.samples);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        for (&bucket, &count) in &other.buckets {
            let all = self.buckets.entry(bucket).or_default();
            *all = all.saturating_add(count);
        }
    }

    /// The middle of each bucket that holds durations, in nanoseconds and ascending, and how many it holds.
    pub fn points(&self) -> impl Iterator<Item = (u64, u64)> {
        let last = number(GROUPS - 1, SUB - 1);
        let buckets = self.buckets.range(..=last);
        buckets.map(|(&bucket, &count)| {
            let bucket = usize::from(bucket);
            (middle(bucket / SUB, bucket % SUB), count)
        })
    }

    /// How many durations are at most this long, as far as buckets tell.
    #[must_use]
    pub fn within(&self, ns: u64) -> u64 {
        let short = self.points().take_while(|&(middle, _)| middle <= ns);
        short.map(|(_, count)| count).sum()
    }

    /// The summary of all durations.
    #[must_use]
    pub fn summary(&self) -> Latency {
        let last = number(GROUPS - 1, SUB - 1);
        let buckets = || {
            let known = self.buckets.range(..=last);
            known.map(|(&bucket, &count)| (bucket, count))
        };
        summary(
            self.samples,
            self.sum_ns,
            (self.min_ns, self.max_ns),
            buckets,
        )
    }
}

impl Durations {
    pub(crate) const fn new() -> Self {
        Self {
            groups: [const { None }; GROUPS],
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            samples: 0,
        }
    }

    /// Adds one duration.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.samples += 1;
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        let (group, place) = bucket_of(ns);
        let counts = self.groups[group].get_or_insert_with(|| Box::new([0; SUB]));
        counts[place] = counts[place].saturating_add(1);
    }

    /// The buckets that hold durations, ascending: number and count.
    fn buckets(&self) -> impl Iterator<Item = (u16, u64)> {
        self.groups.iter().zip(0..).flat_map(|(counts, group)| {
            let counts = counts.iter().flat_map(|counts| counts.iter().zip(0..));
            let filled = counts.filter(|&(&count, _)| count > 0);
            filled.map(move |(&count, place)| (number(group, place), u64::from(count)))
        })
    }

    /// Their summary.
    pub(crate) fn summary(&self) -> Latency {
        let ends = (self.min_ns, self.max_ns);
        summary(self.samples, self.sum_ns, ends, || self.buckets())
    }

    /// All of them.
    pub(crate) fn histogram(&self) -> Histogram {
        Histogram {
            samples: self.samples,
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            buckets: self.buckets().collect(),
        }
    }

    /// Bytes of the buckets that have been made.
    #[cfg(test)]
    pub(crate) fn bucket_bytes(&self) -> usize {
        self.groups.iter().flatten().count() * size_of::<[u32; SUB]>()
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
        let summary = durations.summary();
        assert_eq!((summary.max_ns, summary.p50_ns), (u64::MAX, u64::MAX));
    }

    #[test]
    fn every_duration_falls_into_a_bucket_whose_middle_is_near_it() {
        let ends =
            (0..42).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + (1 << bit) / 3]);
        for ns in ends.chain(0..5000).filter(|&ns| ns <= NS_MAX) {
            let (group, place) = bucket_of(ns);
            let middle = middle(group, place);
            assert!(middle.abs_diff(ns) * 125 <= ns, "{ns} is near {middle}");
            assert_eq!(bucket_of(middle), (group, place), "{ns}");
        }
        assert_eq!(bucket_of(u64::MAX), (GROUPS - 1, SUB - 1));
    }

    #[test]
    fn durations_of_a_few_powers_of_two_take_little_memory() {
        let mut durations = Durations::new();
        for ns in 100_000..1_000_000 {
            durations.record(ns);
        }
        assert_eq!(durations.bucket_bytes(), 4 * 256, "2^16 to 2^20");
    }
}
