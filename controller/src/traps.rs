//! Traps: what devices report unasked (IBA 13.4.9, 14.2.5.1).
//!
//! Every trap is answered with TrapRepress, which ends its repetition. A change of link state
//! (128) or of a node's own settings (144) starts a full sweep after a short delay, in which
//! further traps are gathered: the loss of one switch makes all its neighbours report.

use link::Time;
use mad::local::MadMessage;
use wire::attr::{Notice, Trap144, trap};
use wire::{Format as _, Lid, Mad, Method, Qpn};

use crate::sm::Sm;
use crate::smp::message;
use crate::sweep::Activity;

impl Sm {
    /// A device reports something.
    pub(crate) fn trap(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        let Ok(notice) = request.smp_attribute::<Notice>() else {
            return;
        };
        let mut repress = *request;
        repress.set_method(Method::TRAP_REPRESS);
        self.send(message(from.lid, Qpn::SMI, &repress));
        self.report_notice(now, &notice);
        if !notice.is_generic {
            return;
        }
        match notice.trap_number {
            trap::LINK_STATE_CHANGE => {
                if !self.discovery_will_see(&notice) {
                    self.request_sweep(now + self.config.trap_delay_ns);
                }
            }
            trap::CAPABILITY_CHANGE | trap::SYSTEM_IMAGE_GUID_CHANGE => {
                let renamed = Trap144::parse(&notice.details).is_ok_and(|(change, _)| {
                    change.change_flags & Trap144::NODE_DESCRIPTION_CHANGE != 0
                });
                if renamed {
                    self.forget_name(&notice);
                } else if self.is_own(notice.issuer_lid) {
                    // It tells that a manager has come: this one.
                    return;
                }
                self.request_sweep(now + self.config.trap_delay_ns);
            }
            number => {
                let name = self.reporter(&notice);
                self.report.warn(format!("{name} reports trap {number}"));
            }
        }
    }

    /// Whether a discovery is under way that has yet to ask the reporting switch for its ports.
    fn discovery_will_see(&self, notice: &Notice) -> bool {
        let Activity::Discovering(discovery) = &self.activity else {
            return false;
        };
        self.subnet
            .find_lid(notice.issuer_lid)
            .is_some_and(|index| !discovery.has_read_switch(self.subnet.devices[index].guid()))
    }

    fn is_own(&self, lid: Lid) -> bool {
        let known = match &self.activity {
            Activity::Discovering(discovery) => discovery.own_port_info(),
            _ => None,
        };
        let own = self.subnet.devices.get(self.subnet.own);
        known
            .or_else(|| own.and_then(|own| own.end_port_info()))
            .is_some_and(|info| lid.belongs_to(info.lid, info.lmc))
    }

    fn forget_name(&mut self, notice: &Notice) {
        if let Some(index) = self.subnet.find_lid(notice.issuer_lid) {
            self.names.remove(&self.subnet.devices[index].guid());
        }
    }

    fn reporter(&self, notice: &Notice) -> String {
        match self.subnet.find_lid(notice.issuer_lid) {
            Some(index) => self.subnet.devices[index].label(),
            None => format!("LID {}", notice.issuer_lid),
        }
    }
}
