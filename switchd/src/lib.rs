//! An InfiniBand switch without IO.
//!
//! [`Switch`] is a [`link::Device`]: frames in, frames out, commands in, events out. It obeys its
//! tables and knows nothing of routes; a subnet manager writes the tables by management packets
//! that reach the switch over its own links.
//!
//! ```text
//!   port in                                                      port out
//!  +-----------------+   +------------------------------+   +----------------------+
//!  | checks, input   |   | LFT or MFT, SL2VL: the head  |   | output lanes, VL     |
//!  | lanes (credits) |-->| of each input lane moves on  |-->| arbiter, credits,    |--> frame
//!  | VL15            |   | when its output lane has room|   | pacing               |
//!  +-----------------+   +------------------------------+   +----------------------+
//!         |  VL15, LID of port 0                                      ^
//!         +-----------> SMI, SMA, PMA (crate `mad`) ------------------+
//! ```

mod config;
pub mod control;
mod crossbar;
mod management;
mod node;
mod plane;
mod ports;
mod shown;
mod switch;
mod tables;

pub use config::{SwitchConfig, SwitchError, Timing};
pub use switch::{Command, Event, Switch};
