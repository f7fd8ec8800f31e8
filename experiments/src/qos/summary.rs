//! Points that differ by their run only, summarised.

use routing::qos::Layout;

use crate::experiment::mean;
use crate::qos::lists::{ByLevel, Counts, LEVELS};
use crate::qos::plan::BestEffort;
use crate::qos::point::{Point, is_better};
use sim::real;

/// All runs of a point.
#[derive(Clone, Debug)]
pub(super) struct Summary<'a> {
    /// The first of them.
    pub(super) first: &'a Point,
    /// All of them.
    pub(super) points: Vec<&'a Point>,
    /// Packets by delay.
    pub(super) delays: ByLevel,
    /// Packets by jitter.
    pub(super) jitter: ByLevel,
    /// The best connection of all runs.
    pub(super) best: ByLevel,
    /// The worst connection of all runs.
    pub(super) worst: ByLevel,
    /// Rates of these, bit/s.
    pub(super) extremes_bps: [[u64; 2]; LEVELS],
}

/// Points by what they are, in their order, their runs summarised.
pub(super) fn summaries(points: &[Point]) -> Vec<Summary<'_>> {
    let mut summaries: Vec<Summary<'_>> = Vec::new();
    for point in points {
        let known = summaries
            .iter_mut()
            .find(|summary| key(summary.first) == key(point));
        match known {
            Some(summary) => summary.add(point),
            None => summaries.push(Summary::new(point)),
        }
    }
    summaries
}

fn key(point: &Point) -> (&str, u16, Layout, BestEffort, u32) {
    (
        &point.topology,
        point.packet_bytes,
        point.layout,
        point.best_effort,
        point.tries,
    )
}

impl<'a> Summary<'a> {
    fn new(point: &'a Point) -> Self {
        let rate = |rates: &Counts, level: usize| rates.0.get(level).copied().unwrap_or(0);
        Self {
            first: point,
            points: vec![point],
            delays: point.delays_by_sl.clone(),
            jitter: point.jitter_by_sl.clone(),
            best: point.best_by_sl.clone(),
            worst: point.worst_by_sl.clone(),
            extremes_bps: core::array::from_fn(|level| {
                [&point.best_bps_by_sl, &point.worst_bps_by_sl].map(|rates| rate(rates, level))
            }),
        }
    }

    fn add(&mut self, point: &'a Point) {
        let other = Self::new(point);
        self.points.push(point);
        self.delays.add(&other.delays);
        self.jitter.add(&other.jitter);
        for level in 0..LEVELS {
            let [best, worst] = other.extremes_bps[level];
            if is_better(&other.best.0[level], &self.best.0[level]) {
                self.best.0[level] = other.best.0[level].clone();
                self.extremes_bps[level][0] = best;
            }
            if is_better(&self.worst.0[level], &other.worst.0[level]) {
                self.worst.0[level] = other.worst.0[level].clone();
                self.extremes_bps[level][1] = worst;
            }
        }
    }

    /// The mean over the runs.
    pub(super) fn mean(&self, value: impl Fn(&Point) -> f64) -> f64 {
        mean(self.points.iter().map(|point| value(point))).unwrap_or(0.0)
    }

    /// The mean delay of a service level in inter-arrival times.
    pub(super) fn delay_mean(&self, level: usize) -> f64 {
        let parts = self.points.iter().map(|point| {
            let packets = real(point.delays_by_sl.0[level].sum());
            let mean = point.delay_mean_iat_ppm_by_sl.0.get(level);
            (packets, packets * real(mean.copied().unwrap_or(0)) / 1e6)
        });
        let (packets, sum) =
            parts.fold((0.0, 0.0), |(n, s), (packets, sum)| (n + packets, s + sum));
        if packets > 0.0 { sum / packets } else { 0.0 }
    }

    /// The longest delay of a service level in inter-arrival times.
    pub(super) fn delay_max(&self, level: usize) -> f64 {
        real(self.most(level, |point| &point.delay_max_iat_ppm_by_sl)) / 1e6
    }

    /// The longest delay of a service level, nanoseconds.
    pub(super) fn delay_max_ns(&self, level: usize) -> u64 {
        self.most(level, |point| &point.delay_max_ns_by_sl)
    }

    fn most(&self, level: usize, list: impl Fn(&Point) -> &Counts) -> u64 {
        let values = self
            .points
            .iter()
            .filter_map(|point| list(point).0.get(level).copied());
        values.max().unwrap_or(0)
    }

    /// The fewest and the most connections established.
    pub(super) fn established(&self) -> [u32; 2] {
        let counts = self.points.iter().map(|point| point.established);
        [counts.clone().min(), counts.max()].map(Option::unwrap_or_default)
    }

    /// How busy each link of a list is, 0 to 1, the mean over the runs.
    pub(super) fn utilisation(&self, list: impl Fn(&Point) -> &Counts) -> Vec<f64> {
        let mut sums = Counts::default();
        for point in &self.points {
            sums.add(list(point));
        }
        let time: f64 = self
            .points
            .iter()
            .map(|point| real(point.measured_ns) / point.byte_ns)
            .sum();
        sums.0.iter().map(|&bytes| real(bytes) / time).collect()
    }
}

/// The shares of packets up to each threshold, percent.
pub(super) fn percents(counts: &Counts, thresholds: usize) -> Vec<f64> {
    let share = |place| 100.0 * counts.share_up_to(place);
    (0..thresholds).map(share).collect()
}
