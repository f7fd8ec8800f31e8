//! Plans under way: their points run by any threads in any order, their results written at the
//! end of each.

use core::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checkpoint::{Checkpoints, unwritable, write_whole};
use crate::checks::shortened;
use crate::experiment::Experiment;
use crate::output::Report;
use crate::statement::{explained, unused};
use crate::variant::Variant;
use crate::{ExperimentError, Options, Results, html, output, paper};

/// A plan under way, whatever kind it is.
pub(crate) trait Job: Debug + Send + Sync {
    /// How many points it has.
    fn points(&self) -> usize;
    /// Runs a point, unless it has a checkpoint, and writes one.
    fn run(&self, point: usize) -> Result<(), ExperimentError>;
    /// Judges all points and writes the results; checkpoints are removed.
    fn finish(&self) -> Result<Results, ExperimentError>;
}

struct Work<E: Experiment<AXES>, const AXES: usize> {
    variant: Arc<Variant<E, AXES>>,
    options: Options,
    out: PathBuf,
    checkpoints: Checkpoints,
    shared: Mutex<Option<Arc<E::Shared>>>,
}

impl<E: Experiment<AXES>, const AXES: usize> Debug for Work<E, AXES> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Work").field(&self.variant).finish()
    }
}

/// A plan whose results go to `out`, which is made if need be.
pub(crate) fn job<E: Experiment<AXES>, const AXES: usize>(
    variant: Arc<Variant<E, AXES>>,
    options: Options,
    out: &Path,
) -> Result<Box<dyn Job>, ExperimentError> {
    std::fs::create_dir_all(out).map_err(|source| unwritable(out, source))?;
    let Variant {
        head, experiment, ..
    } = &*variant;
    let version = env!("CARGO_PKG_VERSION");
    let fingerprint = format!("{} {experiment:?} {} {version}", head.kind, options.seed);
    let checkpoints = Checkpoints::new(out, &head.name, &fingerprint)?;
    Ok(Box::new(Work {
        variant,
        options,
        out: out.to_owned(),
        checkpoints,
        shared: Mutex::new(None),
    }))
}

impl<E: Experiment<AXES>, const AXES: usize> Work<E, AXES> {
    /// What points share; made by whoever needs it first.
    fn shared(&self) -> Result<Arc<E::Shared>, ExperimentError> {
        let mut shared = lock(&self.shared);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        let made = Arc::new(self.variant.experiment.share(self.options.seed)?);
        *shared = Some(Arc::clone(&made));
        Ok(made)
    }

    /// A point from its checkpoint, or else run.
    fn point(&self, point: usize) -> Result<E::Point, ExperimentError> {
        if let Some(point) = self.checkpoints.load(point) {
            return Ok(point);
        }
        let Variant {
            head,
            experiment,
            points,
        } = &*self.variant;
        let shared = self.shared()?;
        let at = points.at(point);
        let result = experiment.run(&shared, at, self.options.seed);
        let result = result.map_err(|error| ExperimentError::Point {
            plan: head.name.clone(),
            point: experiment.label(at),
            source: Box::new(error),
        })?;
        self.checkpoints.store(point, &result)?;
        Ok(result)
    }
}

impl<E: Experiment<AXES>, const AXES: usize> Job for Work<E, AXES> {
    fn points(&self) -> usize {
        self.variant.points.len()
    }

    fn run(&self, point: usize) -> Result<(), ExperimentError> {
        self.point(point).map(drop)
    }

    fn finish(&self) -> Result<Results, ExperimentError> {
        // All from their checkpoints: results do not depend on what was run when.
        let points: Result<Vec<E::Point>, _> =
            (0..self.points()).map(|point| self.point(point)).collect();
        let points = points?;
        lock(&self.shared).take();
        let Variant {
            head, experiment, ..
        } = &*self.variant;
        let verdicts = experiment.judge(&points);
        let unused = unused(&verdicts, &head.explain[..]).filter(|_| head.explains_this);
        let statements = explained(verdicts, &head.explain);
        let mut figures = experiment.figures(&points);
        paper::add(&mut figures, &head.paper, &head.paper_points);
        let files =
            ["csv", "json", "html"].map(|kind| self.out.join(format!("{}.{kind}", head.name)));
        let [csv, json, html] = &files;
        let mut conditions = experiment.conditions();
        if !head.notes.is_empty() {
            conditions.push(("Notes", head.notes.join(" ")));
        }
        let text = output::csv(&points).map_err(|source| unwritable(csv, source))?;
        write_whole(csv, &text)?;
        let report = Report {
            head,
            options: self.options,
            conditions: &conditions,
            statements: &statements,
            figures: &figures,
        };
        let text = output::json(&report, &points);
        let text = text.map_err(|source| unwritable(json, source))?;
        write_whole(json, &text)?;
        let text = html::report(&report);
        write_whole(html, text.as_bytes())?;
        self.checkpoints.discard()?;
        if let Some(explanation) = unused {
            return Err(ExperimentError::Unused {
                plan: head.name.clone(),
                statement: shortened(&explanation.statement),
            });
        }
        Ok(Results {
            points: points.len(),
            statements,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
