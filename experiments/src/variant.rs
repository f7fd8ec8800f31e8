//! A plan of one kind, whole or reduced: its head, its parameters, its points.

use serde::de::DeserializeOwned;

use crate::axes::Points;
use crate::document::{Document, Head};
use crate::experiment::Experiment;
use crate::plan_error::PlanError;

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
