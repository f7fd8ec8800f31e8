//! Traces played on a fabric: the same packets under several schemes and numbers of VLs.

mod packets;

use std::path::PathBuf;
use std::sync::Arc;

use link::DropReason;
use routing::RoutingEngine;
use serde::{Deserialize, Serialize};
use sim::{
    CreditReturn, FaultName, FaultPlan, Model, RoutedFabric, Until, VlTables, Workload,
    WorkloadResult, real,
};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::axes::Axis;
use crate::checks::{self, Refusal};
use crate::error::{ExperimentError, no_violations};
use crate::experiment::{Experiment, Verdict, rounded};
use crate::figure::{Columns, Figure};
use crate::network::{PlannedFault, fault_plan, model, routed};

pub use packets::{Trace, TraceError, TraceFlow};

/// A run is no longer than this, nanoseconds.
const LIMIT_NS_MAX: u64 = 1_000_000_000_000;

/// A trace on a fabric, as its plan says it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracePlan {
    /// Name of the topology.
    pub topology: String,
    /// Path of the trace ([`Trace`]), from where the program runs.
    pub file: TraceFile,
    /// Routing engines.
    pub schemes: Vec<RoutingEngine>,
    /// Numbers of data VLs: 1, 2, 4, 8 or 15.
    pub vls: Vec<u8>,
    /// Whose service levels packets have.
    #[serde(default)]
    pub vl_choice: TraceVlChoice,
    /// Bytes of the longest packet, LRH to ICRC: what buffers are sized by.
    pub packet_bytes: u16,
    /// How credits get back.
    #[serde(default)]
    pub credits: CreditReturn,
    /// How groups are realised.
    #[serde(default)]
    pub multicast: routing::multicast::Scheme,
    /// Packets wait in switches for 4.096 us times two to this power, 0 to 19, at most; left out:
    /// for ever.
    pub lifetime: Option<u8>,
    /// Nanoseconds after which a run is over, whether everything was delivered or not.
    pub limit_ns: u64,
    /// The faults.
    #[serde(default)]
    pub fault: Vec<PlannedFault>,
}

/// How packets of a trace get their VLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum TraceVlChoice {
    /// By the service levels and SL-to-VL tables of the engine; with an engine that has none as
    /// [`TraceVlChoice::Trace`].
    #[default]
    Engine,
    /// By the service level in the trace, modulo the number of VLs, whatever the engine says.
    Trace,
}
wire::choice!(TraceVlChoice, "choice of VLs");

/// A trace's file and what stood in it when the plan was read: results depend on both.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "PathBuf")]
pub struct TraceFile {
    path: PathBuf,
    text: String,
}

impl TryFrom<PathBuf> for TraceFile {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self { path, text }),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }
}

/// One run of the trace and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    topology: String,
    scheme: RoutingEngine,
    vls: u8,
    /// Packets of the trace.
    packets: u64,
    /// Deliveries that they make if nothing is lost: one a receiver.
    due: u64,
    delivered: u64,
    /// Packets that found no place at their source.
    refused: u64,
    dropped: u64,
    /// Reasons of drops and how many of each.
    drops: String,
    /// Lost on cables and in crashed switches.
    lost: u64,
    /// When the last byte of the last delivery was there, from the start of the trace.
    completed_ns: u64,
    /// Mean time from generation to last byte.
    delay_mean_ns: f64,
    delay_max_ns: u64,
    /// Mean time from the first byte sent to the last byte received.
    network_mean_ns: f64,
    /// The flow with the longest delay.
    slowest_flow: String,
    traversals: u64,
    /// Packets that waited for each other in a cycle.
    deadlock: Option<String>,
}

/// The trace and the fabric with the tables of each scheme.
pub(crate) struct TraceAndFabrics {
    trace: Trace,
    fabrics: Vec<RoutedFabric>,
}

impl TracePlan {
    fn model(&self, vls: u8) -> Model {
        model(vls, self.packet_bytes, self.credits, self.lifetime)
    }

    fn faults(&self, seed: u64) -> FaultPlan {
        fault_plan(&self.fault, seed)
    }

    /// The workload on so many VLs; `by_engine`: packets have the engine's service levels.
    fn workload_on(&self, trace: &Trace, vls: u8, by_engine: bool) -> Workload {
        let until = Until::Delivered(self.limit_ns);
        let mut workload = if by_engine {
            trace.workload_by_engine(until)
        } else {
            trace.workload(until)
        };
        if !by_engine {
            workload.vl_tables = Arc::new(VlTables::modulo(vls));
        }
        workload.scheme = self.multicast;
        // A trace is played whole: all of it may wait.
        let longest = trace.hosts.iter().map(Vec::len).max();
        workload.backlog = workload.backlog.max(longest.unwrap_or(0));
        workload
    }

    /// How hosts take packets in.
    fn host_sink(&self) -> String {
        let at_once = "a host takes each packet out of its input buffer as it comes in";
        let slow = self
            .fault
            .iter()
            .filter(|fault| fault.what == FaultName::SlowDrain);
        let slow: Vec<String> = slow
            .map(|fault| {
                let PlannedFault {
                    node,
                    at_ns,
                    ns_per_packet,
                    ..
                } = fault;
                format!("{node} from {at_ns} ns on one each {ns_per_packet} ns")
            })
            .collect();
        match slow.is_empty() {
            true => at_once.to_owned(),
            false => format!("{at_once}; {}", slow.join(", ")),
        }
    }

    fn point(
        &self,
        shared: &TraceAndFabrics,
        [scheme, vls]: [usize; 2],
        record: &WorkloadResult,
    ) -> Point {
        let flows = &record.flows;
        let sum = |of: fn(&sim::FlowRecord) -> u64| flows.iter().map(of).sum::<u64>();
        let delivered = sum(|flow| flow.delivered);
        let mean = |total: u64| match delivered {
            0 => 0.0,
            count => rounded(real(total) / real(count)),
        };
        let slowest = (0u32..).zip(flows).max_by_key(|(number, flow)| {
            // The first of equals.
            (flow.delay_max_ns, core::cmp::Reverse(*number))
        });
        let graph = shared.fabrics[scheme].graph();
        let name = |(number, _): (u32, _)| {
            let (from, to) = shared.trace.names(graph, number)?;
            let sl = shared.trace.flows.get(sim::index(number))?.sl;
            Some(format!("{from} to {to}, SL {}", sl.get()))
        };
        let drops = record.drops.iter();
        let drops =
            drops.map(|(reason, count): &(DropReason, u64)| format!("{} {count}", reason.name()));
        Point {
            topology: self.topology.clone(),
            scheme: self.schemes[scheme],
            vls: self.vls[vls],
            packets: sum(|flow| flow.offered),
            due: sum(|flow| flow.expected),
            delivered,
            refused: sum(|flow| flow.refused),
            dropped: record.balance.dropped,
            drops: drops.collect::<Vec<_>>().join(", "),
            lost: record.balance.lost,
            completed_ns: record.completed_ns(),
            delay_mean_ns: mean(sum(|flow| flow.delay_sum_ns)),
            delay_max_ns: flows
                .iter()
                .map(|flow| flow.delay_max_ns)
                .max()
                .unwrap_or(0),
            network_mean_ns: mean(sum(|flow| flow.network_sum_ns)),
            slowest_flow: slowest.and_then(name).unwrap_or_default(),
            traversals: record.traversals,
            deadlock: record.deadlock.as_ref().map(ToString::to_string),
        }
    }
}

impl Experiment<2> for TracePlan {
    type Point = Point;
    type Shared = TraceAndFabrics;

    fn axes(&self) -> [Axis; 2] {
        [
            Axis::list("schemes", &self.schemes),
            Axis::list("vls", &self.vls),
        ]
    }

    fn check(&self) -> Result<(), Refusal> {
        let graph = checks::graph("topology", &self.topology)?;
        checks::between("limit_ns", self.limit_ns, (1, LIMIT_NS_MAX))?;
        let faults = self.faults(0).check(&graph);
        faults.map_err(|error| ("fault", error.to_string()))?;
        let path = self.file.path.display();
        let trace = Trace::parse(&self.file.text, &graph)
            .map_err(|error| ("file", format!("{path}, {error}")))?;
        for &vls in &self.vls {
            let model = self.model(vls);
            checks::model("vls", &model)?;
            let workload = self.workload_on(&trace, vls, false);
            let workload = workload.check(trace.hosts.len(), &model);
            workload.map_err(|error| ("file", format!("{path}: {error}")))?;
        }
        Ok(())
    }

    fn share(&self, _seed: u64) -> Result<TraceAndFabrics, ExperimentError> {
        let graph = topologies::parse(&self.topology)?.graph;
        // It was checked when the plan was read.
        let trace = Trace::parse(&self.file.text, &graph).unwrap_or_default();
        let fabrics = routed(&self.topology, &self.schemes)?;
        Ok(TraceAndFabrics { trace, fabrics })
    }

    fn run(
        &self,
        shared: &TraceAndFabrics,
        at: [usize; 2],
        seed: u64,
    ) -> Result<Point, ExperimentError> {
        let [scheme, vls] = at;
        let (fabric, vls) = (&shared.fabrics[scheme], self.vls[vls]);
        let by_engine = self.vl_choice == TraceVlChoice::Engine && fabric.has_service_levels();
        let workload = self.workload_on(&shared.trace, vls, by_engine);
        let record = fabric.run_workload(&self.model(vls), &workload, &self.faults(seed))?;
        no_violations(&record.violations)?;
        Ok(self.point(shared, at, &record))
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        let model = self.model(1);
        let by_trace = "the service level in the trace modulo the number of VLs";
        let vl_choice = match self.vl_choice {
            TraceVlChoice::Engine => {
                format!(
                    "that of the engine's service level; with engines that have none {by_trace}"
                )
            }
            TraceVlChoice::Trace => by_trace.to_owned(),
        };
        vec![
            ("Topology", self.topology.clone()),
            ("Trace", self.file.path.display().to_string()),
            (
                "Network",
                format!(
                    "{} ns of flight, {} ns of routing, 4 ns a byte, virtual cut-through, a packet \
                     leaves its input buffer at the link's rate",
                    model.flight_ns, model.routing_ns
                ),
            ),
            (
                "Buffers",
                format!(
                    "one packet of {} bytes in, one out, for each VL of a port",
                    self.packet_bytes
                ),
            ),
            ("Host sink", self.host_sink()),
            ("Credits", self.credits.to_string()),
            ("VL of a packet", vl_choice),
            ("Faults", self.fault.len().to_string()),
        ]
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        let count = |of: fn(&Point) -> bool| points.iter().filter(|point| of(point)).count();
        let whole = count(|point| point.delivered == point.due && point.refused == 0);
        let loops = count(|point| point.deadlock.is_some());
        let of = points.len();
        vec![
            Verdict {
                expected: "everything is delivered in time".to_owned(),
                measured: format!("{whole} of {of} points"),
                holds: Some(whole == of),
            },
            Verdict::no_credit_loop(loops, of),
        ]
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let columns: &Columns<'_, &Point> = &[
            ("scheme", &|point| point.scheme.to_string()),
            ("VLs", &|point| point.vls.to_string()),
            ("delivered", &|point| point.delivered.to_string()),
            ("of", &|point| point.due.to_string()),
            ("dropped", &|point| point.dropped.to_string()),
            ("complete at, ns", &|point| point.completed_ns.to_string()),
            ("mean delay, ns", &|point| {
                format!("{:.1}", point.delay_mean_ns)
            }),
            ("longest, ns", &|point| point.delay_max_ns.to_string()),
            ("of the flow", &|point| point.slowest_flow.clone()),
        ];
        vec![Figure::rows("The trace under each scheme", columns, points)]
    }
}
