//! The workload of a run that is counted flow by flow: traffic sources, groups, an end.
//!
//! Each host has traffic sources. A traffic source yields send requests: a packet, or a message of
//! several, to one host or to a group, on a service level, as part of a flow. Flows are what is
//! counted: a connection, a message, all of a host's packets, by the flow number of each request.
//! Requests wait at their source in one queue a service level; a message is one place in its queue
//! and goes packet after packet. What finds all places taken is refused and counted.

use std::sync::Arc;

use link::SlToVl;
use thiserror::Error;
use wire::attr::VlArbEntry;
use wire::{Lid, PortNum, Sl, Vl};

use routing::multicast::{MulticastError, Scheme};
use topologies::{Endpoint, NodeId};

use crate::pattern::{Pattern, SlChoice};

mod check;

/// Places at a source for requests that wait, by default.
pub const BACKLOG_DEFAULT: usize = 256;
/// The most flows of a run.
pub const FLOWS_MAX: u32 = 1 << 24;
/// The longest message, bytes: as IBA's.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 31;

/// The destination of a packet or a message. Hosts are numbered in the order of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One host.
    Host(u32),
    /// The members of a group by multicast: one packet, copied by switches.
    Group(u32),
    /// The members of a group by unicast: all of it to one member, then to the next, in the order
    /// in which they are listed.
    Each(u32),
}

/// What is the same for all packets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
    /// The destination.
    pub to: Destination,
    /// The DLID, for [`Destination::Host`]; `None` for the one that the scheme chooses for these
    /// hosts.
    pub dlid: Option<Lid>,
    /// The service level; `None` for the one that the routing engine gives to packets of this host
    /// to that DLID, which is 0 for groups and with engines that have no service levels.
    pub sl: Option<Sl>,
    /// Which flow it counts for: a number below the length of [`Workload::flows`].
    pub flow: u32,
}

impl AddressVector {
    /// To a host by the scheme's own path and service level.
    #[must_use]
    pub fn to_host(host: u32, flow: u32) -> Self {
        Self {
            to: Destination::Host(host),
            dlid: None,
            sl: None,
            flow,
        }
    }
}

/// A packet or a message that a host sends at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// When, in picoseconds from the start of the run.
    pub at_ps: u64,
    /// The destination, and the packets' headers.
    pub address: AddressVector,
    /// Bytes of packets, LRH to ICRC: 32 to the model's, in words of 4; of a message
    /// ([`TrafficSource::Messages`]) its payload, from 1 on.
    pub bytes: u32,
}

/// A flow with a constant rate: one packet each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantRate {
    /// The destination, and the packets' headers.
    pub address: AddressVector,
    /// Bytes of each packet, LRH to ICRC.
    pub bytes: u16,
    /// The first one, in picoseconds from the start of the run.
    pub first_ps: u64,
    /// From one to the next, in picoseconds, at least 1.
    pub interval_ps: u64,
    /// How many; `None` for as many as the run is long.
    pub packets: Option<u64>,
}

/// A part of what a host sends.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficSource {
    /// Packets one by one, in the order of time: a trace.
    Packets(Arc<[SendRequest]>),
    /// Messages in the order of time, each cut into packets of the model's size; the last one is
    /// as short as it can be.
    Messages(Arc<[SendRequest]>),
    /// A constant rate.
    ConstantRate(ConstantRate),
    /// Always a packet that waits, from a moment (picoseconds from the start) until the end:
    /// flows of a service level take turns.
    Backlogged {
        /// The destination, and the packets' headers.
        address: AddressVector,
        /// Bytes of each packet, LRH to ICRC.
        bytes: u16,
        /// The first one, in picoseconds from the start of the run.
        first_ps: u64,
    },
    /// Packets of the model's size at a constant rate to hosts that a pattern draws, as in a
    /// [`crate::Load`].
    Patterned {
        /// The destinations.
        pattern: Pattern,
        /// How packets get their service level; one that is drawn is 0 to the model's VLs less one.
        sl_choice: SlChoice,
        /// How much, LRH to ICRC.
        bytes_per_ns: f64,
        /// Which flow it counts for.
        flow: u32,
        /// Nothing is generated from then on, in nanoseconds from the start of the run.
        until_ns: u64,
    },
}

/// Hosts that packets to the group go to; a sender need not be one. Its own packets never come
/// back to a sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The hosts.
    pub members: Vec<u32>,
}

/// What is counted of a flow beside packets and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowPlan {
    /// Ascending delays from generation to last byte, nanoseconds: deliveries are counted by the
    /// first one that they do not exceed.
    pub delays_ns: Vec<u64>,
    /// How far apart packets are generated, picoseconds: what jitter is measured against; 0: jitter
    /// is not measured.
    pub interval_ps: u64,
    /// Ascending deviations of the time from one delivery to the next from that interval,
    /// nanoseconds: deliveries are counted by the first one that they do not exceed.
    pub jitter_ns: Vec<i64>,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// So many nanoseconds after its start, wherever packets are.
    At(u64),
    /// When everything that ends has been delivered (or dropped), but not later than so many
    /// nanoseconds after its start. Backlogged flows, and constant ones without a number of
    /// packets, do not end and are not waited for.
    Delivered(u64),
}

/// The arbitration tables of an output port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arbitration {
    /// High priority, up to 64 entries.
    pub high: Vec<VlArbEntry>,
    /// Low priority, up to 64 entries.
    pub low: Vec<VlArbEntry>,
    /// LimitOfHighPriority in units of 4096 bytes; 255 for no limit.
    pub high_limit: u8,
}

/// Which VLs service levels take, and how VLs share links. Empty: ports have the SL-to-VL tables of
/// the routing engine, or if it has none a VL is the service level modulo the number of VLs; VLs share
/// equally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlTables {
    /// The VLs of the service levels at every port, whatever the routing engine says.
    pub sl2vl: Option<[Vl; 16]>,
    /// Switch, port in, port out: where that differs.
    pub sl2vl_by_ports: Vec<((NodeId, PortNum, PortNum), [Vl; 16])>,
    /// By output port.
    pub arbitration: Vec<(Endpoint, Arbitration)>,
}

impl VlTables {
    /// A VL is the service level modulo the number of VLs, whatever the routing engine says.
    #[must_use]
    pub fn modulo(vls: u8) -> Self {
        Self {
            sl2vl: Some(SlToVl::default_row(vls.min(Vl::DATA_COUNT))),
            ..Self::default()
        }
    }
}

/// All that hosts send in a run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// By host, in the order of the topology: its traffic sources.
    pub hosts: Vec<Vec<TrafficSource>>,
    /// Flows, by number.
    pub flows: Vec<FlowPlan>,
    /// Groups, by number.
    pub groups: Vec<Group>,
    /// How [`Destination::Group`] is realised.
    pub scheme: Scheme,
    /// VLs and their shares.
    pub vl_tables: Arc<VlTables>,
    /// Requests that wait at one source at most, a message being one and backlogged flows being
    /// none; further ones are refused.
    pub backlog: usize,
    /// From when on requests, deliveries and links are counted, nanoseconds from the start.
    pub count_from_ns: u64,
    /// When the run is over.
    pub until: Until,
    /// Seed of what is drawn.
    pub seed: u64,
}

impl Workload {
    /// Nothing from any of so many hosts, with so many flows that nothing is measured against.
    #[must_use]
    pub fn empty(hosts: usize, flows: usize, until: Until) -> Self {
        Self {
            hosts: vec![Vec::new(); hosts],
            flows: vec![FlowPlan::default(); flows],
            groups: Vec::new(),
            scheme: Scheme::default(),
            vl_tables: Arc::default(),
            backlog: BACKLOG_DEFAULT,
            count_from_ns: 0,
            until,
            seed: 0,
        }
    }

    /// The flows that never end by themselves.
    pub(crate) fn endless(&self) -> impl Iterator<Item = u32> + '_ {
        let sources = self.hosts.iter().flatten();
        sources.filter_map(|source| match source {
            TrafficSource::Backlogged { address, .. } => Some(address.flow),
            TrafficSource::ConstantRate(constant) if constant.packets.is_none() => {
                Some(constant.address.flow)
            }
            _ => None,
        })
    }

    /// All ways that packets can take, by host; of what is drawn, none.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (u32, AddressVector)> + '_ {
        let hosts = (0u32..).zip(&self.hosts);
        hosts.flat_map(|(host, sources)| {
            let addresses = sources.iter().flat_map(|source| {
                let (list, one): (&[SendRequest], Option<AddressVector>) = match source {
                    TrafficSource::Packets(requests) | TrafficSource::Messages(requests) => {
                        (requests, None)
                    }
                    TrafficSource::ConstantRate(constant) => (&[], Some(constant.address)),
                    TrafficSource::Backlogged { address, .. } => (&[], Some(*address)),
                    TrafficSource::Patterned { .. } => (&[], None),
                };
                list.iter().map(|request| request.address).chain(one)
            });
            addresses.map(move |address| (host, address))
        })
    }
}

/// A workload that makes no sense on a fabric.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WorkloadError {
    /// Traffic sources for other hosts than there are.
    #[error("sources for {given} hosts: the fabric has {hosts}")]
    Hosts {
        /// Hosts with traffic sources.
        given: usize,
        /// Hosts of the fabric.
        hosts: usize,
    },
    /// More flows than can be numbered.
    #[error("{0} flows: at most {FLOWS_MAX}")]
    Flows(usize),
    /// A traffic source that names what is not there, or asks for what cannot be.
    #[error("host {host}, traffic source {number}: {what}")]
    TrafficSource {
        /// The host's number.
        host: usize,
        /// Which of its traffic sources, from 0.
        number: usize,
        /// What is wrong, and what is allowed.
        what: String,
    },
    /// A group that names what is not there.
    #[error("group {group}: member {member}: there are hosts 0 to {last}")]
    Member {
        /// The group.
        group: usize,
        /// The member.
        member: u32,
        /// The last host there is.
        last: usize,
    },
    /// Twice in one group.
    #[error("group {group}: member {member} is listed twice")]
    Twice {
        /// The group.
        group: usize,
        /// The member.
        member: u32,
    },
    /// Thresholds out of order.
    #[error("flow {0}: delays and deviations must ascend")]
    Thresholds(usize),
    /// Nothing can wait.
    #[error("places at a source for requests that wait: at least 1")]
    Backlog,
    /// A table of VLs that cannot be installed.
    #[error("VL tables: {0}")]
    VlTables(String),
    /// A group has no multicast tree.
    #[error("group {group}: {error}")]
    Multicast {
        /// The group.
        group: usize,
        /// Why not.
        error: MulticastError,
    },
}
