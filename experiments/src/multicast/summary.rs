//! Times of all draws of a point, and ratios of schemes that saw the same draws.

use crate::experiment::mean;
use crate::multicast::Point;
use crate::multicast::plan::{Delivery, Grouping, MulticastPlan, Share};
use sim::real;

/// The longest message that counts as small, bytes: the paper shows small and large sizes apart.
pub(super) const SMALL_BYTES_MAX: u32 = 2048;

/// The traffic of a point: sources, groups, size of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) grouping: Grouping,
    pub(super) sources: Share,
    pub(super) groups: Share,
    pub(super) size_bytes: u32,
}

impl Case {
    fn of(point: &Point) -> Self {
        Self {
            grouping: point.grouping,
            sources: point.sources,
            groups: point.groups,
            size_bytes: point.size_bytes,
        }
    }

    /// `40%-to-10%, 1024 bytes`.
    pub(super) fn name(&self) -> String {
        let Self { size_bytes, .. } = self;
        format!("{}, {size_bytes} bytes", self.traffic())
    }

    /// `40%-to-10%`.
    pub(super) fn traffic(&self) -> String {
        let common = match self.grouping {
            Grouping::Own => "",
            Grouping::Common => " (one common group)",
        };
        format!("{}-to-{}{common}", self.sources, self.groups)
    }
}

/// The time of a scheme over that of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Of the sums over all draws that both have seen.
    pub(super) mean: f64,
    /// The least of any draw.
    pub(super) min: f64,
    /// The most of any draw.
    pub(super) max: f64,
}

/// A plan and its points.
pub(super) struct Summary<'a> {
    pub(super) plan: &'a MulticastPlan,
    pub(super) points: &'a [Point],
}

impl Summary<'_> {
    /// Times of the draws of a scheme, by number of the draw, nanoseconds.
    fn times(&self, case: &Case, scheme: Delivery) -> Vec<(u32, f64)> {
        let here = self.points.iter();
        let here = here.filter(|point| point.scheme == scheme && Case::of(point) == *case);
        here.map(|point| (point.run, real(point.completion_ns)))
            .collect()
    }

    /// Mean time of a scheme over its draws, nanoseconds.
    pub(super) fn mean_ns(&self, case: &Case, scheme: Delivery) -> Option<f64> {
        mean(self.times(case, scheme).into_iter().map(|(_, ns)| ns))
    }

    /// How many draws of a scheme there are.
    pub(super) fn draws(&self, case: &Case, scheme: Delivery) -> usize {
        self.times(case, scheme).len()
    }

    /// How much longer `scheme` takes than `over` on the same draws.
    pub(super) fn ratio(&self, case: &Case, scheme: Delivery, over: Delivery) -> Option<Ratio> {
        let (times, others) = (self.times(case, scheme), self.times(case, over));
        let pairs = times.iter().filter_map(|&(run, ns)| {
            let other = others.iter().find(|&&(other, _)| other == run)?;
            Some((ns, other.1))
        });
        let pairs: Vec<(f64, f64)> = pairs.filter(|pair| pair.1 > 0.0).collect();
        if pairs.is_empty() {
            return None;
        }
        let (sum, other) = pairs
            .iter()
            .fold((0.0, 0.0), |(a, b), pair| (a + pair.0, b + pair.1));
        let ratios = pairs.iter().map(|pair| pair.0 / pair.1);
        let (min, max) = ratios.fold((f64::INFINITY, 0.0f64), |(min, max), ratio| {
            (min.min(ratio), max.max(ratio))
        });
        let mean = sum / other;
        Some(Ratio { mean, min, max })
    }

    /// The grouping that statements and bands are about.
    pub(super) fn main_grouping(&self) -> Grouping {
        let first = self.plan.grouping.first().copied();
        first.unwrap_or(Grouping::Own)
    }

    /// All cases of a grouping, in the order of the results.
    pub(super) fn cases(&self, grouping: Grouping) -> Vec<Case> {
        let mut cases = Vec::new();
        for &sources in &self.plan.sources {
            for &groups in &self.plan.groups {
                cases.extend(self.plan.sizes_bytes.iter().map(|&size_bytes| Case {
                    grouping,
                    sources,
                    groups,
                    size_bytes,
                }));
            }
        }
        cases
    }
}
