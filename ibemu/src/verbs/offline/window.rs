//! `ibemu window`: the connection controller of CLOS04, windows of requests in, trees out.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use anyhow::{Context, Result};
use routing::clos::{ControlError, Controller, Mode, Reason, Window as Decided};
use serde::Serialize;

use super::args::Window;
use crate::output;
use crate::usage::UsageError;

/// Windows after the last line, with `--drain`, at most.
const DRAINED_MAX: u64 = 1_000_000;

#[derive(Debug, Serialize)]
struct AdmittedJson {
    source: usize,
    destination: usize,
    tree: usize,
}

#[derive(Debug, Serialize)]
struct MovedJson {
    source: usize,
    destination: usize,
    from: usize,
    to: usize,
}

#[derive(Debug, Serialize)]
struct DeferredJson {
    source: usize,
    destination: usize,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct WindowJson {
    window: u64,
    admitted: Vec<AdmittedJson>,
    moved: Vec<MovedJson>,
    deferred: Vec<DeferredJson>,
}

impl WindowJson {
    fn new(window: u64, decided: &Decided) -> Self {
        Self {
            window,
            admitted: decided
                .admitted
                .iter()
                .map(|one| AdmittedJson {
                    source: one.source,
                    destination: one.destination,
                    tree: one.tree,
                })
                .collect(),
            moved: decided
                .moved
                .iter()
                .map(|one| MovedJson {
                    source: one.source,
                    destination: one.destination,
                    from: one.from,
                    to: one.to,
                })
                .collect(),
            deferred: decided
                .deferred
                .iter()
                .map(|one| DeferredJson {
                    source: one.source,
                    destination: one.destination,
                    reason: match one.reason {
                        Reason::SourceBusy => "source-busy",
                        Reason::DestinationBusy => "destination-busy",
                        Reason::Blocked => "blocked",
                    },
                })
                .collect(),
        }
    }
}

/// Decides every window of the file and prints what it came to.
///
/// # Errors
/// [`UsageError`] for trees that do not suffice, or a line that cannot be read or served; with
/// the line's number.
pub fn run(options: &Window) -> Result<()> {
    let (hosts, leaves) = (usize::from(options.hosts), usize::from(options.leaves));
    let leaf_of = (0..leaves * hosts).map(|host| host / hosts).collect();
    let trees = usize::from(options.spines) * usize::from(options.links);
    let mode = match options.strict {
        true => Mode::Strict,
        false => Mode::Rearrange,
    };
    let mut controller = Controller::new(leaf_of, trees, mode)
        .map_err(|error: ControlError| UsageError(error.to_string()))?;
    let name = match options.requests.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => options.requests.display().to_string(),
    };
    if !options.json {
        output::line(format!("{:>6}  ADMITTED  MOVED  DEFERRED", "WINDOW"))?;
    }
    let mut window = 0;
    for (index, line) in open(options)?.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {name}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |why: String| UsageError(format!("{name}, line {}: {why}", index + 1));
        let requests: Vec<(usize, usize)> = serde_json::from_str(&line).map_err(|error| {
            wrong(format!(
                "{error}; wanted is a window, [[source,destination],...]"
            ))
        })?;
        let decided = controller
            .window(&requests)
            .map_err(|error| wrong(error.to_string()))?;
        window += 1;
        print(window, &decided, options.json)?;
    }
    let last = window + DRAINED_MAX;
    while options.drain && !controller.waiting().is_empty() && window < last {
        let decided = controller
            .window(&[])
            .context("a window without requests")?;
        window += 1;
        print(window, &decided, options.json)?;
    }
    Ok(())
}

fn open(options: &Window) -> Result<Box<dyn BufRead>> {
    if options.requests.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(&options.requests).map_err(|error| {
        UsageError(format!(
            "cannot read {}: {error}",
            options.requests.display()
        ))
    })?;
    Ok(Box::new(BufReader::new(file)))
}

fn print(number: u64, decided: &Decided, json: bool) -> Result<()> {
    if json {
        let report = WindowJson::new(number, decided);
        return output::line(serde_json::to_string(&report)?);
    }
    output::line(format!(
        "{number:>6}  {:>8}  {:>5}  {:>8}",
        decided.admitted.len(),
        decided.moved.len(),
        decided.deferred.len()
    ))
}
