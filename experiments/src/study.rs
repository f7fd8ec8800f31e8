//! Kinds that do their own head, `[quick]` and numbering, as kinds of the core ([`Own`]).

use core::fmt::Debug;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ExperimentError;
use crate::axes::Axis;
use crate::document::Document;
pub(crate) use crate::experiment::{Experiment, Refusal, Verdict, rounded};
use crate::figure::Figure;
use crate::plan::PlanError;
use crate::variant::{AnyVariant, Variant};

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

/// A kind of experiment, as its plan is read from TOML.
///
/// Points are numbered in the order of the results. Each is a function of the plan, its number
/// and the seed alone: any thread may run it at any time, and what was run before is taken from
/// where it was kept. `Debug` must show all that results depend on: kept points are told apart
/// by it.
pub(crate) trait Study: DeserializeOwned + Debug + Send + Sync + 'static {
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

/// A kind that numbers its points itself, along one axis.
#[derive(Debug)]
pub(crate) struct Own<S>(pub(crate) S);

impl<S: Study> Experiment<1> for Own<S> {
    type Point = S::Point;
    type Shared = S::Shared;

    fn check(&self) -> Result<(), Refusal> {
        self.0.check()
    }

    fn axes(&self) -> [Axis; 1] {
        [Axis::count(
            "runs",
            u32::try_from(self.0.points()).unwrap_or(u32::MAX),
        )]
    }

    fn label(&self, [at]: [usize; 1]) -> String {
        self.0.label(at)
    }

    fn share(&self, seed: u64) -> Result<S::Shared, ExperimentError> {
        self.0.share(seed)
    }

    fn run(
        &self,
        shared: &S::Shared,
        [at]: [usize; 1],
        seed: u64,
    ) -> Result<S::Point, ExperimentError> {
        self.0.run(shared, at, seed)
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        let mut conditions = self.0.conditions();
        conditions.retain(|(name, _)| *name != "Notes");
        conditions
    }

    fn judge(&self, points: &[S::Point]) -> Vec<Verdict> {
        self.0.judge(points)
    }

    fn figures(&self, points: &[S::Point]) -> Vec<Figure> {
        self.0.figures(points)
    }
}

/// Reads both variants of a plan of such a kind, which lays its `quick` over itself.
///
/// # Errors
/// [`PlanError`]: where it is wrong, and what is allowed.
pub(crate) fn own<S: Study>(
    documents: [Document<'_>; 2],
    text: &str,
) -> Result<[Arc<dyn AnyVariant>; 2], PlanError> {
    let [mut whole, mut quick] = documents;
    let plan: S = whole.read_text(text)?;
    plan.check().map_err(|refusal| whole.refuse(refusal))?;
    let reduced = plan.reduced();
    let head = whole.take_head()?;
    let whole = Variant::new(&whole, head, Own(plan))?;
    let head = quick.take_head()?;
    let quick = Variant::new(&quick, head, Own(reduced))?;
    Ok([Arc::new(whole), Arc::new(quick)])
}
