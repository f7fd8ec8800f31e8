//! Samples and events as they come, to any number of pages.
//!
//! A page that is slow costs nothing: it is sent the latest sample when it can take one, and of the events
//! the last [`EVENTS_WAITING`]; a text is made once for all pages.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::response::sse::{Event as Message, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use tokio::sync::{broadcast, watch};

use super::events::Event;
use super::sample::Sample;

/// Events that wait for one page.
const EVENTS_WAITING: usize = 256;
/// Events that are kept for pages that are opened later.
const EVENTS_KEPT: usize = 4096;
/// How often something is sent if nothing happens, so that a connection that is lost is noticed.
const ALIVE: Duration = Duration::from_secs(15);

/// What all pages are told.
#[derive(Debug)]
pub(super) struct Hub {
    sample: watch::Sender<Arc<str>>,
    events: broadcast::Sender<Event>,
    kept: Mutex<VecDeque<Event>>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self {
            sample: watch::Sender::new(Arc::from("")),
            events: broadcast::Sender::new(EVENTS_WAITING),
            kept: Mutex::default(),
        }
    }

    /// Tells all pages a sample.
    pub(super) fn sample(&self, sample: &Sample) {
        if let Ok(text) = serde_json::to_string(sample) {
            self.sample.send_replace(Arc::from(text));
        }
    }

    /// Tells all pages what has happened.
    pub(super) fn event(&self, event: Event) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == EVENTS_KEPT {
            kept.pop_front();
        }
        kept.push_back(event.clone());
        // Nobody may be listening.
        let _ = self.events.send(event);
    }

    /// The events that are kept, in order.
    pub(super) fn events(&self) -> Vec<Event> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }

    /// The events from now on.
    pub(super) fn follow(&self) -> Happenings {
        Happenings(self.events.subscribe())
    }

    /// What one page is told from now on: `sample` and `happened`.
    pub(super) fn listen(&self) -> Sse<impl Stream<Item = Result<Message, Infallible>> + use<>> {
        let mut samples = self.sample.subscribe();
        if !samples.borrow().is_empty() {
            samples.mark_changed();
        }
        let listener = (samples, self.events.subscribe());
        let messages = stream::unfold(listener, |(mut samples, mut events)| async move {
            let message = loop {
                tokio::select! {
                    biased;
                    event = events.recv() => match event {
                        Ok(event) => break happened(&event),
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => return None,
                    },
                    changed = samples.changed() => {
                        changed.ok()?;
                        let text = Arc::clone(&samples.borrow_and_update());
                        break Message::default().event("sample").data(&*text);
                    }
                }
            };
            Some((Ok(message), (samples, events)))
        });
        Sse::new(messages).keep_alive(KeepAlive::new().interval(ALIVE))
    }
}

/// The events since the last look, the latest [`EVENTS_WAITING`] at most.
#[derive(Debug)]
pub(super) struct Happenings(broadcast::Receiver<Event>);

impl Happenings {
    /// All that have come since.
    pub(super) fn all(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            match self.0.try_recv() {
                Ok(event) => events.push(event),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return events,
            }
        }
    }
}

fn happened(event: &Event) -> Message {
    let text = serde_json::to_string(event).unwrap_or_default();
    Message::default().event("happened").data(text)
}
