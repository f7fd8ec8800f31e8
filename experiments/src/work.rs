//! One plan under way: its points from checkpoints or run, its results at the end.

use core::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::checkpoint::{Checkpoints, unwritable, write_whole};
use crate::checks::shortened;
use crate::error::ExperimentError;
use crate::experiment::Experiment;
use crate::output::Report;
use crate::run::{Job, Options, Results, lock};
use crate::statement::{explained, unused};
use crate::variant::Variant;
use crate::{html, output, paper};

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
    let fingerprint = format!("{} {experiment:?} {}", head.kind, options.seed);
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
    /// What points share; made for the first point that needs it.
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
        let unused = unused(&verdicts, &head.explain[..]).filter(|_| head.has_own_explanations);
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
