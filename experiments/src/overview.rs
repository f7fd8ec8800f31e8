//! One page over several results: what was expected, and what of it holds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ExperimentError;
use crate::checkpoint::write_whole;
use crate::experiment::Verdict;
use crate::html::{escape, page, verdicts};
use crate::output::Summary;

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
    pub failed: Vec<Verdict>,
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
    let mut body = String::new();
    let mut overviews = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).map_err(|source| unreadable(&path, source))?;
        let summary: Summary =
            serde_json::from_slice(&bytes).map_err(|source| unreadable(&path, source.into()))?;
        body.push_str(&section(&summary));
        overviews.push(overview(summary));
    }
    let html = folder.join(PAGE);
    let text = page("Results", &body);
    write_whole(&html, text.as_bytes())?;
    Ok((overviews, html))
}

fn section(summary: &Summary) -> String {
    let size = if summary.quick { "reduced" } else { "full" };
    let plan = escape(&summary.plan);
    let mut html = format!(
        "<h2><a href=\"{plan}.html\">{}</a></h2>\n<p>{}; {size} size, seed {}; \
         <a href=\"{plan}.csv\">points</a></p>\n",
        escape(&summary.title),
        escape(&summary.paper),
        summary.seed
    );
    html.push_str(&verdicts(&summary.verdicts));
    html
}

fn overview(summary: Summary) -> Overview {
    let count = |holds| {
        let verdicts = summary.verdicts.iter();
        verdicts.filter(|verdict| verdict.holds == holds).count()
    };
    let counts = [count(Some(true)), count(Some(false)), count(None)];
    let mut failed = summary.verdicts;
    failed.retain(|verdict| verdict.holds == Some(false));
    Overview {
        plan: summary.plan,
        title: summary.title,
        counts,
        failed,
    }
}
