//! An InfiniBand channel adapter without IO: QP0 and its subnet management agent, QP1 and its
//! performance agent, queue pairs of
//! programs' verbs and their connections, a ping responder, and a traffic source and
//! sink.

mod adapter;
pub mod addresses;
mod clients;
mod connections;
pub mod control;
mod endpoint;
mod host;
mod ipoib;
mod latency;
mod membership;
mod memory;
mod multicast;
mod outbox;
mod ping;
mod service;
mod traffic;
mod verbs;

/// The environment variable with the base of the abstract names on which the daemon answers ibsim's client
/// library, where its option `--umad-socket` is not given.
pub const UMAD_SOCKET: &str = "IBEMU_UMAD_SOCKET";

pub use clients::ClientId;
pub use connections::{FromCm, ToCm};
pub use host::{Command, Event, Host, HostConfig};
pub use ipoib::{FromIp, HEADROOM, IpPort, MTU_FIRST, OUTGOING_MAX, ToIp};
pub use verbs::{FromVerbs, Object, ToVerbs};
