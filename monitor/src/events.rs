//! What happens in a fabric, as it happens: a bounded stream of [`Event`]s.
//!
//! Traps are heard as a manager of real hardware hears them: a subscription at subnet administration (InformInfo,
//! IBA 13.4.8.3) through one host's MAD socket, a Report for each notice, which is answered. It is renewed every few
//! seconds, so that a new subnet manager has it as well, and ended when the stream ends. What no trap tells (sweeps,
//! tables, connections) comes from the logs of the fabric's own controllers; everything else is what has changed from
//! one [`Snapshot`](crate::Snapshot) to the next.
//!
//! ```text
//!   host's MAD socket ── Report(Notice) ──> listener ──┐
//!   controllers' sockets ── log ──────────> controllers ──┤
//!   Sampler ── Snapshot ──────────────────> changes ───┴─> bounded channel of Event
//! ```
//!
//! An event for which the channel has no room is counted as lost; the next one that finds room is preceded by one of
//! kind [`Kind::Lost`] that says how many. One program a host hears reports, as of a kernel's agents one has a class and
//! method: the stream takes the first of its hosts that is free, and another one when that host cannot hear any more.

mod changes;
mod controllers;
mod event;
mod listener;
mod names;
mod notice;
mod queue;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, watch};

pub use event::{Event, Kind};

use crate::sampler::{Sampler, Source};
use queue::Queue;

/// A host through which traps may be heard.
#[derive(Clone, Debug)]
pub struct Host {
    /// What it is called.
    pub name: String,
    /// Where it is asked.
    pub source: Source,
}

/// Events that may wait for their reader.
pub const EVENTS_WAITING_MAX: usize = 4096;

/// A stream at work; its subscription and its thread end when it is dropped.
#[derive(Debug)]
pub struct Events {
    stop: watch::Sender<bool>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Events {
    /// Starts to listen: to traps through the first of `hosts` whose reports no other program hears, and to what
    /// `sampler` sees. Events come out of the receiver, oldest first.
    ///
    /// What cannot be heard is an event itself ([`Kind::Listener`]), and is tried again.
    ///
    /// # Errors
    /// The system's, if the thread cannot be started.
    pub fn start(
        hosts: Vec<Host>,
        sampler: &Sampler,
    ) -> std::io::Result<(Self, mpsc::Receiver<Event>)> {
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        let (stop, stopped) = watch::channel(false);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = Queue::new(sender, Arc::clone(&lost));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = Arc::clone(&sampler.shared);
        let work = move || runtime.block_on(worker::work(&hosts, &shared, &queue, stopped));
        let thread = std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(work)?;
        let events = Self {
            stop,
            lost,
            thread: Some(thread),
        };
        Ok((events, receiver))
    }

    /// Events that were lost because their reader was too slow.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Ends the subscription and the thread: the receiver then has what is left, and the end. It takes a second at most.
    pub fn stop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop();
    }
}
