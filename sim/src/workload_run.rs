//! One run of a workload, until all of it has been delivered or its time is over, with counters of every flow
//! and link.

use std::sync::Arc;

use link::{DropReason, Time};

use crate::balance::Balance;
use crate::deadlock::Deadlock;
use crate::extra_tables::ExtraTables;
use crate::fabric::{Event, Fabric, RunCounters};
use crate::faults::FaultPlan;
use crate::flow_counters::{FlowCounters, FlowRecord, PortRecord};
use crate::generator::{Generator, Merged, Paced};
use crate::load::{RoutedFabric, interval_ps};
use crate::model::Model;
use crate::node::Node;
use crate::numbers::number;
use crate::packet_tracker::Violation;
use crate::pattern::{Draw, permutation, split_mix};
use crate::setup::{SetupError, build};
use crate::source_queues::SourceQueues;
use crate::workload::{TrafficSource, Until, Workload};

/// From one check whether everything has been delivered to the next, nanoseconds.
const CHECK_INTERVAL_NS: u64 = 20_000;

/// The result of a run. Times count from its start.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadResult {
    /// When it was over, nanoseconds: with [`Until::Delivered`] at most 20,000 after the last
    /// delivery, or the limit.
    pub ended_ns: u64,
    /// Whether everything that ends has been delivered, and nothing of it was refused.
    pub is_complete: bool,
    /// Flows by number.
    pub flows: Vec<FlowRecord>,
    /// What left each port with a cable, in the order of nodes and ports.
    pub ports: Vec<PortRecord>,
    /// Packets that have left a switch.
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
    /// See [`WorkloadResult::violations`].
    pub violations_total: u64,
}

impl WorkloadResult {
    /// When the last byte of the last delivery was there, nanoseconds; 0 without deliveries.
    #[must_use]
    pub fn completed_ns(&self) -> u64 {
        let flows = self.flows.iter().map(|flow| flow.completed_ns);
        flows.max().unwrap_or(0)
    }
}

impl RoutedFabric {
    /// Brings the fabric up, lets hosts send what is offered and counts. Checkers run all the
    /// time; what they find is part of the record.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use sim::{AddressVector, Destination, FaultPlan, Group, Model, RoutedFabric, SendRequest};
    /// use sim::{TrafficSource, Until, Workload};
    ///
    /// let fabric = topologies::parse("fat-tree-4-2")?.graph;
    /// let prepared = RoutedFabric::new(&fabric, routing::RoutingEngine::Mlid)?;
    /// // Host 0 sends 1,000 bytes to hosts 1 to 7; they are flow 0.
    /// let mut workload = Workload::empty(8, 1, Until::Delivered(10_000_000));
    /// workload.scheme = routing::multicast::Scheme::Cyclic;
    /// workload.groups.push(Group { members: (1..8).collect() });
    /// let address = AddressVector { to: Destination::Group(0), ..AddressVector::to_host(0, 0) };
    /// let message = SendRequest { at_ps: 0, address, bytes: 1000 };
    /// workload.hosts[0].push(TrafficSource::Messages(Arc::new([message])));
    /// let model = Model { packet_bytes: 288, ..Model::mlid04(1) };
    /// let record = prepared.run_workload(&model, &workload, &FaultPlan::default())?;
    /// // Four packets, each to seven hosts.
    /// assert_eq!(record.flows[0].delivered, 28);
    /// assert!(record.is_complete && record.violations.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SetupError`]: the fabric cannot be built, the workload makes no sense on it, or the engine
    /// needs more VLs than the model has and the workload has no SL-to-VL table of its own.
    pub fn run_workload(
        &self,
        model: &Model,
        workload: &Workload,
        faults: &FaultPlan,
    ) -> Result<WorkloadResult, SetupError> {
        model.check()?;
        workload.check(self.dlids.len(), model)?;
        if workload.vl_tables.sl2vl.is_none() {
            self.check_vls(model.vls)?;
        }
        let extra_tables = ExtraTables::new(&self.graph, &self.tables, workload)?;
        let mut fabric = build(
            Arc::clone(&self.graph),
            Arc::clone(&self.tables),
            model,
            faults.clone(),
            extra_tables,
            self.levels_of(workload, model),
        )?;
        let start = fabric.now;
        let count_from = start + workload.count_from_ns;
        let flow_counters = FlowCounters::new(&self.graph, workload, (start, count_from));
        fabric.flow_counters = Some(Box::new(flow_counters));
        self.give_sources(&mut fabric, model, workload);
        fabric.schedule_faults(start);
        fabric.queue.push(start, Event::Audit);
        let is_over = run(&mut fabric, start, workload.until);
        fabric.check_all();
        let balance = fabric.balance();
        if is_over && balance.dropped + balance.lost == 0 {
            fabric.tracker.check_none_missing(fabric.now);
        }
        Ok(record(&fabric, start, balance))
    }

    fn give_sources(&self, fabric: &mut Fabric, model: &Model, workload: &Workload) {
        let start = fabric.now;
        let extra_tables = Arc::clone(&fabric.extra_tables);
        let partners = permutation(number(self.dlids.len()), workload.seed);
        let hosts = (0u32..).zip(self.graph.hosts());
        for ((own, id), sources) in hosts.zip(&workload.hosts) {
            let paced = |at: u64, source: &TrafficSource| {
                let seed = split_mix(workload.seed, at);
                self.drawn(source, own, model, (&partners, seed), start)
            };
            let generator = Generator::Merged(Merged::new(start, model, sources, paced));
            if let Node::TrafficHost(host) = &mut fabric.nodes[id.index()] {
                host.start(SourceQueues::new(
                    own,
                    generator,
                    self.addressing((own, id), &extra_tables),
                    host.port(),
                    workload.backlog,
                ));
            }
            fabric.service(number(id.index()));
        }
    }

    /// The number of service levels that packets of a workload have.
    fn levels_of(&self, workload: &Workload, model: &Model) -> u8 {
        let sources = workload.hosts.iter().flatten();
        let drawn = sources.filter(|source| matches!(source, TrafficSource::Patterned { .. }));
        let drawn = drawn.map(|_| model.vls).max().unwrap_or(0);
        let listed = workload
            .addresses()
            .filter_map(|(_, address)| address.sl)
            .map(|sl| sl.get() + 1)
            .max();
        drawn.max(listed.unwrap_or(0)).max(self.levels())
    }

    fn drawn(
        &self,
        source: &TrafficSource,
        own: u32,
        model: &Model,
        (partners, seed): (&[u32], u64),
        start: Time,
    ) -> Option<Paced> {
        let TrafficSource::Patterned {
            pattern,
            sl_choice,
            bytes_per_ns,
            flow,
            until_ns,
        } = source
        else {
            return None;
        };
        let levels = sl_choice.levels(self.has_service_levels(), model.vls);
        let draw = Draw::new(pattern.clone(), levels, own, partners, seed);
        let interval = interval_ps(model, *bytes_per_ns);
        let window = (start, start + *until_ns);
        let paced = Paced::new(draw, interval, window, model.packet_bytes, *flow);
        Some(paced)
    }
}

/// Lets time pass until the run is over; whether nothing is in flight any more.
fn run(fabric: &mut Fabric, start: Time, until: Until) -> bool {
    let limit = match until {
        Until::At(ns) => {
            fabric.run(start + ns);
            return is_empty(fabric);
        }
        Until::Delivered(limit_ns) => start + limit_ns,
    };
    while fabric.now < limit {
        let next = (fabric.now + CHECK_INTERVAL_NS).min(limit);
        fabric.run(next);
        let is_sent = sources(fabric).all(SourceQueues::is_done);
        let flow_counters = fabric.flow_counters.as_deref();
        if is_sent && (flow_counters.is_some_and(FlowCounters::is_delivered) || is_empty(fabric)) {
            break;
        }
    }
    is_empty(fabric)
}

fn sources(fabric: &Fabric) -> impl Iterator<Item = &SourceQueues> {
    fabric.nodes.iter().filter_map(|node| match node {
        Node::TrafficHost(host) => host.source(),
        Node::Switch(_) | Node::Host(_) => None,
    })
}

fn is_empty(fabric: &Fabric) -> bool {
    let balance = fabric.balance();
    balance.queued + balance.in_flight == 0
}

fn record(fabric: &Fabric, start: Time, balance: Balance) -> WorkloadResult {
    let (flows, ports, is_delivered) = match fabric.flow_counters.as_deref() {
        Some(flow_counters) => (
            flow_counters.flows().to_vec(),
            flow_counters.ports(&fabric.graph, fabric.model.vls),
            flow_counters.is_delivered(),
        ),
        None => (Vec::new(), Vec::new(), false),
    };
    WorkloadResult {
        ended_ns: fabric.now.since_ns(start),
        is_complete: is_delivered
            && sources(fabric).all(|source| source.is_done() && source.refused == 0),
        flows,
        ports,
        traversals: fabric.tracker.traversals,
        balance,
        drops: fabric.drops(),
        counters: fabric.counters,
        deadlock: fabric.deadlock().cloned(),
        violations: fabric.tracker.violations.clone(),
        violations_total: fabric.tracker.violations_total,
    }
}
