//! `ibemu window`: the connection controller of CLOS04, windows of requests in, trees out.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};

use anyhow::{Context, Result};
use routing::clos::{ControlError, Controller, Mode, Reason, Window as Decided};
use serde::Serialize;

use super::args::Window;
use crate::output;
use crate::usage::UsageError;

/// Windows after the last line, with `--drain`, at most.
const DRAINED_MAX: u64 = 1_000_000;
/// Bytes of a line at most.
pub const LINE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of an error that the reader of JSON tells, at most: it repeats what was there.
const WHY_BYTES_MAX: usize = 200;

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
    decide(&mut controller, &name, open(options)?, |decided| {
        window += 1;
        print(window, decided, options.json)
    })?;
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

/// Decides the windows of all lines of `input`, which errors call `name`; `told` is handed each.
///
/// # Errors
/// [`UsageError`] with the line's number: one that is too long, no UTF-8, no window, or cannot be served. What
/// `told` fails with; `input` that cannot be read.
pub fn decide(
    controller: &mut Controller,
    name: &str,
    mut input: impl BufRead,
    mut told: impl FnMut(&Decided) -> Result<()>,
) -> Result<()> {
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let read = input
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if read.with_context(|| format!("cannot read {name}"))? == 0 {
            break;
        }
        let wrong = |why: String| UsageError(format!("{name}, line {number}: {why}"));
        if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            return Err(wrong(format!("longer than {LINE_BYTES_MAX} bytes")).into());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let requests: Vec<(usize, usize)> = serde_json::from_slice(&line).map_err(|error| {
            let why = shortened(error.to_string());
            wrong(format!(
                "{why}; wanted is a window, [[source,destination],...]"
            ))
        })?;
        let decided = controller.window(&requests);
        told(&decided.map_err(|error| wrong(error.to_string()))?)?;
    }
    Ok(())
}

/// A text without what is behind its first bytes.
fn shortened(mut text: String) -> String {
    if text.len() > WHY_BYTES_MAX {
        text.truncate(text.floor_char_boundary(WHY_BYTES_MAX));
        text.push_str("...");
    }
    text
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
