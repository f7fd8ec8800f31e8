//! An InfiniBand switch without IO.
//!
//! [`Switch`] is a [`link::Device`]: frames in, frames out, commands in, events out. It forwards by
//! its tables and computes no routes; a subnet manager writes the tables by management packets that
//! reach the switch over its own links.
//!
//! ```text
//!   port in                                                      port out
//!  +-----------------+   +------------------------------+   +----------------------+
//!  | checks, input   |   | LFT or MFT, SL2VL: the head  |   | output VLs, VL       |
//!  | VLs (credits),  |-->| of each input VL moves on    |-->| arbiter, credits,    |--> frame
//!  | VL15            |   | when its output VL has room  |   | pacing               |
//!  +-----------------+   +------------------------------+   +----------------------+
//!         |  VL15, LID of port 0                                      ^
//!         +-----------> SMI, SMA, PMA (crate `mad`) ------------------+
//! ```

mod config;
pub mod control;
mod crossbar;
mod inspect;
mod management;
mod node;
mod partitions;
mod plane;
mod ports;
mod switch;
mod tables;
mod timers;

pub use config::{SwitchConfig, SwitchError, Timing};
pub use switch::{Command, Event, Switch};
