//! Begin and end of faults.
//!
//! Faults overlap. The state of a cable or a device is computed from all faults that are active, so
//! that the end of one does not end another.

use link::Time;
use sim::{CableEnd, FaultKind as CableFault};
use topologies::{Endpoint, NodeId};
use wire::Lid;

use super::{Bed, pick};
use crate::hostile::{self, Shot, Victims};
use crate::lies;
use crate::outcome::{Failure, FailureKind};
use crate::schedule::{Fault, FaultKind, Hostility, Lie};

/// What happens at a moment.
#[derive(Clone, Copy)]
enum Action {
    End(usize),
    Begin(usize),
    Send(usize),
}

impl Bed<'_> {
    /// Sends the schedule's traffic and injects its faults, until faults cease.
    pub(crate) fn run_schedule(&mut self) -> Result<(), Failure> {
        let start = self.twin.now();
        self.plant_lies(start);
        let schedule = self.schedule;
        let length_us = schedule.length_us;
        let mut actions: Vec<(u64, Action)> = Vec::new();
        for (at, fault) in schedule.faults.iter().enumerate() {
            actions.push((fault.at_us.min(length_us), Action::Begin(at)));
            if let Some(end_us) = self.end_us(fault) {
                actions.push((end_us, Action::End(at)));
            }
        }
        for (at, traffic) in schedule.traffic.iter().enumerate() {
            actions.push((traffic.at_us.min(length_us), Action::Send(at)));
        }
        actions.sort_by_key(|&(at_us, _)| at_us);
        for (at_us, action) in actions {
            self.advance(start + at_us * 1000)?;
            match action {
                Action::Begin(at) => self.change(at, true)?,
                Action::End(at) => self.change(at, false)?,
                Action::Send(at) => self.send(schedule.traffic[at].what),
            }
            self.check_lids()?;
        }
        self.advance(start + length_us * 1000)
    }

    /// When a fault ends; `None`: never.
    fn end_us(&self, fault: &Fault) -> Option<u64> {
        let length_us = self.schedule.length_us;
        if fault.for_us > 0 {
            return Some(fault.at_us.saturating_add(fault.for_us).min(length_us));
        }
        // What is never seen whole may be nothing that its engine could route.
        let may_last = !self.schedule.from_start && !self.is_vital(fault.what);
        let lasts = fault.what.is_outage() && may_last;
        (!lasts).then_some(length_us)
    }

    /// Whether a fault disconnects the manager's host.
    fn is_vital(&self, what: FaultKind) -> bool {
        let Some(own) = self.twin.manager_host(0) else {
            return false;
        };
        let mut neighbours = self.graph.cables(own);
        match what {
            FaultKind::Cut { cable } => self
                .cable(cable)
                .is_some_and(|(one, other)| one.node == own || other.node == own),
            FaultKind::HostCrash { host } | FaultKind::Lies { host, .. } => {
                self.host(host) == Some(own)
            }
            FaultKind::SwitchCrash { switch } => {
                let switch = self.switch(switch);
                neighbours.any(|(_, peer)| Some(peer.node) == switch)
            }
            _ => false,
        }
    }

    fn cable(&self, number: u32) -> Option<(Endpoint, Endpoint)> {
        pick(&self.cables, number)
    }

    pub(super) fn host(&self, number: u32) -> Option<NodeId> {
        pick(&self.hosts, number)
    }

    fn switch(&self, number: u32) -> Option<NodeId> {
        pick(&self.switches, number)
    }

    fn active(&self) -> impl Iterator<Item = FaultKind> {
        let faults = &self.schedule.faults;
        self.active
            .iter()
            .filter_map(|&at| Some(faults.get(at)?.what))
    }

    /// A fault begins or ends.
    fn change(&mut self, at: usize, begins: bool) -> Result<(), Failure> {
        match begins {
            true => self.active.insert(at),
            false => self.active.remove(&at),
        };
        let what = self.schedule.faults[at].what;
        match what {
            FaultKind::Loss { cable, .. }
            | FaultKind::Damage { cable, .. }
            | FaultKind::CreditLoss { cable, .. }
            | FaultKind::Duplication { cable, .. }
            | FaultKind::Delay { cable, .. } => self.impair(cable),
            FaultKind::Cut { cable } => {
                let wanted = self.cable(cable);
                let is_unplugged = self.active().any(
                    |other| matches!(other, FaultKind::Cut { cable } if self.cable(cable) == wanted),
                );
                match (wanted, is_unplugged) {
                    (Some((end, _)), true) => self.twin.unplug(end),
                    (Some((end, _)), false) => self.twin.plug(end),
                    (None, _) => {}
                }
                Ok(())
            }
            FaultKind::SwitchCrash { switch } => {
                self.crash(self.switch(switch));
                Ok(())
            }
            FaultKind::HostCrash { host } => {
                self.crash(self.host(host));
                Ok(())
            }
            FaultKind::ManagerCrash { manager } | FaultKind::ManagerStop { manager } => {
                self.manage(manager)
            }
            FaultKind::Hostile { host, what, count } if begins => {
                self.attack(host, what, count);
                Ok(())
            }
            // Full hosts take packets in at once, and false answers have their own times.
            FaultKind::Lies { .. } => Ok(()),
            FaultKind::Hostile { .. } | FaultKind::SlowDrain { .. } => Ok(()),
        }
    }

    /// Kills, stops, starts or continues a manager, as the faults that are active want it.
    fn manage(&mut self, number: u32) -> Result<(), Failure> {
        let all: Vec<usize> = (0..self.twin.managers()).collect();
        let Some(wanted) = pick(&all, number) else {
            return Ok(());
        };
        let (mut is_down, mut is_stopped) = (false, false);
        for what in self.active() {
            match what {
                FaultKind::ManagerCrash { manager } => {
                    is_down |= pick(&all, manager) == Some(wanted)
                }
                FaultKind::ManagerStop { manager } => {
                    is_stopped |= pick(&all, manager) == Some(wanted);
                }
                _ => {}
            }
        }
        match is_down {
            true => self.twin.crash_manager(wanted),
            false => {
                if let Err(error) = self.twin.restart_manager(wanted) {
                    return self.fail(FailureKind::NotUp, error.to_string());
                }
            }
        }
        match is_stopped {
            true => self.twin.stop_manager(wanted),
            false => self.twin.continue_manager(wanted),
        }
        Ok(())
    }

    /// Installs the false answers of hosts.
    fn plant_lies(&mut self, start: Time) {
        let schedule = self.schedule;
        let mut lies = Vec::new();
        for fault in &schedule.faults {
            let FaultKind::Lies { host, about } = fault.what else {
                continue;
            };
            let Some(host) = self.host(host) else {
                continue;
            };
            let end_us = self.end_us(fault);
            if about == Lie::Switches {
                self.made_up += 2;
            }
            match (end_us, about) {
                (None, _) => self.liars.insert(host),
                (Some(_), Lie::Guids | Lie::Everything) => self.disguised.insert(host),
                (Some(_), _) => false,
            };
            let cable = self.graph.cables(host).next();
            let Some((_, peer)) = cable else {
                continue;
            };
            lies.push(lies::TimedLie {
                host,
                peer,
                guid: self.graph.node(host).guid,
                about,
                from: start + fault.at_us.min(schedule.length_us) * 1000,
                until: end_us.map_or(Time::NEVER, |end_us| start + end_us * 1000),
            });
        }
        if !lies.is_empty() {
            let seed = schedule.seed;
            let switch = self.switches.first().map(|&id| self.graph.node(id).guid);
            let liars = lies::Liars::new(lies, switch.unwrap_or_default(), seed);
            self.twin.interpose(Box::new(liars));
        }
    }

    /// Whether a host answers falsely until the end, so that not all devices can be managed.
    pub(crate) fn has_liars(&self) -> bool {
        !self.liars.is_empty()
    }

    /// Sets the impairments of a cable.
    fn impair(&mut self, number: u32) -> Result<(), Failure> {
        let Some(wanted) = self.cable(number) else {
            return Ok(());
        };
        let [mut loss, mut damage, mut credits, mut double, mut late] = [0; 5];
        let mut late_ns = 0;
        for what in self.active() {
            let (cable, to, ppm) = match what {
                FaultKind::Loss { cable, ppm } => (cable, &mut loss, ppm),
                FaultKind::Damage { cable, ppm } => (cable, &mut damage, ppm),
                FaultKind::CreditLoss { cable, ppm } => (cable, &mut credits, ppm),
                FaultKind::Duplication { cable, ppm } => (cable, &mut double, ppm),
                FaultKind::Delay { cable, ppm, by_us } => {
                    if self.cable(cable) == Some(wanted) {
                        late_ns = late_ns.max(u64::from(by_us) * 1000);
                    }
                    (cable, &mut late, ppm)
                }
                _ => continue,
            };
            if self.cable(cable) == Some(wanted) {
                *to = ppm.max(*to);
            }
        }
        for end in [wanted.0, wanted.1] {
            let end = CableEnd {
                node: self.graph.node(end.node).name.clone(),
                port: end.port,
            };
            let all = [
                CableFault::Rates {
                    end: end.clone(),
                    loss_ppm: loss,
                    corruption_ppm: damage,
                },
                CableFault::CreditLoss {
                    end: end.clone(),
                    loss_ppm: credits,
                },
                CableFault::SmpImpairment {
                    end,
                    duplication_ppm: double,
                    delay_ppm: late,
                    delay_ns_max: late_ns,
                },
            ];
            for fault in all {
                if let Err(error) = self.twin.impair(fault) {
                    return self.fail(FailureKind::Setup, error.to_string());
                }
            }
        }
        Ok(())
    }

    fn crash(&mut self, node: Option<NodeId>) {
        let Some(node) = node else { return };
        let is_down = self.active().any(|what| match what {
            FaultKind::SwitchCrash { switch } => self.switch(switch) == Some(node),
            FaultKind::HostCrash { host } => self.host(host) == Some(node),
            _ => false,
        });
        match is_down {
            true => {
                self.members.remove(&node);
                self.twin.crash(node);
            }
            false => self.twin.restart(node),
        }
    }

    fn attack(&mut self, host: u32, what: Hostility, count: u32) {
        let Some(attacker) = self.host(host) else {
            return;
        };
        let name = self.graph.node(attacker).name.clone();
        let switches = self.switches.iter().map(|&id| &self.graph.node(id).name);
        let lids = switches.filter_map(|name| Some(self.twin.switch(name)?.lid()));
        let switches: Vec<Lid> = lids.filter(|lid| lid.is_unicast()).collect();
        let hosts = (0..self.twin.managers()).filter_map(|at| self.twin.manager_host(at));
        let names = hosts.map(|id| &self.graph.node(id).name);
        let lids = names.filter_map(|name| Some(self.twin.host(name)?.lid()));
        let managers: Vec<Lid> = lids.collect();
        let victims = Victims {
            managers: &managers,
            is_protected: self.schedule.m_key.is_some(),
            switches: &switches,
            vls: self.schedule.vls,
        };
        let port = wire::PortNum::new(1);
        for _ in 0..count {
            match hostile::shot(what, victims, &mut self.random) {
                Some(Shot::Mad(message)) => {
                    // The host is one of the twin's.
                    let _ = self.twin.send_to_agent(&name, message);
                }
                Some(Shot::Packet(packet)) if !self.twin.is_down(attacker) => {
                    let node = attacker;
                    self.twin.inject(Endpoint { node, port }, &packet);
                }
                Some(Shot::Packet(_)) | None => {}
            }
        }
    }
}
