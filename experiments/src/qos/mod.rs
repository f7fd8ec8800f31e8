//! Promised bandwidth at work: connections are admitted until the fabric is full, their packets
//! simulated, and delays and jitter held against each connection's inter-arrival time (VLARB01,
//! section 5); and how many connections fit, at any link rate (its tables).
//!
//! The paper's links carry 2.5 Gbit/s of data. Here a 1x link has the line code of InfiniBand and
//! carries 2; connections keep their share of the link, so whatever is measured in packets,
//! inter-arrival times and shares of links is as the paper has it ([`scene`]).

mod admission;
mod judge;
mod lists;
mod plan;
mod point;
mod scene;
mod show;
mod summary;

use routing::qos::{FillOptions, link_rate};
use sim::{FaultPlan, mix};

pub use admission::{AdmissionPlan, AdmissionReference, Rate, RatePlan};
pub use plan::{BestEffort, EntryLayout, QosPlan, Reference, Subject};
pub(crate) use point::Point;

use crate::ExperimentError;
use crate::axes::Axis;
use crate::experiment::{Experiment, Refusal, Verdict};
use crate::figure::Figure;
use crate::qos::plan::{At, Task};
use crate::qos::point::Origin;
use crate::qos::scene::Ground;
use crate::qos::summary::summaries;

impl Experiment<6> for QosPlan {
    const POINTS_MAX: usize = 2000;

    type Point = Point;
    type Shared = Vec<Ground>;

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

    fn label(&self, at: At) -> String {
        let task = self.task(at);
        format!(
            "{}, {} bytes, {} entries, best effort {}, {} connections tried, run {}",
            self.topologies[task.topology],
            task.packet_bytes,
            task.layout.name(),
            task.best_effort.name(),
            task.tries,
            task.run
        )
    }

    fn share(&self, _seed: u64) -> Result<Vec<Ground>, ExperimentError> {
        grounds(&self.topologies, &self.routing)
    }

    fn run(&self, grounds: &Vec<Ground>, at: At, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.task(at);
        run_one(self, &grounds[task.topology], task, seed)
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

/// The fabrics with their paths.
fn grounds(topologies: &[String], routing: &str) -> Result<Vec<Ground>, ExperimentError> {
    let ground = |name: &String| {
        let topology = topologies::parse(name)?;
        Ok(Ground::new(&topology.graph, routing)?)
    };
    topologies.iter().map(ground).collect()
}

fn run_one(
    plan: &QosPlan,
    ground: &Ground,
    task: Task,
    seed: u64,
) -> Result<Point, ExperimentError> {
    // The same seed for all layouts, packets and numbers of connections.
    let seed = mix(seed, u64::from(task.run));
    let how = FillOptions {
        tries: task.tries,
        retries: plan.retries,
        seed,
    };
    let link_bps = link_rate::X1;
    let (admission, filled) = ground.fill(task.layout.layout(), link_bps, how)?;
    let model = plan.model(task.packet_bytes);
    let streams = scene::streams(ground, &admission, &model, link_bps);
    let span = plan.span(&model);
    let is_backlogged = task.best_effort == BestEffort::Backlogged;
    let with = (span, is_backlogged, seed);
    let offer = scene::offer(ground, &admission, &streams, &model, with);
    let faults = FaultPlan::default();
    let record = ground.fabric.run_workload(&model, &offer, &faults)?;
    if let Some(violation) = record.violations.first() {
        return Err(ExperimentError::Violation(violation.to_string()));
    }
    if let Some(deadlock) = &record.deadlock {
        return Err(ExperimentError::Violation(deadlock.to_string()));
    }
    let origin = Origin {
        topology: &plan.topologies[task.topology],
        packet_bytes: task.packet_bytes,
        layout: task.layout.name(),
        best_effort: task.best_effort.name(),
        tries: task.tries,
        run: task.run,
        seed,
        measured_ns: span.measure_ns,
        byte_ps: model.rate.transmit_ps(1),
    };
    let graph = ground.fabric.graph();
    Ok(point::point(&origin, graph, &filled, &streams, &record))
}

#[cfg(test)]
mod tests;
