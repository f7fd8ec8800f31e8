//! When the manager looks at the subnet, and what follows.
//!
//! ```text
//!          ┌──────────────── full sweep due (start, trap, request, change seen) ────────────┐
//!          v                                                                                │
//!   Discovering ──> a better manager? ── yes ──> Standby: ask it now and then               │
//!          │                                     (gone or lower: full sweep) ───────────────┤
//!          v no                                                                             │
//!   [first time: LightSweep, has it changed meanwhile? ── yes ─────────────────────────────────┤
//!          │ no                                                                             │
//!          v                                                                                │
//!   planned? ── no ──> Failed: look for changes often ──────────────────────────────────────┤
//!          │ yes                                                                            │
//!          v                                                                                │
//!   Programming ──> Up ──> LightSweep every interval: changed? ── yes ─────────────────────────┘
//! ```
//!
//! A full sweep that falls due while another activity is under way aborts it off: what has been
//! written stays known, so nothing is lost, and a device that has died meanwhile does not hold up
//! the rerouting by its time-outs. After [`ABORTS_MAX`] aborts in a row one sweep is let through,
//! so that a link that flaps does not keep the rest of the subnet down.

use std::collections::BTreeSet;

use link::Time;
use wire::Guid;
use wire::convert::saturate;

use crate::control::{Phase, Unreachable};
use crate::discovery::{Discovered, Discovery};
use crate::event::{SmEvent, UpSummary};
use crate::light_sweep::{LightSweep, Query, queries};
use crate::plan::Plan;
use crate::report::unreachable_warnings;
use crate::sm::{Job, Sm};
use crate::writer::{Programming, Site};

/// How often in a row a sweep may be broken off.
const ABORTS_MAX: u32 = 8;
/// How often the first discovery is repeated because links are still coming up.
const INITIAL_REPEATS_MAX: u32 = 50;
/// After how many looks without a link a warning is given.
const UNLINKED_SWEEPS_MAX: u32 = 5;
/// Time to the first sweep after one that left something open, nanoseconds; it doubles each time.
const RETRY_DELAY_NS: u64 = 200_000_000;
/// The longest that it becomes, nanoseconds.
const RETRY_DELAY_NS_MAX: u64 = 10_000_000_000;
/// How often a later discovery asks again what a link leads to: a neighbour that has just died
/// must not hold up the rerouting, and one that was only slow is found by the sweep that follows.
const PROBE_RETRIES: u8 = 2;
/// Time between looks when there is no working subnet, nanoseconds, unless sweeps are more often.
const NOT_UP_INTERVAL_NS: u64 = 100_000_000;

/// What the manager is doing.
#[derive(Debug)]
pub(crate) enum Activity {
    /// Nothing.
    Idle,
    /// A full sweep's first half.
    Discovering(Box<Discovery>),
    /// A full sweep's second half.
    WritingSubnet(Box<Programming>),
    /// A light sweep.
    LightSweep(LightSweep),
    /// Arbitration tables are being written for connections.
    WritingQos(Box<Programming>),
    /// Multicast tables are being written for who has joined or left.
    WritingMulticast(Box<Programming>),
}

/// What is to be done when.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// When the next full sweep is due.
    pub(crate) sweep_at: Option<Time>,
    /// When the next light sweep is due.
    light_sweep_at: Option<Time>,
    sweep_started: Time,
    programming_started: Time,
    aborts: u32,
    initial_repeats: u32,
    incomplete_sweeps: u32,
    unlinked_sweeps: u32,
    /// What the discovery found beside the subnet, until it is acted on.
    found: Option<Discovered>,
    /// The devices of the subnet when it was last up.
    present: BTreeSet<Guid>,
    written_memory: String,
    written_connections: String,
}

impl Sm {
    /// A full sweep is to start at `at`, if none is due earlier.
    pub(crate) fn request_sweep(&mut self, at: Time) {
        let sweep_at = &mut self.agenda.sweep_at;
        *sweep_at = Some(sweep_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the next sweep that may start is due.
    pub(crate) fn next_sweep(&self) -> Option<Time> {
        let idle = matches!(self.activity, Activity::Idle);
        let full = self.agenda.sweep_at.filter(|_| idle || self.may_abort());
        let light = self.agenda.light_sweep_at.filter(|_| idle);
        match (full, light) {
            (Some(full), Some(light)) => Some(full.min(light)),
            (full, light) => full.or(light),
        }
    }

    fn may_abort(&self) -> bool {
        self.agenda.aborts < ABORTS_MAX
    }

    /// Breaks off what is under way if a full sweep is due.
    pub(crate) fn abort_for_sweep(&mut self, now: Time) {
        let due = self.agenda.sweep_at.is_some_and(|at| at <= now);
        if !due || matches!(self.activity, Activity::Idle) || !self.may_abort() {
            return;
        }
        if !matches!(self.activity, Activity::LightSweep(_)) {
            self.agenda.aborts += 1;
        }
        self.exchange.clear();
        self.agenda.found = None;
        if let Activity::WritingMulticast(_) = self.activity {
            self.groups.writing_aborted();
        }
        self.activity = Activity::Idle;
    }

    /// Goes on when no request is under way. `false` if there is nothing to do at `now`.
    pub(crate) fn advance(&mut self, now: Time) -> bool {
        match core::mem::replace(&mut self.activity, Activity::Idle) {
            Activity::Idle => return self.start_what_is_due(now),
            Activity::Discovering(discovery) => self.discovered(now, *discovery),
            Activity::LightSweep(light_sweep) => self.light_sweep_done(now, &light_sweep),
            Activity::WritingSubnet(mut programming) => {
                let mut site = Site {
                    subnet: &mut self.subnet,
                    plan: &self.plan,
                    mirrors: &mut self.mirrors,
                    groups: &mut self.groups,
                };
                let writes = programming.next_stage(&mut site);
                if writes.is_empty() {
                    self.subnet_written(now, &programming);
                } else {
                    self.push_writes(writes);
                    self.activity = Activity::WritingSubnet(programming);
                }
            }
            Activity::WritingQos(mut programming) => {
                let mut site = Site {
                    subnet: &mut self.subnet,
                    plan: &self.plan,
                    mirrors: &mut self.mirrors,
                    groups: &mut self.groups,
                };
                let writes = programming.next_stage(&mut site);
                if writes.is_empty() {
                    self.qos_written(now, &programming);
                } else {
                    self.push_writes(writes);
                    self.activity = Activity::WritingQos(programming);
                }
            }
            Activity::WritingMulticast(mut programming) => {
                let mut site = Site {
                    subnet: &mut self.subnet,
                    plan: &self.plan,
                    mirrors: &mut self.mirrors,
                    groups: &mut self.groups,
                };
                let writes = programming.next_stage(&mut site);
                if writes.is_empty() {
                    self.multicast_written(now, &programming);
                } else {
                    self.push_writes(writes);
                    self.activity = Activity::WritingMulticast(programming);
                }
            }
        }
        true
    }

    fn start_what_is_due(&mut self, now: Time) -> bool {
        if self.agenda.sweep_at.is_some_and(|at| at <= now) {
            self.agenda.sweep_at = None;
            self.agenda.light_sweep_at = None;
            self.start_discovery(now);
            return true;
        }
        if self.agenda.light_sweep_at.is_some_and(|at| at <= now) {
            self.agenda.light_sweep_at = None;
            self.start_light_sweep();
            return true;
        }
        self.serve_groups() || self.serve_connections(now)
    }

    fn start_discovery(&mut self, now: Time) {
        self.act_count = self.act_count.wrapping_add(1);
        self.agenda.sweep_started = now;
        let not_up = matches!(
            self.report.status.phase,
            Phase::Failed { .. } | Phase::Standby { .. }
        );
        if !not_up {
            self.report.enter(Phase::Discovering);
        }
        let retries = self.config.retries;
        let probe_retries = match self.report.status.generation {
            0 => retries,
            _ => retries.min(PROBE_RETRIES),
        };
        let (names, unresponsive_ports) = (self.names.clone(), self.unresponsive_ports.clone());
        let (discovery, asks) = Discovery::start(names, unresponsive_ports, retries, probe_retries);
        for (ask, retries) in asks {
            self.exchange.push(Job::Discovery(ask), retries);
        }
        self.activity = Activity::Discovering(Box::new(discovery));
    }

    fn start_light_sweep(&mut self) {
        let looks = match self.report.status.phase {
            Phase::Standby { master } => {
                let master = self.subnet.find_end_port(master);
                master.map(Query::Master).into_iter().collect()
            }
            _ => queries(&self.subnet),
        };
        for look in looks {
            self.exchange
                .push(Job::LightSweep(look), self.config.retries);
        }
        self.activity = Activity::LightSweep(LightSweep::default());
    }

    fn discovered(&mut self, now: Time, discovery: Discovery) {
        let (subnet, mut found) = discovery.finish();
        self.report.status.discovery_ns = now.since_ns(self.agenda.sweep_started);
        self.unresponsive_ports = core::mem::take(&mut found.unresponsive_ports);
        let fingerprint = |list: &[Unreachable]| -> Vec<_> {
            list.iter().map(|device| device.name.clone()).collect()
        };
        if fingerprint(&found.unreachable) != fingerprint(&self.report.status.unreachable) {
            self.agenda.incomplete_sweeps = 0;
        }
        self.subnet = subnet;
        self.agenda.found = Some(found);
        let first = self.report.status.generation == 0;
        if first && self.agenda.initial_repeats < INITIAL_REPEATS_MAX {
            self.agenda.initial_repeats += 1;
            for look in queries(&self.subnet) {
                self.exchange
                    .push(Job::LightSweep(look), self.config.retries);
            }
            self.activity = Activity::LightSweep(LightSweep::default());
        } else {
            self.subnet_discovered(now);
        }
    }

    fn light_sweep_done(&mut self, now: Time, light_sweep: &LightSweep) {
        if let Phase::Standby { .. } = self.report.status.phase
            && self.agenda.found.is_none()
        {
            return match light_sweep.master {
                Some(master) if self.defers_to(&master) => {
                    self.agenda.light_sweep_at = Some(now + self.light_sweep_interval_ns());
                }
                _ => self.request_sweep(now),
            };
        }
        if light_sweep.changed {
            self.agenda.found = None;
            self.request_sweep(now);
        } else if self.agenda.found.is_some() {
            self.subnet_discovered(now);
        } else if self.report.status.unreachable.is_empty() {
            self.warn_if_unlinked();
            self.schedule_light_sweep(now);
        } else {
            // What was silent is light_sweep_done for again, though nothing has changed its state.
            self.request_sweep(now);
        }
    }

    /// Warns when this host has been without a link for a while: at the start it may take one.
    fn warn_if_unlinked(&mut self) {
        if self.subnet.cables() > 0 {
            self.agenda.unlinked_sweeps = 0;
            return;
        }
        self.agenda.unlinked_sweeps += 1;
        if self.agenda.unlinked_sweeps == UNLINKED_SWEEPS_MAX {
            self.report
                .warn("the port of this host has no link: is its cable plugged?".into());
        }
    }

    /// The subnet is known: whose it is, and what it is to become.
    fn subnet_discovered(&mut self, now: Time) {
        let Some(found) = self.agenda.found.take() else {
            return;
        };
        self.groups.suspend();
        let master = found
            .managers
            .iter()
            .filter(|(_, manager)| self.defers_to(manager))
            .max_by(|(_, a), (_, b)| crate::election::rank(a).cmp(&crate::election::rank(b)));
        if let Some(&(index, manager)) = master {
            let name = self.subnet.devices[index].label();
            self.report.warn(format!(
                "the subnet manager on {name} has priority {}: standing by",
                manager.priority
            ));
            self.plan = Plan::default();
            self.report.enter(Phase::Standby {
                master: manager.guid,
            });
            self.agenda.light_sweep_at = Some(now + self.light_sweep_interval_ns());
            return;
        }
        let mut warnings = found.warnings;
        warnings.extend(unreachable_warnings(&found.unreachable));
        self.report.set_unreachable(found.unreachable);
        if self.subnet.cables() == 0 {
            self.plan = Plan::default();
            self.update_status();
            self.report.enter(Phase::Discovering);
            self.schedule_light_sweep(now);
            return;
        }
        let planned = self.planner.plan(&self.subnet, &self.plan);
        let planned = planned.and_then(|plan| {
            self.groups.replan(&self.subnet, &plan)?;
            Ok(plan)
        });
        match planned {
            Ok(plan) => {
                let old = core::mem::replace(&mut self.plan, plan);
                let qos = &mut self.qos;
                let notices = qos.replan(&self.subnet, &mut self.plan, old.admission);
                self.windows.follow(now, &self.subnet, &self.plan);
                warnings.append(&mut self.plan.warnings);
                self.report.replace_sweep_warnings(warnings);
                for notice in notices {
                    self.report.warn(notice);
                }
                self.report.enter(Phase::Programming);
                self.agenda.programming_started = now;
                self.activity = Activity::WritingSubnet(Box::new(Programming::start()));
            }
            Err(reason) => {
                self.plan = Plan::default();
                self.report.replace_sweep_warnings(warnings);
                self.update_status();
                self.report.enter(Phase::Failed { reason });
                self.schedule_light_sweep(now);
            }
        }
    }

    fn subnet_written(&mut self, now: Time, programming: &Programming) {
        self.agenda.aborts = 0;
        let mut unreachable = core::mem::take(&mut self.report.status.unreachable);
        let failed = programming.unreachable(&self.subnet);
        for warning in unreachable_warnings(&failed) {
            self.report.warn(warning);
        }
        unreachable.retain(|device| !failed.iter().any(|other| other.guid == device.guid));
        unreachable.extend(failed);
        let incomplete = programming.needs_resweep() || !unreachable.is_empty();
        self.report.set_unreachable(unreachable);
        self.update_status();
        let status = &mut self.report.status;
        status.generation += 1;
        status.programming_ns = now.since_ns(self.agenda.programming_started);
        status.blocks_written = programming.blocks_written();
        let summary = UpSummary {
            generation: status.generation,
            engine: status.engine.clone(),
            switches: status.switches,
            hosts: status.hosts,
            links: status.links,
            degraded: status.degraded,
            blocks_written: status.blocks_written,
            duration_ns: now.since_ns(self.agenda.sweep_started),
        };
        self.report.enter(Phase::Up);
        self.report.push(SmEvent::SubnetUp(summary));
        self.report_devices();
        self.send_qos_notices(now);
        self.persist();
        if incomplete {
            let delay_ns = RETRY_DELAY_NS << self.agenda.incomplete_sweeps.min(8);
            self.agenda.incomplete_sweeps += 1;
            self.request_sweep(now + delay_ns.min(RETRY_DELAY_NS_MAX));
        } else {
            self.agenda.incomplete_sweeps = 0;
        }
        self.schedule_light_sweep(now);
    }

    /// How long discovery and programming took, or take since their start if under way.
    pub(crate) fn durations(&self, now: Time) -> (u64, u64) {
        let status = &self.report.status;
        match status.phase {
            Phase::Discovering => (
                now.since_ns(self.agenda.sweep_started),
                status.programming_ns,
            ),
            Phase::Programming => (
                status.discovery_ns,
                now.since_ns(self.agenda.programming_started),
            ),
            _ => (status.discovery_ns, status.programming_ns),
        }
    }

    fn light_sweep_interval_ns(&self) -> u64 {
        let not_up = !matches!(self.report.status.phase, Phase::Up);
        match self.config.sweep_interval_ns {
            0 if not_up => NOT_UP_INTERVAL_NS,
            interval if not_up => interval.min(NOT_UP_INTERVAL_NS),
            interval => interval,
        }
    }

    fn schedule_light_sweep(&mut self, now: Time) {
        let interval_ns = self.light_sweep_interval_ns();
        self.agenda.light_sweep_at = (interval_ns > 0).then(|| now + interval_ns);
    }

    /// Fills the status with what stands.
    fn update_status(&mut self) {
        let count = |number: usize| saturate::<u32>(number);
        let switches = self
            .subnet
            .devices
            .iter()
            .filter(|device| device.switch.is_some())
            .count();
        let missing = self.planner.missing(&self.subnet);
        let status = &mut self.report.status;
        status.missing = missing;
        status.engine.clone_from(&self.plan.engine);
        status.degraded = self.plan.degraded || !status.unreachable.is_empty();
        status.lmc = self.plan.lmc.get();
        status.switches = count(switches);
        status.hosts = count(self.subnet.devices.len() - switches);
        status.links = count(self.subnet.cables());
        status.lids_used = self
            .plan
            .lids
            .iter()
            .flatten()
            .map(|(_, lmc)| u32::from(lmc.lids()))
            .sum();
        status.active_ports = count(self.subnet.active_ports());
    }

    /// Tells which devices have gone and which have come back since the subnet was last up.
    fn report_devices(&mut self) {
        let devices = &self.subnet.devices;
        let present: BTreeSet<Guid> = devices.iter().map(|device| device.guid()).collect();
        for &guid in self.agenda.present.difference(&present) {
            let name = self.names.get(&guid).cloned().unwrap_or_default();
            self.report.push(SmEvent::DeviceLost { name, guid });
        }
        for device in devices {
            let (name, guid) = (device.name.clone(), device.guid());
            if self.names.contains_key(&guid) && !self.agenda.present.contains(&guid) {
                self.report.push(SmEvent::DeviceBack { name, guid });
            }
        }
        let planner = &self.planner;
        self.names
            .retain(|&guid, _| present.contains(&guid) || planner.expects(guid));
        for device in devices {
            self.names.insert(device.guid(), device.name.clone());
        }
        self.agenda.present = present;
    }

    /// Hands out what later managers need to know, as far as it has changed.
    pub(crate) fn persist(&mut self) {
        if let Some(text) = self.qos.connections_text()
            && text != self.agenda.written_connections
        {
            self.agenda.written_connections.clone_from(&text);
            self.report.push(SmEvent::PersistConnections(text));
        }
        let text = self.planner.memory().write();
        if text != self.agenda.written_memory {
            self.agenda.written_memory.clone_from(&text);
            self.report.push(SmEvent::Persist(text));
        }
    }
}
