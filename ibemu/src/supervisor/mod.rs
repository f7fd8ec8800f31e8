//! The process that watches over one fabric: starts devices, holds their descriptors, tells
//! neighbours of the dead at once, and starts what is to be started again.
//!
//! It is not needed for traffic: when it is killed, the devices go on, and the next one adopts
//! them by `fabric.json`, the journal and `/proc`.

mod cables;
mod fleet;
mod journal;
pub mod protocol;
mod server;
mod spawn;
mod start;

pub(crate) use journal::recorded;
pub use server::run;
pub(crate) use spawn::GUEST_VARIABLES;
pub use spawn::{check_link_options, check_programs};
pub use start::{Client, ensure, launch};
