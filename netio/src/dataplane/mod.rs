//! The dataplane thread: runs one device core over its links.
//!
//! ```text
//!            ┌──────────────────────── sleep in epoll ◄───────────────────────┐
//!            ▼        (until a frame, request, room to send, a deadline)     │
//!   interfaces → receive on every ready port → requests → tick ─► transmit ─► events
//!                       │ Input::Frame           │ Input::Command    ▲          │
//!                       └────────► device core ◄─┘                   │          ▼
//!                                       └────────── frames ──────────┘    control thread
//! ```
//!
//! All that waits is received before anything is sent, so that frames fill by themselves and the
//! arbiter has a choice. Every loop is bounded; what is left over is taken up in the next round,
//! after one look at everything else. A core that wants to be called at once, again and again, without
//! anything to do is called every 50 microseconds.
//!
//! Links in shared memory are looked at in each round, and for a moment before the thread sleeps, if a core is free and that has been
//! worth it lately (`spin.rs`). Before it sleeps it has their peers ring, and looks again.
//!
//! Frames that the system does not take are kept, and nothing more is pulled for that port until
//! they have gone. Frames that come before the core has been handed a carrier are dropped and counted.

mod handle;
mod port;
mod shell;
mod spin;
mod tap;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread;

use link::Device;
use tokio::sync::Notify;

pub use handle::{Events, Handle, RequestError, Running};
pub use tap::{Captured, Tap, Taps};

use crate::NetError;
use crate::event::Doorbells;
use crate::poll::EventFd;
use crate::transport::Link;

/// Requests that wait for the dataplane thread at most.
const REQUESTS_MAX: usize = 256;

/// Events that wait for the control thread at most. Further ones wait in the core.
const EVENTS_MAX: usize = 256;

/// The stack of a dataplane thread, bytes.
const STACK_BYTES: usize = 512 * 1024;

/// How the thread runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The thread's name, as `top -H` shows it; 15 bytes are kept.
    pub name: String,
    /// Records that a frame holds at most, 1 or more.
    pub frame_packets: usize,
}

/// Starts the thread. `build` makes the core on it, so that a core need not be able to move between
/// threads. To be called inside a tokio runtime with IO.
///
/// # Errors
/// If descriptors or the thread cannot be had.
pub fn spawn<D, B>(
    settings: Settings,
    links: Vec<Link>,
    build: B,
) -> Result<Running<D::Command, D::Event>, NetError>
where
    D: Device,
    D::Command: Send + 'static,
    D::Event: Send + 'static,
    B: FnOnce() -> D + Send + 'static,
{
    spawn_with(settings, links, None, build)
}

/// As [`spawn`]; the device gets a tick when one of `doorbells` has been signalled.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_with<D, B>(
    settings: Settings,
    links: Vec<Link>,
    doorbells: Option<Doorbells>,
    build: B,
) -> Result<Running<D::Command, D::Event>, NetError>
where
    D: Device,
    D::Command: Send + 'static,
    D::Event: Send + 'static,
    B: FnOnce() -> D + Send + 'static,
{
    let failed = |source| NetError::new("set up the dataplane thread", source);
    let request_wake = Arc::new(EventFd::new().map_err(failed)?);
    let event_wake = Arc::new(EventFd::new().map_err(failed)?);
    let room = Arc::new(Notify::new());
    let (request_sender, requests) = crossbeam_channel::bounded(REQUESTS_MAX);
    let (event_sender, event_receiver) = crossbeam_channel::bounded(EVENTS_MAX);
    let channels = shell::Channels {
        requests,
        request_wake: Arc::clone(&request_wake),
        room: Arc::clone(&room),
        events: event_sender,
        event_wake: Arc::clone(&event_wake),
    };
    let frame_packets = settings.frame_packets.max(1);
    let prepared = shell::Prepared::new(links, channels, doorbells, frame_packets)?;
    let events = Events::new(event_receiver, event_wake).map_err(failed)?;
    let thread = thread::Builder::new()
        .name(settings.name)
        .stack_size(STACK_BYTES)
        .spawn(move || {
            crate::process::schedule_as_batch();
            prepared.run(build());
        })
        .map_err(failed)?;
    Ok(Running {
        handle: Handle::new(request_sender, request_wake, room),
        events,
        thread,
    })
}
