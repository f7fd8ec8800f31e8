//! Means over the graphs of a size, and how far they can be trusted.

use routing::lid_assignment::Scheme;

use crate::lids::Point;
use crate::lids::plan::{LidsPlan, Measure, RoutingScheme};
use crate::lids::reading::Interpretation;
use crate::lids::size::Size;
use sim::real;

/// Mean and spread over the graphs of a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Mean.
    pub(super) mean: f64,
    /// Half the width of the interval around the mean that holds it with 95 % probability, by
    /// Student's t; 0 of a single graph.
    pub(super) margin: f64,
    /// Standard deviation from graph to graph; 0 of a single graph.
    pub(super) deviation: f64,
}

impl Sample {
    /// Of at least one value.
    fn of(values: &[f64]) -> Option<Self> {
        let count = real(u64::try_from(values.len()).ok()?);
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Self {
                mean,
                margin: 0.0,
                deviation: 0.0,
            }),
            _ => {
                let squares = values.iter().map(|value| (value - mean) * (value - mean));
                let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
                Some(Self {
                    mean,
                    margin: student_t(count - 1.0) * deviation / count.sqrt(),
                    deviation,
                })
            }
        }
    }
}

/// The 97.5 % quantile of Student's t from 2 degrees of freedom on, within 3 %, from 5 on within
/// 0.2 % (the series of Cornish and Fisher around the normal quantile).
fn student_t(freedom: f64) -> f64 {
    let z = 1.959_964_f64;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// The points of a plan in one reading.
pub(super) struct Summary<'a> {
    pub(super) plan: &'a LidsPlan,
    pub(super) reading: Interpretation,
    points: Vec<&'a Point>,
}

impl<'a> Summary<'a> {
    /// One of each reading of a plan.
    pub(super) fn all(plan: &'a LidsPlan, points: &'a [Point]) -> Vec<Self> {
        let summary = |&reading: &Interpretation| {
            let name = reading.to_string();
            let here = points.iter().filter(|point| point.reading == name);
            Self {
                plan,
                reading,
                points: here.collect(),
            }
        };
        plan.reading.iter().map(summary).collect()
    }

    /// A scheme's mean and spread on a size; `None` without points.
    pub(super) fn sample(
        &self,
        size: Size,
        scheme: &RoutingScheme,
        measure: Measure,
    ) -> Option<Sample> {
        let here = self.points.iter().filter(|point| {
            (point.hosts, point.switches) == (size.hosts, size.switches)
                && point.routing == scheme.routing
        });
        let values: Option<Vec<f64>> = here
            .map(|point| match measure {
                Measure::Load => Some(point.load_max),
                Measure::Lids => point.lids(scheme.assign).map(f64::from),
            })
            .collect();
        Sample::of(&values?)
    }

    /// The mean of the scheme of that name.
    pub(super) fn mean(&self, size: Size, name: &str, measure: Measure) -> Option<f64> {
        let scheme = self.plan.scheme.iter().find(|one| one.name == name)?;
        Some(self.sample(size, scheme, measure)?.mean)
    }

    /// The paper's result.
    pub(super) fn reference(&self, size: Size, scheme: usize, measure: Measure) -> Option<f64> {
        let mut references = self.plan.reference.iter();
        let reference = references.find(|reference| reference.size == size)?;
        reference.of(measure).get(scheme).copied()
    }
}

impl Point {
    /// The LIDs by one assignment.
    fn lids(&self, assign: Scheme) -> Option<u32> {
        match assign {
            Scheme::Greedy => Some(self.lids_greedy),
            Scheme::SplitMergeS => Some(self.lids_split_merge_s),
            Scheme::SplitMergeL => Some(self.lids_split_merge_l),
            Scheme::ColorS => Some(self.lids_color_s),
            Scheme::ColorL => Some(self.lids_color_l),
            Scheme::Exact => self.lids_exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_students_t() {
        for (freedom, table, part) in [
            (2.0, 4.303, 0.04),
            (5.0, 2.571, 0.002),
            (15.0, 2.131, 0.001),
            (31.0, 2.040, 0.001),
        ] {
            let t = student_t(freedom);
            assert!((t / table - 1.0).abs() < part, "{freedom}: {t}");
        }
    }

    #[test]
    fn mean_and_deviation_are_those_of_a_worked_example() {
        let sample = Sample::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((sample.mean - 5.0).abs() < 1e-12);
        assert!((sample.deviation - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!((sample.margin / (2.3646 * sample.deviation / 8f64.sqrt()) - 1.0).abs() < 1e-3);
        assert_eq!(Sample::of(&[]), None);
    }
}
