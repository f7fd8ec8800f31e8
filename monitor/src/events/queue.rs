//! The way of events to their reader, who may be slow: a bounded channel, and a count of what it did not take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::event::{Event, Kind};

/// The sending end.
#[derive(Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Event>,
    /// Events lost since the start.
    lost: Arc<AtomicU64>,
    /// Of those, how many the reader has been told of.
    told: AtomicU64,
}

impl Queue {
    pub(super) fn new(sender: mpsc::Sender<Event>, lost: Arc<AtomicU64>) -> Self {
        Self {
            sender,
            lost,
            told: AtomicU64::new(0),
        }
    }

    /// Sends an event, or counts it as lost. The first that finds room again comes behind one that says how many
    /// were lost.
    pub(super) fn push(&self, event: Event) {
        let lost = self.lost.load(Ordering::Relaxed);
        let untold = lost - self.told.load(Ordering::Relaxed);
        if untold > 0 {
            let text = format!("{untold} events were lost: their reader was too slow");
            let told = Event::new(Kind::Lost, text).with("count", untold);
            if self.sender.try_send(told).is_ok() {
                self.told.store(lost, Ordering::Relaxed);
            }
        }
        if self.sender.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
