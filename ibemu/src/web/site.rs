//! What is served: a live fabric, or a stored history.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use monitor::model::{Counter, Fabric};
use monitor::{Frame, Sampler, Snapshot};
use serde::Serialize;

use super::api::Failure;
use super::control::Traffic;
use super::events::{self, Event};
use super::live::Hub;
use super::map::Map;
use super::sample::{Places, Sample};
use super::store::{Recorder, Stored};
use crate::dir::FabricDir;
use crate::state::FabricState;

/// The time that a series covers.
const SERIES: Duration = Duration::from_secs(600);
/// How often the whole fabric is looked at while a cable is not Active.
const REDISCOVERY: Duration = Duration::from_secs(2);
/// The state of a cable that packets may cross.
const ACTIVE: u8 = 4;
/// How often the supervisor is asked for processes.
const PROCESSES: Duration = Duration::from_secs(5);

/// All that is served.
#[derive(Debug)]
pub(super) struct Site {
    control: bool,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Live(Box<Live>, Map),
    Stored(Stored),
}

/// A fabric that is up.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) dir: FabricDir,
    pub(super) state: FabricState,
    pub(super) sampler: Sampler,
    pub(super) hub: Hub,
    places: Mutex<Places>,
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
    errors: Vec<f32>,
}

impl Series {
    fn push(&mut self, sample: &Sample, cable: usize) {
        self.at_ms.push(sample.at_ms);
        self.load.push(sample.load[cable]);
        self.wait.push(sample.wait[cable]);
        self.errors.push(sample.errors[cable]);
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
            source: Source::Stored(stored),
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

    /// When the first and the last sample were taken.
    pub(super) fn span(&self) -> (Option<u64>, Option<u64>) {
        match &self.source {
            Source::Live(live, _) => live
                .sampler
                .with_history(|history| (history.first_ms(), history.last_ms())),
            Source::Stored(stored) => {
                let at = |sample: Option<&Sample>| sample.map(|sample| sample.at_ms);
                (at(stored.samples.first()), at(stored.samples.last()))
            }
        }
    }

    /// The last sample that is not later than that, else the first one.
    pub(super) fn sample_at(&self, at_ms: u64) -> Option<Sample> {
        match &self.source {
            Source::Live(live, map) => live.sampler.with_history(|history| {
                let frame = history.frame_at(at_ms)?;
                let fabric = history.fabric_at(frame.at_ms)?;
                // Of its own: the live ones keep following the fabric of now.
                let mut places = Places::default();
                places.follow(map, fabric);
                Some(places.sample(fabric, frame))
            }),
            Source::Stored(stored) => {
                let after = stored
                    .samples
                    .partition_point(|sample| sample.at_ms <= at_ms);
                stored.samples.get(after.saturating_sub(1)).cloned()
            }
        }
    }

    /// A cable in the ten minutes before a moment, or now.
    pub(super) fn series(&self, cable: usize, until_ms: Option<u64>) -> Series {
        let until = until_ms.unwrap_or(u64::MAX);
        let span = wire::convert::saturate::<u64>(SERIES.as_millis());
        let mut series = Series::default();
        match &self.source {
            Source::Live(live, map) => live.sampler.with_history(|history| {
                let until = until.min(history.last_ms().unwrap_or(0));
                let from = until.saturating_sub(span);
                let mut places = live.places.lock().unwrap_or_else(PoisonError::into_inner);
                places.follow(map, &live.sampler.current().fabric);
                for frame in history.frames() {
                    if (from..=until).contains(&frame.at_ms) {
                        series.push(&places.cable_sample(cable, frame), 0);
                    }
                }
            }),
            Source::Stored(stored) => {
                let last = stored.samples.last().map_or(0, |sample| sample.at_ms);
                let until = until.min(last);
                let from = until.saturating_sub(span);
                for sample in &stored.samples {
                    if (from..=until).contains(&sample.at_ms) {
                        series.push(sample, cable);
                    }
                }
            }
        }
        series
    }

    /// What has happened.
    pub(super) fn events(&self) -> Vec<Event> {
        match &self.source {
            Source::Live(live, _) => live.hub.events(),
            Source::Stored(stored) => stored.events.clone(),
        }
    }

    /// Follows the sampler: tells pages and the file what it finds. Ends with the sampler, or if the file cannot be
    /// written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) async fn follow(&self, mut recorder: Option<Recorder>) -> Result<()> {
        let Source::Live(live, map) = &self.source else {
            return Ok(());
        };
        tokio::try_join!(
            Self::follow_samples(live, map, &mut recorder),
            live.follow_processes()
        )?;
        Ok(())
    }

    async fn follow_samples(live: &Live, map: &Map, recorder: &mut Option<Recorder>) -> Result<()> {
        let mut snapshots = live.sampler.subscribe();
        let mut watch = Watch::default();
        let mut last: Option<Sample> = None;
        while snapshots.changed().await.is_ok() {
            let snapshot = snapshots.borrow_and_update().clone();
            let mut sample = {
                let mut places = live.places.lock().unwrap_or_else(PoisonError::into_inner);
                places.follow(map, &snapshot.fabric);
                places.sample(&snapshot.fabric, &Frame::of(&snapshot))
            };
            sample.failure.clone_from(&snapshot.collection.failure);
            if watch.wants_discovery(&snapshot, &sample) {
                live.sampler.discover();
            }
            let happened = last
                .as_ref()
                .map(|last| events::between(map, last, &sample));
            for event in happened.into_iter().flatten() {
                if let Some(recorder) = recorder {
                    recorder.event(&event)?;
                }
                live.hub.event(event);
            }
            live.hub.sample(&sample);
            if let Some(recorder) = recorder
                && last.as_ref().is_none_or(|last| last.at_ms < sample.at_ms)
            {
                recorder.sample(&sample)?;
            }
            last = Some(sample);
        }
        Ok(())
    }
}

/// When the sampler had better look at the whole fabric anew: when a link has gone down, which its counter tells before
/// subnet administration is asked again, and now and then as long as a cable is not Active.
#[derive(Debug, Default)]
struct Watch {
    /// LinkDownedCounter, all ports together.
    downed: u64,
    asked: Option<Instant>,
}

impl Watch {
    fn wants_discovery(&mut self, snapshot: &Snapshot, sample: &Sample) -> bool {
        let downed = snapshot.readings.iter();
        let downed = downed
            .map(|reading| reading.counters[Counter::LinkDowned])
            .sum();
        let is_news = downed != std::mem::replace(&mut self.downed, downed);
        let is_due = self
            .asked
            .is_none_or(|asked| asked.elapsed() >= REDISCOVERY);
        let is_whole = sample.state.iter().all(|&state| state == ACTIVE);
        let wants = is_news || is_due && !is_whole;
        if wants {
            self.asked = Some(Instant::now());
        }
        wants
    }
}

impl Live {
    /// Tells the sampler what the supervisor says of processes, again and again.
    async fn follow_processes(&self) -> Result<()> {
        let mut ticks = tokio::time::interval(PROCESSES);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Without a supervisor there is nothing to tell.
            if let Ok(processes) = crate::sampling::processes(&self.dir, &self.state).await {
                self.sampler.set_processes(processes);
            }
        }
    }

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
