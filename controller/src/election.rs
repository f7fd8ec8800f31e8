//! Other subnet managers: who is master (IBA 14.4.1).
//!
//! The manager of the highest priority is master; between equals the lower port GUID wins. A
//! manager that finds a better one enters standby and polls its SMInfo. This one sends no
//! handover: when a better one appears, its next sweep finds it. On receipt of a handover it sweeps.

use core::cmp::Reverse;

use mad::local::MadMessage;
use wire::attr::{SmInfo, SmState};
use wire::{AttributeId, Guid, Lid, Mad, MadStatus, Method, MgmtClass, Qpn};

use crate::control::Phase;
use crate::smp::message;

/// AttributeModifier of a Set(SMInfo): the master hands over (IBA 14.4.1.1).
const HANDOVER: u32 = 1;

/// The rank of a manager: the greatest is master.
pub(crate) fn rank(manager: &SmInfo) -> (u8, Reverse<Guid>) {
    (manager.priority, Reverse(manager.guid))
}

/// This manager's part in the election.
#[derive(Debug)]
pub(crate) struct Election {
    priority: u8,
    /// Grows with every sweep (SMInfo:ActCount).
    act_count: u32,
}

/// The answer to a request for SMInfo.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The answer.
    pub(crate) message: MadMessage,
    /// Whether the master has handed over.
    pub(crate) is_handover: bool,
}

impl Election {
    /// A manager of that priority.
    pub(crate) fn new(priority: u8) -> Self {
        Self {
            priority,
            act_count: 0,
        }
    }

    /// A heavy sweep starts.
    pub(crate) fn sweep_started(&mut self) {
        self.act_count = self.act_count.wrapping_add(1);
    }

    /// This manager's SMInfo, at the port of that GUID.
    pub(crate) fn sm_info(&self, guid: Guid, phase: &Phase, has_been_up: bool) -> SmInfo {
        SmInfo {
            guid,
            sm_key: 0,
            act_count: self.act_count,
            priority: self.priority,
            state: match phase {
                Phase::Starting | Phase::Discovering if !has_been_up => SmState::Discovering,
                Phase::Standby { .. } => SmState::Standby,
                _ => SmState::Master,
            },
        }
    }
}

/// Whether a manager is to stand by because the other one is better.
pub(crate) fn defers_to(own: &SmInfo, other: &SmInfo) -> bool {
    other.state != SmState::NotActive && other.guid != own.guid && rank(other) > rank(own)
}

/// The answer to another manager, or a program, that asks for SMInfo or sets it.
pub(crate) fn reply(own: &SmInfo, from: &MadMessage, request: &Mad) -> Option<Reply> {
    if request.attr_id() != AttributeId::SM_INFO {
        return None;
    }
    let (status, is_handover) = match (request.method(), request.attr_mod()) {
        (Method::GET, _) => (MadStatus::OK, false),
        (Method::SET, HANDOVER) => (MadStatus::OK, true),
        (Method::SET, _) => (MadStatus::BAD_METHOD_ATTRIBUTE, false),
        _ => return None,
    };
    let mut answer = *request;
    answer.set_method(Method::GET_RESP);
    answer.set_status(status);
    answer.set_smp_attribute(own);
    let mut to = from.lid;
    // A directed-route answer returns by the route that the request has recorded.
    if request.class() == MgmtClass::SUBN_DIR {
        answer.set_returning(true);
        to = Lid::PERMISSIVE;
    }
    Some(Reply {
        message: message(to, Qpn::SMI, &answer),
        is_handover,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(guid: u64, priority: u8) -> SmInfo {
        Election::new(priority).sm_info(Guid(guid), &Phase::Up, true)
    }

    #[test]
    fn the_higher_priority_wins_and_between_equals_the_lower_guid() {
        assert!(defers_to(&info(1, 3), &info(2, 4)));
        assert!(!defers_to(&info(1, 4), &info(2, 3)));
        assert!(defers_to(&info(2, 4), &info(1, 4)));
        assert!(!defers_to(&info(1, 4), &info(2, 4)));
        assert!(
            !defers_to(&info(1, 4), &info(1, 9)),
            "it is the manager itself"
        );
        let inactive = SmInfo {
            state: SmState::NotActive,
            ..info(2, 9)
        };
        assert!(!defers_to(&info(1, 4), &inactive));
    }

    #[test]
    fn the_state_follows_the_phase() {
        let election = Election::new(8);
        let state = |phase: &Phase, up| election.sm_info(Guid(1), phase, up).state;
        let standby = Phase::Standby { master: Guid(2) };
        assert_eq!(state(&Phase::Discovering, false), SmState::Discovering);
        assert_eq!(state(&Phase::Discovering, true), SmState::Master);
        assert_eq!(state(&standby, true), SmState::Standby);
        assert_eq!(state(&Phase::Up, true), SmState::Master);
    }

    #[test]
    fn a_handover_is_accepted_and_other_sets_are_refused() {
        let own = info(1, 8);
        let reply_to = |method, modifier| {
            let request = Mad::lid_smp(method, AttributeId::SM_INFO, modifier, 5);
            let reply = reply(&own, &message(Lid::new(7), Qpn::SMI, &request), &request);
            reply.map(|reply| {
                let answer = Mad::from_bytes(*reply.message.mad);
                (answer.status(), reply.is_handover)
            })
        };
        assert_eq!(reply_to(Method::GET, 0), Some((MadStatus::OK, false)));
        assert_eq!(reply_to(Method::SET, HANDOVER), Some((MadStatus::OK, true)));
        let refused = Some((MadStatus::BAD_METHOD_ATTRIBUTE, false));
        assert_eq!(reply_to(Method::SET, 2), refused);
        assert_eq!(reply_to(Method::TRAP, 0), None);
    }
}
