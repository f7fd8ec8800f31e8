//! What a program's `/dev/infiniband/rdma_cm` and its host say to each other.
//!
//! ```text
//!  program: stock librdmacm        preload                          host
//!  open(/dev/infiniband/rdma_cm)   connect <node>.cm
//!                                  CmRequest::Open          ---->
//!                                       <---- CmReply, with a channel's number
//!  write(command)                  CmRequest::Command + [end of a socket pair]
//!                                                           ---->
//!                                       <---- CmReply, by that socket
//!  poll: readable                       <---- a token: a message of one byte
//! ```
//!
//! **Connection.** `AF_UNIX SOCK_SEQPACKET` at `<node>.cm`; it is the descriptor that the program has in place of
//! the device's. One is one event channel of librdmacm; all that was made by it goes with it. Each command brings
//! the socket for its reply, so that threads and forked processes share a channel without locks.
//!
//! **Commands** are those that programs write to the kernel's device (`rdma_user_cm.h`, version 4 of its interface):
//! header and structure as they are, in the machine's byte order. What a pointer in them points at comes beside
//! them; the bytes that the kernel would write come back in the reply.
//!
//! **Events.** The descriptor is readable while events wait. The host sends a token when the first one does, and tells
//! with the reply that takes the last one away ([`CmReply::take_token`]) that the token is to be taken, too.

mod command;
mod layout;

use bincode::{Decode, Encode};

pub use command::{Command, ConnectionParameters, QueryKind, RouteQuery, response_offset};
pub use layout::{
    AddressReply, DatagramParameters, EventParameters, EventReply, PathEntry, QpReply, RouteReply,
    SocketAddress,
};

/// Which version of the protocol this is; [`CmRequest::Open`] names the library's.
pub const VERSION: u32 = 1;
/// Version of the kernel's interface.
pub const ABI_VERSION: u32 = 4;
/// The device that programs open.
pub const DEVICE: &str = "/dev/infiniband/rdma_cm";
/// The longest command with its header, and the longest that a pointer in it points at, bytes.
pub const COMMAND_BYTES_MAX: usize = 4096;
/// The variable with the path of the host's socket.
pub const SOCKET: &str = "IBEMU_RDMA_CM";
/// The token that makes the descriptor readable.
pub const TOKEN: &[u8] = b"e";

/// More errnos of the device than [`crate::errno`] has.
pub mod errno {
    /// Nothing waits.
    pub const EAGAIN: u16 = 11;
    /// The device is not there.
    pub const ENODEV: u16 = 19;
    /// Not enough room for the answer.
    pub const ENOSPC: u16 = 28;
    /// There is no such command.
    pub const ENOSYS: u16 = 38;
    /// Another one has the address.
    pub const EADDRINUSE: u16 = 98;
    /// The host does not have the address.
    pub const EADDRNOTAVAIL: u16 = 99;
    /// No network of the host's has the address.
    pub const ENETUNREACH: u16 = 101;
    /// It does not answer.
    pub const ETIMEDOUT: u16 = 110;
    /// There is no way.
    pub const EHOSTUNREACH: u16 = 113;
}

/// From the library to the host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum CmRequest {
    /// Opens a channel. Answered by a reply on the connection itself, whose bytes are the channel's number, eight in
    /// the machine's order.
    Open {
        /// [`VERSION`].
        version: u32,
    },
    /// A command. One descriptor comes with it: the socket for its reply.
    Command {
        /// Header and structure.
        bytes: Vec<u8>,
        /// What a pointer of `SET_OPTION` points at.
        value: Vec<u8>,
        /// Of `MIGRATE_ID`: the number of the channel from which.
        channel: u64,
    },
}

/// From the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct CmReply {
    /// 0, or why not.
    pub errno: u16,
    /// What the kernel would write behind the command's pointer.
    pub bytes: Vec<u8>,
    /// A token is to be taken.
    pub take_token: bool,
}

impl CmReply {
    /// A refusal.
    #[must_use]
    pub fn refused(errno: u16) -> Self {
        Self {
            errno,
            ..Self::default()
        }
    }
}
