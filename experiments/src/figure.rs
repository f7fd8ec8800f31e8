//! What a report shows besides conditions and statements.

use core::fmt::Display;

use serde::{Deserialize, Serialize};

/// A plot or a table under a heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
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

/// Columns of a table, each with its name and the text of its cell in a row.
pub type Columns<'a, R> = [(&'a str, &'a dyn Fn(&R) -> String)];

impl Figure {
    /// Curves over two axes.
    #[must_use]
    pub fn plot(
        heading: impl Into<String>,
        curves: impl IntoIterator<Item = Curve>,
        x: Axis,
        y: Axis,
    ) -> Self {
        Self::Plot {
            heading: heading.into(),
            curves: curves.into_iter().collect(),
            x,
            y,
        }
    }

    /// Rows under names of columns.
    #[must_use]
    pub fn table(
        heading: impl Into<String>,
        columns: impl IntoIterator<Item: Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self::Table {
            heading: heading.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
        }
    }

    /// A row for each of some values, whose cells the columns say.
    #[must_use]
    pub fn rows<R>(
        heading: impl Into<String>,
        columns: &Columns<'_, R>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let cells = |row: R| columns.iter().map(|(_, cell)| cell(&row)).collect();
        let names = columns.iter().map(|&(name, _)| name);
        Self::table(heading, names, rows.into_iter().map(cells))
    }
}

/// A curve: its name, and its points from left to right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
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
    #[must_use]
    pub fn measured(name: impl Display, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.to_string(),
            paper: None,
            points: points.into_iter().collect(),
        }
    }

    /// What was measured at some places, without those that have no value.
    pub(crate) fn over<T>(
        name: impl Display,
        places: impl IntoIterator<Item = T>,
        value: impl FnMut(T) -> Option<(f64, f64)>,
    ) -> Self {
        Self::measured(name, places.into_iter().filter_map(value))
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
pub struct Axis {
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
    #[must_use]
    pub fn linear(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn logarithmic(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            scale: Scale::Logarithmic,
        }
    }
}
