//! Counters of a run, flow by flow and link by link.

use link::Time;
use topologies::{Endpoint, Graph};
use wire::{Lrh, PortNum};

use crate::numbers::index;
use crate::packet_tracker::Delivery;
use crate::source_queues::Generated;
use crate::workload::{FlowPlan, Until, Workload};

/// VLs of a port.
const VLS: usize = 16;

/// The counters of a flow. Times are nanoseconds; those of moments count from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Packets generated, refused ones among them.
    pub offered: u64,
    /// Packets that found no place at their source.
    pub refused: u64,
    /// Deliveries that the others make: one a receiver.
    pub expected: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Bytes delivered, LRH to ICRC.
    pub bytes: u64,
    /// Sum of the times from generation to last byte.
    pub delay_sum_ns: u64,
    /// Sum of the times from the first byte sent to the last byte received.
    pub network_sum_ns: u64,
    /// The shortest time from generation to last byte; [`u64::MAX`] without deliveries.
    pub delay_min_ns: u64,
    /// The longest.
    pub delay_max_ns: u64,
    /// When the first packet was generated; [`u64::MAX`] if none was.
    pub first_generated_ns: u64,
    /// When the last byte of the last delivery was there; 0 without deliveries.
    pub completed_ns: u64,
    /// Deliveries by delay: up to each of [`FlowPlan::delays_ns`] and above the one before, and
    /// above the last.
    pub delays: Vec<u64>,
    /// Deliveries but the first by deviation from the interval: up to each of
    /// [`FlowPlan::jitter_ns`] and above the one before, and above the last. Makes sense for flows
    /// with one receiver.
    pub jitter: Vec<u64>,
}

impl FlowRecord {
    fn new(plan: &FlowPlan) -> Self {
        let bins = |edges: usize| vec![0; if edges == 0 { 0 } else { edges + 1 }];
        let has_jitter = plan.interval_ps > 0;
        Self {
            offered: 0,
            refused: 0,
            expected: 0,
            delivered: 0,
            bytes: 0,
            delay_sum_ns: 0,
            network_sum_ns: 0,
            delay_min_ns: u64::MAX,
            delay_max_ns: 0,
            first_generated_ns: u64::MAX,
            completed_ns: 0,
            delays: bins(plan.delays_ns.len()),
            jitter: bins(if has_jitter { plan.jitter_ns.len() } else { 0 }),
        }
    }

    /// From the generation of the first packet to the last byte of the last delivery; 0 without
    /// one.
    #[must_use]
    pub fn completion_ns(&self) -> u64 {
        self.completed_ns.saturating_sub(self.first_generated_ns)
    }

    /// Mean time from generation to last byte; 0 without deliveries.
    #[must_use]
    pub fn delay_mean_ns(&self) -> f64 {
        match self.delivered {
            0 => 0.0,
            count => crate::numbers::real(self.delay_sum_ns) / crate::numbers::real(count),
        }
    }
}

/// Counters of packets sent by a port on one VL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes, LRH to ICRC.
    pub bytes: u64,
}

/// Counters of packets sent by a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRecord {
    /// The port.
    pub port: Endpoint,
    /// By VL: 0 to the model's last.
    pub vls: Vec<VlCounts>,
}

impl PortRecord {
    /// Bytes of all VLs, LRH to ICRC.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.vls.iter().map(|vl| vl.bytes).sum()
    }

    /// Packets of all VLs.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.vls.iter().map(|vl| vl.packets).sum()
    }
}

/// Counts while a run goes on.
#[derive(Debug)]
pub(crate) struct FlowCounters {
    start: Time,
    count_from: Time,
    /// What comes later is not counted.
    count_until: Time,
    plans: Vec<FlowPlan>,
    /// By flow: whether it never ends.
    is_endless: Vec<bool>,
    /// Deliveries of the other flows that are still to come.
    expected: u64,
    flows: Vec<FlowRecord>,
    /// By flow: when the last delivery was.
    last: Vec<Time>,
    /// By node: where its ports begin.
    first: Vec<usize>,
    links: Vec<[VlCounts; VLS]>,
}

impl FlowCounters {
    pub(crate) fn new(
        graph: &Graph,
        workload: &Workload,
        (start, count_from): (Time, Time),
    ) -> Self {
        let mut first = Vec::with_capacity(graph.len());
        let mut ports = 0;
        for node in graph.ids() {
            first.push(ports);
            ports += usize::from(graph.node(node).ports) + 1;
        }
        let plans = &workload.flows;
        let mut is_endless = vec![false; plans.len()];
        for flow in workload.endless() {
            if let Some(is_endless) = is_endless.get_mut(index(flow)) {
                *is_endless = true;
            }
        }
        Self {
            start,
            count_from,
            count_until: match workload.until {
                Until::At(ns) => start + ns,
                Until::Delivered(_) => Time::NEVER,
            },
            is_endless,
            expected: 0,
            plans: plans.clone(),
            flows: plans.iter().map(FlowRecord::new).collect(),
            last: vec![Time::NEVER; plans.len()],
            first,
            links: vec![[VlCounts::default(); VLS]; ports],
        }
    }

    pub(crate) fn generated(&mut self, generated: &Generated) {
        let Some(flow) = self.flows.get_mut(index(generated.flow)) else {
            return;
        };
        if !generated.refused && !self.is_endless[index(generated.flow)] {
            self.expected += generated.deliveries;
        }
        if generated.at < self.count_from {
            return;
        }
        flow.offered += generated.packets;
        flow.first_generated_ns = flow
            .first_generated_ns
            .min(generated.at.since_ns(self.start));
        if generated.refused {
            flow.refused += generated.packets;
        } else {
            flow.expected += generated.deliveries;
        }
    }

    pub(crate) fn delivered(&mut self, delivery: &Delivery) {
        let at = index(delivery.flow);
        let (Some(flow), Some(plan)) = (self.flows.get_mut(at), self.plans.get(at)) else {
            return;
        };
        if !self.is_endless[at] {
            self.expected = self.expected.saturating_sub(1);
        }
        let last = core::mem::replace(&mut self.last[at], delivery.tail);
        if delivery.generated < self.count_from || delivery.tail > self.count_until {
            return;
        }
        flow.delivered += 1;
        flow.bytes += u64::from(delivery.bytes);
        flow.delay_sum_ns += delivery.total_ns;
        flow.network_sum_ns += delivery.network_ns;
        flow.delay_min_ns = flow.delay_min_ns.min(delivery.total_ns);
        flow.delay_max_ns = flow.delay_max_ns.max(delivery.total_ns);
        let completed = delivery.tail.since_ns(self.start);
        flow.completed_ns = flow.completed_ns.max(completed);
        let bin = plan
            .delays_ns
            .partition_point(|&edge| edge < delivery.total_ns);
        if let Some(count) = flow.delays.get_mut(bin) {
            *count += 1;
        }
        if last < Time::NEVER && !flow.jitter.is_empty() {
            let gap_ps = i128::from(delivery.tail.since_ns(last)) * 1000;
            let deviation_ps = gap_ps - i128::from(plan.interval_ps);
            let bin = plan
                .jitter_ns
                .partition_point(|&edge| i128::from(edge) * 1000 < deviation_ps);
            if let Some(count) = flow.jitter.get_mut(bin) {
                *count += 1;
            }
        }
    }

    /// A packet with that header has left a port.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, node: usize, port: PortNum, lrh: &Lrh) {
        if now < self.count_from {
            return;
        }
        let vl = &mut self.links[self.first[node] + port.index()][lrh.vl.index()];
        vl.packets += 1;
        vl.bytes += u64::from(lrh.pkt_len_words) * 4;
    }

    /// Every port with a cable, in order.
    pub(crate) fn ports(&self, graph: &Graph, vls: u8) -> Vec<PortRecord> {
        let ids = graph.ids();
        let ends = ids.flat_map(|node| {
            graph
                .cables(node)
                .map(move |(port, _)| Endpoint { node, port })
        });
        ends.map(|port| PortRecord {
            port,
            vls: self.links[self.first[port.node.index()] + port.port.index()][..usize::from(vls)]
                .to_vec(),
        })
        .collect()
    }

    /// Whether all packets that were generated for flows that end have come to all receivers.
    pub(crate) fn is_delivered(&self) -> bool {
        self.expected == 0
    }

    /// Flows by number.
    pub(crate) fn flows(&self) -> &[FlowRecord] {
        &self.flows
    }
}
