//! `ibemu sim replay`: replays recordings of devices.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use recording::{End, Ending};
use sim::replay::{Replayed, replay};

use crate::output;
use crate::usage::UsageError;

/// Bytes of a recording that are read at a time.
const READ_BYTES: usize = 256 * 1024;

/// Replays each file and prints the result.
///
/// # Errors
/// [`UsageError`] if a file is no whole recording, else if a device does something else than when
/// it was recorded.
pub(super) fn run(files: &[PathBuf]) -> Result<()> {
    let mut different = 0;
    for path in files {
        let replayed = one(path)?;
        output::line(format!("{}: {}", path.display(), summary(&replayed)))?;
        if let Some(divergence) = &replayed.divergence {
            different += 1;
            output::line(format!("  {divergence}"))?;
        }
        if let Some(note) = replayed.ending.and_then(note) {
            output::line(format!("  note: {note}"))?;
        }
    }
    if different > 0 {
        bail!(
            "{different} of {} devices did something else than when they were recorded",
            files.len()
        );
    }
    Ok(())
}

fn one(path: &Path) -> Result<Replayed> {
    let unusable = |why: String| UsageError(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    let source = BufReader::with_capacity(READ_BYTES, file);
    replay(source).map_err(|error| unusable(error.to_string()).into())
}

fn summary(replayed: &Replayed) -> String {
    let header = &replayed.header;
    let verdict = match &replayed.divergence {
        None => "the same to the last byte",
        Some(_) => "DIFFERENT",
    };
    format!(
        "{} {}, {} inputs, {} frames, {} events in {}.{:03} s: {verdict}",
        header.kind.name(),
        header.name,
        replayed.inputs,
        replayed.pulls,
        replayed.events,
        replayed.elapsed_ns / 1_000_000_000,
        replayed.elapsed_ns / 1_000_000 % 1000,
    )
}

/// A note about the end of a recording.
fn note(ending: Ending) -> Option<&'static str> {
    match ending {
        Ending::Recorded(End::Closed) => None,
        Ending::Recorded(End::Overrun) => Some(
            "the recording ends before the device did: more happened than could be written in time",
        ),
        Ending::Unterminated => Some(
            "the recording has no end: the device was killed, its disk was full, or it still runs",
        ),
        Ending::Truncated => Some(
            "the recording ends within an entry, which was left out: the device was killed, its \
             disk was full, or it still runs",
        ),
    }
}
