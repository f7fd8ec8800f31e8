//! Points as CSV, and everything as JSON.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::document::Head;
use crate::figure::Figure;
use crate::run::Options;
use crate::statement::Statement;

/// One line a point under a line of names.
///
/// # Errors
/// A point that is not flat.
pub fn csv<P: Serialize>(points: &[P]) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for point in points {
        writer.serialize(point)?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}

/// What is said of a plan's points, in JSON and HTML.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report<'a> {
    pub(super) head: &'a Head,
    pub(super) options: Options,
    pub(super) conditions: &'a [(&'static str, String)],
    pub(super) statements: &'a [Statement],
    pub(super) figures: &'a [Figure],
}

impl Report<'_> {
    /// The plot that a page over several results shows of this one: the first with two points or
    /// more.
    fn preview(&self) -> Option<&Figure> {
        self.figures.iter().find(|figure| match figure {
            Figure::Plot { curves, .. } => {
                let mut points = curves.iter().flat_map(|curve| &curve.points);
                points.clone().count() > 1 && points.all(|(x, y)| x.is_finite() && y.is_finite())
            }
            Figure::Table { .. } => false,
        })
    }
}

#[derive(Serialize)]
struct Document<'a, P> {
    plan: &'a str,
    title: &'a str,
    paper: &'a str,
    quick: bool,
    seed: u64,
    conditions: BTreeMap<&'static str, &'a str>,
    verdicts: &'a [Statement],
    preview: Option<&'a Figure>,
    points: &'a [P],
}

/// What an overview of several results needs of one.
#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub(super) plan: String,
    pub(super) title: String,
    pub(super) paper: String,
    pub(super) quick: bool,
    pub(super) seed: u64,
    pub(super) verdicts: Vec<Statement>,
    #[serde(default)]
    pub(super) preview: Option<Figure>,
}

/// The conditions, the statements and all points.
///
/// # Errors
/// A point that JSON cannot say.
pub(super) fn json<P: Serialize>(report: &Report<'_>, points: &[P]) -> io::Result<Vec<u8>> {
    let conditions = report.conditions.iter();
    let document = Document {
        plan: &report.head.name,
        title: &report.head.title,
        paper: &report.head.paper,
        quick: report.options.quick,
        seed: report.options.seed,
        conditions: conditions
            .map(|(name, value)| (*name, value.as_str()))
            .collect(),
        verdicts: report.statements,
        preview: report.preview(),
        points,
    };
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}
