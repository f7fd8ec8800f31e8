//! Plans whose kind is not known: what they have in common.

use core::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::document::{Document, Head};
use crate::error::ExperimentError;
use crate::experiment::Experiment;
use crate::plan_error::PlanError;
use crate::run::{Job, Options};
use crate::variant::Variant;
use crate::work::job;

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

/// Reads both variants of a plan of one kind: how [`plan`](mod@crate::plan) refers to a kind.
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
