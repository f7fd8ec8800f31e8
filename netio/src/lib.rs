//! Sockets, threads, clocks and namespaces: the only crate of the workspace that touches the
//! operating system, and the only one with `unsafe`.
//!
//! - [`dataplane`]: the thread that owns a device core and its links ([`transport`]): it receives,
//!   hands in, pulls, sends, and sleeps in `epoll` until the next frame or deadline;
//! - [`seqpacket`], [`datagram`], [`fifo`]: local sockets and pipes, for the control thread;
//! - [`shared_memory`], [`process_memory`], [`event`]: memory, event descriptors and pipes shared with programs;
//!   [`ring`]: frames in memory that two daemons share;
//! - [`namespace`], [`process`]: for the command that starts daemons;
//! - [`directory`]: files that no other user can change; [`log_file`]: logs among them;
//!   [`secret_file`]: files that no other user can read;
//! - [`clock`], [`random`].
//!
//! Crate `daemon` builds daemons of these.

pub mod clock;
pub mod datagram;
pub mod dataplane;
pub mod directory;
mod error;
pub mod event;
pub mod fifo;
pub mod log_file;
mod memory;
pub mod namespace;
#[cfg(test)]
mod other_user;
mod poll;
pub mod process;
pub mod process_memory;
pub mod random;
pub mod ring;
pub mod secret_file;
pub mod seqpacket;
pub mod shared_memory;
pub mod transport;
pub mod tun;
mod words;

pub use error::NetError;
