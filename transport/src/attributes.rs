//! Attributes of queue pairs.

use core::fmt;

use wire::{Gid, Lid, Mtu, PortNum, Psn, Qpn, Service, Sl};

use crate::error::Refused;
use crate::ids::{CqId, PdId, SrqId};
use crate::memory::Access;

/// The state of a queue pair (IBA 10.3.1). The numbers are those of `ibv_qp_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QpState {
    /// Nothing is set, nothing happens.
    #[default]
    Reset = 0,
    /// Receive requests are taken.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// The send queue is being drained, or is.
    Sqd = 4,
    /// A send request has failed: no further ones are done (unreliable services).
    Sqe = 5,
    /// All work is flushed.
    Error = 6,
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Error => "ERR",
        })
    }
}

/// The service of a type of queue pair, by the number of `ibv_qp_type`.
///
/// # Errors
/// [`Refused::NotSupported`] for raw packets, extended reliable connections and a driver's own types;
/// [`Refused::Invalid`] for a number without meaning.
pub const fn service_of_type(number: u32) -> Result<Service, Refused> {
    match number {
        2 => Ok(Service::Rc),
        3 => Ok(Service::Uc),
        4 => Ok(Service::Ud),
        8 => Err(Refused::NotSupported("raw packets")),
        9 | 10 => Err(Refused::NotSupported("extended reliable connections (XRC)")),
        0xff => Err(Refused::NotSupported("a driver's own type of queue pair")),
        _ => Err(Refused::Invalid("there is no such type of queue pair")),
    }
}

/// The sizes of a queue pair's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Send requests that wait or are under way at most.
    pub send_requests: u32,
    /// Receive requests that wait at most; without meaning with a shared receive queue.
    pub receive_requests: u32,
    /// Pieces of a send request's memory at most.
    pub send_sges: u32,
    /// Pieces of a receive request's memory at most.
    pub receive_sges: u32,
    /// Inline bytes of a send request at most.
    pub inline_bytes: u32,
}

/// A queue pair to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpConfig {
    /// Its service.
    pub service: Service,
    /// Its protection domain.
    pub pd: PdId,
    /// Where its send requests complete.
    pub send_cq: CqId,
    /// Where its receive requests complete.
    pub receive_cq: CqId,
    /// The queue that it takes receive requests from, instead of one of its own.
    pub srq: Option<SrqId>,
    /// The sizes of its queues.
    pub capabilities: Capabilities,
    /// Whether all send requests are signaled.
    pub signal_all: bool,
}

/// A path to a peer (IBA 11.2.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Destination LID.
    pub dlid: Lid,
    /// Service level.
    pub sl: Sl,
    /// The low bits of the source LID, beyond the port's base LID.
    pub src_path_bits: u8,
    /// The global route; `None` leaves the header out.
    pub global: Option<GlobalPath>,
}

/// The global part of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalPath {
    /// Destination GID.
    pub dgid: Gid,
    /// The index of the source GID in the port's table.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub tclass: u8,
}

/// What is to be changed of a queue pair: what is `Some`, or `true`, is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpModify {
    /// The next state; without it the queue pair stays in its state.
    pub state: Option<QpState>,
    /// The state that the consumer takes the queue pair to be in: checked.
    pub current_state: Option<QpState>,
    /// The rights of the peer.
    pub access: Option<Access>,
    /// The index of the partition in the port's table.
    pub pkey_index: Option<u16>,
    /// The port.
    pub port: Option<PortNum>,
    /// The key that datagrams must carry.
    pub qkey: Option<u32>,
    /// The path to the peer.
    pub path: Option<Path>,
    /// The longest payload of a packet.
    pub path_mtu: Option<Mtu>,
    /// The peer's queue pair.
    pub dest_qpn: Option<Qpn>,
    /// The number of the first packet from the peer.
    pub rq_psn: Option<Psn>,
    /// The number of the first packet to the peer.
    pub sq_psn: Option<Psn>,
    /// READs and atomics under way to the peer at most.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics of the peer at most.
    pub max_dest_rd_atomic: Option<u8>,
    /// The timer code of RNR NAKs, 0..=31.
    pub min_rnr_timer: Option<u8>,
    /// How long an answer is awaited: 4.096 us * 2^n, 1..=31; 0 for ever.
    pub timeout: Option<u8>,
    /// How often a request is repeated, 0..=7.
    pub retry_count: Option<u8>,
    /// How often a request is repeated after an RNR NAK, 0..=6; 7 for ever.
    pub rnr_retry: Option<u8>,
    /// Whether an event tells that the send queue is drained.
    pub drained_event: Option<bool>,
    /// An alternate path, which this engine does not have: given, it is refused.
    pub alternate_path: Option<Path>,
    /// A state of path migration, which this engine does not have: given, it is refused.
    pub migration_state: Option<u8>,
}

/// The attributes of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpAttributes {
    /// Its state.
    pub state: QpState,
    /// Whether its send queue is being drained: of SQD only.
    pub draining: bool,
    /// The rights of the peer.
    pub access: Access,
    /// The index of the partition in the port's table.
    pub pkey_index: u16,
    /// The port.
    pub port: PortNum,
    /// The key that datagrams must carry.
    pub qkey: u32,
    /// The path to the peer.
    pub path: Path,
    /// The longest payload of a packet.
    pub path_mtu: Option<Mtu>,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The number of the next packet from the peer.
    pub rq_psn: Psn,
    /// The number of the next packet to the peer.
    pub sq_psn: Psn,
    /// READs and atomics under way to the peer at most.
    pub max_rd_atomic: u8,
    /// READs and atomics of the peer at most.
    pub max_dest_rd_atomic: u8,
    /// The timer code of RNR NAKs.
    pub min_rnr_timer: u8,
    /// How long an answer is awaited: 4.096 us * 2^n; 0 for ever.
    pub timeout: u8,
    /// How often a request is repeated.
    pub retry_count: u8,
    /// How often a request is repeated after an RNR NAK; 7 for ever.
    pub rnr_retry: u8,
}

impl QpAttributes {
    /// The longest payload of a packet, in bytes.
    #[inline]
    pub(crate) fn mtu(&self) -> usize {
        usize::from(self.path_mtu.map_or(256, Mtu::bytes))
    }

    /// How long an answer is awaited, in nanoseconds; `None` for ever.
    pub(crate) const fn timeout_ns(&self) -> Option<u64> {
        match self.timeout {
            0 => None,
            exponent => Some(4096 << exponent),
        }
    }
}
