//! One page over several results, with a line for each: how many statements hold, and a small plot.
//! What was expected and measured stands on the page of each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ExperimentError;
use crate::checkpoint::write_whole;
use crate::checks::shortened;
use crate::document::{NAMES, is_name};
use crate::escape::escape;
use crate::figure::Figure;
use crate::html::page;
use crate::output::Summary;
use crate::sparkline::sparkline;
use crate::statement::Statement;

/// The page's name.
const PAGE: &str = "index.html";

/// What one of several results says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Name of the plan.
    pub plan: String,
    /// What it is headed.
    pub title: String,
    /// Statements that hold, do not hold, and have no verdict.
    pub counts: [usize; 3],
    /// Those that do not hold.
    pub failed: Vec<Statement>,
}

/// Reads all results in `folder` and writes the page over them, `index.html`, beside them.
///
/// # Errors
/// [`ExperimentError::NoResults`]; [`ExperimentError::Unreadable`]: one is not whole;
/// [`ExperimentError::Unwritable`].
pub fn report(folder: &Path) -> Result<(Vec<Overview>, PathBuf), ExperimentError> {
    let unreadable = |path: &Path, source: io::Error| ExperimentError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let entries = fs::read_dir(folder).map_err(|source| unreadable(folder, source))?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(|source| unreadable(folder, source))?;
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "json"));
    paths.sort();
    if paths.is_empty() {
        return Err(ExperimentError::NoResults(folder.to_owned()));
    }
    let results: Result<Vec<(PathBuf, Vec<u8>)>, ExperimentError> = paths
        .into_iter()
        .map(|path| match fs::read(&path) {
            Ok(bytes) => Ok((path, bytes)),
            Err(source) => Err(unreadable(&path, source)),
        })
        .collect();
    let (overviews, text) = page_over(&results?)?;
    let html = folder.join(PAGE);
    write_whole(&html, text.as_bytes())?;
    Ok((overviews, html))
}

/// What results say, each a file's path and content, and the page over them.
///
/// # Errors
/// [`ExperimentError::Unreadable`]: one is not whole, or of a plan that cannot be called as it says.
pub fn page_over(
    results: &[(PathBuf, Vec<u8>)],
) -> Result<(Vec<Overview>, String), ExperimentError> {
    let mut rows = String::new();
    let mut overviews = Vec::new();
    for (path, bytes) in results {
        let summary = summary(bytes).map_err(|source| ExperimentError::Unreadable {
            path: path.clone(),
            source,
        })?;
        let counts = counts(&summary);
        rows.push_str(&row(&summary, counts));
        overviews.push(overview(summary, counts));
    }
    let text = page("Results", &table(&overviews, &rows));
    Ok((overviews, text))
}

fn summary(bytes: &[u8]) -> io::Result<Summary> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, shortened(&why));
    let summary: Summary =
        serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
    match is_name(&summary.plan) {
        true => Ok(summary),
        // The page has links of that name.
        false => Err(invalid(format!("plan: {NAMES}"))),
    }
}

fn table(overviews: &[Overview], rows: &str) -> String {
    let sum = |place: usize| -> usize { overviews.iter().map(|one| one.counts[place]).sum() };
    format!(
        "<p>{} {}: {} statements hold, {} do not hold, {} have no verdict.</p>\n\
         <table>\n<tr><th>plan</th><th>held</th><th>failed</th><th>undecided</th>\
         <th>first plot</th><th>run</th></tr>\n{rows}</table>\n",
        overviews.len(),
        if overviews.len() == 1 {
            "plan"
        } else {
            "plans"
        },
        sum(0),
        sum(1),
        sum(2)
    )
}

fn row(summary: &Summary, [held, failed, undecided]: [usize; 3]) -> String {
    let size = if summary.quick { "reduced" } else { "full" };
    let plan = escape(&summary.plan);
    let plot = match &summary.preview {
        Some(Figure::Plot { curves, x, y, .. }) => sparkline(curves, x, y),
        _ => String::new(),
    };
    let class = if failed == 0 { "yes" } else { "no" };
    format!(
        "<tr><td><a href=\"{plan}.html\" title=\"{}\">{}</a></td><td class=\"n\">{held}</td>\
         <td class=\"n {class}\">{failed}</td><td class=\"n\">{undecided}</td>\
         <td><a href=\"{plan}.html\">{plot}</a></td>\
         <td>{size}, seed {}; <a href=\"{plan}.csv\">points</a></td></tr>\n",
        escape(&summary.paper),
        escape(&summary.title),
        summary.seed
    )
}

/// Statements that hold, do not hold, and have no verdict.
fn counts(summary: &Summary) -> [usize; 3] {
    let count = |holds| {
        let statements = summary.verdicts.iter();
        statements.filter(|one| one.holds == holds).count()
    };
    [count(Some(true)), count(Some(false)), count(None)]
}

fn overview(summary: Summary, counts: [usize; 3]) -> Overview {
    let mut failed = summary.verdicts;
    failed.retain(|statement| statement.holds == Some(false));
    Overview {
        plan: summary.plan,
        title: summary.title,
        counts,
        failed,
    }
}
