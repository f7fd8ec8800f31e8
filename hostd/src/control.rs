//! Requests to a host over its local control socket: its identity, pings, and the traffic
//! source and sink behind `ibemu perf`. Never configuration: that is a MAD over the fabric.
//!
//! Messages are encoded by `wire::control` (bincode, capped), one message a `SOCK_SEQPACKET`
//! packet, one reply a request, in order. Requests are answered at once,
//! save those that wait for others and say so: [`Request::Ping`], [`Request::Join`], [`Request::Leave`],
//! [`Request::MulticastSend`] and [`Request::Resolve`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use bincode::{Decode, Encode};
use wire::control::{DeviceReply, DeviceRequest};
use wire::{Gid, Guid, Lid, Lmc, PortNum, Qpn, Sl};

/// The queue pair of every host that sends pings back (Q_Key [`SERVICE_QKEY`]).
pub const PING_QPN: Qpn = Qpn::constant(0x1b0);
/// The queue pair of every host that counts traffic and acknowledges it (Q_Key [`SERVICE_QKEY`]).
pub const SINK_QPN: Qpn = wire::traffic::SINK_QPN;
/// The queue pair that pings are sent from.
pub const PINGER_QPN: Qpn = Qpn::constant(0x1b2);
/// The queue pair that traffic is sent from.
pub const SOURCE_QPN: Qpn = wire::traffic::SOURCE_QPN;
/// The Q_Key of the four queue pairs above. The highest bit is clear, so that an unprivileged
/// consumer could use it too (IBA 10.2.5).
pub const SERVICE_QKEY: u32 = 0x0000_1bed;

/// The most targets that one [`PingRequest`] may name.
pub const PING_TARGETS_MAX: usize = 512;
/// The most ping requests that a host serves at once.
pub const PING_REQUESTS_MAX: usize = 8;
/// The most flows that a host's source holds, running and finished together.
pub const FLOWS_MAX: usize = 1024;
/// The most flows that a host's sink counts; packets of further ones are dropped and counted as drops.
pub const SINK_FLOWS_MAX: usize = 1024;
/// The most flows that one [`Step`] waits for.
pub const AWAITED_MAX: usize = 16;
/// The widest window of a flow, packets.
pub const WINDOW_MAX: u32 = 1 << 20;
/// The most packets of one [`MulticastSend`].
pub const MULTICAST_COUNT_MAX: u32 = 1 << 16;
/// The shortest packet of pings and traffic, bytes from LRH to VCRC: the headers, the payload's
/// own fields and the CRCs.
pub const PACKET_BYTES_MIN: u16 = 98;
/// The shortest packet of a flow to a multicast group: it has a GRH, too.
pub const GROUP_PACKET_BYTES_MIN: u16 = 106;

/// A request on a host's control socket.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PortRequest {
    /// The port that it is asked of; 0: the first. A request that any device serves is asked of the whole
    /// host.
    pub port: PortNum,
    /// The request.
    pub request: Request,
}

/// A request to a host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// A request that any device serves. Answered by [`Reply::Device`].
    Device(DeviceRequest),
    /// The host's identity and addresses. Answered by [`Reply::Identity`].
    Identity,
    /// Sends echo requests to many hosts at once. Answered by [`Reply::Ping`] when the last one
    /// has come back or has timed out.
    Ping(PingRequest),
    /// Starts a flow of traffic. Answered by [`Reply::Done`].
    PerfStart(PerfRequest),
    /// Starts a flow of traffic that waits for the controller (CLOS04): it sends only while the
    /// host is granted the flow's destination, and to the LID that is granted.
    /// [`PerfRequest::dlid`] is the destination's base LID. Answered by [`Reply::Done`].
    PerfStartGranted(PerfRequest),
    /// The state of a flow. Answered by [`Reply::Perf`].
    PerfReport {
        /// The flow.
        flow: u32,
    },
    /// The state of all flows, in ascending order. Answered by [`Reply::PerfAll`], at most
    /// [`PERF_REPORTS_MAX`] from the first flow number that is at least `from`.
    PerfReports {
        /// The first flow number requested.
        from: u32,
    },
    /// Ends a flow now: nothing more is sent; packets in flight are still awaited and counted.
    /// Answered by [`Reply::Done`].
    PerfStop {
        /// The flow.
        flow: u32,
    },
    /// Ends and forgets all flows of this host, and what its sink has counted of packets from some
    /// sources. Counts of other sources stay: they may belong to another run. Answered by [`Reply::Done`].
    PerfClear {
        /// LIDs that those packets came from.
        sources: Vec<Lid>,
    },
    /// What the sink has counted, by source and flow. Answered by [`Reply::Sink`], at most
    /// [`PERF_REPORTS_MAX`] entries from the `skip`-th.
    SinkReport {
        /// How many entries to leave out (ascending by source LID and flow).
        skip: u32,
    },
    /// Joins a multicast group, which is made if there is none. Answered by [`Reply::Membership`]
    /// when the switches send its packets here.
    Join {
        /// The group.
        mgid: Gid,
        /// Whether the host sends only.
        send_only: bool,
    },
    /// Leaves a multicast group. Answered by [`Reply::Membership`] when that is known.
    Leave {
        /// The group.
        mgid: Gid,
    },
    /// Which groups the host is in. Answered by [`Reply::Groups`].
    Groups,
    /// Sends packets to a group that the host is in. Answered by [`Reply::Done`] when the last is
    /// with the port.
    MulticastSend(MulticastSend),
    /// Counts of packets received for a group, by source. Answered by [`Reply::Multicast`], at most
    /// [`PERF_REPORTS_MAX`] entries from the `skip`-th.
    MulticastReport {
        /// The group.
        mgid: Gid,
        /// How many entries to leave out (ascending by source GUID).
        skip: u32,
    },
    /// Starts flows of traffic, [`FLOWS_MAX`] at most, all at the same moment. Answered by [`Reply::Done`].
    /// The first that cannot be started refuses the request; those before it run.
    PerfStartAll(Vec<PerfRequest>),
    /// As [`Request::PerfStop`], for all flows that run. Answered by [`Reply::Done`].
    PerfStopAll,
    /// How far all flows are together. Answered by [`Reply::PerfProgress`].
    PerfProgress,
    /// As [`Request::PerfStartAll`], but the flows begin later; their durations count from then on. Answered by
    /// [`Reply::Done`] at once.
    PerfStartAfter {
        /// Milliseconds until they begin.
        delay_ms: u32,
        /// The flows.
        flows: Vec<PerfRequest>,
    },
    /// The latencies that the sink has measured of the flows with these numbers from these LIDs, all together. Answered
    /// by [`Reply::Durations`].
    SinkDurations {
        /// LIDs that the packets came from.
        sources: Vec<Lid>,
        /// The lowest number of a flow.
        first_flow: u32,
        /// The highest one.
        last_flow: u32,
    },
    /// Which port has an internet address. Answered by [`Reply::Resolved`] or [`Reply::Refused`], within 4 s.
    Resolve {
        /// The address.
        address: IpAddr,
    },
    /// As [`Request::PerfStartAfter`], for flows each of which begins only when others have got so far: steps of a
    /// collective operation. Answered by [`Reply::Done`] at once.
    PerfStartSteps {
        /// Milliseconds until the first ones begin.
        delay_ms: u32,
        /// The flows, [`FLOWS_MAX`] at most, each with a number of packets and no duration.
        steps: Vec<Step>,
    },
    /// As [`Request::PerfStartAfter`], of flows to a multicast group that the host is in: every member counts their packets
    /// as its sink does, by source and flow, and none acknowledges them. So a flow has no window, and ends when its last
    /// packet is with the port; what has become of its packets, sinks tell. LID, queue pair and service level are those of
    /// the group; a packet has [`GROUP_PACKET_BYTES_MIN`] bytes at least.
    PerfStartGroup {
        /// Milliseconds until they begin.
        delay_ms: u32,
        /// The group.
        mgid: Gid,
        /// The flows.
        flows: Vec<PerfRequest>,
    },
    /// As [`Request::SinkDurations`], of the jitter: by how much a packet's latency differs from that of the one before it in
    /// its flow, which is by how much they came closer together, or further apart, than they were sent.
    SinkJitter {
        /// LIDs that the packets came from.
        sources: Vec<Lid>,
        /// The lowest number of a flow.
        first_flow: u32,
        /// The highest one.
        last_flow: u32,
    },
}

/// The most entries of one [`Reply::PerfAll`] or [`Reply::Sink`].
pub const PERF_REPORTS_MAX: usize = 128;

/// The reply of a host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// The answer to [`Request::Device`].
    Device(DeviceReply),
    /// The host's identity and addresses.
    Identity(HostIdentity),
    /// One result a target, in the order of the request.
    Ping(Vec<PingResult>),
    /// The state of a flow.
    Perf(Box<FlowReport>),
    /// The state of flows.
    PerfAll(Vec<FlowReport>),
    /// Counters of the sink.
    Sink(Vec<SinkFlow>),
    /// A membership as it is now.
    Membership(GroupMembership),
    /// The groups that the host is in, in order.
    Groups(Vec<GroupMembership>),
    /// Counts of packets received for a group.
    Multicast(Vec<MulticastSource>),
    /// Done.
    Done,
    /// The request could not be met: what was wrong, and what to do.
    Refused(String),
    /// How far all flows are together.
    PerfProgress(FlowsProgress),
    /// Which port has an internet address.
    Resolved {
        /// Its GID.
        gid: Gid,
        /// Its queue pair for internet packets.
        qpn: Qpn,
    },
    /// Latencies of several flows together.
    Durations(Box<Histogram>),
}

/// How far the flows of a host are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct FlowsProgress {
    /// Flows that the source holds.
    pub flows: u32,
    /// Those of them whose figures are not final: [`FlowState::Running`] and [`FlowState::Draining`].
    pub under_way: u32,
    /// Those of them that wait for others ([`Request::PerfStartSteps`]).
    pub waiting: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the sinks have received, as far as their sources know.
    pub delivered: u64,
}

impl FlowsProgress {
    /// Puts those of another host to them.
    pub fn add(&mut self, other: Self) {
        self.flows = self.flows.saturating_add(other.flows);
        self.under_way = self.under_way.saturating_add(other.under_way);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.sent = self.sent.saturating_add(other.sent);
        self.delivered = self.delivered.saturating_add(other.delivered);
    }
}

/// A host's membership in a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct GroupMembership {
    /// The group.
    pub mgid: Gid,
    /// The multicast LID to which this host sends; 0 before it has joined.
    pub mlid: Lid,
    /// The group's Q_Key.
    pub qkey: u32,
    /// Whether the subnet administrator has confirmed it.
    pub joined: bool,
    /// Whether the host sends only.
    pub send_only: bool,
}

/// Packets to a multicast group, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MulticastSend {
    /// The group.
    pub mgid: Gid,
    /// Number of the run, by which receivers count these packets apart from earlier ones of the same host.
    pub run: u32,
    /// How many, 1..=[`MULTICAST_COUNT_MAX`].
    pub count: u32,
    /// Packet length from LRH to VCRC, bytes (see [`PingRequest::size`]).
    pub size: u16,
}

/// Packets received for a group from one source: the numbered packets of its latest run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MulticastSource {
    /// Port GUID of the source.
    pub source: Guid,
    /// Which run.
    pub run: u32,
    /// How many packets it has.
    pub count: u32,
    /// Packets received, each counted once.
    pub received: u64,
    /// Packets that came again.
    pub duplicates: u64,
}

/// A host's identity and addresses.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HostIdentity {
    /// Its name.
    pub name: String,
    /// Node GUID.
    pub guid: Guid,
    /// The port that was asked.
    pub port: PortNum,
    /// GUID of that port.
    pub port_guid: Guid,
    /// Base LID; 0 before a subnet manager has set it.
    pub lid: Lid,
    /// LID mask control.
    pub lmc: Lmc,
    /// LID of the subnet manager; 0 before one has set it.
    pub sm_lid: Lid,
    /// Logical state: 1 Down, 2 Init, 3 Armed, 4 Active (IBA 14.2.5.6).
    pub state: u8,
    /// MTU in use, bytes.
    pub mtu: u16,
    /// Whether a program beside this host has declared itself subnet manager.
    pub is_sm: bool,
}

/// Echo requests to many hosts at once.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PingRequest {
    /// Destination LIDs, 1..=[`PING_TARGETS_MAX`]; any of a host's `2^lmc` LIDs.
    pub targets: Vec<Lid>,
    /// Echo requests a target, at least 1.
    pub count: u32,
    /// Microseconds between two requests to the same target.
    pub interval_us: u32,
    /// Packet length from LRH to VCRC, bytes: [`PACKET_BYTES_MIN`] to the MTU in use with its
    /// headers. Rounded up to a multiple of four plus the VCRC.
    pub size: u16,
    /// Service level, there and back.
    pub sl: Sl,
    /// The partition, there and back, by any of its keys; 0 for the first of the host's table.
    pub pkey: u16,
    /// Milliseconds to wait for each answer.
    pub timeout_ms: u32,
}

/// The result of the echo requests to one target.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PingResult {
    /// The target LID.
    pub dlid: Lid,
    /// Requests sent.
    pub sent: u32,
    /// Answers received in time.
    pub received: u32,
    /// Round-trip times of the answers.
    pub rtt: Latency,
    /// The responder's name, its first 32 bytes; empty if none has answered.
    pub responder: String,
    /// The responder's base LID; 0 if none has answered.
    pub responder_lid: Lid,
}

/// Summary of a set of durations, nanoseconds. All zero if `samples` is 0. Percentiles have two
/// significant decimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Latency {
    /// How many durations.
    pub samples: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The arithmetic mean.
    pub mean_ns: u64,
    /// Half of them are at most this.
    pub p50_ns: u64,
    /// 90 % of them are at most this.
    pub p90_ns: u64,
    /// 99 % of them are at most this.
    pub p99_ns: u64,
    /// 99.9 % of them are at most this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Durations counted in buckets, so that those of several flows can be put together. The middle of a bucket is within 0.8 %
/// of what fell into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Histogram {
    /// How many durations.
    pub samples: u64,
    /// Their sum, nanoseconds.
    pub sum_ns: u128,
    /// The shortest, nanoseconds; 0 without any.
    pub min_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
    /// Buckets that hold any, and how many: 0 to 63 are nanoseconds; of each power of two from 2^6 to 2^41 there are 64
    /// of equal width, in ascending order.
    pub buckets: BTreeMap<u16, u64>,
}

/// A flow of traffic to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PerfRequest {
    /// The flow's number, chosen by the caller; one that has finished is replaced.
    pub flow: u32,
    /// Destination LID.
    pub dlid: Lid,
    /// Destination queue pair, normally [`SINK_QPN`].
    pub qpn: Qpn,
    /// Packet length from LRH to VCRC, bytes (see [`PingRequest::size`]).
    pub size: u16,
    /// Packets sent and not acknowledged at most, 1..=[`WINDOW_MAX`]; 0 for no window: an open
    /// loop, which needs a `rate`.
    pub window: u32,
    /// Offered load in bits a second, counted over whole packets; 0 for as fast as the window
    /// and the link allow.
    pub rate: u64,
    /// Service level.
    pub sl: Sl,
    /// Ends after this many packets; 0 for no such end.
    pub count: u64,
    /// Ends after this many milliseconds; 0 for no such end. A flow with neither end runs until
    /// [`Request::PerfStop`].
    pub duration_ms: u32,
    /// Seed of the payload's bytes and of the flow's first phase when `rate` is given, so that
    /// flows of equal rate do not send in step.
    pub seed: u64,
}

/// A flow that begins when others have got so far.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Step {
    /// The flow.
    pub flow: PerfRequest,
    /// What it waits for, at most [`AWAITED_MAX`]; all of it.
    pub after: Vec<Awaited>,
}

/// Packets of a flow that have arrived at this host, or that have been sent if it is this host's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Awaited {
    /// Base LID of the flow's source.
    pub source: Lid,
    /// Its number there.
    pub flow: u32,
    /// How many packets.
    pub packets: u64,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FlowState {
    /// Packets are being sent.
    Running,
    /// The last packet is sent; the sink's final report is awaited.
    Draining,
    /// The sink's figures are final.
    Finished,
    /// The sink has not answered, or has been started anew, or the port went down for good: the figures are
    /// the last known.
    Abandoned,
}

/// A flow as its source sees it, with the last report of its sink.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct FlowReport {
    /// The flow's number.
    pub flow: u32,
    /// Destination LID; of a flow that waits for grants the one granted last.
    pub dlid: Lid,
    /// How far it is.
    pub state: FlowState,
    /// Packet length from LRH to VCRC, bytes, after rounding.
    pub size: u16,
    /// Packets that the rate, count and duration have asked for so far; without a rate, as many
    /// as were sent. Of an abandoned flow with a number of packets, that number.
    pub offered: u64,
    /// Packets of these that were still to come when the flow was abandoned.
    pub abandoned: u64,
    /// Packets handed to the port.
    pub sent: u64,
    /// Packets that the sink has received, without duplicates.
    pub delivered: u64,
    /// Packets sent of which nothing is known yet.
    pub in_flight: u64,
    /// Packets sent that never came: gaps in the sink's sequence, and what was outstanding at the
    /// end.
    pub lost: u64,
    /// Packets that came more than once.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Bytes delivered, LRH to VCRC.
    pub bytes_delivered: u64,
    /// Nanoseconds from the first packet sent to the last known delivery.
    pub elapsed_ns: u64,
    /// When it could begin, nanoseconds of the hosts' clock; of a step, when what it waited for was there.
    pub began_ns: u64,
    /// When the last packet that the sink has told of arrived there; 0 before the first.
    pub last_arrival_ns: u64,
    /// One-way latency from queueing at the source to arrival at the sink. Source and sink must
    /// count time from one origin.
    pub latency: Latency,
    /// Times that the window stayed closed for the stall timeout without a reply from the sink.
    pub stalls: u64,
}

/// A flow as its sink sees it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SinkFlow {
    /// LID that the packets come from.
    pub source: Lid,
    /// The flow's number at that source.
    pub flow: u32,
    /// Packets received, without duplicates.
    pub received: u64,
    /// Gaps in the sequence that have not been filled.
    pub lost: u64,
    /// Packets that came more than once.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Bytes received, LRH to VCRC, without duplicates.
    pub bytes: u64,
    /// Nanoseconds from the first arrival to the last.
    pub elapsed_ns: u64,
    /// One-way latency.
    pub latency: Latency,
}
