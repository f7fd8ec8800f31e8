//! A fabric filled with connections, and what hosts send because of it.
//!
//! Connections are admitted against links of VLARB01's 2.5 Gbit/s, which are also the rate at
//! which the paper's links carry bytes. Here a 1x link carries a byte in 4 ns, not in 3.2, so a
//! connection's share of a link is kept and its packets are born 1.25 times as far apart: all
//! times in packets, inter-arrival times and shares of links are the paper's.

use std::sync::Arc;

use routing::qos::{
    Admission, Band, Class, FillOptions, FillReport, Layout, Options, QosError, fill,
};
use topologies::{Endpoint, Graph, NodeId};
use wire::attr::VlArbEntry;

use crate::qos::lists::LEVELS;
use sim::Model;
use sim::RoutedFabric;
use sim::mix;
use sim::{
    AddressVector, Arbitration, ConstantRate, FlowPlan, TrafficSource, Until, VlTables, Workload,
};

/// Data lanes: ten classes have one each.
pub(super) const DATA_VLS: u8 = 15;
/// Fractions of the inter-arrival time against which delays are held, in parts of 32.
pub(super) const DELAYS_32: [u64; 7] = [1, 2, 4, 8, 16, 24, 32];
/// Fractions of the inter-arrival time against which jitter is held, in parts of 8.
pub(super) const JITTER_8: [i64; 10] = [-8, -6, -4, -2, -1, 1, 2, 4, 6, 8];
/// Births that wait at a source at most: a frame's worth of packets for every connection.
const BACKLOG: usize = 1 << 16;

/// A fabric, its tables and its paths.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(super) fabric: RoutedFabric,
    pub(super) hosts: Vec<NodeId>,
    /// By source and destination: the output ports between them.
    paths: Vec<Vec<Vec<Endpoint>>>,
}

impl Ground {
    pub(super) fn new(graph: &Graph, routing: &str) -> Result<Self, sim::SetupError> {
        let fabric = RoutedFabric::new(graph, routing)?;
        let hosts: Vec<NodeId> = graph.hosts().collect();
        let path = |from, to| {
            routing::qos::path(fabric.graph(), fabric.tables(), from, to).unwrap_or_default()
        };
        let from = |&from: &NodeId| hosts.iter().map(|&to| path(from, to)).collect();
        let paths = hosts.iter().map(from).collect();
        Ok(Self {
            fabric,
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
        let mut admission = Admission::new(self.fabric.graph(), options, |_| link_bps)?;
        let path = |from: usize, to: usize| self.paths[from][to].clone();
        let report = fill(&mut admission, self.hosts.len(), path, how)?;
        Ok((admission, report))
    }

    fn host(&self, node: NodeId) -> Option<u32> {
        let place = self.hosts.iter().position(|&host| host == node)?;
        u32::try_from(place).ok()
    }
}

/// A connection as a flow: its number is its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Its band, which is its service level.
    pub(super) level: usize,
    pub(super) rate_bps: u64,
    /// From one packet to the next, picoseconds.
    pub(super) interval_ps: u64,
}

/// How far apart a connection's packets are born, picoseconds: as many times a packet's time on
/// the link as the link's rate is the connection's.
pub(super) fn interval_ps(model: &Model, rate_bps: u64, link_bps: u64) -> u64 {
    let packet_ps = model.rate.transmit_ps(u64::from(model.packet_bytes));
    let interval = u128::from(packet_ps) * u128::from(link_bps) / u128::from(rate_bps.max(1));
    u64::try_from(interval).unwrap_or(u64::MAX).max(1)
}

/// The connections that stand, the oldest first.
pub(super) fn streams(
    ground: &Ground,
    admission: &Admission,
    model: &Model,
    link_bps: u64,
) -> Vec<Stream> {
    let graph = ground.fabric.graph();
    let connections = admission.connections().filter_map(|(_, connection)| {
        let (first, _) = connection.links.first()?;
        let (last, _) = connection.links.last()?;
        Some(Stream {
            from: ground.host(first.node)?,
            to: ground.host(graph.peer(*last)?.node)?,
            level: Band::ALL
                .iter()
                .position(|&band| Class::Dedicated(band) == connection.class)?,
            rate_bps: connection.rate_bps,
            interval_ps: interval_ps(model, connection.rate_bps, link_bps),
        })
    });
    connections.collect()
}

/// When a run begins to count and when it ends, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) warmup_ns: u64,
    pub(super) measure_ns: u64,
}

/// What hosts send: every connection at its rate, from a random moment of its first interval on;
/// and, if `backlogged`, best effort to all other hosts in turn whenever there is room. Best effort
/// is the flow behind those of the connections.
pub(super) fn offer(
    ground: &Ground,
    admission: &Admission,
    streams: &[Stream],
    model: &Model,
    (span, backlogged, seed): (Span, bool, u64),
) -> Workload {
    let hosts = ground.hosts.len();
    let best_effort = u32::try_from(streams.len()).unwrap_or(u32::MAX);
    let until = Until::At(span.warmup_ns + span.measure_ns);
    let mut offer = Workload::empty(hosts, 0, until);
    offer.count_from_ns = span.warmup_ns;
    offer.backlog = BACKLOG;
    offer.seed = seed;
    offer.vl_tables = Arc::new(lanes(admission));
    offer.flows = streams.iter().map(thresholds).collect();
    offer.flows.push(FlowPlan::default());
    let levels = admission.options().service_levels;
    for (flow, stream) in (0u32..).zip(streams) {
        let band = Band::ALL[stream.level.min(LEVELS - 1)];
        let address = AddressVector {
            sl: levels.sl(Class::Dedicated(band)),
            ..AddressVector::to_host(stream.to, flow)
        };
        let programme = TrafficSource::ConstantRate(ConstantRate {
            address,
            bytes: model.packet_bytes,
            first_ps: mix(seed, u64::from(flow)) % stream.interval_ps,
            interval_ps: stream.interval_ps,
            packets: None,
        });
        if let Ok(from) = usize::try_from(stream.from) {
            offer.hosts[from].push(programme);
        }
    }
    if backlogged {
        let count = u32::try_from(hosts).unwrap_or(u32::MAX);
        for (own, programmes) in (0u32..).zip(&mut offer.hosts) {
            let turns = turns(own, count, seed);
            programmes.extend(turns.into_iter().map(|to| TrafficSource::Backlogged {
                address: AddressVector {
                    sl: levels.sl(Class::BestEffort),
                    ..AddressVector::to_host(to, best_effort)
                },
                bytes: model.packet_bytes,
                first_ps: 0,
            }));
        }
    }
    offer
}

/// All other hosts in an order of each host's own: in the same order, hosts of a switch would send
/// to the same switch at the same time.
fn turns(own: u32, hosts: u32, seed: u64) -> Vec<u32> {
    let mut others: Vec<u32> = (0..hosts).filter(|&other| other != own).collect();
    let seed = mix(seed, u64::from(own));
    others.sort_by_key(|&other| (mix(seed, u64::from(other)), other));
    others
}

fn thresholds(stream: &Stream) -> FlowPlan {
    let part = |parts: u64, of: u64| {
        let ns = u128::from(stream.interval_ps) * u128::from(parts) / u128::from(of) / 1000;
        u64::try_from(ns).unwrap_or(u64::MAX)
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

/// Lanes and arbitration tables of all ports.
fn lanes(admission: &Admission) -> VlTables {
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
