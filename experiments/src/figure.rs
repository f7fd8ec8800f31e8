//! What a report shows besides conditions and statements.

use serde::{Deserialize, Serialize};

/// A plot or a table under a heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Figure {
    /// Curves over two axes.
    Plot {
        /// What it shows.
        heading: String,
        /// Its curves, named.
        curves: Vec<Curve>,
        /// From left to right.
        x: Axis,
        /// From bottom to top.
        y: Axis,
    },
    /// Rows under names of columns.
    Table {
        /// What it shows.
        heading: String,
        /// Names of columns.
        columns: Vec<String>,
        /// Cells, row by row.
        rows: Vec<Vec<String>>,
    },
}

/// A curve: its name, and its points from left to right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// What it is of. That of a paper's curve begins with that of the measured one it compares
    /// with.
    pub(crate) name: String,
    /// The key of the paper that gives the points; `None`: they are measured.
    pub(crate) paper: Option<String>,
    /// x and y; of logarithmic axes, above 0.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Curve {
    /// What was measured.
    pub(crate) fn measured(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            paper: None,
            points,
        }
    }

    /// What the paper of that key gives.
    pub(crate) fn of_paper(
        key: impl Into<String>,
        name: impl Into<String>,
        points: Vec<(f64, f64)>,
    ) -> Self {
        Self {
            name: name.into(),
            paper: Some(key.into()),
            points,
        }
    }

    /// Its name, for the legend.
    pub(crate) fn label(&self) -> String {
        match &self.paper {
            Some(key) => format!("{}, {key}", self.name),
            None => self.name.clone(),
        }
    }
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// What it measures, with the unit.
    pub(crate) name: String,
    /// How values are laid out on it.
    pub(crate) scale: Scale,
}

/// How values are laid out on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    /// Evenly, from 0, or from below the least value if that is negative.
    Linear,
    /// By their logarithm, from the least value.
    Logarithmic,
}

impl Axis {
    /// An axis from 0, or from below the least value if that is negative.
    pub(crate) fn linear(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis.
    pub(crate) fn logarithmic(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            scale: Scale::Logarithmic,
        }
    }
}
