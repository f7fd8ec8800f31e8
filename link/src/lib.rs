//! One InfiniBand port without IO, and the contract of a device that is made of such ports.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or draws an unseeded random number:
//! the same code runs in a daemon and in virtual time.

pub mod control;
mod device;
mod frame;
mod time;

pub use device::{Deadline, Device, Input, PortSet, Why};
pub use frame::FrameBuf;
pub use time::Time;
