//! Plans under way: their points run by any threads in any order, their results written at the
//! end of each.

use core::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kept::{Kept, unwritable, write_whole};
use crate::study::Study;
use crate::{ExperimentError, Options, Results, html, output};

/// A plan under way, whatever kind it is.
pub(super) trait Job: Debug + Send + Sync {
    /// How many points it has.
    fn points(&self) -> usize;
    /// Runs a point, unless it was run before, and keeps it.
    fn run(&self, at: usize) -> Result<(), ExperimentError>;
    /// Judges all points and writes the results; what was kept goes.
    fn finish(&self) -> Result<Results, ExperimentError>;
}

struct Work<S: Study> {
    study: S,
    options: Options,
    out: PathBuf,
    kept: Kept,
    shared: Mutex<Option<Arc<S::Shared>>>,
}

impl<S: Study> Debug for Work<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Work").field(&self.study).finish()
    }
}

/// A plan whose results go to `out`, which is made if need be.
pub(super) fn job<S: Study + 'static>(
    study: S,
    options: Options,
    out: &Path,
) -> Result<Box<dyn Job>, ExperimentError> {
    let study = if options.quick {
        study.reduced()
    } else {
        study
    };
    std::fs::create_dir_all(out).map_err(|source| unwritable(out, source))?;
    let seed = options.seed;
    let fingerprint = format!("{study:?} {seed} {}", env!("CARGO_PKG_VERSION"));
    let kept = Kept::new(out, study.head().name, &fingerprint)?;
    Ok(Box::new(Work {
        study,
        options,
        out: out.to_owned(),
        kept,
        shared: Mutex::new(None),
    }))
}

impl<S: Study> Work<S> {
    /// What points share; made by whoever needs it first.
    fn shared(&self) -> Result<Arc<S::Shared>, ExperimentError> {
        let mut shared = lock(&self.shared);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        let made = Arc::new(self.study.share(self.options.seed)?);
        *shared = Some(Arc::clone(&made));
        Ok(made)
    }

    fn point(&self, at: usize) -> Result<S::Point, ExperimentError> {
        if let Some(point) = self.kept.load(at) {
            return Ok(point);
        }
        let shared = self.shared()?;
        let point = self.study.run(&shared, at, self.options.seed);
        let point = point.map_err(|error| ExperimentError::Point {
            plan: self.study.head().name.to_owned(),
            point: self.study.label(at),
            source: Box::new(error),
        })?;
        self.kept.store(at, &point)?;
        Ok(point)
    }
}

impl<S: Study> Job for Work<S> {
    fn points(&self) -> usize {
        self.study.points()
    }

    fn run(&self, at: usize) -> Result<(), ExperimentError> {
        self.point(at).map(drop)
    }

    fn finish(&self) -> Result<Results, ExperimentError> {
        // All from where they were kept: results do not depend on what was run when.
        let points: Result<Vec<S::Point>, _> =
            (0..self.points()).map(|at| self.point(at)).collect();
        let points = points?;
        lock(&self.shared).take();
        let verdicts = self.study.judge(&points);
        let head = self.study.head();
        let files =
            ["csv", "json", "html"].map(|kind| self.out.join(format!("{}.{kind}", head.name)));
        let [csv, json, html] = &files;
        let conditions = self.study.conditions();
        let text = output::csv(&points).map_err(|source| unwritable(csv, source))?;
        write_whole(csv, &text)?;
        let text = output::json(head, self.options, &conditions, &verdicts, &points);
        let text = text.map_err(|source| unwritable(json, source))?;
        write_whole(json, &text)?;
        let figures = self.study.figures(&points);
        let text = html::report(head, self.options, &conditions, &verdicts, &figures);
        write_whole(html, text.as_bytes())?;
        self.kept.discard()?;
        Ok(Results {
            points: points.len(),
            verdicts,
            files,
        })
    }
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
pub(super) fn run_all(
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
