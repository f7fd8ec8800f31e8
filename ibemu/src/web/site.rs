//! What is served: a live fabric, or a stored history.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use monitor::model::Fabric;
use monitor::{History, Sampler};
use serde::Serialize;

use super::api::Failure;
use super::control::Traffic;
use super::events::Event;
use super::live::Hub;
use super::map::Map;
use super::sample::{Places, Sample};
use super::store::Stored;
use crate::dir::FabricDir;
use crate::state::FabricState;

/// The time that a series covers.
const SERIES: Duration = Duration::from_secs(600);

/// All that is served.
#[derive(Debug)]
pub(super) struct Site {
    control: bool,
    source: Source,
}

/// Where samples come from.
#[derive(Debug)]
pub(super) enum Source {
    /// A fabric that is up.
    Live(Box<Live>, Map),
    /// A file.
    Stored(Box<Stored>),
}

/// A fabric that is up.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) dir: FabricDir,
    pub(super) state: FabricState,
    pub(super) sampler: Sampler,
    pub(super) hub: Hub,
    /// Where the sampler has what is on the map.
    pub(super) places: Mutex<Places>,
    /// Held while the fabric is changed: one thing after the other.
    pub(super) changes: tokio::sync::Mutex<()>,
    pub(super) traffic: tokio::sync::Mutex<Option<Traffic>>,
}

/// One cable in the course of time; lists are of one length.
#[derive(Debug, Default, Serialize)]
pub(super) struct Series {
    at_ms: Vec<u64>,
    load: Vec<[u16; 2]>,
    wait: Vec<[u16; 2]>,
    fill: Vec<[u16; 2]>,
    errors: Vec<f32>,
}

impl Series {
    /// Adds a sample of one cable.
    fn push(&mut self, sample: &Sample) {
        self.at_ms.push(sample.at_ms);
        self.load.extend(&sample.load);
        self.wait.extend(&sample.wait);
        self.fill.extend(&sample.fill);
        self.errors.extend(&sample.errors);
    }
}

impl Site {
    /// A site over a fabric.
    pub(super) fn of_fabric(
        dir: FabricDir,
        state: FabricState,
        map: Map,
        sampler: Sampler,
        control: bool,
    ) -> Self {
        let live = Live {
            dir,
            state,
            sampler,
            hub: Hub::new(),
            places: Mutex::default(),
            changes: tokio::sync::Mutex::default(),
            traffic: tokio::sync::Mutex::default(),
        };
        Self {
            control,
            source: Source::Live(Box::new(live), map),
        }
    }

    /// A site over a stored history.
    pub(super) fn of_history(stored: Stored) -> Self {
        Self {
            control: false,
            source: Source::Stored(Box::new(stored)),
        }
    }

    /// What is drawn.
    pub(super) fn map(&self) -> &Map {
        match &self.source {
            Source::Live(_, map) => map,
            Source::Stored(stored) => &stored.map,
        }
    }

    /// Whether the fabric may be changed.
    pub(super) const fn is_controlled(&self) -> bool {
        self.control
    }

    /// The fabric.
    ///
    /// # Errors
    /// If this is a stored history.
    pub(super) fn live(&self) -> Result<&Live, Failure> {
        match &self.source {
            Source::Live(live, _) => Ok(live),
            Source::Stored(_) => Err(Failure::stored()),
        }
    }

    /// The fabric with its map, or the stored history.
    pub(super) const fn source(&self) -> &Source {
        &self.source
    }

    /// Looks at the map and the history.
    fn past<T>(&self, look: impl FnOnce(&Map, &History) -> T) -> T {
        match &self.source {
            Source::Live(live, map) => live.sampler.with_history(|history| look(map, history)),
            Source::Stored(stored) => look(&stored.map, &stored.history),
        }
    }

    /// When the first and the last sample were taken.
    pub(super) fn span(&self) -> (Option<u64>, Option<u64>) {
        self.past(|_, history| (history.first_ms(), history.last_ms()))
    }

    /// The last sample that is not later than that, else the first one.
    pub(super) fn sample_at(&self, at_ms: u64) -> Option<Sample> {
        self.at(at_ms, |map, fabric, frame| {
            let mut places = Places::default();
            places.follow(map, fabric);
            places.sample(fabric, frame)
        })
    }

    /// Looks at the structure of the fabric and the frame of a moment: the last one that is not later, else the first one.
    pub(super) fn at<T>(
        &self,
        at_ms: u64,
        look: impl FnOnce(&Map, &monitor::model::Fabric, &monitor::Frame) -> T,
    ) -> Option<T> {
        self.past(|map, history| {
            let frame = history.frame_at(at_ms)?;
            let fabric = history.fabric_at(frame.at_ms)?;
            Some(look(map, fabric, frame))
        })
    }

    /// How full one lane is at each cable's ends now.
    ///
    /// # Errors
    /// If this is a stored history.
    pub(super) fn lane(&self, vl: usize) -> Result<Vec<[u16; 2]>, Failure> {
        let live = self.live()?;
        let snapshot = live.sampler.current();
        let mut places = live.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.follow(self.map(), &snapshot.fabric);
        Ok(places.lane(&snapshot, vl))
    }

    /// A cable in the ten minutes before a moment, or now.
    pub(super) fn series(&self, cable: usize, until_ms: Option<u64>) -> Series {
        let span = wire::convert::saturate::<u64>(SERIES.as_millis());
        self.past(|map, history| {
            let last = history.last_ms().unwrap_or(0);
            let until = until_ms.map_or(last, |until| until.min(last));
            let wanted = until.saturating_sub(span)..=until;
            let mut places = Places::default();
            let mut series = Series::default();
            for frame in history.frames() {
                if let Some(fabric) = history.fabric_at(frame.at_ms)
                    && wanted.contains(&frame.at_ms)
                {
                    places.follow(map, fabric);
                    series.push(&places.cable_sample(cable, frame));
                }
            }
            series
        })
    }

    /// What has happened.
    pub(super) fn events(&self) -> Vec<Event> {
        match &self.source {
            Source::Live(live, _) => live.hub.events(),
            Source::Stored(stored) => stored.events.clone(),
        }
    }
}

impl Live {
    /// The position of the device of that name.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn device(&self, name: &str) -> Result<usize> {
        let node = self.state.find(name)?;
        Ok(self.state.device_of(node))
    }

    /// The place of a device among the monitor's nodes.
    pub(super) fn place_of(&self, map: &Map, fabric: &Fabric, device: usize) -> Option<usize> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.follow(map, fabric);
        places.device(device)
    }
}

/// The time of day, milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| wire::convert::saturate(now.as_millis()))
}
