//! What takes long to compute: plans, and what `auto` measures. In virtual time the manager does it at once.
//! Where time goes on meanwhile ([`crate::SmConfig::computes_apart`]) its shell takes the [`Work`], runs
//! it on another thread and hands back what is [`Done`], while the manager answers requests, takes traps and
//! lets a sweep that falls due abort the plan.
//!
//! ```text
//!   discovered ──> Activity::Planning ── poll_work ──> Work::run ── work_done ──> Writing
//!   written, auto has not measured yet ── poll_work ──> Work::run ── work_done ──> heavy sweep
//! ```
//!
//! At most one of each kind is under way. What comes of a sweep that has been aborted is dropped, and
//! so is what was measured of a fabric that has grown meanwhile: that is measured again.

use link::Time;

use super::Sm;
use super::sequence::Activity;
use crate::control::Phase;
use crate::discovery::Discovered;
use crate::plan::{Measured, Measuring, Plan, Planner};
use crate::report::{Source, unreachable_warnings};
use crate::schedule::Cause;
use crate::subnet::Subnet;
use crate::writer::Purpose;

/// Something to be computed apart from the manager, by [`Work::run`].
#[derive(Debug)]
pub struct Work(Task);

/// What [`Work::run`] has computed, for [`Sm::work_done`].
#[derive(Debug)]
pub struct Done(Outcome);

#[derive(Debug)]
enum Task {
    Plan(Box<PlanTask>),
    Measure(Box<Measuring>),
}

#[derive(Debug)]
struct PlanTask {
    number: u64,
    planner: Planner,
    subnet: Subnet,
    old: Plan,
}

#[derive(Debug)]
enum Outcome {
    Plan {
        number: u64,
        planner: Box<Planner>,
        plan: Result<Box<Plan>, String>,
    },
    Measure(Measured),
}

impl Work {
    /// Computes it: for milliseconds to minutes, on one core.
    #[must_use]
    pub fn run(self) -> Done {
        Done(match self.0 {
            Task::Plan(task) => {
                let PlanTask {
                    number,
                    mut planner,
                    subnet,
                    old,
                } = *task;
                let plan = planner.plan(&subnet, &old).map(Box::new);
                Outcome::Plan {
                    number,
                    planner: Box::new(planner),
                    plan,
                }
            }
            Task::Measure(measuring) => Outcome::Measure(measuring.run()),
        })
    }
}

/// A plan that is being computed.
#[derive(Debug)]
pub(super) struct Planning {
    number: u64,
    /// Until the shell has taken it.
    work: Option<Work>,
    /// The subnet that it is for. That of the plan in force stays beside it meanwhile.
    found: Option<Subnet>,
    /// What the discovery has warned of.
    warnings: Vec<String>,
}

/// What the shell has taken and not handed back.
#[derive(Debug, Default)]
pub(super) struct Computing {
    /// Of the latest plan that was begun.
    number: u64,
    is_planning: bool,
    is_measuring: bool,
    /// Until no plan is being computed, which would not know of it.
    measured: Option<Measured>,
}

impl Sm {
    /// Something to be run on another thread. None is given while as much is under way as may be.
    pub fn poll_work(&mut self) -> Option<Work> {
        let computing = &mut self.computing;
        if let Activity::Planning(planning) = &mut self.activity
            && !computing.is_planning
            && let Some(work) = planning.work.take()
        {
            computing.is_planning = true;
            return Some(work);
        }
        if self.config.computes_apart && !computing.is_measuring && self.report.is_up() {
            let measuring = self.planner.measuring(&self.fabric.subnet)?;
            computing.is_measuring = true;
            return Some(Work(Task::Measure(Box::new(measuring))));
        }
        None
    }

    /// Takes in what [`Work::run`] has computed.
    pub fn work_done(&mut self, now: Time, done: Done) {
        self.report.set_now(now);
        self.note_absence(now);
        match done.0 {
            Outcome::Plan {
                number,
                planner,
                plan,
            } => {
                self.computing.is_planning = false;
                match core::mem::take(&mut self.activity) {
                    Activity::Planning(planning) if planning.number == number => {
                        self.planner = *planner;
                        if let Some(found) = planning.found {
                            self.fabric.subnet = found;
                        }
                        self.planned(now, plan.map(|plan| *plan), planning.warnings);
                    }
                    other => self.activity = other,
                }
            }
            Outcome::Measure(measured) => {
                self.computing.is_measuring = false;
                self.computing.measured = Some(measured);
            }
        }
        self.take_measured(now);
        self.pump(now);
    }

    /// What `auto` has chosen by measurement is routed by the next sweep.
    fn take_measured(&mut self, now: Time) {
        if matches!(self.activity, Activity::Planning(_)) {
            return;
        }
        if let Some(measured) = self.computing.measured.take()
            && self.planner.take_measured(measured)
        {
            self.persist();
            self.request_sweep(now, Cause::Measured);
        }
    }

    /// The subnet is known, and this manager is its master: what is to be written.
    pub(super) fn subnet_discovered(&mut self, now: Time, discovered: Discovered) {
        self.groups.suspend();
        if self.fabric.subnet.cables() > 0 {
            self.report.resolve(Source::OwnLink);
        }
        let mut warnings = discovered.warnings;
        warnings.extend(unreachable_warnings(&discovered.unreachable));
        self.report.set_unreachable(discovered.unreachable);
        if self.fabric.subnet.cables() == 0 {
            self.report.replace(Source::Sweep, warnings);
            self.withdraw_plan();
            self.update_report();
            self.report.enter(Phase::Discovering);
            self.schedule_light_sweep(now);
            return;
        }
        if !self.config.computes_apart {
            let plan = self.planner.plan(&self.fabric.subnet, &self.fabric.plan);
            return self.planned(now, plan, warnings);
        }
        self.computing.number += 1;
        let number = self.computing.number;
        let task = PlanTask {
            number,
            planner: self.planner.clone(),
            subnet: self.fabric.subnet.clone(),
            old: self.fabric.plan.clone(),
        };
        // Requests that come meanwhile are answered by the plan in force.
        let found = self
            .fabric
            .plan
            .tables
            .is_some()
            .then(|| core::mem::replace(&mut self.fabric.subnet, discovered.previous));
        self.activity = Activity::Planning(Box::new(Planning {
            number,
            work: Some(Work(Task::Plan(Box::new(task)))),
            found,
            warnings,
        }));
    }

    /// There is a plan for the subnet that was found, or none.
    fn planned(&mut self, now: Time, plan: Result<Plan, String>, mut warnings: Vec<String>) {
        let plan = plan.and_then(|mut plan| {
            let without_multicast = self.groups.replan(&self.fabric.subnet, &plan)?;
            plan.warnings.extend(without_multicast);
            Ok(plan)
        });
        match plan {
            Ok(plan) => {
                self.fabric.plan = plan;
                let (subnet, plan) = (&self.fabric.subnet, &self.fabric.plan);
                let qos_warnings = self.qos.replan(subnet, plan);
                self.windows.follow(now, subnet, plan);
                warnings.append(&mut self.fabric.plan.warnings);
                self.report.replace(Source::Sweep, warnings);
                let refusal = self.qos.refusal().map(str::to_owned);
                self.report
                    .replace(Source::Bandwidth, refusal.into_iter().collect());
                for warning in qos_warnings {
                    self.report.warn(warning);
                }
                self.report.programming_started(now);
                self.start_writing(Purpose::Subnet);
            }
            Err(reason) => {
                self.withdraw_plan();
                self.report.replace(Source::Sweep, warnings);
                self.update_report();
                self.report.enter(Phase::Failed { reason });
                self.schedule_light_sweep(now);
            }
        }
    }
}
