//! What the manager does on a trap.

use link::Time;
use mad::local::MadMessage;
use wire::attr::{Notice, PortInfo, SwitchInfo};
use wire::{Guid, Lid, Mad};

use super::sequence::Activity;
use super::{Job, Sm};
use crate::protection;
use crate::report::Source;
use crate::schedule;
use crate::smp::{Answer, Request};
use crate::subnet::Device;
use crate::traps::{self, Cause};

impl Sm {
    /// A device reports a trap.
    pub(super) fn trap(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        let Ok(notice) = request.smp_attribute::<Notice>() else {
            return;
        };
        let m_key = self.m_key();
        // It is for the master: not repressed, it is sent again to the LID that the master gives.
        if self.leaves_requests() {
            if self.is_of_the_master(from.lid) {
                self.outbox.send(traps::repress(from, request, m_key));
            }
            return;
        }
        self.outbox.send(traps::repress(from, request, m_key));
        let told = protection::without_key(&notice);
        self.administration.report(&told);
        let cause = Cause::of(&notice);
        let sweep = schedule::Cause::Trap(notice.trap_number, notice.issuer_lid);
        if let Some((source, text)) = self.refusal(&notice, &cause) {
            return self.report.warn_of(source, text);
        }
        let subnet = &self.fabric.subnet;
        let issuer = subnet.find_lid(notice.issuer_lid);
        let issuer = issuer.and_then(|index| subnet.devices.get(index));
        match cause {
            Cause::NotGeneric
            | Cause::BadMKey(_)
            | Cause::BadPKey(_)
            | Cause::BadQKey(_)
            | Cause::Stopped(_) => return,
            Cause::LinkState => {
                let Some(switch) = issuer.map(Device::guid) else {
                    return self
                        .schedule
                        .request_sweep(now + self.config.trap_delay_ns, sweep);
                };
                let under_way = match &self.activity {
                    Activity::Discovering(discovery) => Some(discovery),
                    _ => None,
                };
                let is_seen = under_way.is_some_and(|found| found.has_seen_change(switch));
                let is_late = self.link_traps.is_late(switch, request.tid(), is_seen);
                // A discovery that has yet to read that switch's ports will see the change.
                if under_way.is_some_and(|found| !found.has_read_switch(switch)) {
                    return;
                }
                if is_late {
                    return self.exchange.push_probe(Job::LateTrap(switch), 0);
                }
            }
            Cause::NodeDescription => {
                if let Some(device) = issuer {
                    self.inventory.forget_name(device.guid());
                }
            }
            Cause::Capability => {
                // The own host reports that a manager is there: this one.
                if self.is_own_lid(notice.issuer_lid) {
                    return;
                }
            }
            Cause::Other(number) => {
                let name = self.name_of(notice.issuer_lid);
                return self.report.warn(format!("{name} reports trap {number}"));
            }
        }
        self.schedule
            .request_sweep(now + self.config.trap_delay_ns, sweep);
    }

    /// Asks a switch for its change flag.
    pub(super) fn late_trap_request(&self, switch: Guid, activity: &Activity) -> Option<Request> {
        let route = match activity {
            Activity::Discovering(discovery) => discovery.route_to(switch)?,
            _ => {
                let subnet = &self.fabric.subnet;
                &subnet.devices.get(subnet.find(switch)?)?.route
            }
        };
        Some(Request::get::<SwitchInfo>(route.to_vec(), 0))
    }

    /// A switch has answered, or has not: unless it says that nothing has changed since the discovery that
    /// has read it, there is another one.
    pub(super) fn late_trap_answered(&mut self, now: Time, answer: Answer<'_>) {
        let is_unchanged =
            (answer.attribute::<SwitchInfo>()).is_ok_and(|switch| !switch.port_state_change);
        if !is_unchanged {
            self.schedule.request_sweep(now, schedule::Cause::Change);
        }
    }

    /// The warning of a trap that reports packets with a wrong key; `None` of others.
    fn refusal(&self, notice: &Notice, cause: &Cause) -> Option<(Source, String)> {
        let name = || self.name_of(notice.issuer_lid);
        Some(match cause {
            Cause::BadMKey(details) => {
                let name = name();
                // Whose key is this manager's is refused as this manager is.
                let text = if details.m_key == self.m_key() {
                    format!(
                        "{name} was asked without its M_Key and does not answer that (trap 256): it \
                         cannot be managed from here until its M_Key is cleared"
                    )
                } else {
                    let subnet = &self.fabric.subnet;
                    let name_of = |lid| self.name_of(lid);
                    let asker = protection::asker(
                        details,
                        subnet.find_lid(notice.issuer_lid),
                        subnet,
                        name_of,
                    );
                    let request = protection::request(details);
                    format!("{name} has refused a {request} with a wrong M_Key, {asker} (trap 256)")
                };
                (Source::MKey, text)
            }
            Cause::BadPKey(packet) => {
                let (name, from) = (name(), self.name_of(packet.slid));
                let key = packet.key & 0xffff;
                let text = format!(
                    "{name} has dropped a packet of {from} with P_Key {key:#06x}, of which it is no \
                     member or both are limited ones (trap 257)"
                );
                (Source::Partitions, text)
            }
            Cause::BadQKey(packet) => {
                let (name, from) = (name(), self.name_of(packet.slid));
                let text = format!(
                    "{name} has dropped a packet of {from} with a wrong Q_Key for queue pair {} (trap 258)",
                    packet.dest_qp
                );
                (Source::Partitions, text)
            }
            Cause::Stopped(packet) => {
                let (name, from) = (name(), self.name_of(packet.slid));
                let text = format!(
                    "port {} of {name} has stopped a packet of {from} to {} with P_Key {:#06x} (trap 259)",
                    packet.port,
                    self.name_of(packet.dlid),
                    packet.p_key
                );
                (Source::Partitions, text)
            }
            _ => return None,
        })
    }

    /// How people are told of the device with that LID, which may have left the subnet.
    pub(super) fn name_of(&self, lid: Lid) -> String {
        let subnet = &self.fabric.subnet;
        let found = subnet.find_lid(lid).map(|at| subnet.devices[at].label());
        let known = || {
            let guid = self.planner.guid_of(lid)?;
            self.inventory.names().get(&guid).cloned()
        };
        found.or_else(known).unwrap_or_else(|| format!("LID {lid}"))
    }

    /// Whether a trap is of the host of the manager that this one stands by for. A manager in standby
    /// sends trap 144 to the master; if mastership is handed to it meanwhile, the trap comes to one
    /// that is master no longer, and it concerns no other manager.
    fn is_of_the_master(&self, issuer: Lid) -> bool {
        let subnet = &self.fabric.subnet;
        let issuer = subnet.find_lid(issuer).map(|at| &subnet.devices[at]);
        issuer.is_some_and(|issuer| self.election.polled() == Some(issuer.end_port_guid()))
    }

    fn is_own_lid(&self, lid: Lid) -> bool {
        let discovered: Option<&PortInfo> = match &self.activity {
            Activity::Discovering(discovery) => discovery.own_port_info(),
            _ => None,
        };
        let known = || self.fabric.own().and_then(|own| own.end_port_info());
        discovered
            .or_else(known)
            .is_some_and(|info| lid.belongs_to(info.lid, info.lmc))
    }
}
