//! The verbs of programs beside a port: contexts, what they own, and their work.
//!
//! ```text
//!  ToVerbs   --->  Verbs: who owns what  --->  transport::Engine  <--->  packets of the port
//!  FromVerbs <---         completions    <---                     <--->  memory of programs
//! ```
//!
//! A context is a connection of a program's library ([`uverbs`]). It sees the objects that it has made, and no
//! others; when it ends, they do. What is shared with the program (rings, channels) is the shell's business: the
//! core gets requests and hands out completions.

mod attributes;
mod requests;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bincode::{Decode, Encode};
use link::Time;
use transport::{
    AhId, CqId, Engine, Limits, PacketDrop, PdId, PortAttributes, QpConfig, Sge, SrqId,
};
use uverbs::entry::{Completion, Receive, Send};
use uverbs::{DeviceAttributes, Reply, Request};
use wire::{Gid, PortNum, Qpn};

use crate::clients::ClientId;
use attributes::Refusal;
use work::Pending;

/// From a context to the host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ToVerbs {
    /// Opens a context of a port. Answered by [`Reply::Opened`].
    Open {
        /// The port.
        port: PortNum,
    },
    /// A request of the library. Answered by [`FromVerbs::Reply`], in order.
    Request(Request),
    /// Send requests of a queue pair.
    Send {
        /// The queue pair.
        qpn: u32,
        /// They.
        requests: Vec<Send>,
    },
    /// Receive requests of a queue pair.
    Receive {
        /// The queue pair.
        qpn: u32,
        /// They.
        requests: Vec<Receive>,
    },
    /// Receive requests of a shared receive queue.
    SrqReceive {
        /// The queue.
        srq: u32,
        /// They.
        requests: Vec<Receive>,
    },
    /// A ring has had no room for a completion.
    Overrun {
        /// Its completion queue.
        cq: u32,
    },
}

/// What an asynchronous event is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Object {
    /// The port.
    Port,
    /// A queue pair.
    QueuePair(u32),
    /// A completion queue.
    Cq(u32),
    /// A shared receive queue.
    Srq(u32),
}

/// From the host to a context.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FromVerbs {
    /// The answer to [`ToVerbs::Open`] or [`ToVerbs::Request`].
    Reply(Reply),
    /// Completions, for the ring of their queue.
    Completions {
        /// The queue.
        cq: u32,
        /// Whether one of them is of a solicited message, or of a request that failed.
        solicited: bool,
        /// They.
        completions: Vec<Completion>,
    },
    /// An asynchronous event.
    Event {
        /// `ibv_event_type`.
        kind: u32,
        /// Of what.
        of: Object,
    },
}

/// Objects of one context at most, by kind.
mod limit {
    pub(super) const DOMAINS: usize = 1024;
    pub(super) const REGIONS: usize = 1 << 15;
    pub(super) const HANDLES: usize = 1 << 14;
    pub(super) const COMPLETION_QUEUES: usize = 4096;
    pub(super) const SHARED_QUEUES: usize = 1024;
    pub(super) const QUEUE_PAIRS: usize = 4096;
    /// Requests of a queue.
    pub(super) const REQUESTS: u32 = 1 << 14;
    /// Completions of a queue.
    pub(super) const COMPLETIONS: u32 = 1 << 18;
    /// Requests of all queues together.
    pub(super) const REQUESTS_IN_ALL: u64 = 1 << 20;
    /// Completions of all queues together.
    pub(super) const COMPLETIONS_IN_ALL: u64 = 1 << 22;
}

/// Numbers of `ibv_event_type` of queues and ports.
mod event {
    pub(super) const CQ_ERR: u32 = 0;
    pub(super) const QP_FATAL: u32 = 1;
    pub(super) const PORT_ACTIVE: u32 = 9;
    pub(super) const PORT_ERR: u32 = 10;
    pub(super) const LID_CHANGE: u32 = 11;
    pub(super) const PKEY_CHANGE: u32 = 12;
    pub(super) const SM_CHANGE: u32 = 13;
    pub(super) const SRQ_LIMIT_REACHED: u32 = 15;
    pub(super) const CLIENT_REREGISTER: u32 = 17;
    pub(super) const GID_CHANGE: u32 = 18;
}

/// What a port's programs have at most.
pub(crate) fn limits() -> Limits {
    Limits {
        requests: limit::REQUESTS,
        completions: limit::COMPLETIONS,
        ..Limits::default()
    }
}

/// What a context has made.
#[derive(Debug, Default)]
struct Context {
    domains: BTreeSet<PdId>,
    regions: BTreeSet<u32>,
    handles: BTreeSet<AhId>,
    /// With their depths.
    cqs: BTreeMap<CqId, u32>,
    /// With their sizes.
    srqs: BTreeMap<SrqId, u32>,
    qps: BTreeSet<Qpn>,
    groups: BTreeSet<(Qpn, Gid)>,
    /// Places for requests in all queues.
    requests: u64,
    /// Places for completions in all queues.
    completions: u64,
}

/// A queue pair: to which context it belongs, and its requests.
#[derive(Debug)]
struct Owned {
    owner: ClientId,
    config: QpConfig,
    sends: Pending,
    receives: Pending,
}

/// How the port stands, beside what the transport needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortView {
    pub(crate) is_active: bool,
    pub(crate) sm_lid: u16,
}

/// The verbs of one port.
#[derive(Debug)]
pub(crate) struct Verbs {
    contexts: BTreeMap<ClientId, Context>,
    qps: BTreeMap<Qpn, Owned>,
    cq_owners: BTreeMap<CqId, ClientId>,
    srq_owners: BTreeMap<SrqId, ClientId>,
    outputs: VecDeque<(ClientId, FromVerbs)>,
    port: PortView,
    /// Memory for scatter lists, used again.
    sges: Vec<Sge>,
}

impl Verbs {
    pub(crate) fn new() -> Self {
        Self {
            contexts: BTreeMap::new(),
            qps: BTreeMap::new(),
            cq_owners: BTreeMap::new(),
            srq_owners: BTreeMap::new(),
            outputs: VecDeque::new(),
            port: PortView::default(),
            sges: Vec::new(),
        }
    }

    /// The next message for a context.
    pub(crate) fn poll_output(&mut self) -> Option<(ClientId, FromVerbs)> {
        self.outputs.pop_front()
    }

    fn push(&mut self, client: ClientId, message: FromVerbs) {
        self.outputs.push_back((client, message));
    }

    /// Opens a context; `device` describes what it sees.
    pub(crate) fn open(&mut self, client: ClientId, device: DeviceAttributes) {
        self.contexts.entry(client).or_default();
        let reply = Reply::Opened(Box::new(device));
        self.push(client, FromVerbs::Reply(reply));
    }

    /// Answers a request about the device.
    pub(crate) fn describe(&mut self, client: ClientId, device: DeviceAttributes) {
        let reply = match self.contexts.contains_key(&client) {
            true => Reply::Device(Box::new(device)),
            false => Refusal::absent("context").into(),
        };
        self.push(client, FromVerbs::Reply(reply));
    }

    /// Handles a message of a context.
    pub(crate) fn handle(
        &mut self,
        engine: &mut Engine,
        now: Time,
        client: ClientId,
        message: ToVerbs,
    ) {
        match message {
            ToVerbs::Open { .. } => {}
            ToVerbs::Request(request) => {
                let reply = self.serve(engine, now, client, request);
                let reply = reply.unwrap_or_else(Reply::from);
                self.push(client, FromVerbs::Reply(reply));
            }
            ToVerbs::Send { qpn, requests } => self.post_sends(engine, now, client, qpn, &requests),
            ToVerbs::Receive { qpn, requests } => {
                self.post_receives(engine, now, client, qpn, &requests)
            }
            ToVerbs::SrqReceive { srq, requests } => {
                self.post_shared(engine, client, srq, &requests)
            }
            ToVerbs::Overrun { cq } => self.overrun(engine, now, client, CqId(cq)),
        }
    }

    /// Destroys a context and all that it has made.
    pub(crate) fn close(&mut self, engine: &mut Engine, client: ClientId) {
        let Some(mut context) = self.contexts.remove(&client) else {
            return;
        };
        // Nothing is refused: users go before what they use.
        for &(qpn, mgid) in &context.groups {
            let _ = engine.detach(qpn, mgid);
        }
        for qpn in std::mem::take(&mut context.qps) {
            let _ = engine.destroy_qp(qpn);
            self.qps.remove(&qpn);
        }
        for srq in std::mem::take(&mut context.srqs).into_keys() {
            let _ = engine.destroy_srq(srq);
            self.srq_owners.remove(&srq);
        }
        for cq in std::mem::take(&mut context.cqs).into_keys() {
            let _ = engine.destroy_cq(cq);
            self.cq_owners.remove(&cq);
        }
        for handle in std::mem::take(&mut context.handles) {
            let _ = engine.destroy_handle(handle);
        }
        for key in std::mem::take(&mut context.regions) {
            let _ = engine.deregister_region(key);
        }
        for domain in std::mem::take(&mut context.domains) {
            let _ = engine.destroy_pd(domain);
        }
        self.outputs.retain(|(to, _)| *to != client);
    }

    /// The port has been set anew: contexts are told what has changed since `old`.
    pub(crate) fn port_changed(
        &mut self,
        old: &PortAttributes,
        port: &PortAttributes,
        view: PortView,
        reregister: bool,
    ) {
        let was = self.port;
        let mut events = Vec::new();
        if view.is_active != was.is_active {
            events.push(match view.is_active {
                true => event::PORT_ACTIVE,
                false => event::PORT_ERR,
            });
        }
        let changes = [
            (
                port.lid != old.lid || port.lmc != old.lmc,
                event::LID_CHANGE,
            ),
            (port.pkeys != old.pkeys, event::PKEY_CHANGE),
            (port.gids != old.gids, event::GID_CHANGE),
            (view.sm_lid != was.sm_lid, event::SM_CHANGE),
            (reregister, event::CLIENT_REREGISTER),
        ];
        events.extend(
            changes
                .iter()
                .filter(|change| change.0)
                .map(|change| change.1),
        );
        self.port = view;
        let clients: Vec<ClientId> = self.contexts.keys().copied().collect();
        for client in clients {
            for &kind in &events {
                let of = Object::Port;
                self.push(client, FromVerbs::Event { kind, of });
            }
        }
    }

    /// What a device that programs see can do; the identity and the port are the endpoint's.
    pub(crate) fn capabilities() -> DeviceAttributes {
        let limits = limits();
        let number = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        DeviceAttributes {
            max_mr_size: u64::MAX,
            max_qp: number(limit::QUEUE_PAIRS),
            max_qp_wr: limits.requests,
            max_sge: limits.sges,
            max_inline_data: limits.inline_bytes,
            max_cq: number(limit::COMPLETION_QUEUES),
            max_cqe: limits.completions,
            max_mr: number(limit::REGIONS),
            max_pd: number(limit::DOMAINS),
            max_qp_rd_atom: limits.rd_atomic.into(),
            max_qp_init_rd_atom: limits.rd_atomic.into(),
            max_srq: number(limit::SHARED_QUEUES),
            max_srq_wr: limits.requests,
            max_srq_sge: limits.sges,
            max_ah: number(limit::HANDLES),
            max_mcast_grp: number(limits.groups),
            max_mcast_qp_attach: number(limits.group_members),
            ..DeviceAttributes::default()
        }
    }
}

/// Why the port counts a packet as dropped that a queue pair has not taken.
pub(crate) const fn drop_reason(drop: PacketDrop) -> link::DropReason {
    use link::DropReason as Reason;
    match drop {
        PacketDrop::Malformed => Reason::BadLength,
        PacketDrop::NoQueuePair | PacketDrop::State | PacketDrop::Service | PacketDrop::Peer => {
            Reason::NoQueuePair
        }
        PacketDrop::PKey => Reason::RcvPartition,
        PacketDrop::QKey => Reason::BadQkey,
        PacketDrop::NoMember => Reason::NotForUs,
        PacketDrop::Ghost | PacketDrop::Sequence | PacketDrop::Refused => Reason::NotForUs,
        PacketDrop::NoReceive => Reason::ReceiverFull,
    }
}
