//! One plan or several, from start to results.

use core::ops::Range;
use std::collections::BTreeSet;
use std::path::Path;

use crate::error::ExperimentError;
use crate::plan::Plan;
use crate::run::{Job, Options, Results, run_all, run_part};

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
    Ok(run_all(
        &jobs(plans, options, out)?,
        options.threads,
        progress,
    ))
}

/// Runs a part of the points of several plans, counted through in their order, and writes nothing but the checkpoints
/// of these points: [`batch`] then takes them as they are, on whichever machine they were made.
///
/// # Errors
/// As [`batch`], and of a point that fails.
pub fn part(
    plans: &[Plan],
    options: Options,
    out: &Path,
    part: Range<usize>,
) -> Result<(), ExperimentError> {
    run_part(&jobs(plans, options, out)?, part, options.threads)
}

fn jobs(
    plans: &[Plan],
    options: Options,
    out: &Path,
) -> Result<Vec<Box<dyn Job>>, ExperimentError> {
    let mut names = BTreeSet::new();
    if let Some(again) = plans.iter().find(|plan| !names.insert(plan.name())) {
        return Err(ExperimentError::SameName(again.name().to_owned()));
    }
    plans.iter().map(|plan| plan.job(options, out)).collect()
}
