//! One run: a load on a fabric, a time to warm up, a time to measure.

use std::sync::Arc;

use link::DropReason;
use routing::{Options, RoutingEngine, RoutingError, Tables};
use topologies::{Graph, NodeId, NodeKind};
use wire::{Lid, Vl, convert};

use crate::balance::Balance;
use crate::deadlock::Deadlock;
use crate::extra_tables::ExtraTables;
use crate::fabric::{Event, Fabric, RunCounters};
use crate::faults::FaultPlan;
use crate::generator::{Generator, NO_FLOW, Paced};
use crate::model::Model;
use crate::node::Node;
use crate::numbers::{index, number, real};
use crate::packet_tracker::Violation;
use crate::pattern::{Draw, Levels, Pattern, SlChoice, check_rate, permutation};
use crate::setup::{SetupError, build};
use crate::source_queues::{Addressing, SourceQueues};
use crate::workload::BACKLOG_DEFAULT;

/// The load of hosts, and the window in which it is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The destinations.
    pub pattern: Pattern,
    /// How packets get their service levels, and with them their VLs.
    pub sl_choice: SlChoice,
    /// What every host sends, in bytes/ns, LRH to ICRC: a packet at a constant rate, the first one
    /// at a random moment of the first interval.
    pub bytes_per_ns: f64,
    /// Nanoseconds before anything is measured.
    pub warmup_ns: u64,
    /// Nanoseconds of measurement.
    pub measure_ns: u64,
    /// Whether, after that, nothing more is sent and the fabric runs empty.
    pub drain: bool,
    /// Seed of destinations, VLs and first moments.
    pub seed: u64,
}

impl Load {
    /// Uniform traffic for a while.
    #[must_use]
    pub fn uniform(bytes_per_ns: f64, seed: u64) -> Self {
        Self {
            pattern: Pattern::Uniform,
            sl_choice: SlChoice::Engine,
            bytes_per_ns,
            warmup_ns: 30_000,
            measure_ns: 60_000,
            drain: false,
            seed,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadResult {
    /// Hosts of the fabric.
    pub hosts: usize,
    /// Bytes/ns and host that were asked for.
    pub offered: f64,
    /// Bytes/ns and host that arrived in the time of measurement.
    pub accepted: f64,
    /// Packets that arrived in that time.
    pub packets: u64,
    /// Mean nanoseconds from a packet's first byte on its first link to its last byte at its host;
    /// 0 without packets.
    pub latency_ns: f64,
    /// Mean nanoseconds from a packet's generation: the same, and the wait at its source.
    pub total_latency_ns: f64,
    /// Half of the packets took at most so long in the network (two significant digits).
    pub latency_p50_ns: u64,
    /// 99 % of the packets took at most so long in the network (two significant digits).
    pub latency_p99_ns: u64,
    /// Packets generated over the whole run, and those of them that found their source's queue
    /// full.
    pub generated: u64,
    /// See [`LoadResult::generated`].
    pub refused: u64,
    /// Packets that have left a switch, over the whole run.
    pub traversals: u64,
    /// Where all packets are at the end.
    pub balance: Balance,
    /// Drops by reason.
    pub drops: Vec<(DropReason, u64)>,
    /// Events by kind.
    pub counters: RunCounters,
    /// Packets that waited for each other in a cycle, if they did.
    pub deadlock: Option<Deadlock>,
    /// Violations of invariants: the first of them, and how many.
    pub violations: Vec<Violation>,
    /// See [`LoadResult::violations`].
    pub violations_total: u64,
}

/// A fabric with its tables, ready for any number of runs.
#[derive(Clone, Debug)]
pub struct RoutedFabric {
    pub(crate) graph: Arc<Graph>,
    pub(crate) tables: Arc<Tables>,
    /// By host: the DLIDs that it uses for each host.
    pub(crate) dlids: Vec<Arc<[Lid]>>,
}

impl RoutedFabric {
    /// Computes the tables of a fabric by one of the engines of [`routing`]. How many VLs they need
    /// is held against the model when they are used.
    ///
    /// # Errors
    /// [`SetupError::Routing`]: the engine cannot apply.
    pub fn new(graph: &Graph, engine: RoutingEngine) -> Result<Self, SetupError> {
        let options = Options {
            data_vls: Some(Vl::DATA_COUNT),
            ..Options::default()
        };
        Ok(Self::with_tables(graph, engine.route(graph, &options)?))
    }

    /// A fabric with tables made elsewhere.
    #[must_use]
    pub fn with_tables(graph: &Graph, tables: Tables) -> Self {
        let dlids_from = |from| {
            let to = graph.hosts();
            to.map(|to| tables.dlid_between(from, to).unwrap_or_default())
                .collect()
        };
        Self {
            dlids: graph.hosts().map(dlids_from).collect(),
            graph: Arc::new(graph.clone()),
            tables: Arc::new(tables),
        }
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Whether the engine gives packets service levels of its own.
    #[must_use]
    pub fn has_service_levels(&self) -> bool {
        self.tables.vl_assignment.is_some()
    }

    /// Whether so many data VLs are enough for the service levels of the engine.
    ///
    /// # Errors
    /// [`RoutingError::VlsExhausted`]: the engine needs more.
    pub fn check_vls(&self, vls: u8) -> Result<(), SetupError> {
        match &self.tables.vl_assignment {
            Some(assignment) if assignment.data_vls > vls => Err(RoutingError::VlsExhausted {
                engine: self.tables.engine,
                needed: usize::from(assignment.data_vls),
                have: vls,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// The number of service levels that the engine uses, at least 1.
    pub(crate) fn levels(&self) -> u8 {
        let assignment = self.tables.vl_assignment.as_ref();
        assignment.map_or(1, |assignment| assignment.sl_max().get() + 1)
    }

    /// How a host addresses its packets.
    pub(crate) fn addressing(
        &self,
        (own, id): (u32, NodeId),
        extra_tables: &ExtraTables,
    ) -> Addressing {
        let of_own = |lists: &[Arc<[Lid]>]| lists.get(index(own)).cloned().unwrap_or_default();
        Addressing {
            dlids: of_own(&self.dlids),
            mlids: of_own(&extra_tables.mlids),
            groups: Arc::clone(&extra_tables.groups),
            tables: Arc::clone(&self.tables),
            switch: self.graph.cables(id).next().map(|(_, peer)| peer.node),
        }
    }

    /// The fabric.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The DLIDs that a host uses for each host; hosts are numbered in the order of the topology.
    ///
    /// # Panics
    /// There is no such host.
    #[must_use]
    pub fn dlids(&self, host: usize) -> &[Lid] {
        &self.dlids[host]
    }

    /// Brings the fabric up, puts the load on it and measures. Checkers run all the time; what
    /// they find is part of the outcome.
    ///
    /// # Errors
    /// [`SetupError`]: the fabric cannot be built, the load makes no sense on it, or the engine needs more
    /// VLs than the model has.
    pub fn run(
        &self,
        model: &Model,
        load: &Load,
        faults: &FaultPlan,
    ) -> Result<LoadResult, SetupError> {
        let mut fabric = self.start(model, load, faults)?;
        let measured_until = fabric.measure.until;
        fabric.run(measured_until - 1);
        if load.drain {
            drain(&mut fabric);
        }
        fabric.check_all();
        Ok(outcome(&fabric, load))
    }

    fn start(&self, model: &Model, load: &Load, faults: &FaultPlan) -> Result<Fabric, SetupError> {
        let hosts = self.graph.hosts().count();
        load.pattern.check(hosts)?;
        check_rate(load.bytes_per_ns)?;
        let levels = load.sl_choice.levels(self.has_service_levels(), model.vls);
        let (extra_tables, count) = match levels {
            Levels::Engine => {
                model.check()?;
                self.check_vls(model.vls)?;
                (ExtraTables::of_engine(&self.tables), self.levels())
            }
            Levels::PerPacket(_) | Levels::PerPair(_) => (ExtraTables::default(), model.vls),
        };
        let mut fabric = build(
            Arc::clone(&self.graph),
            Arc::clone(&self.tables),
            model,
            faults.clone(),
            extra_tables,
            count,
        )?;
        let extra_tables = Arc::clone(&fabric.extra_tables);
        let start = fabric.now;
        fabric.measure.from = start + load.warmup_ns;
        fabric.measure.until = start + load.warmup_ns + load.measure_ns;
        let interval_ps = interval_ps(model, load.bytes_per_ns);
        let partners = permutation(number(hosts), load.seed);
        for (own, id) in (0u32..).zip(self.graph.hosts()) {
            let draw = Draw::new(load.pattern.clone(), levels, own, &partners, load.seed);
            let window = (start, fabric.measure.until);
            let paced = Paced::new(draw, interval_ps, window, model.packet_bytes, NO_FLOW);
            if let Node::TrafficHost(host) = &mut fabric.nodes[id.index()] {
                host.start(SourceQueues::new(
                    own,
                    Generator::Paced(Box::new(paced)),
                    self.addressing((own, id), &extra_tables),
                    host.port(),
                    BACKLOG_DEFAULT,
                ));
            }
            fabric.service(number(id.index()));
        }
        fabric.schedule_faults(start);
        fabric.queue.push(start, Event::Audit);
        Ok(fabric)
    }
}

/// Picoseconds from packet to packet of one host.
#[must_use]
pub fn interval_ps(model: &Model, bytes_per_ns: f64) -> u64 {
    let ps = f64::from(model.packet_bytes) * 1000.0 / bytes_per_ns;
    convert::nearest(ps)
}

/// How long nothing must have moved for a fabric to count as quiet, nanoseconds.
const QUIET_NS: u64 = 50_000;
/// A fabric that has not run empty in so many such times is not drained further.
const QUIETS_MAX: u32 = 2_000;
/// Within this time lost credit updates are repeated: longer than a keep-alive, nanoseconds.
const CREDIT_REFRESH_NS: u64 = 300_000_000;

/// Lets the fabric run empty, or until no packet moves any more.
fn drain(fabric: &mut Fabric) {
    for _ in 0..QUIETS_MAX {
        let waits = fabric.nodes.iter().any(|node| match node {
            Node::TrafficHost(host) => host.source().is_some_and(SourceQueues::is_waiting),
            Node::Switch(_) | Node::Host(_) => false,
        });
        let before = fabric.balance();
        if before.queued + before.in_flight == 0 && !waits {
            return;
        }
        if !advances(fabric, QUIET_NS) {
            // Audits pause for so long a wait.
            fabric.audits = false;
            let advances = advances(fabric, CREDIT_REFRESH_NS);
            if !advances {
                return;
            }
            fabric.audits = true;
            fabric.audit();
        }
    }
}

/// Lets `ns` pass; whether anything has moved.
fn advances(fabric: &mut Fabric, ns: u64) -> bool {
    let (balance, traversals) = (fabric.balance(), fabric.tracker.traversals);
    fabric.run(fabric.now + ns);
    fabric.tracker.traversals != traversals || fabric.balance() != balance
}

fn outcome(fabric: &Fabric, load: &Load) -> LoadResult {
    let measure = &fabric.measure;
    let hosts = fabric
        .graph
        .ids()
        .filter(|&id| fabric.graph.node(id).kind == NodeKind::Host);
    let hosts = hosts.count();
    let sources = fabric.nodes.iter().filter_map(|node| match node {
        Node::TrafficHost(host) => host.source(),
        Node::Switch(_) | Node::Host(_) => None,
    });
    let (generated, refused) = sources.fold((0, 0), |(generated, refused), source| {
        (generated + source.offered, refused + source.refused)
    });
    let bytes = real(measure.packets) * f64::from(fabric.model.packet_bytes);
    let span = real(load.measure_ns) * real(convert::u64_of(hosts));
    let mean = |sum: u64| match measure.packets {
        0 => 0.0,
        packets => real(sum) / real(packets),
    };
    LoadResult {
        hosts,
        offered: load.bytes_per_ns,
        accepted: if span > 0.0 { bytes / span } else { 0.0 },
        packets: measure.packets,
        latency_ns: mean(measure.network_ns),
        total_latency_ns: mean(measure.total_ns),
        latency_p50_ns: measure.network.value_at_quantile(0.5),
        latency_p99_ns: measure.network.value_at_quantile(0.99),
        generated,
        refused,
        traversals: fabric.tracker.traversals,
        balance: fabric.balance(),
        drops: fabric.drops(),
        counters: fabric.counters,
        deadlock: fabric.deadlock().cloned(),
        violations: fabric.tracker.violations.clone(),
        violations_total: fabric.tracker.violations_total,
    }
}

#[cfg(test)]
mod tests;
