//! What a program's verbs library and its host say to each other.
//!
//! ```text
//!  library (a context)                              host
//!  connect <node>.verbs
//!  Request::Open + /proc/self/mem          ---->
//!            <----  Reply::Opened + [doorbell, doorbell page, asynchronous events]
//!  Request::CreateQp                       ---->
//!            <----  Reply::Qp + [send queue, receive queue]
//!
//!  work: entries in the queues' memory     ====>    (doorbell only if the host sleeps)
//!            <====  completions in the memory of completion queues
//!            <----  8 bytes in a channel's pipe, 16 bytes in the pipe of asynchronous events
//! ```
//!
//! **Connection.** `AF_UNIX SOCK_SEQPACKET` at `<node>.verbs` beside `<node>.ibumad`. One connection is one
//! `ibv_context`, for one port of the adapter; the device that a program sees has that port as its port 1. One
//! message a packet ([`Request`], [`Reply`], encoded by `wire::control`), one reply a request, in order;
//! descriptors come with a reply by `SCM_RIGHTS`. When the connection ends, everything that was made by it is
//! destroyed.
//!
//! **Numbers** are those of ibverbs: types, states, access rights, attribute masks, status and operation codes;
//! a refusal is an errno. Numbers that ibverbs has in network byte order (immediate data) are plain here.
//!
//! **Memory.** The library sends a descriptor of its `/proc/self/mem`, open for reading and writing, with
//! [`Request::Open`]. The host reads and writes registered memory by it; it works across user ids, and no
//! longer once the program has ended.
//!
//! **Queues** are memory files that the host makes, seals against change of size, and sends with the reply that
//! creates them: send and receive queues, shared receive queues, completion queues. [`ring`] has their layout,
//! [`entry`] that of their entries, [`doorbell`] how the host is woken.
//!
//! **Destroyed and reset queue pairs.** The library is the consumer of completion queues, so it is the library
//! that removes completions of a queue pair that is destroyed or reset: when the reply has come, all of them are
//! in the ring.

pub mod cm;
pub mod doorbell;
pub mod entry;
mod message;
pub mod ring;

pub use message::{
    AddressAttributes, AsyncEvent, Capabilities, DeviceAttributes, GlobalAttributes,
    PortAttributes, QpAttributes, QpInit, RegionInit, Reply, Request, attribute, errno,
};

/// Which version of the protocol this is; [`Request::Open`] names the library's.
pub const VERSION: u32 = 1;
