//! The supervisor of one fabric: starts devices, holds their pidfds, notifies neighbours of a
//! device that has ended, and restarts processes on request.
//!
//! It is not needed for traffic: when it is killed, the devices keep running, and the next one
//! adopts them by `fabric.json`, the journal and `/proc`.

mod cables;
mod fleet;
mod journal;
pub mod protocol;
mod server;
mod shared;
mod spawn;
mod start;

pub use journal::journaled;
pub(crate) use journal::recorded;
pub use server::run;
pub(crate) use spawn::GUEST_VARIABLES;
pub use spawn::{check_link_options, check_programs};
pub use start::{Client, ensure, launch};
