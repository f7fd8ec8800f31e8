//! The shell of a daemon: what stands between a core without IO and the operating system, and what
//! its local clients.
//!
//! A daemon is two threads. The dataplane thread ([`netio::dataplane`]) owns a device core and its
//! links. The control thread runs a tokio current-thread runtime with the local sockets. [`shell`]
//! puts them together for a device.
//!
//! - [`args`]: the options that all devices' daemons share;
//! - [`control`]: requests and replies over a local socket, the server and its clients; [`clients`]:
//!   how many there are at once;
//! - [`device`]: what every device's control socket answers; [`cables`]: the ends of its links; [`mod@capture`]: what passes them;
//! - [`recorder`]: writes all that a device was handed and did to a file (crate `recording`);
//! - [`logging`], [`signals`].

pub mod args;
pub mod cables;
pub mod capture;
pub mod choice;
pub mod clients;
pub mod control;
pub mod device;
pub mod hardware;
pub mod logging;
pub mod recorder;
pub mod shell;
pub mod signals;
