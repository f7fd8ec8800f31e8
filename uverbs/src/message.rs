//! Requests of a library, and the host's replies.

use bincode::{Decode, Encode};

/// Numbers of refusals, as `errno.h` of Linux has them.
pub mod errno {
    /// There is no such object, file or port.
    pub const ENOENT: u16 = 2;
    /// The host could not do it; its log says why.
    pub const EIO: u16 = 5;
    /// There are as many as there may be.
    pub const ENOMEM: u16 = 12;
    /// Something else uses the object.
    pub const EBUSY: u16 = 16;
    /// A value makes no sense, or not in this state.
    pub const EINVAL: u16 = 22;
    /// The verbs have it, this host does not.
    pub const EOPNOTSUPP: u16 = 95;
}

/// Bits of the attributes of a queue pair: `ibv_qp_attr_mask`.
pub mod attribute {
    /// `qp_state`.
    pub const STATE: u32 = 1 << 0;
    /// `cur_qp_state`.
    pub const CUR_STATE: u32 = 1 << 1;
    /// `en_sqd_async_notify`.
    pub const EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
    /// `qp_access_flags`.
    pub const ACCESS_FLAGS: u32 = 1 << 3;
    /// `pkey_index`.
    pub const PKEY_INDEX: u32 = 1 << 4;
    /// `port_num`.
    pub const PORT: u32 = 1 << 5;
    /// `qkey`.
    pub const QKEY: u32 = 1 << 6;
    /// `ah_attr`.
    pub const AV: u32 = 1 << 7;
    /// `path_mtu`.
    pub const PATH_MTU: u32 = 1 << 8;
    /// `timeout`.
    pub const TIMEOUT: u32 = 1 << 9;
    /// `retry_cnt`.
    pub const RETRY_CNT: u32 = 1 << 10;
    /// `rnr_retry`.
    pub const RNR_RETRY: u32 = 1 << 11;
    /// `rq_psn`.
    pub const RQ_PSN: u32 = 1 << 12;
    /// `max_rd_atomic`.
    pub const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    /// `alt_ah_attr` and what belongs to it: refused.
    pub const ALT_PATH: u32 = 1 << 14;
    /// `min_rnr_timer`.
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    /// `sq_psn`.
    pub const SQ_PSN: u32 = 1 << 16;
    /// `max_dest_rd_atomic`.
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    /// `path_mig_state`: refused.
    pub const PATH_MIG_STATE: u32 = 1 << 18;
    /// `cap`: refused.
    pub const CAP: u32 = 1 << 19;
    /// `dest_qp_num`.
    pub const DEST_QPN: u32 = 1 << 20;
    /// `rate_limit`: refused.
    pub const RATE_LIMIT: u32 = 1 << 25;
}

/// The global part of an address: `ibv_global_route`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct GlobalAttributes {
    /// Destination GID.
    pub dgid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// An address: `ibv_ah_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct AddressAttributes {
    /// The global part; `None` if `is_global` is 0.
    pub global: Option<GlobalAttributes>,
    /// Destination LID.
    pub dlid: u16,
    /// Service level, 0..=15.
    pub sl: u8,
    /// The low bits of the source LID.
    pub src_path_bits: u8,
    /// Static rate: kept and told, without effect.
    pub static_rate: u8,
    /// The port: 1.
    pub port_num: u8,
}

/// Sizes of a queue pair's queues: `ibv_qp_cap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Capabilities {
    /// Send requests.
    pub max_send_wr: u32,
    /// Receive requests; 0 with a shared receive queue.
    pub max_recv_wr: u32,
    /// Pieces of a send request.
    pub max_send_sge: u32,
    /// Pieces of a receive request.
    pub max_recv_sge: u32,
    /// Inline bytes of a send request.
    pub max_inline_data: u32,
}

/// A memory region to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RegionInit {
    /// Its protection domain.
    pub pd: u32,
    /// Where it starts in the program's memory.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The address by which requests and peers know its start.
    pub iova: u64,
    /// Rights: `ibv_access_flags`.
    pub access: u32,
}

/// A queue pair to be created: `ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct QpInit {
    /// Its protection domain.
    pub pd: u32,
    /// `ibv_qp_type`.
    pub qp_type: u32,
    /// Where send requests complete.
    pub send_cq: u32,
    /// Where receive requests complete.
    pub recv_cq: u32,
    /// The queue that it takes receive requests from instead of one of its own.
    pub srq: Option<u32>,
    /// The sizes of its queues.
    pub cap: Capabilities,
    /// `sq_sig_all`.
    pub sq_sig_all: bool,
    /// The library's name of it, told by events.
    pub cookie: u64,
}

/// Attributes of a queue pair: `ibv_qp_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct QpAttributes {
    /// `ibv_qp_state`.
    pub qp_state: u32,
    /// `ibv_qp_state`.
    pub cur_qp_state: u32,
    /// `ibv_mtu`: 1 to 5.
    pub path_mtu: u32,
    /// Q_Key of datagrams.
    pub qkey: u32,
    /// The number of the next packet from the peer.
    pub rq_psn: u32,
    /// The number of the next packet to the peer.
    pub sq_psn: u32,
    /// The peer's queue pair.
    pub dest_qp_num: u32,
    /// `ibv_access_flags`.
    pub qp_access_flags: u32,
    /// The path to the peer.
    pub ah_attr: AddressAttributes,
    /// Index of the partition.
    pub pkey_index: u16,
    /// Whether an event tells that the send queue is drained.
    pub en_sqd_async_notify: bool,
    /// Whether the send queue is being drained; of a query.
    pub sq_draining: bool,
    /// READs and atomics to the peer.
    pub max_rd_atomic: u8,
    /// READs and atomics of the peer.
    pub max_dest_rd_atomic: u8,
    /// Timer code of RNR NAKs.
    pub min_rnr_timer: u8,
    /// The port: 1.
    pub port_num: u8,
    /// Timeout code.
    pub timeout: u8,
    /// Repetitions.
    pub retry_cnt: u8,
    /// Repetitions after RNR NAKs.
    pub rnr_retry: u8,
}

/// What an adapter can do: of `ibv_device_attr` what is not 0 or the same for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct DeviceAttributes {
    /// Node description.
    pub description: String,
    /// Node GUID.
    pub node_guid: u64,
    /// System image GUID.
    pub sys_image_guid: u64,
    /// Vendor.
    pub vendor_id: u32,
    /// Device.
    pub vendor_part_id: u32,
    /// Revision.
    pub hw_ver: u32,
    /// The longest region, bytes.
    pub max_mr_size: u64,
    /// Queue pairs of a context.
    pub max_qp: u32,
    /// Requests of a queue.
    pub max_qp_wr: u32,
    /// Pieces of a request.
    pub max_sge: u32,
    /// Inline bytes of a send request.
    pub max_inline_data: u32,
    /// Completion queues of a context.
    pub max_cq: u32,
    /// Completions of a queue.
    pub max_cqe: u32,
    /// Regions of a context.
    pub max_mr: u32,
    /// Protection domains of a context.
    pub max_pd: u32,
    /// READs and atomics of the peer of a queue pair.
    pub max_qp_rd_atom: u32,
    /// READs and atomics to the peer of a queue pair.
    pub max_qp_init_rd_atom: u32,
    /// Shared receive queues of a context.
    pub max_srq: u32,
    /// Requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// Pieces of a request of a shared receive queue.
    pub max_srq_sge: u32,
    /// Address handles of a context.
    pub max_ah: u32,
    /// Multicast groups of the port.
    pub max_mcast_grp: u32,
    /// Queue pairs of one multicast group.
    pub max_mcast_qp_attach: u32,
    /// The port.
    pub port: PortAttributes,
}

/// The port: `ibv_port_attr`, GIDs and partition keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct PortAttributes {
    /// Its number at the adapter; the device has it as port 1.
    pub number: u8,
    /// `ibv_port_state`: 1 to 4.
    pub state: u8,
    /// PortPhysicalState.
    pub phys_state: u8,
    /// `ibv_mtu` of what the port can.
    pub max_mtu: u8,
    /// `ibv_mtu` of the link.
    pub active_mtu: u8,
    /// The longest message, bytes.
    pub max_msg_sz: u32,
    /// CapabilityMask.
    pub port_cap_flags: u32,
    /// Packets whose P_Key was refused.
    pub bad_pkey_cntr: u32,
    /// Packets whose Q_Key was refused.
    pub qkey_viol_cntr: u32,
    /// Base LID.
    pub lid: u16,
    /// The subnet manager's LID.
    pub sm_lid: u16,
    /// LMC.
    pub lmc: u8,
    /// Virtual lanes: VLCap.
    pub max_vl_num: u8,
    /// The subnet manager's service level.
    pub sm_sl: u8,
    /// SubnetTimeOut.
    pub subnet_timeout: u8,
    /// InitTypeReply.
    pub init_type_reply: u8,
    /// LinkWidthActive: 1 (1x), 2 (4x), 4 (8x), 8 (12x), 16 (2x).
    pub active_width: u8,
    /// Speed as ibverbs has it: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR, 256 XDR.
    pub active_speed: u16,
    /// GIDs: all entries of the table in use, and zeros behind them left out.
    pub gids: Vec<[u8; 16]>,
    /// GIDs that the table has room for.
    pub gid_tbl_len: u32,
    /// Partition keys: the table's first entries; behind them are zeros.
    pub pkeys: Vec<u16>,
    /// Keys that the table has room for.
    pub pkey_tbl_len: u16,
}

/// A request of a library.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// The first one: opens a context. One descriptor comes with it: the program's `/proc/self/mem`, open for
    /// reading and writing. Answered by [`Reply::Opened`].
    Open {
        /// [`crate::VERSION`].
        version: u32,
        /// The port of the adapter, from 1.
        port: u8,
    },
    /// Asks what the adapter is and how its port stands. Answered by [`Reply::Device`].
    Describe,
    /// Makes a protection domain. Answered by [`Reply::Handle`].
    AllocPd,
    /// Destroys one.
    DeallocPd {
        /// It.
        pd: u32,
    },
    /// Registers memory. Answered by [`Reply::Handle`]: its local and its remote key.
    RegMr(RegionInit),
    /// Registers memory anew, under the key that it has.
    ReregMr {
        /// Its key.
        key: u32,
        /// What it is from now on.
        region: RegionInit,
    },
    /// Deregisters memory.
    DeregMr {
        /// Its key.
        key: u32,
    },
    /// Makes an address handle. Answered by [`Reply::Handle`].
    CreateAh {
        /// Its protection domain.
        pd: u32,
        /// The address.
        attributes: AddressAttributes,
    },
    /// Destroys one.
    DestroyAh {
        /// It.
        handle: u32,
    },
    /// Makes a completion channel. Answered by [`Reply::Handle`] with a descriptor: the end of a pipe from which
    /// each completion event is read as the eight bytes of its queue's cookie, in the machine's byte order.
    CreateChannel,
    /// Destroys one; no completion queue uses it.
    DestroyChannel {
        /// It.
        channel: u32,
    },
    /// Makes a completion queue. Answered by [`Reply::Cq`] with a descriptor: its ring.
    CreateCq {
        /// Completions at least.
        entries: u32,
        /// The channel that tells of completions.
        channel: Option<u32>,
        /// The library's name of it, told by events.
        cookie: u64,
    },
    /// Changes the size of a completion queue. Answered by [`Reply::Cq`] with a descriptor: its new ring, where
    /// completions from now on are; those in the old one are before them. The arming of the old one is void: the
    /// library arms the new one if it has armed the old one and has had no event.
    ResizeCq {
        /// It.
        cq: u32,
        /// Completions at least.
        entries: u32,
    },
    /// Destroys a completion queue.
    DestroyCq {
        /// It.
        cq: u32,
    },
    /// Makes a shared receive queue. Answered by [`Reply::Srq`] with a descriptor: its ring.
    CreateSrq {
        /// Its protection domain.
        pd: u32,
        /// Requests at least.
        max_wr: u32,
        /// Pieces of a request.
        max_sge: u32,
        /// The library's name of it, told by events.
        cookie: u64,
    },
    /// Has an event told when fewer requests are left; 0 disarms.
    ModifySrq {
        /// The queue.
        srq: u32,
        /// How many.
        limit: u32,
    },
    /// Asks for the limit that is armed. Answered by [`Reply::Handle`].
    QuerySrq {
        /// The queue.
        srq: u32,
    },
    /// Destroys a shared receive queue.
    DestroySrq {
        /// It.
        srq: u32,
    },
    /// Makes a queue pair. Answered by [`Reply::Qp`] with descriptors: the ring of its send queue and, without a
    /// shared receive queue, that of its receive queue.
    CreateQp(Box<QpInit>),
    /// Changes a queue pair.
    ModifyQp {
        /// It.
        qpn: u32,
        /// Which attributes are given: bits of [`attribute`].
        mask: u32,
        /// They.
        attributes: Box<QpAttributes>,
    },
    /// Asks for a queue pair's attributes. Answered by [`Reply::QpAttributes`].
    QueryQp {
        /// It.
        qpn: u32,
    },
    /// Destroys a queue pair.
    DestroyQp {
        /// It.
        qpn: u32,
    },
    /// Attaches a queue pair to a multicast group.
    AttachMcast {
        /// It.
        qpn: u32,
        /// The group.
        gid: [u8; 16],
    },
    /// Detaches one.
    DetachMcast {
        /// It.
        qpn: u32,
        /// The group.
        gid: [u8; 16],
    },
}

/// The host's reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// It is done.
    Done,
    /// It is not done.
    Refused {
        /// Why, as a number of [`errno`].
        errno: u16,
        /// Why, for people.
        why: String,
    },
    /// A context is open. Descriptors: the doorbell, an event descriptor ([`crate::doorbell`]); the doorbell
    /// page; the end of a pipe from which asynchronous events are read, 16 bytes each ([`AsyncEvent`]).
    Opened(Box<DeviceAttributes>),
    /// The adapter and its port.
    Device(Box<DeviceAttributes>),
    /// An object's handle, or another number.
    Handle(u32),
    /// A completion queue.
    Cq {
        /// Its handle.
        cq: u32,
        /// Completions that its ring has room for; its entries have [`crate::entry::COMPLETION_WORDS`].
        entries: u32,
    },
    /// A shared receive queue.
    Srq {
        /// Its handle.
        srq: u32,
        /// Requests that it takes; its ring has room for the next power of two.
        max_wr: u32,
        /// Pieces of a request; its entries have [`crate::entry::receive_stride`] of them.
        max_sge: u32,
        /// Its number at the doorbell.
        doorbell: u32,
    },
    /// A queue pair.
    Qp {
        /// Its number.
        qpn: u32,
        /// What its queues take. Their rings have room for the next power of two; their entries have
        /// [`crate::entry::send_stride`] and [`crate::entry::receive_stride`] of these sizes.
        cap: Capabilities,
        /// The number of its send queue at the doorbell.
        send_doorbell: u32,
        /// The number of its receive queue at the doorbell; 0 with a shared receive queue.
        receive_doorbell: u32,
    },
    /// What a queue pair is set to.
    QpAttributes(Box<QpAttributes>),
}

/// An asynchronous event, as it is in the pipe: `ibv_event_type`, 4 bytes; the port (1) or 0, 4 bytes; the cookie
/// of the completion queue, queue pair or shared receive queue, 8 bytes; in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AsyncEvent {
    /// `ibv_event_type`.
    pub kind: u32,
    /// The port; 0 if it is of an object.
    pub port: u32,
    /// The object's cookie; 0 if it is of the port.
    pub cookie: u64,
}

impl AsyncEvent {
    /// Bytes of an event.
    pub const BYTES: usize = 16;

    /// The event's bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.port.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_ne_bytes());
        bytes
    }

    /// Reads an event.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, cookie @ ..] = *bytes;
        Self {
            kind: u32::from_ne_bytes([a, b, c, d]),
            port: u32::from_ne_bytes([e, f, g, h]),
            cookie: u64::from_ne_bytes(cookie),
        }
    }
}
