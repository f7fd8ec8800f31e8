//! The InfiniBand transport layer without IO: queue pairs as IBA volume 1 chapters 9 to 11 have them, and what
//! belongs to them.
//!
//! ```text
//!  consumer (verbs)                    Engine                         port
//!  create_*, modify_qp  ---->  objects: domains, regions,
//!  post_send, post_receive -->   handles, queues
//!                                 |
//!                              queue pair: requester  ----> transmit ----> packets out
//!  poll_cq, poll_event  <----             responder   <---- receive  <---- packets in
//!                                 |              ^
//!                              Memory (data)     tick (time), deadline
//!  consumer in the host
//!  send_direct, prepare  ---------------------------------------> packets out
//!  Taken (by reference)  <--- direct queue pairs <--------------- packets in
//! ```
//!
//! An [`Engine`] is the transport of one port. All data is read and written where the consumer has it, by the
//! trait [`Memory`], for long messages many packets at a time; no packet allocates in the steady state. What is sent is
//! pulled ([`Engine::transmit`]), so that acknowledgements coalesce while the port is busy.
//!
//! Left out on purpose: path migration, extended reliable connections (XRC), reliable datagrams, memory
//! windows, raw packets. They are refused by [`Refused::NotSupported`].

mod attributes;
mod completion;
mod direct;
mod engine;
mod error;
mod event;
mod ids;
mod memory;
mod modify;
mod objects;
mod qp;
mod ring;
mod shared;
mod shared_receive;
mod slab;
mod stage;
mod status;
mod work;

pub use attributes::{
    Capabilities, GlobalPath, Path, QpAttributes, QpConfig, QpModify, QpState, service_of_type,
};
pub use completion::{Arming, Completion, DatagramInfo};
pub use direct::{
    DIRECT_MAX, DirectQp, DirectSend, DirectSet, Partition, Prepared, SendDrop, Taken,
};
pub use engine::{Engine, Transmitted};
pub use error::Refused;
pub use event::{Event, QpEvent};
pub use ids::{AhId, CqId, PdId, SrqId};
pub use memory::{Access, Atomic, Memory, MemoryFault, RegionConfig, Remote, SpaceId};
pub use shared::{Limits, PacketDrop, PortAttributes};
pub use status::{Status, WorkKind};
pub use work::{Data, Destination, ReceiveRequest, SendOperation, SendRequest, Sge};
