//! Other subnet managers: which of them is better, and what they ask.

use link::Time;
use mad::local::MadMessage;
use wire::Mad;
use wire::attr::SmInfo;

use super::Sm;
use super::sequence::Activity;
use crate::control::Phase;
use crate::election::{self, defers_to};
use crate::report::Source;
use crate::subnet::Index;

impl Sm {
    /// This manager's SMInfo; `None` before it has met its own host.
    pub(super) fn sm_info(&self) -> Option<SmInfo> {
        let guid = match (self.fabric.own(), &self.activity) {
            (Some(own), _) => own.end_port_guid(),
            (None, Activity::Discovering(discovery)) => discovery.own_port_guid()?,
            (None, _) => return None,
        };
        let (phase, has_been_up) = (self.report.phase(), self.report.has_been_up());
        Some(self.election.sm_info(guid, phase, has_been_up))
    }

    /// Whether another manager is better than this one.
    pub(super) fn defers_to(&self, other: &SmInfo) -> bool {
        self.sm_info().is_some_and(|own| defers_to(&own, other))
    }

    /// The best of the other managers, if it is better than this one.
    pub(super) fn better_manager(&self, managers: &[(Index, SmInfo)]) -> Option<(Index, SmInfo)> {
        let own = self.sm_info()?;
        let best = managers
            .iter()
            .filter(|(_, manager)| defers_to(&own, manager))
            .max_by_key(|(_, manager)| election::rank(manager));
        best.copied()
    }

    /// Another manager, or a program, asks for SMInfo or sets it.
    pub(super) fn sm_info_request(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        let Some(own) = self.sm_info() else {
            return;
        };
        if let Some(reply) = election::reply(&own, from, request) {
            if reply.is_handover {
                self.schedule.request_sweep(now);
            }
            self.outbox.send(reply.message);
        }
    }

    /// Leaves the subnet to a better manager.
    pub(super) fn stand_by(&mut self, now: Time, index: Index, master: &SmInfo) {
        let name = self.fabric.subnet.devices[index].label();
        let text = format!(
            "the subnet manager on {name} has priority {}: standing by",
            master.priority
        );
        // What was found of the subnet is the master's business from now on.
        for source in [
            Source::Sweep,
            Source::Programming,
            Source::Bandwidth,
            Source::MKey,
            Source::Partitions,
            Source::ForeignWrites,
        ] {
            self.report.resolve(source);
        }
        self.report.set_unreachable(Vec::new());
        self.report.replace(Source::Standby, vec![text]);
        self.withdraw_plan();
        self.report.enter(Phase::Standby {
            master: master.guid,
        });
        self.schedule_light_sweep(now);
    }
}
