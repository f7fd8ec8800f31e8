//! Messages to groups: how long until the last member has the last byte, by cyclic multicast, by
//! one spanning tree, by unicast (MCAST07 section 4).
//!
//! A point is one draw: some hosts, each with a group of its own (or all with one), send a message
//! each at the same moment. Multicast goes by the tables of [`routing::multicast`]: the spanning
//! tree has one multicast LID a group, cyclic multicast one for each group and offset that sends
//! to it. Unicast sends the whole message to one member after the other, each source in an order
//! of its own. The time of a point ends with the last byte at the last member of all groups.

mod draw;
mod judge;
mod plan;
mod show;
mod summary;

use serde::{Deserialize, Serialize};
use sim::{FaultPlan, PortRecord, RoutedFabric, WorkloadResult, number, real, split_mix};

pub use plan::MulticastPlan;

use crate::axes::Axis;
use crate::checks::Refusal;
use crate::error::{ExperimentError, no_violations};
use crate::experiment::{Experiment, Verdict, mean, rounded};
use crate::figure::Figure;
use crate::multicast::draw::Draw;
use crate::multicast::plan::{Delivery, Grouping, Share};
use crate::multicast::summary::Summary;

/// One draw, and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Whose groups they are.
    pub(super) grouping: Grouping,
    /// How many hosts send.
    pub(super) sources: Share,
    /// How many hosts a group has.
    pub(super) groups: Share,
    /// The same in hosts.
    pub(super) source_hosts: u32,
    /// The same in hosts; a source is no member of its own group.
    pub(super) group_hosts: u32,
    /// Bytes of a message, all its packets from LRH to ICRC.
    pub(super) size_bytes: u32,
    /// Packets of a message.
    pub(super) packets: u32,
    /// How messages come to groups.
    pub(super) scheme: Delivery,
    /// Which draw, from 0.
    pub(super) run: u32,
    /// The draw's seed.
    pub(super) seed: u64,
    /// Until the last byte was at the last member of all groups.
    pub(super) completion_ns: u64,
    /// Mean over messages of the time until all of it was at all members of its group.
    pub(super) message_mean_ns: f64,
    /// Packets delivered, each exactly once.
    pub(super) deliveries: u64,
    /// Bytes that the busiest cable carried one way, LRH to ICRC.
    pub(super) busiest_link_bytes: u64,
    /// Packets through switches.
    pub(super) traversals: u64,
}

/// What a point is, before it is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) grouping: Grouping,
    pub(super) sources: Share,
    pub(super) groups: Share,
    pub(super) size_bytes: u32,
    pub(super) scheme: Delivery,
    pub(super) run: u32,
}

impl Task {
    /// Whether another draw would be the same: all hosts send to all hosts by multicast. (In
    /// unicast members are served in an order that is drawn.)
    fn has_one_draw(&self) -> bool {
        self.sources.is_all() && self.groups.is_all() && self.scheme != Delivery::Unicast
    }
}

/// Grouping, sources, groups, size, scheme, run.
type At = [usize; 6];

impl MulticastPlan {
    /// The point with these coordinates.
    fn task(&self, [grouping, sources, groups, size, scheme, run]: At) -> Task {
        Task {
            grouping: self.grouping[grouping],
            sources: self.sources[sources],
            groups: self.groups[groups],
            size_bytes: self.sizes_bytes[size],
            scheme: self.schemes[scheme],
            run: number(run),
        }
    }
}

impl Experiment<6> for MulticastPlan {
    type Point = Point;
    type Shared = RoutedFabric;

    fn check(&self) -> Result<(), Refusal> {
        self.check()
    }

    fn axes(&self) -> [Axis; 6] {
        [
            Axis::list("grouping", &self.grouping),
            Axis::list("sources", &self.sources),
            Axis::list("groups", &self.groups),
            Axis::list("sizes_bytes", &self.sizes_bytes),
            Axis::list("schemes", &self.schemes),
            Axis::count("runs", self.runs),
        ]
    }

    fn has(&self, at: At) -> bool {
        let task = self.task(at);
        let runs = match task.has_one_draw() {
            true => 1,
            false => self.runs_of(task.scheme),
        };
        task.run < runs
    }

    fn share(&self, _seed: u64) -> Result<RoutedFabric, ExperimentError> {
        let topology = topologies::parse(&self.topology)?;
        Ok(RoutedFabric::new(&topology.graph, self.routing)?)
    }

    fn run(&self, fabric: &RoutedFabric, at: At, seed: u64) -> Result<Point, ExperimentError> {
        let task = self.task(at);
        let hosts = number(fabric.graph().hosts().count());
        let seed = split_mix(seed, u64::from(task.run));
        let draw = Draw::new(&task, hosts, seed);
        let workload = draw.workload(self, &task, hosts);
        let model = self.model(task.size_bytes);
        let record = fabric.run_workload(&model, &workload, &FaultPlan::default())?;
        check(
            &record,
            draw.receivers() * u64::from(self.packets(task.size_bytes)),
        )?;
        Ok(point(self, &task, hosts, seed, &record))
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        show::conditions(self)
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        judge::judge(&Summary { plan: self, points })
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        show::figures(&Summary { plan: self, points })
    }
}

/// Checks that every packet came once to each member and nowhere else, without a credit loop.
fn check(record: &WorkloadResult, due: u64) -> Result<(), ExperimentError> {
    no_violations(&record.violations)?;
    let delivered = record.balance.delivered;
    if record.is_complete && delivered == due && record.deadlock.is_none() {
        return Ok(());
    }
    let cycle = record.deadlock.as_ref();
    let cycle = cycle.map_or_else(String::new, |cycle| format!(", a credit loop: {cycle}"));
    Err(ExperimentError::Violation(format!(
        "{delivered} of {due} deliveries after {} ns{cycle}",
        record.ended_ns
    )))
}

fn point(
    plan: &MulticastPlan,
    task: &Task,
    hosts: u32,
    seed: u64,
    record: &WorkloadResult,
) -> Point {
    let messages = record.flows.iter().filter(|flow| flow.expected > 0);
    let mean_ns = mean(messages.map(|flow| real(flow.completion_ns())));
    let busiest = record.ports.iter().map(PortRecord::bytes).max();
    Point {
        grouping: task.grouping,
        sources: task.sources,
        groups: task.groups,
        source_hosts: task.sources.of(hosts),
        group_hosts: match task.grouping {
            Grouping::Own => task.groups.of(hosts).min(hosts - 1),
            Grouping::Common => task.groups.of(hosts),
        },
        size_bytes: task.size_bytes,
        packets: plan.packets(task.size_bytes),
        scheme: task.scheme,
        run: task.run,
        seed,
        completion_ns: record.completed_ns(),
        message_mean_ns: rounded(mean_ns.unwrap_or(0.0)),
        deliveries: record.balance.delivered,
        busiest_link_bytes: busiest.unwrap_or(0),
        traversals: record.traversals,
    }
}

#[cfg(test)]
mod tests;
