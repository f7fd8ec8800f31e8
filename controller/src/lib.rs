//! The subnet manager of a fabric, without IO: it discovers the subnet, gives LIDs, computes
//! forwarding tables with the `routing` crate, programs every device by management packets, and
//! keeps the subnet routed while cables and devices come and go. It also answers the queries of
//! the subnet administrator that programs on the hosts need most, promises bandwidth to connections
//! (VLARB01), and on Clos fabrics gives senders ways that share no link (CLOS04).
//!
//! A shell runs an [`Sm`] beside an end node, whose MAD socket carries
//! [`mad::local::ToAgent`] and [`mad::local::FromAgent`]:
//!
//! ```text
//!   sm.tick(now)                       once, to start
//!   loop {
//!       while let Some(event)   = sm.poll_event()    { log it; persist the text it carries }
//!       while let Some(message) = sm.poll_transmit() { send it to the host's MAD socket }
//!       wait for the socket, the control socket, or sm.deadline()
//!       received:  sm.handle(now, message)
//!       deadline:  sm.tick(now)
//!       control:   sm.status(now), sm.resweep(now)
//!   }
//! ```
//!
//! Events come first: what is to be remembered is written before anybody is told that it stands.
//!
//! Nothing here reads a clock, opens a socket or draws an unseeded random number: the same code
//! runs in the daemon and in virtual time.

mod config;
pub mod control;
mod discovery;
mod election;
mod event;
mod exchange;
mod grouping;
mod groups;
mod guid2lid;
mod light_sweep;
mod plan;
mod port_settings;
mod qos;
mod report;
mod sa;
mod sm;
mod smp;
mod statements;
mod subnet;
mod sweep;
mod traps;
mod vendor;
mod windows;
mod writer;

pub use config::{ConfigError, QosChoice, RoutingChoice, SmConfig, UnknownRouting};
pub use event::{SmEvent, UpSummary};
pub use sm::Sm;
