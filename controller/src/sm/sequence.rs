//! The sequence of sweeps: what the manager does, and what follows.
//!
//! ```text
//!          ┌──────────── heavy sweep due (start, trap, request, change seen) ───────────────┐
//!          v                                                                                │
//!   Discovering ──> another master,  ── yes ──> Standby: polls of the master, gone? ── yes ──┤
//!          │        a better manager?           (as master: HandingOver, then Standby)      │
//!          v no                                                                             │
//!   [before the first plan: light sweep, has anything changed? ── yes ──────────────────────┤
//!          │ no                                                                             │
//!          v                                                                                │
//!   Planning ([`super::computing`])                                                        │
//!          v                                                                                │
//!   planned? ── no ──> Failed: frequent light sweeps ───────────────────────────────────────┤
//!          │ yes                                                                            │
//!          v                                                                                │
//!   Writing (Purpose::Subnet) ──> Up ──> light sweep every interval: changed? ── yes ───────┘
//!                                  │
//!                                  └──> Writing (Purpose::Multicast, Purpose::Qos) when
//!                                       groups or connections have changed
//! ```
//!
//! A heavy sweep that falls due while another activity is under way aborts it
//! ([`crate::schedule`]): what has been written stays known, so nothing is lost, and a device that
//! has died meanwhile does not hold up the rerouting by its timeouts.

use link::Time;

use super::computing::Planning;
use super::managers::HandingOver;
use super::{Job, Sm};
use crate::discovery::{Discovered, Discovery, Known, Queries, Repeats};
use crate::light_sweep::{self, LightSweep};
use crate::persistence::Texts;
use crate::plan::Plan;
use crate::report::{Source, unreachable_warnings};
use crate::schedule::{Cause, Due};
use crate::smp::{Answer, Request};
use crate::verification;
use crate::writer::{Programming, Purpose, Target, Write};

/// How often a later discovery repeats a request through a link to a device that it has not met
/// yet: a neighbour that has just died must not hold up the rerouting, and one that was only slow
/// is found by the sweep that follows.
const PROBE_RETRIES: u8 = 2;

/// Other managers that light sweeps look at, at most.
const MANAGERS_MAX: usize = 32;

/// What the manager is doing.
#[derive(Debug, Default)]
pub(super) enum Activity {
    /// Nothing.
    #[default]
    Idle,
    /// The first half of a heavy sweep.
    Discovering(Box<Discovery>),
    /// A plan is being computed apart from the manager.
    Planning(Box<Planning>),
    /// Tables are being written: the second half of a heavy sweep, or after a change of groups or
    /// connections.
    Writing(Box<Programming>),
    /// A light sweep; of the first sweep what was discovered, until this has confirmed it.
    LightSweep(LightSweep, Option<Box<Discovered>>),
    /// A better manager is asked to take over.
    HandingOver(Box<HandingOver>),
}

impl Sm {
    /// When the next sweep that may start is due.
    pub(super) fn sweep_deadline(&self) -> Option<Time> {
        let is_idle = matches!(self.activity, Activity::Idle);
        self.schedule.deadline(is_idle)
    }

    fn target(&mut self) -> Target<'_> {
        Target {
            subnet: &mut self.fabric.subnet,
            plan: &self.fabric.plan,
            admission: self.qos.admission(),
            mirrors: &mut self.mirrors,
            groups: &mut self.groups,
            aliases: &self.aliases,
        }
    }

    /// The SMP of a request; `None` if it is no longer needed.
    pub(super) fn smp_request(&mut self, job: Job) -> Option<Request> {
        let activity = core::mem::take(&mut self.activity);
        let request = match (job, &activity) {
            (Job::Discovery(query), Activity::Discovering(discovery)) => discovery.request(query),
            (Job::Write(write), Activity::Writing(programming)) => {
                programming.request(write, &mut self.target())
            }
            (Job::LightSweep(query), Activity::LightSweep(..)) => {
                light_sweep::request(query, &self.fabric.subnet)
            }
            (Job::Verify(index, item), Activity::LightSweep(light_sweep, _))
                if light_sweep.reads_back(index) =>
            {
                verification::request((index, item), &self.fabric.subnet)
            }
            (Job::HandOver(to), Activity::HandingOver(_)) => self.handover_request(to),
            (Job::LateTrap(switch), activity) => self.late_trap_request(switch, activity),
            (
                Job::Discovery(_)
                | Job::Write(_)
                | Job::LightSweep(_)
                | Job::Verify(..)
                | Job::HandOver(_),
                _,
            ) => None,
        };
        self.activity = activity;
        request
    }

    /// Takes in the outcome of a request, and queues the requests that follow from it.
    pub(super) fn complete(&mut self, now: Time, job: Job, answer: Answer<'_>) {
        let mut activity = core::mem::take(&mut self.activity);
        match (job, &mut activity) {
            (Job::Discovery(query), Activity::Discovering(discovery)) => {
                let queries = discovery.complete(query, answer);
                let lost = discovery.take_lost();
                self.push_discovery(queries);
                self.exchange
                    .end_where(|job| matches!(job, Job::Discovery(query) if lost.contains(query)));
            }
            (Job::Write(write), Activity::Writing(programming)) => {
                let next = programming.complete(write, answer, &mut self.target());
                self.push_writes(next);
            }
            (Job::LightSweep(query), Activity::LightSweep(light_sweep, _)) => {
                light_sweep.complete(query, answer, &self.fabric.subnet);
            }
            (Job::Verify(index, _), Activity::LightSweep(light_sweep, _))
                if matches!(answer, Answer::Timeout) =>
            {
                light_sweep.leave_out(index);
            }
            (Job::Verify(index, item), Activity::LightSweep(light_sweep, _))
                if light_sweep.reads_back(index) =>
            {
                let (subnet, mirrors) = (&self.fabric.subnet, &mut self.mirrors);
                let read = (index, item);
                light_sweep.changed |= self.verification.complete(read, answer, subnet, mirrors);
            }
            (Job::LateTrap(_), _) => self.late_trap_answered(now, answer),
            (Job::HandOver(_), Activity::HandingOver(handing_over)) => {
                Self::handover_answered(handing_over, answer);
            }
            // An answer to a request of an activity that was aborted in the meantime, or of a device
            // that is no longer read back.
            (
                Job::Discovery(_)
                | Job::Write(_)
                | Job::LightSweep(_)
                | Job::Verify(..)
                | Job::HandOver(_),
                _,
            ) => {}
        }
        self.activity = activity;
    }

    fn push_writes(&mut self, writes: impl IntoIterator<Item = Write>) {
        for write in writes {
            self.exchange.push(Job::Write(write), self.config.retries);
        }
    }

    fn push_discovery(&mut self, queries: Queries) {
        for (query, repeats) in queries {
            let job = Job::Discovery(query);
            match repeats {
                Repeats::Device(retries) => self.exchange.push(job, retries),
                Repeats::Probe(retries) => self.exchange.push_probe(job, retries),
                Repeats::PatientProbe(retries) => {
                    self.exchange.push_patient_probe(job, retries);
                }
            }
        }
    }

    /// A request has had no answer in time, and is sent again.
    pub(super) fn repeated(&mut self, job: Job) {
        if let (Job::Discovery(query), Activity::Discovering(discovery)) = (job, &mut self.activity)
        {
            let queries = discovery.repeated(query);
            self.push_discovery(queries);
        }
    }

    fn push_light_sweep(
        &mut self,
        queries: impl IntoIterator<Item = light_sweep::Query>,
        retries: u8,
    ) {
        for query in queries {
            self.exchange.push_probe(Job::LightSweep(query), retries);
        }
    }

    /// Aborts what is under way if a heavy sweep is due, or if it is a discovery that is out of date.
    pub(super) fn abort_for_sweep(&mut self, now: Time) {
        if let Activity::Discovering(discovery) = &self.activity
            && discovery.is_outdated()
        {
            self.schedule.request_sweep(now, Cause::Overtaken);
        }
        // A handover is short and ends one way or the other.
        let goes_on = matches!(self.activity, Activity::HandingOver(_));
        if goes_on || !self.schedule.aborts_others(now) {
            return;
        }
        match core::mem::take(&mut self.activity) {
            Activity::Idle | Activity::LightSweep(..) | Activity::HandingOver(_) => {}
            Activity::Discovering(_) | Activity::Planning(_) => self.schedule.count_abort(),
            Activity::Writing(programming) => {
                self.schedule.count_abort();
                if programming.purpose() == Purpose::Multicast {
                    self.groups.writing_aborted();
                }
            }
        }
        self.exchange.clear();
    }

    /// Goes on when no request is under way. `false` if there is nothing to do at `now`.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        match core::mem::take(&mut self.activity) {
            Activity::Idle => return self.start_what_is_due(now),
            Activity::Planning(planning) => {
                self.activity = Activity::Planning(planning);
                return false;
            }
            Activity::Discovering(discovery) => self.discovery_done(now, *discovery),
            Activity::LightSweep(light_sweep, discovered) => {
                self.light_sweep_done(now, &light_sweep, discovered);
            }
            Activity::HandingOver(handing_over) => self.handover_done(now, *handing_over),
            Activity::Writing(mut programming) => {
                let writes = programming.next_stage(&mut self.target());
                if writes.is_empty() {
                    self.written(now, &programming);
                } else {
                    self.push_writes(writes);
                    self.activity = Activity::Writing(programming);
                }
            }
        }
        true
    }

    fn start_what_is_due(&mut self, now: Time) -> bool {
        match self.schedule.take_due(now) {
            Some(Due::HeavySweep(cause)) => self.start_discovery(now, cause),
            Some(Due::LightSweep) => self.start_light_sweep(),
            Some(Due::Glance) => self.start_glance(),
            None => return self.serve_groups() || self.serve_aliases() || self.serve_qos(now),
        }
        true
    }

    pub(super) fn start_writing(&mut self, purpose: Purpose) {
        self.activity = Activity::Writing(Box::new(Programming::start(purpose)));
    }

    fn start_discovery(&mut self, now: Time, cause: Cause) {
        let cause = self.words_of(cause);
        self.report.sweep_started(now, cause);
        let retries = self.config.retries;
        let probe_retries = match self.is_managed_before() {
            false => retries,
            true => retries.min(PROBE_RETRIES),
        };
        let known = Known {
            names: self.inventory.names().clone(),
            unresponsive: self.inventory.unresponsive_ports().clone(),
            answered: self.fabric.subnet.joined_ports(),
            devices: self.planner.expected(),
            suspects: self.inventory.suspects().clone(),
            silent_managers: {
                let silent = self.inventory.silent_managers().iter().copied();
                silent.chain(self.election.left_by()).collect()
            },
        };
        let (discovery, queries) = Discovery::start(
            self.config.protection,
            known,
            self.election.is_master() && !self.is_mastership_unconfirmed,
            retries,
            probe_retries,
        );
        self.push_discovery(queries);
        self.activity = Activity::Discovering(Box::new(discovery));
    }

    fn start_light_sweep(&mut self) {
        match self.election.polled() {
            Some(manager) => {
                self.push_light_sweep(self.poll_queries(manager), self.config.poll_retries);
            }
            None => {
                let queries = light_sweep::queries(&self.fabric.subnet);
                let managers = self.fabric.managers.iter();
                let managers: Vec<_> = managers
                    .map(|&(index, manager)| light_sweep::Query::Manager(index, manager))
                    .collect();
                self.push_light_sweep(queries.into_iter().chain(managers), self.config.retries);
            }
        }
        if self.report.is_up() {
            let reads = self.verification.start(&self.fabric.subnet, &self.mirrors);
            for (index, item) in reads {
                let retries = self.config.retries;
                self.exchange.push_probe(Job::Verify(index, item), retries);
            }
        }
        self.activity = Activity::LightSweep(LightSweep::default(), None);
    }

    fn start_glance(&mut self) {
        self.push_light_sweep([light_sweep::Query::OwnPort], self.config.retries);
        self.activity = Activity::LightSweep(LightSweep::glance(), None);
    }

    fn discovery_done(&mut self, now: Time, discovery: Discovery) {
        let (subnet, mut discovered) = discovery.finish();
        self.report.discovery_done(now);
        let ports = core::mem::take(&mut discovered.unresponsive_ports);
        self.inventory.set_unresponsive_ports(ports);
        let suspects = core::mem::take(&mut discovered.suspects);
        self.inventory.set_suspects(suspects);
        let silent = core::mem::take(&mut discovered.silent_managers);
        self.inventory.set_silent_managers(silent);
        discovered.previous = core::mem::replace(&mut self.fabric.subnet, subnet);
        // What is away may be written by others, or under another GUID.
        let subnet = &self.fabric.subnet;
        self.mirrors.retain(|&guid, _| subnet.find(guid).is_some());
        let changed = core::mem::take(&mut discovered.changed);
        let is_found = |guid| subnet.find(guid).is_some();
        self.link_traps.discovered(changed, is_found);
        self.fabric.managers.clone_from(&discovered.managers);
        self.fabric.managers.truncate(MANAGERS_MAX);
        if let Some(discovered) = self.elect(now, discovered) {
            self.confirm_or_serve(now, discovered);
        }
    }

    /// Whether the subnet was managed before this sweep, by this manager or the one that it stood by
    /// for.
    fn is_managed_before(&self) -> bool {
        self.report.has_been_up() || self.election.has_stood_by()
    }

    /// Goes on with a discovery: before the first plan of a subnet a light sweep confirms it.
    pub(super) fn confirm_or_serve(&mut self, now: Time, discovered: Discovered) {
        // Nothing at all is found if the own host gives no answer: to be told at once.
        let is_found = !self.fabric.subnet.devices.is_empty();
        if is_found && !self.is_managed_before() && self.schedule.confirm_discovery() {
            let queries = light_sweep::queries(&self.fabric.subnet);
            self.push_light_sweep(queries, self.config.retries);
            let discovered = Some(Box::new(discovered));
            self.activity = Activity::LightSweep(LightSweep::default(), discovered);
        } else {
            self.subnet_discovered(now, discovered);
        }
    }

    fn light_sweep_done(
        &mut self,
        now: Time,
        light_sweep: &LightSweep,
        discovered: Option<Box<Discovered>>,
    ) {
        if self.election.polled().is_some() {
            return self.poll_done(now, light_sweep);
        }
        if light_sweep.is_glance() && !light_sweep.changed {
            return self.schedule_glance(now);
        }
        if self.report.is_up() {
            let warnings = self.verification.take_warnings();
            self.report.replace(Source::ForeignWrites, warnings);
        }
        if light_sweep.changed {
            self.schedule.request_sweep(now, Cause::Change);
        } else if let Some(discovered) = discovered {
            self.subnet_discovered(now, *discovered);
        } else if self.report.unreachable().is_empty() {
            if self.report.is_up() {
                self.planner.settle();
            }
            let has_links = self.fabric.subnet.cables() > 0;
            if self.schedule.warns_of_no_link(has_links) {
                let text = "the port of this host has no link: is its cable plugged?";
                self.report.warn_of(Source::OwnLink, text.into());
            }
            if self.schedule.is_unlinked_for_long() {
                // A light sweep asks for what has changed; what was discovered may have been wrong.
                self.schedule.request_sweep(now, Cause::OwnHost);
            }
            self.schedule_light_sweep(now);
        } else {
            // Unreachable devices are looked for again, though no port has changed its state.
            self.schedule.request_sweep(now, Cause::Incomplete);
        }
    }

    pub(super) fn withdraw_plan(&mut self) {
        self.fabric.plan = Plan::default();
        self.qos.withdraw();
    }

    pub(super) fn schedule_light_sweep(&mut self, now: Time) {
        let is_up = self.report.is_up();
        self.schedule.schedule_light_sweep(now, is_up);
        self.schedule_glance(now);
    }

    /// While this manager is master, its own port is looked at often.
    fn schedule_glance(&mut self, now: Time) {
        let is_needed = self.election.is_master() && self.report.is_up();
        let at = is_needed.then(|| now + self.config.poll_interval_ns);
        self.schedule.schedule_glance(at);
    }

    pub(super) fn update_report(&mut self) {
        let missing = self.planner.missing(&self.fabric.subnet);
        self.report.update(&self.fabric, missing);
    }

    /// Everything is written, or as far as devices answer.
    fn written(&mut self, now: Time, programming: &Programming) {
        match programming.purpose() {
            Purpose::Subnet => self.subnet_written(now, programming),
            _ if programming.needs_resweep() => {
                self.schedule.request_sweep(now, Cause::Overtaken);
            }
            Purpose::Qos | Purpose::Multicast | Purpose::Guids => {}
        }
        match programming.purpose() {
            Purpose::Subnet | Purpose::Qos | Purpose::Guids => self.persist(),
            Purpose::Multicast => {
                self.persist();
                self.outbox.send_all(self.groups.written());
            }
        }
        // A heavy sweep writes them as well.
        if matches!(programming.purpose(), Purpose::Guids | Purpose::Subnet) {
            self.outbox.send_all(self.aliases.written());
        }
    }

    fn subnet_written(&mut self, now: Time, programming: &Programming) {
        let failed = programming.unreachable(&self.fabric.subnet);
        self.report
            .replace(Source::Programming, unreachable_warnings(&failed).collect());
        let mut unreachable = self.report.unreachable().to_vec();
        unreachable.retain(|device| !failed.iter().any(|other| other.guid == device.guid));
        unreachable.extend(failed);
        let is_incomplete = programming.needs_resweep() || !unreachable.is_empty();
        self.report.resolve(Source::Outbox);
        if !is_incomplete {
            self.report.resolve(Source::MKey);
            self.report.resolve(Source::Partitions);
        }
        let names = unreachable.iter().map(|device| device.name.clone());
        let names = names.collect();
        self.report.set_unreachable(unreachable);
        self.update_report();
        self.administration.subnet_changed(&self.fabric);
        let subnet = &self.fabric.subnet;
        self.aliases
            .retain(|port| subnet.find_end_port(port).is_some());
        self.groups.await_members(now);
        self.report.subnet_up(now, programming.blocks_written());
        let planner = &self.planner;
        let devices = &self.fabric.subnet.devices;
        let events = self.inventory.update(devices, |guid| planner.expects(guid));
        self.report.push_all(events);
        self.outbox.send_all(self.qos.release_notices(now));
        self.schedule.sweep_done(now, is_incomplete, names);
        self.schedule_light_sweep(now);
        if self.hands_over_next {
            self.schedule.request_sweep(now, Cause::Managers);
        }
    }

    /// Gives the shell what later managers need to know, as far as it has changed.
    pub(super) fn persist(&mut self) {
        let events = self.persistence.changed(Texts {
            guid2lid: self.planner.persisted(),
            connections: self.qos.connections_text(),
            groups: self.groups.text(),
            aliases: self.aliases.text(),
        });
        self.report.push_all(events);
    }
}
