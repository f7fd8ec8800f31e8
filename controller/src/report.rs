//! Reports of the manager: events for its shell, and the status for its control socket.

use std::collections::VecDeque;

use link::Time;
use wire::{Guid, convert};

use crate::control::{LIST_MAX, OtherManager, Phase, Status, Unreachable};
use crate::event::{SmEvent, UpSummary};
use crate::fabric::Fabric;
use crate::log::{Happening, Log, LogPage};

/// How many events wait at most; the oldest go first.
const EVENTS_MAX: usize = 4096;

/// How many warnings of refused requests stand at a time: a sender of such requests must not push
/// other warnings out.
const REFUSALS_MAX: usize = 8;

/// What a warning follows from. Those of one source are replaced together, so that one whose cause
/// has gone leaves the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Something that has happened and does not last, such as a trap.
    Occurrence,
    /// What the latest discovery and plan have found.
    Sweep,
    /// Devices that the latest programming did not reach.
    Programming,
    /// The link of the own host.
    OwnLink,
    /// The registration of this management class.
    Class(u8),
    /// Another manager is master.
    Standby,
    /// Managers that take no part in the election.
    Managers,
    /// No bandwidth can be promised.
    Bandwidth,
    /// Traps that tell of a bad M_Key, since the last complete sweep.
    MKey,
    /// Traps that tell of bad P_Keys and Q_Keys, since the last complete sweep.
    Partitions,
    /// What the latest light sweep has found changed by another program.
    ForeignWrites,
    /// Messages that the host did not take, since the last complete sweep.
    Outbox,
}

/// Events and status.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The status; counters of SMPs are filled in on request.
    status: Status,
    events: VecDeque<SmEvent>,
    /// The warnings in the status, oldest first, and what each follows from.
    warnings: Vec<(Source, String)>,
    sweep_started: Time,
    programming_started: Time,
    log: Log,
    /// The engine that the log has told last.
    engine: String,
    /// The moment of the latest input.
    now: Time,
}

impl Report {
    /// What the manager is doing.
    pub(crate) fn phase(&self) -> &Phase {
        &self.status.phase
    }

    /// Whether the subnet is up.
    pub(crate) fn is_up(&self) -> bool {
        self.status.phase == Phase::Up
    }

    /// Whether a sweep has been completed since the start.
    pub(crate) fn has_been_up(&self) -> bool {
        self.status.generation > 0
    }

    /// Devices that cannot be managed.
    pub(crate) fn unreachable(&self) -> &[Unreachable] {
        &self.status.unreachable
    }

    /// How the subnet stands at `now`, but for the counters of SMPs.
    pub(crate) fn status(&self, now: Time) -> Status {
        let mut status = self.status.clone();
        for (_, text) in &self.warnings {
            if !status.warnings.contains(text) {
                status.warnings.push(text.clone());
            }
        }
        match status.phase {
            Phase::Discovering => status.discovery_ns = now.since_ns(self.sweep_started),
            Phase::Programming => status.programming_ns = now.since_ns(self.programming_started),
            _ => {}
        }
        status
    }

    /// An input comes at `now`: what follows from it is logged with that time.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// What was logged behind the entry with that number.
    pub(crate) fn log(&self, now: Time, after: u64) -> LogPage {
        self.log.page(now, after)
    }

    /// Logs something that is no event of the shell's.
    pub(crate) fn note(&mut self, what: Happening) {
        self.log.add(self.now, what);
    }

    /// A heavy sweep starts. `cause`: why, in words.
    pub(crate) fn sweep_started(&mut self, now: Time, cause: String) {
        self.sweep_started = now;
        self.log.add(now, Happening::SweepBegun { cause });
        // A failed or waiting manager keeps its status during a sweep.
        if !matches!(
            self.phase(),
            Phase::Failed { .. } | Phase::Standby { .. } | Phase::AwaitsHandover { .. }
        ) {
            self.enter(Phase::Discovering);
        }
    }

    /// Its discovery has ended.
    pub(crate) fn discovery_done(&mut self, now: Time) {
        self.status.discovery_ns = now.since_ns(self.sweep_started);
    }

    /// Its programming starts.
    pub(crate) fn programming_started(&mut self, now: Time) {
        self.enter(Phase::Programming);
        self.programming_started = now;
    }

    /// Fills in what stands. `missing`: names of the devices of the whole fabric that are not
    /// there.
    pub(crate) fn update(&mut self, fabric: &Fabric, missing: Vec<String>) {
        let (subnet, plan) = (&fabric.subnet, &fabric.plan);
        let devices = &subnet.devices;
        let switches = devices.iter().filter(|device| device.switch.is_some());
        let switches = switches.count();
        let status = &mut self.status;
        status.missing = missing;
        status.engine.clone_from(&plan.engine);
        status.unmeasured = plan.is_unmeasured;
        status.degraded = plan.degraded || !status.unreachable.is_empty();
        status.lmc = plan.lmc.get();
        status.switches = convert::saturate(switches);
        status.hosts = convert::saturate(devices.len() - switches);
        status.links = convert::saturate(subnet.cables());
        let lids = plan.lids.iter().flatten();
        status.lids_used = lids.map(|(_, lmc)| u32::from(lmc.lids())).sum();
        status.active_ports = convert::saturate(subnet.active_ports());
    }

    /// A heavy sweep is complete: everything found is programmed.
    pub(crate) fn subnet_up(&mut self, now: Time, blocks_written: u64) {
        let status = &mut self.status;
        status.generation += 1;
        status.programming_ns = now.since_ns(self.programming_started);
        status.blocks_written = blocks_written;
        let summary = UpSummary {
            generation: status.generation,
            engine: status.engine.clone(),
            switches: status.switches,
            hosts: status.hosts,
            links: status.links,
            degraded: status.degraded,
            blocks_written: status.blocks_written,
            duration_ns: now.since_ns(self.sweep_started),
        };
        self.log_sweep(now, &summary);
        self.enter(Phase::Up);
        self.push(SmEvent::SubnetUp(summary));
    }

    fn log_sweep(&mut self, now: Time, summary: &UpSummary) {
        let is_other = self.engine != summary.engine;
        if is_other || summary.blocks_written > 0 {
            let engine = summary.engine.clone();
            let before = core::mem::replace(&mut self.engine, engine.clone());
            let routed = Happening::Routed {
                engine,
                before: is_other.then_some(before),
                blocks: summary.blocks_written,
            };
            self.log.add(now, routed);
        }
        let ended = Happening::SweepEnded {
            generation: summary.generation,
            duration_ns: summary.duration_ns,
            switches: summary.switches,
            hosts: summary.hosts,
            links: summary.links,
            is_degraded: summary.degraded,
        };
        self.log.add(now, ended);
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: SmEvent) {
        if let SmEvent::Warning(text) | SmEvent::Failed { reason: text } = &event {
            self.note(Happening::Warning { text: text.clone() });
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Adds several events.
    pub(crate) fn push_all(&mut self, events: Vec<SmEvent>) {
        for event in events {
            self.push(event);
        }
    }

    /// The oldest event.
    pub(crate) fn poll(&mut self) -> Option<SmEvent> {
        self.events.pop_front()
    }

    /// Adds a warning of something that has happened. One that is still in the list gives no further
    /// event.
    pub(crate) fn warn(&mut self, text: String) {
        self.warn_of(Source::Occurrence, text);
    }

    /// Adds a warning that stands until its source is [replaced](Self::replace). Two sources may give
    /// the same: it stands until both are.
    pub(crate) fn warn_of(&mut self, source: Source, text: String) {
        let mut alike = self.warnings.iter().filter(|(_, other)| *other == text);
        let is_told = alike.clone().next().is_some();
        if alike.any(|&(other, _)| other == source) {
            return;
        }
        let of_source = |&(other, _): &(Source, String)| other == source;
        let is_full = matches!(source, Source::MKey | Source::Partitions)
            && self.warnings.iter().filter(|one| of_source(one)).count() == REFUSALS_MAX;
        if is_full && let Some(oldest) = self.warnings.iter().position(of_source) {
            self.warnings.remove(oldest);
        } else if self.warnings.len() == LIST_MAX {
            self.warnings.remove(0);
        }
        self.warnings.push((source, text.clone()));
        if !is_told {
            self.push(SmEvent::Warning(text));
        }
    }

    /// Replaces the warnings of a source: one that is not given again is resolved.
    pub(crate) fn replace(&mut self, source: Source, texts: Vec<String>) {
        self.warnings
            .retain(|(from, text)| *from != source || texts.contains(text));
        for text in texts {
            self.warn_of(source, text);
        }
    }

    /// The cause of a source's warnings has gone.
    pub(crate) fn resolve(&mut self, source: Source) {
        self.replace(source, Vec::new());
    }

    /// Enters a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        if self.status.phase == phase {
            return;
        }
        self.status.phase = phase.clone();
        if let Phase::Failed { reason } = &phase {
            self.push(SmEvent::Failed {
                reason: reason.clone(),
            });
        }
        self.push(SmEvent::Phase(phase));
    }

    /// Replaces the list of other managers.
    pub(crate) fn set_managers(&mut self, list: Vec<OtherManager>) {
        self.status.managers = list;
    }

    /// The state of another manager has been seen anew.
    pub(crate) fn set_manager_state(&mut self, guid: Guid, state: &str) {
        let mut managers = self.status.managers.iter_mut();
        if let Some(manager) = managers.find(|manager| manager.guid == guid)
            && manager.state != state
        {
            state.clone_into(&mut manager.state);
        }
    }

    /// Replaces the list of what cannot be managed.
    pub(crate) fn set_unreachable(&mut self, mut list: Vec<Unreachable>) {
        list.truncate(LIST_MAX);
        self.status.unreachable = list;
    }
}

/// Warnings of devices that are left out.
pub(crate) fn unreachable_warnings(list: &[Unreachable]) -> impl Iterator<Item = String> + '_ {
    list.iter()
        .take(LIST_MAX)
        .map(|Unreachable { name, reason, .. }| format!("{name} is left out: it {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_of_a_manager_in_standby_does_not_change_its_phase() {
        let standby = Phase::Standby {
            master: wire::Guid(1),
        };
        let mut report = Report::default();
        report.sweep_started(Time(10), String::new());
        assert_eq!(report.phase(), &Phase::Discovering);
        assert_eq!(report.status(Time(15)).discovery_ns, 5);
        report.enter(standby.clone());
        report.sweep_started(Time(20), String::new());
        assert_eq!(report.phase(), &standby);
    }

    #[test]
    fn a_completed_sweep_is_counted_and_summarised() {
        let mut report = Report::default();
        report.sweep_started(Time(10), String::new());
        report.discovery_done(Time(30));
        report.programming_started(Time(30));
        report.subnet_up(Time(70), 3);
        let status = report.status(Time(100));
        assert_eq!((status.discovery_ns, status.programming_ns), (20, 40));
        assert!(report.is_up() && report.has_been_up());
        let summary = core::iter::from_fn(|| report.poll()).find_map(|event| match event {
            SmEvent::SubnetUp(summary) => Some(summary),
            _ => None,
        });
        let summary = summary.expect("an event");
        assert_eq!((summary.generation, summary.duration_ns), (1, 60));
        assert_eq!(summary.blocks_written, 3);
    }

    #[test]
    fn a_warning_that_a_later_sweep_no_longer_gives_is_resolved() {
        let mut report = Report::default();
        report.warn("from elsewhere".into());
        let sweep = Source::Sweep;
        report.replace(
            sweep,
            vec!["a cable is missing".into(), "a name is odd".into()],
        );
        report.warn_of(Source::OwnLink, "no link".into());
        report.replace(sweep, vec!["a name is odd".into()]);
        let warnings = report.status(Time(0)).warnings;
        assert_eq!(warnings, ["from elsewhere", "a name is odd", "no link"]);
        report.resolve(Source::OwnLink);
        report.resolve(sweep);
        assert_eq!(report.status(Time(0)).warnings, ["from elsewhere"]);
    }

    #[test]
    fn a_warning_of_two_sources_is_told_once_and_stands_until_both_are_resolved() {
        let mut report = Report::default();
        let text = || vec!["h2 is left out: it does not answer".to_owned()];
        report.replace(Source::Programming, text());
        report.replace(Source::Sweep, text());
        assert_eq!(report.status(Time(0)).warnings, text());
        assert!(matches!(report.poll(), Some(SmEvent::Warning(_))));
        assert_eq!(report.poll(), None);
        report.resolve(Source::Programming);
        assert_eq!(report.status(Time(0)).warnings, text());
        report.resolve(Source::Sweep);
        assert_eq!(report.status(Time(0)).warnings, [""; 0]);
    }

    #[test]
    fn warnings_of_refused_requests_push_no_others_out() {
        let mut report = Report::default();
        report.warn_of(Source::OwnLink, "no link".into());
        for asker in 0..1000 {
            report.warn_of(Source::MKey, format!("refused {asker}"));
        }
        let warnings = report.status(Time(0)).warnings;
        assert_eq!(warnings.len(), 1 + REFUSALS_MAX);
        assert_eq!((&*warnings[0], &*warnings[8]), ("no link", "refused 999"));
    }

    #[test]
    fn a_repeated_warning_gives_one_event_and_the_list_is_bounded() {
        let mut report = Report::default();
        report.warn("the same".into());
        report.warn("the same".into());
        assert!(report.poll().is_some());
        assert!(report.poll().is_none());
        for number in 0..LIST_MAX {
            report.warn(number.to_string());
        }
        let warnings = report.status(Time(0)).warnings;
        assert_eq!(warnings.len(), LIST_MAX);
        assert_eq!(warnings[0], "0");
    }
}
