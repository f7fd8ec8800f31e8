//! Sweeps of loads: accepted traffic against latency, of several schemes on several networks
//! (MLID04 section 5).

mod judge;
mod plan;

use routing::RoutingEngine;
use serde::{Deserialize, Serialize};
use sim::{CreditReturn, Load, LoadResult, Pattern, RoutedFabric, SlChoice, number, split_mix};

pub use plan::{Band, LoadPlan};

use crate::axes::Axis;
use crate::checks::Refusal;
use crate::error::{ExperimentError, no_violations};
use crate::experiment::{Experiment, Verdict, rounded};
use crate::figure::{self, Curve, Figure};
use crate::network::{delays, routed};

/// One run of a plan and its results. Times in nanoseconds, traffic in bytes/ns and host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The topology's name.
    pub(super) topology: String,
    /// The routing engine.
    pub(super) scheme: RoutingEngine,
    /// Data VLs.
    pub(super) vls: u8,
    /// Name of the workload.
    pub(super) traffic: String,
    /// Which run of this point, from 0.
    pub(super) run: u32,
    /// The run's seed.
    pub(super) seed: u64,
    /// Traffic that hosts were to send.
    #[serde(rename = "offered_bytes_per_ns")]
    pub(super) offered: f64,
    /// Traffic that arrived.
    #[serde(rename = "accepted_bytes_per_ns")]
    pub(super) accepted: f64,
    /// Mean time from the first byte sent to the last byte received.
    pub(super) latency_ns: f64,
    /// Mean time from a packet's generation.
    pub(super) total_latency_ns: f64,
    /// Median of the time in the network.
    pub(super) latency_p50_ns: u64,
    /// 99th percentile of the time in the network.
    pub(super) latency_p99_ns: u64,
    /// Packets measured.
    pub(super) packets: u64,
    /// Packets generated in the whole run.
    #[serde(rename = "born")]
    pub(super) generated: u64,
    /// Packets that found the queue of their source full.
    pub(super) refused: u64,
    /// Packets through switches in the whole run.
    pub(super) traversals: u64,
    /// Packets dropped.
    pub(super) dropped: u64,
    /// Packets lost on cables and in crashed switches.
    pub(super) lost: u64,
    /// Packets that waited for each other in a cycle.
    pub(super) deadlock: Option<String>,
    /// Rules broken.
    pub(super) violations: u64,
}

/// Topologies by schemes.
pub(crate) type Fabrics = Vec<Vec<RoutedFabric>>;

/// Topology, workload, VLs, scheme, load, run.
type At = [usize; 6];

impl Experiment<6> for LoadPlan {
    type Point = Point;
    type Shared = Fabrics;

    fn check(&self) -> Result<(), Refusal> {
        self.check()
    }

    fn axes(&self) -> [Axis; 6] {
        [
            Axis::list("topologies", &self.topologies),
            Axis::list("traffic", &self.traffic),
            Axis::list("vls", &self.vls),
            Axis::list("schemes", &self.schemes),
            Axis::list("loads", &self.loads),
            Axis::count("runs", self.runs),
        ]
    }

    fn share(&self, _seed: u64) -> Result<Fabrics, ExperimentError> {
        let fabrics = self.topologies.iter().map(|name| self.fabrics(name));
        fabrics.collect()
    }

    fn run(&self, fabrics: &Fabrics, at: At, seed: u64) -> Result<Point, ExperimentError> {
        let [topology, traffic, vls, scheme, load, run] = at;
        // The same seed for all schemes, VLs and loads: they see the same destinations.
        let seed = split_mix(seed, u64::from(number(run)));
        let load = Load {
            pattern: self.traffic[traffic].clone(),
            sl_choice: self.vl_choice,
            bytes_per_ns: self.loads[load],
            warmup_ns: self.warmup_ns,
            measure_ns: self.measure_ns,
            drain: false,
            seed,
        };
        let model = self.model(self.vls[vls]);
        let outcome = fabrics[topology][scheme].run(&model, &load, &self.faults(seed))?;
        no_violations(&outcome.violations)?;
        Ok(point(self, at, seed, &outcome))
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        conditions(self)
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        judge::judge(self, points)
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let mut figures = Vec::new();
        for topology in &self.topologies {
            for traffic in &self.traffic {
                let name = traffic.to_string();
                figures.push(Figure::plot(
                    format!("{topology}, {name}"),
                    curves(self, points, topology, &name),
                    figure::Axis::linear("accepted traffic, bytes/ns and host"),
                    figure::Axis::linear("mean latency, ns"),
                ));
            }
        }
        figures.push(saturations(self, points));
        figures
    }
}

impl LoadPlan {
    /// A topology under each scheme, with tables that work on every number of VLs of the plan.
    fn fabrics(&self, name: &str) -> Result<Vec<RoutedFabric>, ExperimentError> {
        let fabrics = routed(name, &self.schemes)?;
        if self.vl_choice == SlChoice::Engine {
            for &vls in &self.vls {
                for fabric in &fabrics {
                    let enough = fabric.check_vls(vls);
                    enough.map_err(|source| ExperimentError::Fabric {
                        fabric: format!("{name}, {vls} VLs"),
                        source,
                    })?;
                }
            }
        }
        Ok(fabrics)
    }
}

fn point(
    plan: &LoadPlan,
    [topology, traffic, vls, scheme, _, run]: At,
    seed: u64,
    outcome: &LoadResult,
) -> Point {
    Point {
        topology: plan.topologies[topology].clone(),
        scheme: plan.schemes[scheme],
        vls: plan.vls[vls],
        traffic: plan.traffic[traffic].to_string(),
        run: number(run),
        seed,
        offered: outcome.offered,
        accepted: rounded(outcome.accepted),
        latency_ns: rounded(outcome.latency_ns),
        total_latency_ns: rounded(outcome.total_latency_ns),
        latency_p50_ns: outcome.latency_p50_ns,
        latency_p99_ns: outcome.latency_p99_ns,
        packets: outcome.packets,
        generated: outcome.generated,
        refused: outcome.refused,
        traversals: outcome.traversals,
        dropped: outcome.balance.dropped,
        lost: outcome.balance.lost,
        deadlock: outcome.deadlock.as_ref().map(ToString::to_string),
        violations: outcome.violations_total,
    }
}

fn conditions(plan: &LoadPlan) -> Vec<(&'static str, String)> {
    let credits = match plan.credits {
        CreditReturn::Ideal => "ideal: in the moment in which a buffer is freed",
        CreditReturn::Packets => {
            "flow-control packets, which fly like all others and take no byte time"
        }
    };
    let vl_choice = match plan.vl_choice {
        SlChoice::Engine => {
            "that of the engine's service level for source and destination; with engines that have none, \
             drawn for each packet"
        }
        SlChoice::Random => "drawn for each packet",
        SlChoice::Connection => "drawn for each pair of hosts",
    };
    let faults = match plan.fault.len() {
        0 => "none".to_owned(),
        count => format!("{count}, as the plan says"),
    };
    let lifetime = match plan.lifetime.and_then(link::life_time_ns) {
        Some(ns) => format!("{ns} ns"),
        None => "for ever".to_owned(),
    };
    vec![
        ("Runs of each point", plan.runs.to_string()),
        (
            "Network",
            format!(
                "{}, virtual cut-through, a packet leaves its input buffer at the link's rate",
                delays(&plan.model(1))
            ),
        ),
        (
            "Buffers",
            "one packet in, one packet out, for each VL of a port".to_owned(),
        ),
        ("Credits", credits.to_owned()),
        ("Faults", faults),
        ("Lifetime of packets in a switch", lifetime),
        ("VL of a packet", vl_choice.to_owned()),
        (
            "Time",
            format!(
                "{} ns to warm up, {} ns measured",
                plan.warmup_ns, plan.measure_ns
            ),
        ),
        (
            "Latency",
            "from a packet's first byte on its first link to its last byte at its host".to_owned(),
        ),
    ]
}

/// One curve for each scheme and number of VLs; the mean of several runs.
fn curves(plan: &LoadPlan, points: &[Point], topology: &str, traffic: &str) -> Vec<Curve> {
    let curve = |vls: u8, scheme: RoutingEngine| {
        let means = judge::means(plan, points, (topology, scheme, vls, traffic));
        let means = means
            .into_iter()
            .map(|mean| (mean.accepted, mean.latency_ns));
        Curve::measured(format!("{scheme}, {vls} VL"), means)
    };
    let vls = plan.vls.iter();
    vls.flat_map(|&vls| plan.schemes.iter().map(move |&scheme| (vls, scheme)))
        .map(|(vls, scheme)| curve(vls, scheme))
        .collect()
}

/// The most traffic that each scheme accepts at any load, the mean of several runs.
fn saturations(plan: &LoadPlan, points: &[Point]) -> Figure {
    let mut columns: Vec<String> = ["network", "workload", "VLs"].map(str::to_owned).into();
    columns.extend(plan.schemes.iter().map(ToString::to_string));
    let mut rows = Vec::new();
    for topology in &plan.topologies {
        for traffic in plan.traffic.iter().map(Pattern::to_string) {
            for &vls in &plan.vls {
                let most = |&scheme: &RoutingEngine| {
                    let means = judge::means(plan, points, (topology, scheme, vls, &traffic));
                    format!("{:.4}", judge::saturation(&means))
                };
                let mut row = vec![topology.clone(), traffic.clone(), vls.to_string()];
                row.extend(plan.schemes.iter().map(most));
                rows.push(row);
            }
        }
    }
    Figure::table("Most traffic accepted, bytes/ns and host", columns, rows)
}
