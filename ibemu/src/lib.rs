//! The parts of the `ibemu` command: bring a fabric up, look at it, send through it, take it down.
//!
//! `up` plans the fabric ([`state`]), makes namespaces and cables ([`net`]) and starts the
//! supervisor, which starts the devices. Every other verb reads `fabric.json` and asks the
//! processes themselves over their control sockets.

pub mod accounting;
pub mod adapters;
pub mod addresses;
pub mod ask;
pub mod capture;
pub mod chaos;
pub mod cli;
pub mod configured;
pub mod dir;
pub mod drops;
mod engines;
pub mod levels;
pub mod lids;
pub mod linkup;
pub mod logs;
pub mod machines;
pub mod mads;
pub mod names;
pub mod net;
pub mod output;
pub mod paths;
pub mod process;
mod progress;
pub mod quantity;
pub mod recordings;
mod routes;
pub mod sampling;
pub mod setup;
mod shape;
pub mod state;
pub mod supervisor;
pub mod teardown;
mod traffic;
mod tunnels;
mod umad;
pub mod usage;
pub mod verbs;
pub mod verify;
pub mod web;
