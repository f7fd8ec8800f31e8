//! One InfiniBand port without IO, and the contract of a device that is made of such ports.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or draws an unseeded random number:
//! the same code runs in a daemon and in virtual time.
//!
//! - the contract: [`Device`], [`Input`], [`FrameBuf`], [`Deadline`], [`Time`];
//! - a port: [`Port`], built from a [`PortConfig`], with its [`PortState`], [`Arbiter`],
//!   [`SlToVl`] and [`Counts`];
//! - packets inside a device: [`Packet`], [`Pool`]; without bytes: [`HandedPacket`];
//! - a cable over a network that loses datagrams: [`retry`];
//! - what a device says of itself: [`Hardware`].

mod config;
mod counters;
mod credits;
mod detail_counts;
mod device;
mod frame;
mod handed;
mod hardware;
mod pacing;
mod packet;
mod pool;
mod port;
pub mod retry;
mod sl2vl;
mod state;
mod time;
mod training;
mod vl_buffer;
mod vlarb;

pub use config::{
    BLOCK_BYTES, CREDIT_BLOCKS_MAX, ConfigError, LinkTimeouts, Pacing, PortConfig, blocks,
    life_time_ns,
};
pub use counters::{Counts, DropReason, Drops, SpecCounters};
pub use detail_counts::{DetailCounts, LevelCounts};
pub use device::{Deadline, DeadlineCause, Device, Input, PortSet};
pub use frame::FrameBuf;
pub use handed::HandedPacket;
pub use hardware::Hardware;
pub use packet::{Packet, PacketError};
pub use pool::{Payload, Pool, PoolError};
pub use port::{
    Admission, Arrival, Cause, Peer, PollTimes, Port, PortEvent, Refusal, queued_counters,
};
pub use sl2vl::SlToVl;
pub use state::{InvalidTransition, LinkCommand, PhysicalState, PortState, PortStateEvent};
pub use time::Time;
pub use vlarb::{Arbiter, VLARB_ENTRIES_MAX};
