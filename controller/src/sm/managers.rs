//! Other subnet managers: what the election ([`crate::election`]) asks of this one.

use link::Time;
use mad::local::MadMessage;
use wire::attr::{Notice, PortInfo, PortState, SmInfo, SmState, Trap144};
use wire::{AttributeId, Guid, Mad, Method, Qpn};

use super::sequence::Activity;
use super::{Job, Sm};
use crate::aliases::Aliases;
use crate::control::{LIST_MAX, OtherManager, Phase};
use crate::discovery::Discovered;
use crate::election::{ACKNOWLEDGE, HANDOVER, Input, Poll, Step};
use crate::groups::Groups;
use crate::light_sweep::LightSweep;
use crate::plan::Plan;
use crate::report::Source;
use crate::sa::Administration;
use crate::schedule::Cause;
use crate::smp::{Answer, Request, message};
use crate::subnet::{Device, Index, Subnet};
use crate::writer::Purpose;
use crate::{SmEvent, light_sweep};

/// A master that is to hand over is told so at most this often, nanoseconds.
const REMINDER_NS: u64 = 1_000_000_000;

/// A handover under way.
#[derive(Debug)]
pub(super) struct HandingOver {
    /// Where the better manager is.
    to: Index,
    /// What it has shown.
    manager: SmInfo,
    /// What is served if it does not take over.
    discovered: Discovered,
    /// Whether it has confirmed.
    confirmed: bool,
}

impl Sm {
    /// This manager's SMInfo; `None` before it has met its own host.
    pub(super) fn sm_info(&self) -> Option<SmInfo> {
        let guid = match (self.fabric.own(), &self.activity) {
            (Some(own), _) => own.end_port_guid(),
            (None, Activity::Discovering(discovery)) => discovery.own_port_guid()?,
            (None, _) => return None,
        };
        // ActCount counts what the manager does, and wraps (IBA 14.2.5.13).
        let [.., a, b, c, d] = self.exchange.sent().to_be_bytes();
        let act_count = u32::from_be_bytes([a, b, c, d]);
        Some(self.election.sm_info(guid, act_count))
    }

    /// Whether requests of hosts and traps are left to another manager, which is master or may be.
    pub(super) fn leaves_requests(&self) -> bool {
        self.is_mastership_unconfirmed || self.election.leaves_to_another()
    }

    /// Time goes on. If it has jumped, this manager was away, and one in standby may have taken over:
    /// all that is under way is dropped, and a discovery asks who is master before anything is written
    /// (IBA 14.4.1: one master a subnet).
    pub(super) fn note_absence(&mut self, now: Time) {
        if !self.started || !self.absence.ends(now) || self.election.leaves_to_another() {
            return;
        }
        // On a machine that stands still again and again a sweep ends all the same.
        if self.is_mastership_unconfirmed && !self.schedule.may_abort() {
            return;
        }
        match core::mem::take(&mut self.activity) {
            Activity::Writing(programming) if programming.purpose() == Purpose::Multicast => {
                self.groups.writing_aborted();
            }
            // The plan in force is for the subnet before.
            Activity::HandingOver(handing_over) => {
                self.fabric.subnet = handing_over.discovered.previous;
            }
            _ => {}
        }
        if self.election.is_master() {
            self.invalidate_memory();
        }
        self.is_mastership_unconfirmed = true;
        self.exchange.clear();
        self.outbox.withdraw_smps();
        self.schedule.count_abort();
        self.schedule.request_sweep(now, Cause::Managers);
    }

    /// A discovery is complete: who is master? What was discovered, if it is to be served.
    pub(super) fn elect(&mut self, now: Time, discovered: Discovered) -> Option<Discovered> {
        let is_unconfirmed = core::mem::take(&mut self.is_mastership_unconfirmed);
        if self.fabric.subnet.cables() == 0 {
            if self.election.is_master() {
                self.invalidate_memory();
            }
            self.election.enter(Input::LinkLost);
            self.election.poll(None);
            return Some(discovered);
        }
        let own = self.sm_info()?;
        self.report_managers(&own, &discovered.managers);
        let (input, about) = self.election.judge(&own, &discovered.managers);
        let waits = input == Input::BetterFound
            && about.is_some_and(|(_, other)| other.state != SmState::Master)
            && !is_unconfirmed
            && self.finishes_first();
        self.hands_over_next = waits;
        if waits {
            self.election.poll(None);
            return Some(discovered);
        }
        match (self.election.enter(input)?, about) {
            (Step::HandOver, Some((to, manager))) => {
                self.election.poll(None);
                self.exchange
                    .push_probe(Job::HandOver(to), self.config.retries);
                self.activity = Activity::HandingOver(Box::new(HandingOver {
                    to,
                    manager,
                    discovered,
                    confirmed: false,
                }));
                None
            }
            (Step::Await, Some((index, manager))) => {
                self.await_handover(now, index, &manager);
                None
            }
            (Step::Poll, Some((_, manager))) => {
                self.stand_by(now, &manager);
                None
            }
            _ => {
                self.election.poll(None);
                self.report.resolve(Source::Standby);
                Some(discovered)
            }
        }
    }

    /// Whether ports wait to be made Active before a better manager, which is master nowhere, is given the subnet: that one
    /// would read all tables first. Once: cables that come and go keep no manager.
    fn finishes_first(&self) -> bool {
        let waits_for_data = |device: &Device| {
            let mut ports = device
                .cables()
                .filter_map(|(port, _)| device.port_info(port));
            ports.any(|info| info.port_state != PortState::Active)
        };
        self.election.is_master()
            && self.report.has_been_up()
            && !self.hands_over_next
            && self.fabric.subnet.devices.iter().any(waits_for_data)
    }

    /// Tells of the managers that were found, and warns of those that take no part.
    fn report_managers(&mut self, own: &SmInfo, managers: &[(Index, SmInfo)]) {
        let others = managers.iter().filter(|(_, other)| other.guid != own.guid);
        let name = |index: Index| self.fabric.subnet.devices[index].label();
        let list = others.clone().take(LIST_MAX);
        let list = list.map(|&(index, other)| OtherManager {
            name: name(index),
            guid: other.guid,
            priority: other.priority,
            state: state_name(other.state).to_owned(),
        });
        let list: Vec<OtherManager> = list.collect();
        let untrusted = others.filter(|(_, other)| !self.election.trusts(other));
        let warnings = untrusted.take(LIST_MAX).map(|&(index, _)| {
            format!(
                "the subnet manager on {} shows another SM_Key: neither leaves the subnet to the \
                 other; give both the same key (--sm-key) or stop one",
                name(index)
            )
        });
        let warnings: Vec<String> = warnings.collect();
        self.report.replace(Source::Managers, warnings);
        self.report.set_managers(list);
    }

    /// The SMP that hands mastership over.
    pub(super) fn handover_request(&self, to: Index) -> Option<Request> {
        let route = self.fabric.subnet.devices.get(to)?.route.clone();
        Some(Request::set(route, HANDOVER, &self.sm_info()?))
    }

    /// Its answer has come, or has not.
    pub(super) fn handover_answered(handing_over: &mut HandingOver, answer: Answer<'_>) {
        handing_over.confirmed |= answer.attribute::<SmInfo>().is_ok();
    }

    /// Goes on when the better manager has confirmed, or will not.
    pub(super) fn handover_done(&mut self, now: Time, handing_over: HandingOver) {
        let HandingOver {
            to,
            manager,
            discovered,
            confirmed,
        } = handing_over;
        if confirmed && self.election.enter(Input::HandedOver).is_some() {
            return self.stand_by(now, &manager);
        }
        let name = self.fabric.subnet.devices[to].label();
        let text = format!("the subnet manager on {name} is better, but does not take over");
        self.report.replace(Source::Standby, vec![text]);
        self.confirm_or_serve(now, discovered);
    }

    /// Waits until another master, which is less than this one, hands its part of the subnet over
    /// (IBA 14.4.1): two must not write.
    fn await_handover(&mut self, now: Time, index: Index, master: &SmInfo) {
        let name = self.fabric.subnet.devices[index].label();
        let text = format!(
            "the subnet manager on {name} is master too, with priority {}: nothing is written \
             before it hands over",
            master.priority
        );
        self.report.replace(Source::Standby, vec![text]);
        self.report.enter(Phase::AwaitsHandover {
            master: master.guid,
        });
        self.election.poll(Some(master.guid));
        self.schedule.schedule_poll(now);
    }

    /// Leaves the subnet to another manager, and polls it from now on.
    fn stand_by(&mut self, now: Time, master: &SmInfo) {
        let index = self.fabric.subnet.find_end_port(master.guid);
        let name = index.map(|index| self.fabric.subnet.devices[index].label());
        let name = name.unwrap_or_else(|| master.guid.to_string());
        let text = format!(
            "the subnet manager on {name} has priority {}: standing by",
            master.priority
        );
        self.leave_subnet(now);
        self.report.replace(Source::Standby, vec![text]);
        self.report.enter(Phase::Standby {
            master: master.guid,
        });
        self.election.poll(Some(master.guid));
        self.schedule
            .schedule_poll(now + self.config.poll_interval_ns);
    }

    /// Ends all that a master does. What was found of the subnet is another manager's business from
    /// now on: what devices hold is read again if this one takes over.
    fn leave_subnet(&mut self, now: Time) {
        self.activity = Activity::Idle;
        self.exchange.clear();
        self.schedule.withdraw();
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
        self.withdraw_plan();
        self.mirrors.clear();
        let partitions = self.config.partitions.as_ref();
        self.groups = Groups::new(self.config.multicast, partitions);
        self.administration = Administration::new(self.config.sa_key);
        self.aliases = Aliases::default();
        self.windows
            .follow(now, &Subnet::default(), &Plan::default());
    }

    /// Ends standby: what the master before has left is needed now.
    fn end_standby(&mut self, now: Time) {
        self.report.resolve(Source::Standby);
        self.report.push(SmEvent::Recall);
        self.report.enter(Phase::Discovering);
        self.windows.begin_session(now);
        self.schedule.request_sweep(now, Cause::Managers);
    }

    /// Another manager may have been master without this one's knowledge: what devices hold is read
    /// again, and what that manager has persisted.
    pub(super) fn invalidate_memory(&mut self) {
        self.mirrors.clear();
        self.report.push(SmEvent::Recall);
    }

    /// Takes in an input that does not come from a discovery.
    fn enter(&mut self, now: Time, input: Input, sender: Option<&SmInfo>) {
        let before = self.election.state();
        match (self.election.enter(input), sender) {
            (Some(Step::Sweep), _) if before == SmState::Standby => self.end_standby(now),
            (Some(Step::Sweep), _) => {
                // A master that is handed the subnet, or waited for that, had another one beside it.
                if before == SmState::Master {
                    self.invalidate_memory();
                }
                self.schedule.request_sweep(now, Cause::Managers);
            }
            (Some(Step::Poll), Some(master)) => self.stand_by(now, master),
            (Some(Step::Rest), _) => {
                self.leave_subnet(now);
                self.election.poll(None);
                self.report.resolve(Source::Standby);
                self.report.enter(Phase::NotActive);
            }
            _ => {}
        }
    }

    /// The subnet may have changed: it is swept, or if another manager is master, that is polled.
    pub(super) fn request_sweep(&mut self, now: Time, cause: Cause) {
        match self.election.state() {
            SmState::Discovering | SmState::Master => self.schedule.request_sweep(now, cause),
            SmState::Standby => self.schedule.schedule_poll(now),
            SmState::NotActive => {}
        }
    }

    /// SMInfo as a requester may see it: who does not give the M_Key of a protected subnet is not shown the SM_Key, or
    /// not answered, as by a port's agent (IBA 14.2.4.1, 14.2.5.13).
    fn shown_to(&self, own: SmInfo, request: &Mad) -> Option<SmInfo> {
        let protection = self.config.protection.as_ref();
        let strange = protection.filter(|protection| protection.m_key.get() != request.m_key());
        match strange.map(|protection| protection.protect_bits) {
            None => Some(own),
            Some(_) if request.method() != Method::GET => None,
            Some(0) => Some(own),
            Some(1) => Some(SmInfo { sm_key: 0, ..own }),
            Some(_) => None,
        }
    }

    /// Another manager, or a program, asks for SMInfo or sets it.
    pub(super) fn sm_info_request(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        let Some(own) = self.sm_info() else {
            return;
        };
        let Some(own) = self.shown_to(own, request) else {
            return;
        };
        let handed_to = match &self.activity {
            Activity::HandingOver(handing_over) => Some(handing_over.manager.guid),
            _ => None,
        };
        let Some(asked) = self.election.asked(&own, from, request, handed_to) else {
            return;
        };
        self.outbox.send(asked.answer);
        let Some((input, sender)) = asked.input else {
            return;
        };
        match (input, &mut self.activity) {
            (Input::HandedOver, Activity::HandingOver(handing_over)) => {
                handing_over.confirmed = true;
                self.exchange.clear();
            }
            _ => {
                if input == Input::Handover {
                    self.acknowledge(&own, sender.guid);
                }
                self.enter(now, input, Some(&sender));
            }
        }
    }

    /// Confirms a handover. The answer to the Set confirms it as well, so this is sent once.
    fn acknowledge(&mut self, own: &SmInfo, master: Guid) {
        let subnet = &self.fabric.subnet;
        let Some(index) = subnet.find_end_port(master) else {
            return;
        };
        // Only a manager in standby acknowledges.
        let shown = SmInfo {
            state: SmState::Standby,
            ..*own
        };
        let request = Request::set(subnet.devices[index].route.clone(), ACKNOWLEDGE, &shown);
        let transaction = self.exchange.single_transaction();
        if let Some(message) = request.message(transaction, self.m_key()) {
            self.outbox.send(message);
        }
    }

    /// The requests of a poll.
    pub(super) fn poll_queries(&self, manager: Guid) -> Vec<light_sweep::Query> {
        let manager = self.fabric.subnet.find_end_port(manager);
        let manager = manager.map(light_sweep::Query::Master);
        let own = manager.map(|_| light_sweep::Query::OwnPort);
        manager.into_iter().chain(own).collect()
    }

    /// A poll has ended.
    pub(super) fn poll_done(&mut self, now: Time, poll: &LightSweep) {
        let Some(own) = self.sm_info() else {
            return;
        };
        if let Some(manager) = &poll.master {
            let state = state_name(manager.state);
            self.report.set_manager_state(manager.guid, state);
        }
        match self.election.judge_poll(&own, poll.master.as_ref()) {
            Poll::Gone => return self.enter(now, Input::PollFailed, None),
            Poll::Alive => {}
            Poll::Lesser => self.remind(now, poll.own_port.as_ref()),
        }
        self.schedule
            .schedule_poll(now + self.config.poll_interval_ns);
    }

    /// Tells a master that is less than this manager to look for it: trap 144 with the flag
    /// SMPriorityChange, as OpenSM does.
    fn remind(&mut self, now: Time, own_port: Option<&PortInfo>) {
        let addressed = |port: &&PortInfo| port.lid.is_unicast() && port.master_sm_lid.is_unicast();
        let Some(port) = own_port.filter(addressed) else {
            return;
        };
        if self.reminded_at.is_some_and(|at| now < at + REMINDER_NS) {
            return;
        }
        self.reminded_at = Some(now);
        let change = Trap144 {
            lid: port.lid,
            other_local_changes: true,
            capability_mask: port.capability_mask,
            change_flags: Trap144::SM_PRIORITY_CHANGE,
        };
        let notice = Notice::local_change(Notice::PRODUCER_CHANNEL_ADAPTER, change);
        let transaction = self.exchange.single_transaction();
        let mut trap = Mad::lid_smp(Method::TRAP, AttributeId::NOTICE, 0, transaction);
        trap.set_smp_attribute(&notice);
        self.outbox
            .send(message(port.master_sm_lid, Qpn::SMI, &trap));
    }
}

fn state_name(state: SmState) -> &'static str {
    match state {
        SmState::NotActive => "not active",
        SmState::Discovering => "discovering",
        SmState::Standby => "standby",
        SmState::Master => "master",
    }
}
