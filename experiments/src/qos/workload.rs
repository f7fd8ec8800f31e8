//! A fabric filled with connections, and the workload of its hosts.
//!
//! Connections are admitted against links of VLARB01's 2.5 Gbit/s, which are also the rate at
//! which the paper's links carry bytes. Here a 1x link carries a byte in 4 ns, not in 3.2, so a
//! connection keeps its share of a link and its packets are generated 1.25 times as far apart: all
//! times in packets, inter-arrival times and shares of links are the paper's.

use std::sync::Arc;

use routing::RoutingEngine;
use routing::qos::{
    Admission, Band, Class, FillOptions, FillReport, Layout, Options, QosError, fill,
};
use topologies::{Endpoint, Graph, NodeId};
use wire::Vl;
use wire::attr::VlArbEntry;
use wire::convert::saturate;

use crate::qos::lists::LEVELS;
use sim::Model;
use sim::RoutedFabric;
use sim::split_mix;
use sim::{
    AddressVector, Arbitration, ConstantRate, FlowPlan, TrafficSource, Until, VlTables, Workload,
};

/// Data VLs: each of the ten classes has one.
pub(super) const DATA_VLS: u8 = Vl::DATA_COUNT;
/// Fractions of the inter-arrival time with which delays are compared, in parts of 32.
pub(super) const DELAYS_32: [u64; 7] = [1, 2, 4, 8, 16, 24, 32];
/// Fractions of the inter-arrival time with which jitter is compared, in parts of 8.
pub(super) const JITTER_8: [i64; 10] = [-8, -6, -4, -2, -1, 1, 2, 4, 6, 8];
/// The most packets that wait at a source: a frame's worth of packets for every connection.
const BACKLOG: usize = 1 << 16;

/// A routed fabric and the paths between its hosts.
#[derive(Debug)]
pub(crate) struct QosFabric {
    pub(super) routed: RoutedFabric,
    pub(super) hosts: Vec<NodeId>,
    /// By source and destination: the output ports between them.
    paths: Vec<Vec<Vec<Endpoint>>>,
}

impl QosFabric {
    pub(super) fn new(graph: &Graph, routing: RoutingEngine) -> Result<Self, sim::SetupError> {
        let routed = RoutedFabric::new(graph, routing)?;
        let hosts: Vec<NodeId> = graph.hosts().collect();
        let path = |from, to| {
            routing::qos::path(routed.graph(), routed.tables(), from, to).unwrap_or_default()
        };
        let from = |&from: &NodeId| hosts.iter().map(|&to| path(from, to)).collect();
        let paths = hosts.iter().map(from).collect();
        Ok(Self {
            routed,
            hosts,
            paths,
        })
    }

    /// Fills the fabric with random connections over links of `link_bps`.
    ///
    /// # Errors
    /// As [`fill`].
    pub(super) fn fill(
        &self,
        layout: Layout,
        link_bps: u64,
        how: FillOptions,
    ) -> Result<(Admission, FillReport), QosError> {
        let options = Options {
            layout,
            data_vls: DATA_VLS,
            ..Options::default()
        };
        let mut admission = Admission::new(self.routed.graph(), options, |_| link_bps)?;
        let path = |from: usize, to: usize| self.paths[from][to].clone();
        let report = fill(&mut admission, self.hosts.len(), path, how)?;
        Ok((admission, report))
    }

    /// Whether the routing engine gives packets service levels, as connections do.
    pub(super) fn has_service_levels(&self) -> bool {
        self.routed.has_service_levels()
    }

    fn host(&self, node: NodeId) -> Option<u32> {
        let index = self.hosts.iter().position(|&host| host == node)?;
        u32::try_from(index).ok()
    }
}

/// The traffic of a connection. Its index is the number of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Index of its band, which is its service level.
    pub(super) level: usize,
    pub(super) rate_bps: u64,
    /// From one packet to the next, picoseconds.
    pub(super) interval_ps: u64,
}

/// The interval between packets of a connection, picoseconds: the time of a packet on the link
/// times the ratio of the link's rate to the connection's.
pub(super) fn interval_ps(model: &Model, rate_bps: u64, link_bps: u64) -> u64 {
    let packet_ps = model.rate.transmit_ps(u64::from(model.packet_bytes));
    let interval = u128::from(packet_ps) * u128::from(link_bps) / u128::from(rate_bps.max(1));
    saturate::<u64>(interval).max(1)
}

/// The traffic of the established connections, the oldest first.
pub(super) fn streams(
    fabric: &QosFabric,
    admission: &Admission,
    model: &Model,
    link_bps: u64,
) -> Vec<Stream> {
    let graph = fabric.routed.graph();
    let connections = admission.connections().filter_map(|(_, connection)| {
        let (first, _) = connection.links.first()?;
        let (last, _) = connection.links.last()?;
        Some(Stream {
            from: fabric.host(first.node)?,
            to: fabric.host(graph.peer(*last)?.node)?,
            level: Band::ALL
                .iter()
                .position(|&band| Class::Dedicated(band) == connection.class)?,
            rate_bps: connection.rate_bps,
            interval_ps: interval_ps(model, connection.rate_bps, link_bps),
        })
    });
    connections.collect()
}

/// Warm-up and measurement times, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) warmup_ns: u64,
    pub(super) measure_ns: u64,
}

/// The workload: each connection sends at its rate from a random time of its first interval on. If
/// `backlogged`, best effort goes to all other hosts in turn whenever there is room; it is the flow
/// after those of the connections.
pub(super) fn workload(
    fabric: &QosFabric,
    admission: &Admission,
    streams: &[Stream],
    model: &Model,
    (span, backlogged, seed): (Span, bool, u64),
) -> Workload {
    let hosts = fabric.hosts.len();
    let best_effort = saturate::<u32>(streams.len());
    let until = Until::At(span.warmup_ns + span.measure_ns);
    let mut workload = Workload::empty(hosts, 0, until);
    workload.count_from_ns = span.warmup_ns;
    workload.backlog = BACKLOG;
    workload.seed = seed;
    workload.vl_tables = Arc::new(vl_tables(admission));
    workload.flows = streams.iter().map(thresholds).collect();
    workload.flows.push(FlowPlan::default());
    let levels = admission.options().service_levels;
    for (flow, stream) in (0u32..).zip(streams) {
        let band = Band::ALL[stream.level.min(LEVELS - 1)];
        let address = AddressVector {
            sl: Some(levels.sl(Class::Dedicated(band))),
            ..AddressVector::to_host(stream.to, flow)
        };
        let source = TrafficSource::ConstantRate(ConstantRate {
            address,
            bytes: model.packet_bytes,
            first_ps: split_mix(seed, u64::from(flow)) % stream.interval_ps,
            interval_ps: stream.interval_ps,
            packets: None,
        });
        if let Ok(from) = usize::try_from(stream.from) {
            workload.hosts[from].push(source);
        }
    }
    if backlogged {
        let count = saturate::<u32>(hosts);
        for (own, sources) in (0u32..).zip(&mut workload.hosts) {
            let destinations = destination_order(own, count, seed);
            sources.extend(
                destinations
                    .into_iter()
                    .map(|to| TrafficSource::Backlogged {
                        address: AddressVector {
                            sl: Some(levels.sl(Class::BestEffort)),
                            ..AddressVector::to_host(to, best_effort)
                        },
                        bytes: model.packet_bytes,
                        first_ps: 0,
                    }),
            );
        }
    }
    workload
}

/// All other hosts in random order, different for each host: in the same order, hosts of a switch
/// would send to the same switch at the same time.
fn destination_order(own: u32, hosts: u32, seed: u64) -> Vec<u32> {
    let mut others: Vec<u32> = (0..hosts).filter(|&other| other != own).collect();
    let seed = split_mix(seed, u64::from(own));
    others.sort_by_key(|&other| (split_mix(seed, u64::from(other)), other));
    others
}

fn thresholds(stream: &Stream) -> FlowPlan {
    let part = |parts: u64, of: u64| {
        let ns = u128::from(stream.interval_ps) * u128::from(parts) / u128::from(of) / 1000;
        saturate::<u64>(ns)
    };
    let deviation = |parts: i64| {
        let size = i64::try_from(part(parts.unsigned_abs(), 8)).unwrap_or(i64::MAX);
        size * parts.signum()
    };
    FlowPlan {
        delays_ns: DELAYS_32.map(|parts| part(parts, 32)).into(),
        interval_ps: stream.interval_ps,
        jitter_ns: JITTER_8.map(deviation).into(),
    }
}

/// SL-to-VL mapping, and the arbitration tables of all ports.
fn vl_tables(admission: &Admission) -> VlTables {
    let options = admission.options();
    let entries = |table: &routing::qos::Table| {
        let entries = table.entries().iter();
        entries
            .map(|entry| VlArbEntry {
                vl: entry.vl,
                weight: entry.weight,
            })
            .collect()
    };
    let arbitration = admission.links().map(|(port, link)| {
        let tables = Arbitration {
            high: entries(link.high()),
            low: entries(link.low()),
            high_limit: link.high_limit(),
        };
        (port, tables)
    });
    VlTables {
        sl2vl: Some(options.service_levels.sl2vl(options.data_vls)),
        sl2vl_by_ports: Vec::new(),
        arbitration: arbitration.collect(),
    }
}

#[cfg(test)]
mod tests;
