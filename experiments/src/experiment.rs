//! What a kind of experiment is: its parameters, its axes, the run of one point, what it shows and
//! what it judges. Everything else is the same for all kinds and stands elsewhere: reading the
//! plan's file and its `[quick]` ([`document`](crate::document)), numbering points
//! ([`axes`](crate::axes)), threads and checkpoints ([`run`](mod@crate::run)), files of results.

use core::fmt::{Debug, Display};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ExperimentError;
use crate::axes::Axis;
use crate::checks::Refusal;
use crate::figure::Figure;

/// One statement about the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What was expected.
    pub(crate) expected: String,
    /// What was measured.
    pub(crate) measured: String,
    /// Whether it holds; `None` where this run has no data for it, or it is not judged.
    pub(crate) holds: Option<bool>,
}

impl Verdict {
    /// That a value is in a range of the plan, ends included.
    pub(crate) fn in_range(
        what: impl Display,
        value: f64,
        (min, max): (f64, f64),
        measured: impl Display,
    ) -> Self {
        Self {
            expected: format!("{what} from {min} to {max}"),
            measured: measured.to_string(),
            holds: Some((min..=max).contains(&value)),
        }
    }

    /// That no run has ended in a credit loop; `loops` have.
    pub(crate) fn no_credit_loop(loops: usize, points: usize) -> Self {
        Self {
            expected: "no packets wait for each other in a cycle".to_owned(),
            measured: format!("{loops} of {points} points"),
            holds: Some(loops == 0),
        }
    }
}

/// A kind of experiment with its parameters, as they are read from a plan's file: a structure with
/// `#[serde(deny_unknown_fields)]`, without the keys that all plans have
/// ([`Head`](crate::document::Head)) and without `[quick]`.
///
/// A point is a function of the parameters, its coordinates and the seed alone: any thread runs it
/// at any time, and a finished one is read from its checkpoint. `Debug` must show all that results
/// depend on: checkpoints are distinguished by it.
pub(crate) trait Experiment<const AXES: usize>: Debug + Send + Sync + 'static {
    /// The most points of one plan.
    const POINTS_MAX: usize = 20_000;

    /// What a point has given: a flat structure, whose fields are the columns of the CSV. Names
    /// of fields say their units; real numbers are rounded so that they read back the same.
    type Point: Serialize + DeserializeOwned + Send;
    /// What points share: fabrics, tables. Made when the first point needs it.
    type Shared: Send + Sync;

    /// Checks every value. That lists of axes are not empty and points not too many is checked
    /// before.
    ///
    /// # Errors
    /// The first key whose value makes no sense, and what is allowed.
    fn check(&self) -> Result<(), Refusal>;

    /// The axes, the last one running fastest: points are numbered, and stand in the results, in
    /// that order.
    fn axes(&self) -> [Axis; AXES];

    /// Whether the product of the axes has a point here that is to be run. Says so of all, unless
    /// the values along one axis depend on another's.
    fn has(&self, _at: [usize; AXES]) -> bool {
        true
    }

    /// What a point is, for messages: its value along each axis.
    fn label(&self, at: [usize; AXES]) -> String {
        let axes = self.axes();
        let values = axes.iter().zip(at).map(|(axis, place)| axis.label(place));
        values.collect::<Vec<_>>().join(", ")
    }

    /// Makes what points share.
    ///
    /// # Errors
    /// [`ExperimentError`]: what cannot be made.
    fn share(&self, seed: u64) -> Result<Self::Shared, ExperimentError>;

    /// Runs the point with these coordinates: along each axis, the place of its value.
    ///
    /// # Errors
    /// [`ExperimentError`]: it cannot be set up, or a checker found what must never happen.
    fn run(
        &self,
        shared: &Self::Shared,
        at: [usize; AXES],
        seed: u64,
    ) -> Result<Self::Point, ExperimentError>;

    /// The conditions that stand in the report: name and value.
    fn conditions(&self) -> Vec<(&'static str, String)>;

    /// Judges all points, in their order.
    fn judge(&self, points: &[Self::Point]) -> Vec<Verdict>;

    /// Plots and tables of the report.
    fn figures(&self, points: &[Self::Point]) -> Vec<Figure>;
}

/// The mean of some values; `None` without one.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values = values.into_iter();
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// To six decimals, so that what is written is what was meant and reads back the same.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}
