//! Follows the sampler: tells pages what it finds, writes it to the file of `--record`, and has it look at the whole
//! fabric when something has changed.

use std::convert::Infallible;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use monitor::events::Kind;
use monitor::model::Counter;
use monitor::{Frame, Snapshot};
use tokio::time::MissedTickBehavior;
use wire::choice::Choice as _;

use super::events::{self, Event};
use super::live::Happenings;
use super::map::Map;
use super::sample::Sample;
use super::site::{Live, Site, Source};
use super::store::Recording;
use crate::{sampling, verbs};

/// How often the whole fabric is looked at while a cable is not Active, and how much more seldom for each port.
const REDISCOVERY: Duration = Duration::from_secs(2);
const REDISCOVERY_A_PORT: Duration = Duration::from_millis(1);
/// The state of a cable that packets may cross.
const ACTIVE: u8 = 4;
/// How often the supervisor is asked for processes.
const PROCESSES: Duration = Duration::from_secs(5);

/// Follows for ever.
pub(super) async fn follow(site: &Site, recording: Option<Recording>) -> Infallible {
    if let Source::Live(live, map) = site.source() {
        tokio::select! {
            () = follow_samples(live, map, recording) => {}
            never = follow_processes(live) => match never {},
            never = follow_events(live, map) => match never {},
        }
    }
    std::future::pending().await
}

/// Tells the sampler what the supervisor says of processes, again and again.
async fn follow_processes(live: &Live) -> Infallible {
    let mut ticks = tokio::time::interval(PROCESSES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Without a supervisor there is nothing to tell.
        if let Ok(processes) = sampling::processes(&live.dir, &live.state).await {
            live.sampler.set_processes(processes);
        }
    }
}

/// Tells pages what is heard: traps, changes of the subnet manager, processes, drops. Cables and devices are told by what differs from
/// one sample to the next, in terms of the map.
async fn follow_events(live: &Live, map: &Map) -> Infallible {
    let hosts = verbs::hosts_to_hear_through(&live.dir, &live.state, None);
    let heard = hosts.and_then(|hosts| Ok(monitor::events::Events::start(hosts, &live.sampler)?));
    let (_stream, mut events) = match heard {
        Ok(heard) => heard,
        Err(error) => {
            let text = format!("no traps are heard: {error:#}");
            live.hub
                .event(Event::of_server(Kind::Listener.name(), text));
            std::future::pending().await
        }
    };
    while let Some(event) = events.recv().await {
        if !matches!(event.kind, Kind::Link | Kind::Device) {
            live.hub.event(Event::heard(map, event));
        }
    }
    std::future::pending().await
}

/// Ends with the sampler.
async fn follow_samples(live: &Live, map: &Map, mut recording: Option<Recording>) {
    let mut snapshots = live.sampler.subscribe();
    let mut watch = Watch::default();
    let mut last: Option<Sample> = None;
    let mut happenings = recording.is_some().then(|| live.hub.follow());
    while snapshots.changed().await.is_ok() {
        let snapshot = snapshots.borrow_and_update().clone();
        let sample = sample(live, map, &snapshot);
        if watch.wants_discovery(&snapshot, &sample) {
            live.sampler.discover();
        }
        let happened = last
            .as_ref()
            .map(|last| events::between(map, last, &sample));
        for event in happened.into_iter().flatten() {
            live.hub.event(event);
        }
        live.hub.sample(&sample);
        let is_later = last.as_ref().is_none_or(|last| last.at_ms < sample.at_ms);
        if is_later && sample.failure.is_none() {
            let events = happenings.as_mut().map(Happenings::all);
            record(live, &mut recording, &snapshot, &events.unwrap_or_default());
        }
        last = Some(sample);
    }
}

/// What a snapshot says of the map.
fn sample(live: &Live, map: &Map, snapshot: &Snapshot) -> Sample {
    let mut places = live.places.lock().unwrap_or_else(PoisonError::into_inner);
    places.follow(map, &snapshot.fabric);
    let sample = places.sample(&snapshot.fabric, &Frame::of(snapshot));
    Sample {
        failure: snapshot.collection.failure.clone(),
        ..sample
    }
}

/// Adds a snapshot, and what has happened since the one before, to the file. If that cannot be, the page goes on without it, and says so.
fn record(live: &Live, recording: &mut Option<Recording>, snapshot: &Snapshot, events: &[Event]) {
    let added = recording
        .as_mut()
        .map(|recording| recording.add(snapshot, events));
    if let Some(Err(error)) = added {
        *recording = None;
        let text = format!("nothing more is recorded: {error}");
        live.hub.event(Event::of_server("record", text));
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
        let ports: u32 = wire::convert::saturate(snapshot.fabric.ports.len());
        let after = REDISCOVERY + REDISCOVERY_A_PORT * ports;
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() >= after);
        let is_whole = sample.state.iter().all(|&state| state == ACTIVE);
        let wants = is_news || is_due && !is_whole;
        if wants {
            self.asked = Some(Instant::now());
        }
        wants
    }
}
