//! The result of a run as one line of the CSV.

use routing::qos::{FillReport, Layout};
use serde::{Deserialize, Serialize};
use topologies::{Graph, NodeKind};
use wire::convert::{saturate, u64_of};

use crate::experiment::rounded;
use crate::qos::lists::{ByLevel, Counts, LEVELS};
use crate::qos::plan::BestEffort;
use crate::qos::workload::{DELAYS_32, Stream};
use sim::FlowRecord;
use sim::WorkloadResult;

/// Which of the thresholds is half an inter-arrival time.
pub(super) const HALF: usize = 4;
const _: () = assert!(DELAYS_32[HALF] == 16);

/// The result of one run. Lists by service level go from 0 to 3. Inter-arrival
/// times (IAT) are each connection's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The topology's name.
    pub(super) topology: String,
    /// Bytes of a packet, LRH to ICRC.
    pub(super) packet_bytes: u16,
    /// Where the entries of a VL stand in a table.
    pub(super) layout: Layout,
    /// What hosts send in addition to the connections.
    pub(super) best_effort: BestEffort,
    /// Connections that were to be tried.
    pub(super) tries: u32,
    /// Which run of this point, from 0.
    pub(super) run: u32,
    /// The run's seed.
    pub(super) seed: u64,
    /// Connections tried until one could not be established.
    pub(super) tried: u32,
    /// Connections established.
    pub(super) established: u32,
    /// Connections established, by service level.
    pub(super) established_by_sl: Counts,
    /// Slots that connections own, as a part of the frame, mean over all links.
    pub(super) reserved_mean: f64,
    /// The same, of the link with the most.
    pub(super) reserved_max: f64,
    /// Time of measurement.
    pub(super) measured_ns: u64,
    /// Bytes that connections were to send, per byte time and host.
    pub(super) injected: f64,
    /// Bytes of connections that arrived, per byte time and host.
    pub(super) delivered: f64,
    /// Bytes of best effort that arrived, per byte time and host.
    pub(super) delivered_best_effort: f64,
    /// Packets of connections for which their source had no room.
    pub(super) refused: u64,
    /// Packets that connections generated, by service level.
    #[serde(rename = "born_by_sl")]
    pub(super) generated_by_sl: Counts,
    /// Packets of connections in flight at the end, by service level.
    #[serde(rename = "under_way_by_sl")]
    pub(super) in_flight_by_sl: Counts,
    /// Mean delay in millionths of the IAT, by service level.
    pub(super) delay_mean_iat_ppm_by_sl: Counts,
    /// Longest delay in millionths of the IAT, by service level.
    pub(super) delay_max_iat_ppm_by_sl: Counts,
    /// Longest delay, by service level.
    pub(super) delay_max_ns_by_sl: Counts,
    /// Packets by delay: up to 1/32, 1/16, 1/8, 1/4, 1/2, 3/4, 1 IAT, and above.
    pub(super) delays_by_sl: ByLevel,
    /// Packets by jitter: up to -1, -3/4, -1/2, -1/4, -1/8, 1/8, 1/4, 1/2, 3/4, 1 IAT, and above.
    pub(super) jitter_by_sl: ByLevel,
    /// As `delays_by_sl`, of the connection with the most packets within half an IAT.
    pub(super) best_by_sl: ByLevel,
    /// As `delays_by_sl`, of the connection with the fewest packets within half an IAT.
    pub(super) worst_by_sl: ByLevel,
    /// Rate of the best connection, bit/s.
    pub(super) best_bps_by_sl: Counts,
    /// Rate of the worst connection, bit/s.
    pub(super) worst_bps_by_sl: Counts,
    /// Time of a byte on a link.
    pub(super) byte_ns: f64,
    /// Bytes that left each host.
    pub(super) host_bytes: Counts,
    /// Bytes that left each port of each switch.
    pub(super) switch_bytes: Counts,
    /// Packets through switches in the whole run.
    pub(super) traversals: u64,
}

/// The parameters of a run that stand in its point.
#[derive(Clone, Debug)]
pub(super) struct RunParameters<'a> {
    pub(super) topology: &'a str,
    pub(super) packet_bytes: u16,
    pub(super) layout: Layout,
    pub(super) best_effort: BestEffort,
    pub(super) tries: u32,
    pub(super) run: u32,
    pub(super) seed: u64,
    pub(super) measured_ns: u64,
    /// Picoseconds that a link needs for a byte.
    pub(super) byte_ps: u64,
}

/// Summarises a run.
pub(super) fn point(
    parameters: &RunParameters<'_>,
    graph: &Graph,
    filled: &FillReport,
    streams: &[Stream],
    record: &WorkloadResult,
) -> Point {
    let (flows, rest) = record.flows.split_at(streams.len());
    let levels: Vec<Level> = (0..LEVELS)
        .map(|level| Level::of(level, streams, flows))
        .collect();
    let by_level = |count: &dyn Fn(&Level) -> u64| Counts(levels.iter().map(count).collect());
    let lists = |list: &dyn Fn(&Level) -> &Counts| {
        ByLevel(core::array::from_fn(|level| list(&levels[level]).clone()))
    };
    let hosts = sim::real(u64_of(graph.hosts().count()));
    let byte_ns = sim::real(parameters.byte_ps) / 1000.0;
    let rate = |bytes: u64| {
        let time = sim::real(parameters.measured_ns) * hosts;
        rounded(sim::real(bytes) * byte_ns / time)
    };
    let sum = |value: &dyn Fn(&FlowRecord) -> u64| flows.iter().map(value).sum::<u64>();
    let sent = |kind: NodeKind| {
        let ports = record.ports.iter();
        let ports = ports.filter(|port| graph.node(port.port.node).kind == kind);
        Counts(ports.map(sim::PortRecord::bytes).collect())
    };
    Point {
        topology: parameters.topology.to_owned(),
        packet_bytes: parameters.packet_bytes,
        layout: parameters.layout,
        best_effort: parameters.best_effort,
        tries: parameters.tries,
        run: parameters.run,
        seed: parameters.seed,
        tried: filled.tried,
        established: filled.total(),
        established_by_sl: Counts(filled.established.map(u64::from).into()),
        reserved_mean: rounded(filled.load_mean),
        reserved_max: rounded(filled.load_max),
        measured_ns: parameters.measured_ns,
        injected: rate(sum(&|flow| flow.offered) * u64::from(parameters.packet_bytes)),
        delivered: rate(sum(&|flow| flow.bytes)),
        delivered_best_effort: rate(rest.iter().map(|flow| flow.bytes).sum()),
        refused: sum(&|flow| flow.refused),
        generated_by_sl: by_level(&|level| level.generated),
        in_flight_by_sl: by_level(&|level| level.under_way),
        delay_mean_iat_ppm_by_sl: by_level(&Level::delay_mean_ppm),
        delay_max_iat_ppm_by_sl: by_level(&|level| level.delay_max_ppm),
        delay_max_ns_by_sl: by_level(&|level| level.delay_max_ns),
        delays_by_sl: lists(&|level| &level.delays),
        jitter_by_sl: lists(&|level| &level.jitter),
        best_by_sl: lists(&|level| &level.best.0),
        worst_by_sl: lists(&|level| &level.worst.0),
        best_bps_by_sl: by_level(&|level| level.best.1),
        worst_bps_by_sl: by_level(&|level| level.worst.1),
        byte_ns: rounded(byte_ns),
        host_bytes: sent(NodeKind::Host),
        switch_bytes: sent(NodeKind::Switch),
        traversals: record.traversals,
    }
}

/// Sums over the connections of one service level.
#[derive(Debug, Default)]
struct Level {
    generated: u64,
    under_way: u64,
    delivered: u64,
    delay_sum_ppm: u128,
    delay_max_ppm: u64,
    delay_max_ns: u64,
    delays: Counts,
    jitter: Counts,
    /// Delays and rate.
    best: (Counts, u64),
    worst: (Counts, u64),
}

impl Level {
    fn of(level: usize, streams: &[Stream], flows: &[FlowRecord]) -> Self {
        let mut sum = Self::default();
        let here = streams.iter().zip(flows);
        for (stream, flow) in here.filter(|(stream, _)| stream.level == level) {
            sum.add(stream, flow);
        }
        sum
    }

    fn add(&mut self, stream: &Stream, flow: &FlowRecord) {
        self.generated += flow.offered;
        self.under_way += flow.expected.saturating_sub(flow.delivered);
        if flow.delivered == 0 {
            return;
        }
        let ppm = |ns: u64| u128::from(ns) * 1_000_000_000 / u128::from(stream.interval_ps);
        let delays = Counts(flow.delays.clone());
        let is_first = self.delivered == 0;
        self.delivered += flow.delivered;
        self.delay_sum_ppm += ppm(flow.delay_sum_ns);
        let longest = saturate::<u64>(ppm(flow.delay_max_ns));
        self.delay_max_ppm = self.delay_max_ppm.max(longest);
        self.delay_max_ns = self.delay_max_ns.max(flow.delay_max_ns);
        self.jitter.add(&Counts(flow.jitter.clone()));
        self.delays.add(&delays);
        if is_first || is_better(&delays, &self.best.0) {
            self.best = (delays.clone(), stream.rate_bps);
        }
        if is_first || is_better(&self.worst.0, &delays) {
            self.worst = (delays, stream.rate_bps);
        }
    }

    fn delay_mean_ppm(&self) -> u64 {
        let mean = self.delay_sum_ppm / u128::from(self.delivered.max(1));
        saturate(mean)
    }
}

/// Whether a connection has a larger share of its packets within half an inter-arrival time than
/// another; if equal, whether its sum of the shares within all thresholds is larger.
pub(super) fn is_better(one: &Counts, other: &Counts) -> bool {
    let rank = |counts: &Counts| {
        let all: f64 = (0..DELAYS_32.len())
            .map(|place| counts.share_up_to(place))
            .sum();
        (counts.share_up_to(HALF), all)
    };
    let ((half, all), (other_half, other_all)) = (rank(one), rank(other));
    half.total_cmp(&other_half)
        .then(all.total_cmp(&other_all))
        .is_gt()
}
