//! Other subnet managers: who is master (IBA 14.4.1).
//!
//! The manager of the highest priority is master; between equals the lower port GUID wins. A
//! manager that finds a better one stands by and asks it now and then whether it still is. This
//! one does not hand over by message: when a better one appears, its next sweep finds that out.

use core::cmp::Reverse;

use link::Time;
use mad::local::MadMessage;
use wire::attr::{SmInfo, SmState};
use wire::{AttributeId, Guid, Lid, Mad, MadStatus, Method, MgmtClass, Qpn};

use crate::control::Phase;
use crate::sm::Sm;
use crate::smp::message;
use crate::sweep::Activity;

/// AttributeModifier of a Set(SMInfo): the master hands over (IBA 14.4.1.1).
const HANDOVER: u32 = 1;

/// What decides between managers: the greatest is master.
pub(crate) fn rank(manager: &SmInfo) -> (u8, Reverse<Guid>) {
    (manager.priority, Reverse(manager.guid))
}

impl Sm {
    /// What this manager says of itself; `None` before it has met its own host.
    pub(crate) fn own_info(&self) -> Option<SmInfo> {
        let guid = match (self.subnet.devices.get(self.subnet.own), &self.activity) {
            (Some(own), _) => own.end_port_guid(),
            (None, Activity::Discovering(discovery)) => discovery.own_port_guid()?,
            (None, _) => return None,
        };
        Some(SmInfo {
            guid,
            sm_key: 0,
            act_count: self.act_count,
            priority: self.config.priority,
            state: match self.report.status.phase {
                Phase::Starting | Phase::Discovering if self.report.status.generation == 0 => {
                    SmState::Discovering
                }
                Phase::Standby { .. } => SmState::Standby,
                _ => SmState::Master,
            },
        })
    }

    /// Whether another manager is the better one.
    pub(crate) fn defers_to(&self, other: &SmInfo) -> bool {
        self.own_info().is_some_and(|own| {
            other.state != SmState::NotActive && other.guid != own.guid && rank(other) > rank(&own)
        })
    }

    /// Another manager, or a program, asks for SMInfo.
    pub(crate) fn manager_request(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        if request.attr_id() != AttributeId::SM_INFO {
            return;
        }
        let Some(own) = self.own_info() else {
            return;
        };
        let status = match (request.method(), request.attr_mod()) {
            (Method::GET, _) => MadStatus::OK,
            (Method::SET, HANDOVER) => {
                self.request_sweep(now);
                MadStatus::OK
            }
            (Method::SET, _) => MadStatus::BAD_METHOD_ATTRIBUTE,
            _ => return,
        };
        let mut answer = *request;
        answer.set_method(Method::GET_RESP);
        answer.set_status(status);
        answer.set_smp_attribute(&own);
        let mut to = from.lid;
        // A directed answer goes back by the way that the request has noted.
        if request.class() == MgmtClass::SUBN_DIR {
            answer.set_returning(true);
            to = Lid::PERMISSIVE;
        }
        self.send(message(to, Qpn::SMI, &answer));
    }
}
