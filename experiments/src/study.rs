//! What all kinds of experiments have in common: points that are run one by one, and what is said
//! about them.

use core::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ExperimentError;
use crate::figure::Figure;

/// How an experiment presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    /// Name of the plan and of the files of its results.
    pub(crate) name: &'a str,
    /// What the report is headed.
    pub(crate) title: &'a str,
    /// Key of the paper whose result this is, and which one.
    pub(crate) paper: &'a str,
}

/// A key of a plan and what is wrong with its value.
pub(crate) type Refusal = (&'static str, String);

/// One statement about the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Verdict {
    /// What was expected.
    pub expected: String,
    /// What was measured.
    pub measured: String,
    /// Whether it holds; `None` where this run has no data for it, or nothing hangs on it.
    pub holds: Option<bool>,
}

/// A kind of experiment, as its plan is read from TOML.
///
/// Points are numbered in the order of the results. Each is a function of the plan, its number
/// and the seed alone: any thread may run it at any time, and what was run before is taken from
/// where it was kept. `Debug` must show all that results depend on: kept points are told apart
/// by it.
pub(crate) trait Study: DeserializeOwned + Debug + Send + Sync {
    /// What a point has given: a flat structure, whose fields are the columns of the CSV. Names
    /// of fields say their units; real numbers are rounded so that they read back the same.
    type Point: Serialize + DeserializeOwned + Send;
    /// What points share: fabrics, tables. Made when the first point needs it.
    type Shared: Send + Sync;

    /// How it presents itself.
    fn head(&self) -> Head<'_>;

    /// Checks every value.
    ///
    /// # Errors
    /// The first key whose value makes no sense, and what is allowed.
    fn check(&self) -> Result<(), Refusal>;

    /// The reduced plan.
    fn reduced(&self) -> Self;

    /// How many points it has.
    fn points(&self) -> usize;

    /// What a point is, for messages.
    fn label(&self, at: usize) -> String;

    /// Makes what points share.
    ///
    /// # Errors
    /// [`ExperimentError`]: what cannot be made.
    fn share(&self, seed: u64) -> Result<Self::Shared, ExperimentError>;

    /// Runs a point.
    ///
    /// # Errors
    /// [`ExperimentError`]: it cannot be set up, or a checker found what must never happen.
    fn run(
        &self,
        shared: &Self::Shared,
        at: usize,
        seed: u64,
    ) -> Result<Self::Point, ExperimentError>;

    /// The conditions that stand in the report: name and value.
    fn conditions(&self) -> Vec<(&'static str, String)>;

    /// Judges all points, in their order.
    fn judge(&self, points: &[Self::Point]) -> Vec<Verdict>;

    /// Plots and tables of the report.
    fn figures(&self, points: &[Self::Point]) -> Vec<Figure>;
}

/// To six decimals, so that what is written is what was meant and reads back the same.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}

/// Checks what every plan has.
pub(crate) fn check_head(head: Head<'_>) -> Result<(), Refusal> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    // The page over all results has that name.
    if head.name.is_empty() || !head.name.chars().all(is_name) || head.name == "index" {
        let allowed = "letters, digits and hyphens, and not \"index\"";
        return Err(("name", allowed.to_owned()));
    }
    Ok(())
}

/// Checks that lists are not empty.
pub(crate) fn check_lists(lists: &[(&'static str, bool)]) -> Result<(), Refusal> {
    match lists.iter().find(|(_, empty)| *empty) {
        Some(&(key, _)) => Err((key, "the list is empty: at least one".to_owned())),
        None => Ok(()),
    }
}
