//! One plan or several, from start to results.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::ExperimentError;
use crate::plan::Plan;
use crate::run::{Options, Results, run_all};

/// Runs a plan and writes `<plan>.csv`, `.json` and `.html` into `out`, which is made if need be.
/// `progress` is called with how many points of how many are done, from any thread.
///
/// # Errors
/// [`ExperimentError`]. Finished points have checkpoints for the next attempt.
pub fn run(
    plan: &Plan,
    options: Options,
    out: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Results, ExperimentError> {
    let mut outcomes = batch(core::slice::from_ref(plan), options, out, progress)?;
    outcomes.remove(0)
}

/// Runs several plans as [`run`] does, all their points on the same threads: a plan that fails does
/// not keep the others from their results. What comes of each, in their order.
///
/// # Errors
/// [`ExperimentError::SameName`]; [`ExperimentError::Unwritable`]: `out` cannot be written to.
pub fn batch(
    plans: &[Plan],
    options: Options,
    out: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Result<Results, ExperimentError>>, ExperimentError> {
    let mut names = BTreeSet::new();
    if let Some(again) = plans.iter().find(|plan| !names.insert(plan.name())) {
        return Err(ExperimentError::SameName(again.name().to_owned()));
    }
    let jobs: Result<Vec<_>, _> = plans.iter().map(|plan| plan.job(options, out)).collect();
    Ok(run_all(&jobs?, options.threads, progress))
}
