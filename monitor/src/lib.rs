//! What is known of a live fabric, as a manager of real hardware would see it: its devices and ports from subnet
//! administration, their counters from performance management, both by MADs through one host's MAD socket. Process
//! ids, restarts, CPU and memory come from the supervisor and the kernel, and from nowhere else.
//!
//! - [`model`]: the fabric and its ports, counters that never run backwards, rates; all of it to and from JSON;
//! - [`Sampler`]: samples every port once an interval, on a thread of its own: whatever the program around it does,
//!   samples are not late. The thread runs a tokio runtime, as every part of ibemu that waits for sockets does.
//! - [`History`]: the last hour in bounded memory;
//! - [`events`]: what happens, as it happens: traps that subnet administration reports, and what has changed from one
//!   sample to the next.
//!
//! ```text
//!   host's MAD socket ──> sampler (thread) ──> watch channel: the latest Snapshot
//!                              └─────────────> History: rates of the last hour
//!   another host's MAD socket ──> events (thread) ──> bounded channel of Event
//! ```

mod accumulate;
mod client;
pub mod events;
mod history;
mod metrics;
pub mod model;
mod sampler;
mod usage;
mod wall;

pub use history::{Frame, HISTORY_BYTES_MAX, History, HistoryError, Point, Recorder, fullest};
pub use metrics::{Format, render};
pub use model::Snapshot;
pub use sampler::{DeviceSocket, Options, Sampler, Source};
pub use usage::{Usage, usage_of};
