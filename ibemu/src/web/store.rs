//! Stored histories: what `--record` writes and `--replay` reads. The format is [`monitor::Recorder`]'s; the map is what
//! it says beyond samples.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use monitor::{History, HistoryError, Recorder, Snapshot};
use serde::Deserialize as _;

use super::events::{self, Event};
use super::map::Map;
use super::sample::Places;
use crate::usage::UsageError;

/// How long a recording becomes at most, and the most of one that is read, bytes.
const BYTES_MAX: u64 = 2 << 30;
/// Events that are found in a history at most.
const EVENTS_MAX: usize = 4096;

/// A file that is written.
#[derive(Debug)]
pub(super) struct Recording(Recorder<File>);

impl Recording {
    /// Makes a new file.
    ///
    /// # Errors
    /// [`UsageError`] if there is one; or it cannot be written.
    pub(super) fn create(path: &Path, map: &Map) -> Result<Self> {
        let name = path.display();
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => UsageError(format!(
                "--record {name}: the file is there already; name a new one"
            )),
            _ => UsageError(format!("--record {name}: {error}")),
        })?;
        let cannot = || format!("--record {name}");
        let mut recorder = Recorder::new(file, BYTES_MAX).with_context(cannot)?;
        let about = serde_json::to_value(map)?;
        recorder.about(&about).with_context(cannot)?;
        Ok(Self(recorder))
    }

    /// Adds a sample, and what has happened since the one before.
    ///
    /// # Errors
    /// If it cannot be written, or the file is as long as it may become.
    pub(super) fn add(
        &mut self,
        snapshot: &Snapshot,
        events: &[Event],
    ) -> Result<(), HistoryError> {
        for event in events {
            let value = serde_json::to_value(event).map_err(std::io::Error::from)?;
            self.0.event(event.at_ms, &value)?;
        }
        self.0.add(snapshot)
    }
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) map: Map,
    pub(super) history: History,
    /// What has happened, as it was recorded; of a file without events, what has changed from one sample to the next.
    pub(super) events: Vec<Event>,
}

impl Stored {
    /// Reads a file.
    ///
    /// # Errors
    /// [`UsageError`]: what is wrong with it, and where.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let parse = || {
            let mut bytes = Vec::new();
            File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
            Self::parse(&bytes)
        };
        parse().map_err(|problem| {
            UsageError(format!("--replay {}: {problem:#}", path.display())).into()
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let history = History::read(bytes)?;
        let about = history.about();
        let about =
            about.context("it has no map: give a file that ibemu web --record has written")?;
        let map = Map::deserialize(about).context("its map is not one")?;
        check(&map)?;
        if history.is_empty() {
            bail!("it holds no sample");
        }
        let mut events = Vec::new();
        for (at_ms, event) in history.events() {
            let event = Event::deserialize(event);
            let event = event.with_context(|| format!("its event of {at_ms} is not one"))?;
            let cable = event.cable.filter(|&cable| cable < map.cables.len());
            events.push(Event { cable, ..event });
        }
        if events.is_empty() {
            events = events_of(&map, &history);
        }
        Ok(Self {
            map,
            history,
            events,
        })
    }
}

/// Checks that cables join devices that are there, and that links have a rate.
fn check(map: &Map) -> Result<()> {
    let devices = map.devices.len();
    for (number, cable) in map.cables.iter().enumerate() {
        if cable.a >= devices || cable.b >= devices {
            bail!(
                "cable {number} of its map leads to a device beyond the {devices} that there are"
            );
        }
    }
    if map.time_scale <= 0.0 {
        bail!("the time scale of its map is {}", map.time_scale);
    }
    Ok(())
}

fn events_of(map: &Map, history: &History) -> Vec<Event> {
    let mut places = Places::default();
    let mut samples = history.frames().filter_map(|frame| {
        let fabric = history.fabric_at(frame.at_ms)?;
        places.follow(map, fabric);
        Some(places.sample(fabric, frame))
    });
    let Some(mut last) = samples.next() else {
        return Vec::new();
    };
    let mut found = std::collections::VecDeque::new();
    for sample in samples {
        found.extend(events::between(map, &last, &sample));
        while found.len() > EVENTS_MAX {
            found.pop_front();
        }
        last = sample;
    }
    found.into()
}

#[cfg(test)]
mod tests;
