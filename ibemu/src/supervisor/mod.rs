//! The supervisor of one fabric: starts devices, holds their pidfds, notifies neighbours of a
//! device that has ended, and restarts processes on request.
//!
//! It is not needed for traffic: when it is killed, the devices keep running, and the next one
//! adopts them by `fabric.json`, the journal and `/proc`.

mod cables;
mod elsewhere;
mod fleet;
mod journal;
pub mod protocol;
mod server;
mod shared;
mod spawn;
mod start;
mod targets;

pub use journal::journaled;
pub(crate) use journal::recorded;
pub use server::run;
pub(crate) use server::{FILES_BESIDES, in_job};
pub(crate) use shared::join_here;
pub(crate) use spawn::{GUEST_VARIABLES, spawn_device};
pub use spawn::{check_link_options, check_programs};
pub use start::{Client, ensure, launch};
pub(crate) use targets::{describe, ignore_absent};
