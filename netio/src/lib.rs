//! Sockets, threads, clocks and namespaces: the only crate of the workspace that touches the
//! operating system, and the only one with `unsafe`.
//!
//! A daemon is two threads. The *dataplane* thread ([`dataplane`]) owns a device core and its
//! links ([`transport`]): it receives, hands in, pulls, sends, and sleeps in `epoll` until the next
//! frame or deadline. The *control* thread runs a tokio current-thread runtime with the local
//! sockets ([`control`], [`seqpacket`]). Bounded channels and event descriptors join them.
//!
//! [`recording`] keeps all that a device was handed and did in a file.
//!
//! [`daemon`] puts these together for a device.
//!
//! The rest serves the command that starts such daemons: [`namespace`], [`process`].

pub mod args;
pub mod cables;
pub mod clock;
pub mod control;
pub mod daemon;
pub mod datagram;
pub mod dataplane;
pub mod device;
mod error;
pub mod logging;
pub mod namespace;
mod poll;
pub mod process;
pub mod recording;
pub mod seqpacket;
pub mod signals;
pub mod transport;

pub use error::NetError;
