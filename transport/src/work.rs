//! Work requests: what a consumer asks of a queue pair.

use wire::Qpn;

use crate::ids::AhId;
use crate::memory::Remote;
use crate::status::WorkKind;

/// A piece of local memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Where it starts, in the region's terms.
    pub address: u64,
    /// Its length in bytes.
    pub length: u32,
    /// The local key of its region.
    pub lkey: u32,
}

/// The operation of a send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOperation {
    /// A message for a receive request of the peer.
    Send {
        /// Immediate data for its completion.
        immediate: Option<u32>,
    },
    /// A message that also invalidates a remote key of the peer (reliable connections).
    SendInvalidate {
        /// The key.
        rkey: u32,
    },
    /// Writes memory of the peer (connections).
    Write {
        /// Where.
        remote: Remote,
        /// Immediate data, which consumes a receive request of the peer.
        immediate: Option<u32>,
    },
    /// Reads memory of the peer (reliable connections).
    Read {
        /// Where.
        remote: Remote,
    },
    /// Compares and swaps eight bytes of the peer's memory (reliable connections).
    CompareSwap {
        /// Where; a multiple of 8.
        remote: Remote,
        /// The value to compare with.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
    /// Adds to eight bytes of the peer's memory (reliable connections).
    FetchAdd {
        /// Where; a multiple of 8.
        remote: Remote,
        /// The value to add.
        add: u64,
    },
}

impl Default for SendOperation {
    fn default() -> Self {
        Self::Send { immediate: None }
    }
}

impl SendOperation {
    /// The kind that its completion has.
    #[must_use]
    pub const fn kind(self) -> WorkKind {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } => WorkKind::Send,
            Self::Write { .. } => WorkKind::Write,
            Self::Read { .. } => WorkKind::Read,
            Self::CompareSwap { .. } => WorkKind::CompareSwap,
            Self::FetchAdd { .. } => WorkKind::FetchAdd,
        }
    }

    pub(crate) const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }

    /// Whether the peer answers with data rather than by an acknowledgement.
    pub(crate) const fn is_answered(self) -> bool {
        self.is_atomic() || matches!(self, Self::Read { .. })
    }

    /// Whether it takes a receive request of the peer.
    pub(crate) const fn takes_receive(self) -> bool {
        match self {
            Self::Send { .. } | Self::SendInvalidate { .. } => true,
            Self::Write { immediate, .. } => immediate.is_some(),
            Self::Read { .. } | Self::CompareSwap { .. } | Self::FetchAdd { .. } => false,
        }
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The path.
    pub handle: AhId,
    /// The queue pair; [`Qpn::MULTICAST`] for a group.
    pub qpn: Qpn,
    /// Its key. With the highest bit set, the sender's own key is sent instead (IBA 10.2.5).
    pub qkey: u32,
}

/// The data of a send request: named, or there at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// In memory regions; where the results of READs and atomics go. Read or written until completion.
    Scattered(&'a [Sge]),
    /// Inline: copied by the call.
    Inline(&'a [u8]),
}

/// A send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest<'a> {
    /// The consumer's name of the request, told by its completion.
    pub wr_id: u64,
    /// The operation.
    pub operation: SendOperation,
    /// The data.
    pub data: Data<'a>,
    /// Whether success makes a completion. Failure always does.
    pub signaled: bool,
    /// Whether it waits until all READs and atomics before it are done.
    pub fence: bool,
    /// Whether the peer's completion is a solicited event.
    pub solicited: bool,
    /// Where it goes; of datagrams only.
    pub destination: Option<Destination>,
}

/// A receive request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest<'a> {
    /// The consumer's name of the request, told by its completion.
    pub wr_id: u64,
    /// Where the message goes. A datagram's begins with 40 bytes for the global route header, whether it
    /// has one or not.
    pub sges: &'a [Sge],
}

/// A receive request in its queue.
#[derive(Debug, Default)]
pub(crate) struct ReceiveWork {
    pub(crate) wr_id: u64,
    pub(crate) sges: Vec<Sge>,
    /// Bytes that the scatter list has room for.
    pub(crate) room: u64,
}

impl ReceiveWork {
    pub(crate) fn fill(&mut self, request: &ReceiveRequest<'_>) {
        self.wr_id = request.wr_id;
        self.sges.clear();
        self.sges.extend_from_slice(request.sges);
        self.room = length(request.sges);
    }
}

/// Bytes of a scatter list.
pub(crate) fn length(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}
