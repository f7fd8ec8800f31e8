//! Points as CSV, and everything as JSON.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::Options;
use crate::document::Head;
use crate::experiment::Verdict;

/// One line a point under a line of names.
///
/// # Errors
/// A point that is not flat.
pub(super) fn csv<P: Serialize>(points: &[P]) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for point in points {
        writer.serialize(point)?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}

#[derive(Serialize)]
struct Document<'a, P> {
    plan: &'a str,
    title: &'a str,
    paper: &'a str,
    quick: bool,
    seed: u64,
    conditions: BTreeMap<&'static str, &'a str>,
    verdicts: &'a [Verdict],
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
    pub(super) verdicts: Vec<Verdict>,
}

/// The conditions, the verdicts and all points.
///
/// # Errors
/// A point that JSON cannot say.
pub(super) fn json<P: Serialize>(
    head: &Head,
    options: Options,
    conditions: &[(&'static str, String)],
    verdicts: &[Verdict],
    points: &[P],
) -> io::Result<Vec<u8>> {
    let named = conditions
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    let document = Document {
        plan: &head.name,
        title: &head.title,
        paper: &head.paper,
        quick: options.quick,
        seed: options.seed,
        conditions: named.collect(),
        verdicts,
        points,
    };
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}
