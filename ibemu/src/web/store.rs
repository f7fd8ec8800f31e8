//! Stored samples: what `--record` writes and `--replay` reads.
//!
//! A text of JSON lines: first a [`Header`], then an [`Entry`] a line. A line that was cut off at the end (the
//! machine went down) is left out; anything else that is wrong is refused, with its line.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::events::Event;
use super::map::Map;
use super::sample::Sample;
use crate::usage::UsageError;

/// The version of the file's layout.
const VERSION: u32 = 1;
/// The longest line, and the most of a file that is read.
const LINE_BYTES_MAX: u64 = 16 << 20;
const FILE_BYTES_MAX: u64 = 2 << 30;
/// Samples of an hour, one a second.
const SAMPLES_MAX: usize = 3600;
/// Events that are kept.
const EVENTS_MAX: usize = 10_000;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// The word by which the file is known.
    ibemu_history: u32,
    map: Map,
}

/// Any other line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Entry {
    Sample(Sample),
    Event(Event),
}

/// A file that is written.
#[derive(Debug)]
pub(super) struct Recorder {
    file: File,
    path: String,
}

impl Recorder {
    /// Makes a new file.
    ///
    /// # Errors
    /// If there is one, or it cannot be written.
    pub(super) fn create(path: &Path, map: &Map) -> Result<Self> {
        let name = path.display().to_string();
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => UsageError(format!(
                "--record {name}: the file is there already; name a new one"
            )),
            _ => UsageError(format!("--record {name}: {error}")),
        })?;
        let mut recorder = Self { file, path: name };
        recorder.line(&Header {
            ibemu_history: VERSION,
            map: map.clone(),
        })?;
        Ok(recorder)
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn sample(&mut self, sample: &Sample) -> Result<()> {
        self.line(&Entry::Sample(sample.clone()))
    }

    /// Adds an event.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn event(&mut self, event: &Event) -> Result<()> {
        self.line(&Entry::Event(event.clone()))
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        written.with_context(|| format!("cannot write {}", self.path))
    }
}

/// A file that was read: its last hour.
#[derive(Debug)]
pub(super) struct Stored {
    /// The map.
    pub(super) map: Map,
    /// In order of time.
    pub(super) samples: Vec<Sample>,
    /// In order of time.
    pub(super) events: Vec<Event>,
}

impl Stored {
    /// Reads a file.
    ///
    /// # Errors
    /// [`UsageError`]: which line is wrong, and how.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let file =
            File::open(path).map_err(|error| UsageError(format!("--replay {name}: {error}")))?;
        Self::parse(file).map_err(|problem| {
            UsageError(format!(
                "--replay {name}: {problem:#}; give a file that ibemu web --record has written"
            ))
            .into()
        })
    }

    fn parse(source: impl std::io::Read) -> Result<Self> {
        let mut lines = Lines::new(source);
        let first = lines.next()?.context("the file is empty")?;
        let header: Header =
            serde_json::from_slice(&first).context("line 1 is not the first line of a history")?;
        if header.ibemu_history != VERSION {
            bail!(
                "it is of version {}, this ibemu reads version {VERSION}",
                header.ibemu_history
            );
        }
        check(&header.map).context("line 1")?;
        let mut stored = Self {
            map: header.map,
            samples: Vec::new(),
            events: Vec::new(),
        };
        while let Some(line) = lines.next()? {
            let number = lines.number;
            let entry = serde_json::from_slice(&line).with_context(|| format!("line {number}"))?;
            stored
                .add(entry)
                .with_context(|| format!("line {number}"))?;
        }
        if stored.samples.is_empty() {
            bail!("it holds no sample");
        }
        Ok(stored)
    }

    fn add(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::Event(event) => {
                self.events.push(event);
                if self.events.len() > EVENTS_MAX {
                    self.events.remove(0);
                }
            }
            Entry::Sample(sample) => {
                let (cables, devices) = (self.map.cables.len(), self.map.devices.len());
                let fits = [
                    sample.state.len(),
                    sample.load.len(),
                    sample.wait.len(),
                    sample.errors.len(),
                ];
                if fits.iter().any(|&len| len != cables) || sample.present.len() != devices {
                    bail!(
                        "a sample of {} cables, and the map has {cables}",
                        sample.state.len()
                    );
                }
                if self
                    .samples
                    .last()
                    .is_some_and(|last| last.at_ms >= sample.at_ms)
                {
                    bail!("a sample that is not later than the one before");
                }
                self.samples.push(sample);
                if self.samples.len() > SAMPLES_MAX {
                    self.samples.remove(0);
                }
            }
        }
        Ok(())
    }
}

/// Checks that cables join devices that are there, and that all can be drawn.
fn check(map: &Map) -> Result<()> {
    let devices = map.devices.len();
    for (number, cable) in map.cables.iter().enumerate() {
        if cable.a >= devices || cable.b >= devices {
            bail!("cable {number} leads to a device beyond the {devices} that there are");
        }
    }
    Ok(())
}

/// Lines of a bounded file, each of bounded length.
struct Lines<R: std::io::Read> {
    source: BufReader<std::io::Take<R>>,
    number: u64,
}

impl<R: std::io::Read> Lines<R> {
    fn new(source: R) -> Self {
        Self {
            source: BufReader::new(source.take(FILE_BYTES_MAX)),
            number: 0,
        }
    }

    /// The next whole line.
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let mut source = (&mut self.source).take(LINE_BYTES_MAX);
        source.read_until(b'\n', &mut line)?;
        self.number += 1;
        if line.pop() == Some(b'\n') {
            return Ok(Some(line));
        }
        if wire::convert::u64_of(line.len()) + 1 >= LINE_BYTES_MAX {
            bail!("line {} is longer than {LINE_BYTES_MAX} bytes", self.number);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
