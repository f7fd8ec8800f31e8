//! Plans under way: their points run by any threads in any order, their results written at the
//! end of each.

use core::fmt::Debug;
use core::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::ExperimentError;
use crate::statement::Statement;

/// How a plan is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The reduced plan.
    pub quick: bool,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Points run side by side.
    pub threads: usize,
}

/// What a plan has given.
#[derive(Clone, Debug)]
pub struct Results {
    /// How many points there are.
    pub points: usize,
    /// What was expected, and whether it holds.
    pub statements: Vec<Statement>,
    /// The files written: CSV, JSON, HTML.
    pub files: [PathBuf; 3],
}

/// A plan under way, whatever kind it is.
pub(crate) trait Job: Debug + Send + Sync {
    /// How many points it has.
    fn points(&self) -> usize;
    /// Runs a point, unless it has a checkpoint, and writes one.
    fn run(&self, point: usize) -> Result<(), ExperimentError>;
    /// Judges all points and writes the results; checkpoints are removed.
    fn finish(&self) -> Result<Results, ExperimentError>;
}

/// A job among others and how far it is.
struct Running<'a> {
    job: &'a dyn Job,
    left: AtomicUsize,
    failed: AtomicBool,
    outcome: Mutex<Option<Result<Results, ExperimentError>>>,
}

impl Running<'_> {
    /// Runs a point; the last one of a job writes its results. A job that has failed does no more.
    fn step(&self, at: usize) {
        if !self.failed.load(Ordering::Relaxed)
            && let Err(error) = self.job.run(at)
        {
            self.failed.store(true, Ordering::Relaxed);
            lock(&self.outcome).get_or_insert(Err(error));
        }
        let is_last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && !self.failed.load(Ordering::Relaxed) {
            let results = self.job.finish();
            lock(&self.outcome).get_or_insert(results);
        }
    }
}

/// Runs all points of all jobs on so many threads, and writes the results of each; `progress` is
/// told how many of how many points are done. What comes of each, in their order.
pub(crate) fn run_all(
    jobs: &[Box<dyn Job>],
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Result<Results, ExperimentError>> {
    let running: Vec<Running<'_>> = jobs
        .iter()
        .map(|job| Running {
            job: &**job,
            left: AtomicUsize::new(job.points()),
            failed: AtomicBool::new(false),
            outcome: Mutex::new(None),
        })
        .collect();
    let tasks = running
        .iter()
        .flat_map(|job| (0..job.job.points()).map(move |at| (job, at)));
    let tasks: Vec<(&Running<'_>, usize)> = tasks.collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    progress(0, tasks.len());
    let work = || {
        while let Some(&(job, at)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            job.step(at);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, tasks.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let outcomes = running.into_iter().map(|job| {
        let outcome = job.outcome.into_inner();
        outcome.unwrap_or_else(PoisonError::into_inner)
    });
    // A plan has at least one point, so each has an outcome.
    outcomes.flatten().collect()
}

/// Runs a part of the points of all jobs, counted through, on so many threads; only their checkpoints are written.
///
/// # Errors
/// Of a point that fails; the others of its job are left out.
pub(crate) fn run_part(
    jobs: &[Box<dyn Job>],
    part: Range<usize>,
    threads: usize,
) -> Result<(), ExperimentError> {
    let all = jobs
        .iter()
        .flat_map(|job| (0..job.points()).map(move |at| (job, at)));
    let tasks: Vec<_> = all.skip(part.start).take(part.len()).collect();
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let work = || {
        while let Some(&(job, at)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = job.run(at) {
                lock(&failed).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let failed = failed.into_inner();
    failed
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

/// What a mutex holds, though a thread has panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
