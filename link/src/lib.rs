//! One InfiniBand port without IO, and the contract of a device that is made of such ports.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or draws an unseeded random number:
//! the same code runs in a daemon and in virtual time.
//!
//! - the contract: [`Device`], [`Input`], [`FrameBuf`], [`Deadline`], [`Time`];
//! - a port: [`Port`], built from a [`PortConfig`], with its [`PortState`], [`Arbiter`],
//!   [`SlToVl`] and [`Counts`];
//! - packets inside a device: [`Packet`], [`Pool`].

mod config;
mod counters;
mod credits;
mod device;
mod frame;
mod pacing;
mod packet;
mod pool;
mod port;
mod sl2vl;
mod state;
mod time;
mod training;
mod vl_buffer;
mod vlarb;

pub use config::{
    BLOCK_BYTES, CREDIT_BLOCKS_MAX, ConfigError, DATA_VLS_MAX, LinkTimeouts, Pacing, PortConfig,
    blocks, life_time_ns,
};
pub use counters::{Counts, DropReason, Drops, PortCounters};
pub use device::{Deadline, DeadlineCause, Device, Input, PortSet};
pub use frame::FrameBuf;
pub use packet::{Packet, PacketError};
pub use pool::{Payload, Pool, PoolError};
pub use port::{Admission, Arrival, Cause, Peer, PollTimes, Port, PortEvent, Refusal, SetState};
pub use sl2vl::SlToVl;
pub use state::{InvalidTransition, PhysicalState, PortState, PortStateEvent};
pub use time::Time;
pub use vlarb::{Arbiter, VLARB_ENTRIES_MAX};
