//! A plan of one kind, whole or reduced: its head, its parameters, its points.

use core::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::axes::Points;
use crate::document::{Document, Head};
use crate::experiment::Experiment;
use crate::plan::PlanError;
use crate::run::{Job, job};
use crate::{ExperimentError, Options};

/// A plan of one kind, whole or reduced.
#[derive(Debug)]
pub(crate) struct Variant<E, const AXES: usize> {
    pub(crate) head: Head,
    pub(crate) experiment: E,
    pub(crate) points: Points<AXES>,
}

impl<E: Experiment<AXES>, const AXES: usize> Variant<E, AXES> {
    /// Checks an experiment and numbers its points; what is wrong is said of `document`.
    ///
    /// # Errors
    /// [`PlanError::Value`].
    pub(crate) fn new(
        document: &Document<'_>,
        head: Head,
        experiment: E,
    ) -> Result<Self, PlanError> {
        let points = Points::new(experiment.axes(), E::POINTS_MAX, |at| experiment.has(at));
        let points = points.map_err(|refusal| document.refuse(refusal))?;
        experiment
            .check()
            .map_err(|refusal| document.refuse(refusal))?;
        Ok(Self {
            head,
            experiment,
            points,
        })
    }
}

impl<E, const AXES: usize> Variant<E, AXES>
where
    E: Experiment<AXES> + DeserializeOwned,
{
    /// Reads a plan of this kind.
    ///
    /// # Errors
    /// [`PlanError`]: where it is wrong, and what is allowed.
    pub(crate) fn read(mut document: Document<'_>) -> Result<Self, PlanError> {
        let head = document.take_head()?;
        let experiment = document.read()?;
        Self::new(&document, head, experiment)
    }
}

/// A variant of any kind.
pub(crate) trait AnyVariant: Debug + Send + Sync {
    /// Its head.
    fn head(&self) -> &Head;

    /// How many points it has.
    fn points(&self) -> usize;

    /// A run whose results go to `out`, which is made if need be.
    ///
    /// # Errors
    /// [`ExperimentError::Unwritable`].
    fn job(self: Arc<Self>, options: Options, out: &Path) -> Result<Box<dyn Job>, ExperimentError>;
}

impl<E: Experiment<AXES>, const AXES: usize> AnyVariant for Variant<E, AXES> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn points(&self) -> usize {
        self.points.len()
    }

    fn job(self: Arc<Self>, options: Options, out: &Path) -> Result<Box<dyn Job>, ExperimentError> {
        job(self, options, out)
    }
}

/// Reads both variants of a plan of one kind: how [`KINDS`](crate::plan) know a kind.
///
/// # Errors
/// [`PlanError`]: where it is wrong, and what is allowed.
pub(crate) fn read<E, const AXES: usize>(
    documents: [Document<'_>; 2],
) -> Result<[Arc<dyn AnyVariant>; 2], PlanError>
where
    E: Experiment<AXES> + DeserializeOwned,
{
    let [whole, quick] = documents;
    let whole = Variant::<E, AXES>::read(whole)?;
    let quick = Variant::<E, AXES>::read(quick)?;
    Ok([Arc::new(whole), Arc::new(quick)])
}
