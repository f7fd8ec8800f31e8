//! Promised bandwidth at work: connections are admitted until the fabric is full, their packets are
//! simulated, and delays and jitter are compared with each connection's inter-arrival time
//! (VLARB01, section 5); and how many connections fit, at any link rate (its tables).
//!
//! The paper's links carry 2.5 Gbit/s of data. Here a 1x link has the line code of InfiniBand and
//! carries 2; connections keep their share of the link, so what is measured in packets,
//! inter-arrival times and shares of links compares with the paper ([`workload`]).

mod admission;
mod judge;
mod lists;
mod plan;
mod point;
mod show;
mod summary;
mod workload;

use routing::RoutingEngine;
use routing::qos::{FillOptions, link_rate};
use sim::{FaultPlan, split_mix};

pub use admission::{AdmissionPlan, AdmissionReference, RatePlan};
pub use plan::{BestEffort, QosPlan, Reference, Subject};
pub(crate) use point::Point;

use crate::axes::Axis;
use crate::checks::Refusal;
use crate::error::{ExperimentError, no_violations};
use crate::experiment::{Experiment, Verdict};
use crate::figure::Figure;
use crate::qos::plan::{At, Task};
use crate::qos::point::RunParameters;
use crate::qos::summary::summaries;
use crate::qos::workload::QosFabric;

impl Experiment<6> for QosPlan {
    const POINTS_MAX: usize = 2000;

    type Point = Point;
    type Shared = Vec<QosFabric>;

    fn check(&self) -> Result<(), Refusal> {
        self.check()
    }

    fn axes(&self) -> [Axis; 6] {
        [
            Axis::list("topologies", &self.topologies),
            Axis::list("packet_bytes", &self.packet_bytes),
            Axis::list("best_effort", &self.best_effort),
            Axis::list("layouts", &self.layouts),
            Axis::list("tries", &self.tries),
            Axis::count("runs", self.runs),
        ]
    }

    fn share(&self, _seed: u64) -> Result<Vec<QosFabric>, ExperimentError> {
        fabrics(&self.topologies, self.routing)
    }

    fn run(&self, fabrics: &Vec<QosFabric>, at: At, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.task(at);
        run_one(self, &fabrics[task.topology], task, seed)
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        show::conditions(self)
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        judge::judge(self, &summaries(points))
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        show::figures(self, &summaries(points))
    }
}

/// The routed fabrics with their paths.
fn fabrics(
    topologies: &[String],
    routing: RoutingEngine,
) -> Result<Vec<QosFabric>, ExperimentError> {
    let fabric = |name: &String| {
        let topology = topologies::parse(name)?;
        let fabric = QosFabric::new(&topology.graph, routing)?;
        match fabric.has_service_levels() {
            true => Err(ExperimentError::ServiceLevels {
                topology: name.clone(),
                routing,
            }),
            false => Ok(fabric),
        }
    };
    topologies.iter().map(fabric).collect()
}

fn run_one(
    plan: &QosPlan,
    fabric: &QosFabric,
    task: Task,
    seed: u64,
) -> Result<Point, ExperimentError> {
    // The same seed for all layouts, packets and numbers of connections.
    let seed = split_mix(seed, u64::from(task.run));
    let how = FillOptions {
        tries: task.tries,
        retries: plan.retries,
        seed,
    };
    let link_bps = link_rate::X1;
    let (admission, filled) = fabric.fill(task.layout, link_bps, how)?;
    let model = plan.model(task.packet_bytes);
    let streams = workload::streams(fabric, &admission, &model, link_bps);
    let span = plan.span(&model);
    let is_backlogged = task.best_effort == BestEffort::Backlogged;
    let workload = workload::workload(
        fabric,
        &admission,
        &streams,
        &model,
        (span, is_backlogged, seed),
    );
    let faults = FaultPlan::default();
    let record = fabric.routed.run_workload(&model, &workload, &faults)?;
    no_violations(&record.violations)?;
    if let Some(deadlock) = &record.deadlock {
        return Err(ExperimentError::Violation(deadlock.to_string()));
    }
    let parameters = RunParameters {
        topology: &plan.topologies[task.topology],
        packet_bytes: task.packet_bytes,
        layout: task.layout,
        best_effort: task.best_effort,
        tries: task.tries,
        run: task.run,
        seed,
        measured_ns: span.measure_ns,
        byte_ps: model.rate.transmit_ps(1),
    };
    let graph = fabric.routed.graph();
    Ok(point::point(&parameters, graph, &filled, &streams, &record))
}

#[cfg(test)]
mod tests;
