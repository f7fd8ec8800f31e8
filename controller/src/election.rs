//! Which of several subnet managers is master (IBA 14.4.1).
//!
//! The manager of the highest priority is master; between equals the lower port GUID wins. Only the
//! master writes. A manager in standby polls the SMInfo of the master.
//!
//! ```text
//!                   a master or a better manager is found
//!   ┌─────────────┐ ────────────────────────────────────> ┌─────────┐ ── DISABLE ──> ┌───────────┐
//!   │ Discovering │                                       │ Standby │                │ NotActive │
//!   └─────────────┘ <──────── no answer, DISCOVER ─────── └─────────┘ <── STANDBY ── └───────────┘
//!      │       ^                                            │     ^
//!      │alone  │own link lost                       HANDOVER│     │handed over
//!      v       │                                            v     │
//!   ┌─────────────────────────────────────────────────────────────────┐
//!   │ Master: hands over to a better manager that it finds; waits for  │
//!   │         the handover of a lesser one that is master as well      │
//!   └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A manager that shows another SM_Key is not trusted: it takes no part, and what it sets is refused.

use core::cmp::Reverse;

use mad::local::MadMessage;
use wire::attr::{SmInfo, SmState};
use wire::{AttributeId, Guid, Lid, Mad, MadStatus, Method, MgmtClass, Qpn};

use crate::smp::message;
use crate::subnet::Index;

/// AttributeModifier of a Set(SMInfo): the master hands over (IBA 14.4.1.1).
pub(crate) const HANDOVER: u32 = 1;
/// The new master confirms that.
pub(crate) const ACKNOWLEDGE: u32 = 2;
/// A manager in standby is to rest.
const DISABLE: u32 = 3;
/// A resting manager is to stand by.
const STANDBY: u32 = 4;
/// A manager in standby is to discover the subnet.
const DISCOVER: u32 = 5;

/// A manager in standby polls another one that is in standby so often before it looks for the master.
const POLLS_OF_A_STANDBY_MAX: u32 = 10;

/// What the state of a manager depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A discovery is complete: no other manager is better or master.
    Alone,
    /// A discovery is complete: another manager is master, and this one is better.
    LesserMasterFound,
    /// A discovery is complete: another manager is better.
    BetterFound,
    /// The manager that is polled does not answer, or is no longer what is waited for.
    PollFailed,
    /// The manager to which mastership was handed over has confirmed it.
    HandedOver,
    /// The port of the own host has no link.
    LinkLost,
    /// Set(SMInfo) HANDOVER.
    Handover,
    /// Set(SMInfo) ACKNOWLEDGE.
    Acknowledge,
    /// Set(SMInfo) DISABLE.
    Disable,
    /// Set(SMInfo) STANDBY.
    StandBy,
    /// Set(SMInfo) DISCOVER.
    Discover,
}

/// What follows from an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The subnet as discovered is planned and written.
    Serve,
    /// The better manager is sent HANDOVER.
    HandOver,
    /// The other master is polled until it hands over.
    Await,
    /// The master is polled.
    Poll,
    /// The subnet is discovered anew.
    Sweep,
    /// Nothing is done until STANDBY comes.
    Rest,
    /// What was under way goes on.
    Stay,
}

/// The next state, and what follows; `None` if there is no such input in that state: a Set is
/// refused.
pub(crate) fn transition(state: SmState, input: Input) -> Option<(SmState, Step)> {
    use Input::{
        Acknowledge, Alone, BetterFound, Disable, Discover, HandedOver, Handover,
        LesserMasterFound, LinkLost, PollFailed, StandBy,
    };
    use SmState::{Discovering, Master, NotActive, Standby};
    Some(match (state, input) {
        (Discovering, Alone) => (Master, Step::Serve),
        (Discovering, LesserMasterFound | BetterFound) => (Standby, Step::Poll),
        (Discovering, Handover) => (Discovering, Step::Sweep),
        (Discovering, LinkLost) => (Discovering, Step::Stay),
        (Discovering, PollFailed | HandedOver | Acknowledge | Disable | StandBy | Discover) => {
            return None;
        }

        (Standby, PollFailed | Discover) => (Discovering, Step::Sweep),
        (Standby, Handover) => (Master, Step::Sweep),
        (Standby, Disable) => (NotActive, Step::Rest),
        (Standby, Acknowledge) => (Standby, Step::Stay),
        (Standby, Alone | LesserMasterFound | BetterFound | HandedOver | LinkLost | StandBy) => {
            return None;
        }

        (NotActive, StandBy) => (Standby, Step::Poll),
        (
            NotActive,
            Alone | LesserMasterFound | BetterFound | PollFailed | HandedOver | LinkLost | Handover
            | Acknowledge | Disable | Discover,
        ) => return None,

        (Master, Alone) => (Master, Step::Serve),
        (Master, BetterFound) => (Master, Step::HandOver),
        (Master, LesserMasterFound) => (Master, Step::Await),
        (Master, PollFailed | Handover) => (Master, Step::Sweep),
        (Master, HandedOver) => (Standby, Step::Poll),
        (Master, LinkLost) => (Discovering, Step::Stay),
        (Master, Acknowledge | Disable | StandBy | Discover) => return None,
    })
}

/// The rank of a manager: the greatest is master.
fn rank(manager: &SmInfo) -> (u8, Reverse<Guid>) {
    (manager.priority, Reverse(manager.guid))
}

/// What the answer of a polled manager means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// It is master, or will be.
    Alive,
    /// It is master, but this manager is better: it is to be told.
    Lesser,
    /// It does not answer any more, or answers as no manager.
    Gone,
}

/// This manager's part in the election.
#[derive(Debug)]
pub(crate) struct Election {
    state: SmState,
    priority: u8,
    sm_key: u64,
    /// In standby the manager that is polled; as master the other one whose handover is waited for.
    polled: Option<Guid>,
    /// Polls in a row that were answered by one in standby itself.
    polls_of_a_standby: u32,
    /// Whether this manager has been in standby: then the subnet was managed before.
    has_stood_by: bool,
}

/// What another manager, or a program, has asked with SMInfo.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The answer.
    pub(crate) answer: MadMessage,
    /// What it has set, and who it is.
    pub(crate) input: Option<(Input, SmInfo)>,
}

impl Election {
    /// A manager that discovers. `sm_key` 0 trusts every other manager.
    pub(crate) fn new(priority: u8, sm_key: u64) -> Self {
        Self {
            state: SmState::Discovering,
            priority,
            sm_key,
            polled: None,
            polls_of_a_standby: 0,
            has_stood_by: false,
        }
    }

    /// The state.
    pub(crate) fn state(&self) -> SmState {
        self.state
    }

    /// Whether this manager is master.
    pub(crate) fn is_master(&self) -> bool {
        self.state == SmState::Master
    }

    /// Whether this manager leaves the subnet to another one, so that it neither sweeps nor answers.
    pub(crate) fn leaves_to_another(&self) -> bool {
        matches!(self.state, SmState::Standby | SmState::NotActive)
    }

    /// Whether it has been in standby since its start.
    pub(crate) fn has_stood_by(&self) -> bool {
        self.has_stood_by
    }

    /// The port of the manager that is polled.
    pub(crate) fn polled(&self) -> Option<Guid> {
        self.polled
    }

    /// The port of the manager that this one stood by for until its polls failed, or it handed over: until
    /// a discovery has ended.
    pub(crate) fn left_by(&self) -> Option<Guid> {
        self.polled.filter(|_| self.state == SmState::Discovering)
    }

    /// From now on that manager is polled, or none.
    pub(crate) fn poll(&mut self, manager: Option<Guid>) {
        self.polls_of_a_standby = 0;
        self.polled = manager;
    }

    /// Takes in an input. `None` if the state has no such input; nothing changes then.
    pub(crate) fn enter(&mut self, input: Input) -> Option<Step> {
        let (state, step) = transition(self.state, input)?;
        self.state = state;
        self.has_stood_by |= state == SmState::Standby;
        Some(step)
    }

    /// This manager's SMInfo, at the port of that GUID. `act_count`: how much it has done so far.
    pub(crate) fn sm_info(&self, guid: Guid, act_count: u32) -> SmInfo {
        SmInfo {
            guid,
            sm_key: self.sm_key,
            act_count,
            priority: self.priority,
            state: self.state,
        }
    }

    /// Whether a manager takes part: it shows the same key.
    pub(crate) fn trusts(&self, other: &SmInfo) -> bool {
        self.sm_key == 0 || other.sm_key == self.sm_key
    }

    /// What a complete discovery says about mastership, and the other manager that it is about.
    pub(crate) fn judge(
        &self,
        own: &SmInfo,
        managers: &[(Index, SmInfo)],
    ) -> (Input, Option<(Index, SmInfo)>) {
        let others = managers.iter().filter(|(_, other)| {
            other.guid != own.guid && other.state != SmState::NotActive && self.trusts(other)
        });
        let best = others.clone().max_by_key(|(_, other)| rank(other));
        let better = best.filter(|(_, best)| rank(best) > rank(own)).copied();
        // A master hands over to one in standby (IBA 14.4.1). One that discovers would lose the handover
        // when it comes to know of this master and stands by; the next light sweep sees it do so.
        let discovers = |other: &SmInfo| other.state == SmState::Discovering;
        let better = better.filter(|(_, other)| !(self.is_master() && discovers(other)));
        let masters = others.filter(|(_, other)| other.state == SmState::Master);
        let master = masters.max_by_key(|(_, other)| rank(other)).copied();
        match (better, master) {
            (None, None) => (Input::Alone, None),
            (None, Some(master)) => (Input::LesserMasterFound, Some(master)),
            // One that discovers polls the master, which knows who is next.
            (Some(_), Some(master)) if self.state == SmState::Discovering => {
                (Input::BetterFound, Some(master))
            }
            (Some(better), _) => (Input::BetterFound, Some(better)),
        }
    }

    /// What the answer of the polled manager means; `None`: it has not answered, or its host has no
    /// manager (any more).
    ///
    /// Only for some time: if it stays in standby, another manager is master and is to be polled
    /// (IBA 14.4.1.5).
    pub(crate) fn judge_poll(&mut self, own: &SmInfo, answer: Option<&SmInfo>) -> Poll {
        let asked = |info: &&SmInfo| Some(info.guid) == self.polled && self.trusts(info);
        let Some(info) = answer.filter(asked) else {
            return Poll::Gone;
        };
        let is_better = rank(info) > rank(own);
        match (self.state, info.state) {
            (_, SmState::Master) if !is_better => Poll::Lesser,
            (SmState::Standby, SmState::Master) => Poll::Alive,
            // It will be master; if not, the one that it polls is.
            (SmState::Standby, SmState::Discovering) if is_better => Poll::Alive,
            (SmState::Standby, SmState::Standby) if is_better => {
                self.polls_of_a_standby += 1;
                match self.polls_of_a_standby < POLLS_OF_A_STANDBY_MAX {
                    true => Poll::Alive,
                    false => Poll::Gone,
                }
            }
            _ => Poll::Gone,
        }
    }

    /// The answer to another manager, or a program, that asks for SMInfo or sets it. `handed_to`: the
    /// manager to which mastership is being handed over.
    pub(crate) fn asked(
        &self,
        own: &SmInfo,
        from: &MadMessage,
        request: &Mad,
        handed_to: Option<Guid>,
    ) -> Option<Asked> {
        if request.attr_id() != AttributeId::SM_INFO {
            return None;
        }
        let (status, input) = match request.method() {
            Method::GET => (MadStatus::OK, None),
            Method::SET => match self.set(request, handed_to) {
                Some(input) => (MadStatus::OK, Some(input)),
                None => (MadStatus::BAD_FIELD, None),
            },
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
        let answer = message(to, Qpn::SMI, &answer);
        Some(Asked { answer, input })
    }

    /// What a Set(SMInfo) does; `None` if it is refused: its sender is not trusted or not in the state
    /// to say so, or this manager is not in the state to do so.
    fn set(&self, request: &Mad, handed_to: Option<Guid>) -> Option<(Input, SmInfo)> {
        let sender: SmInfo = request.smp_attribute().ok()?;
        if !self.trusts(&sender) {
            return None;
        }
        let is_handed_to = self.is_master() && handed_to == Some(sender.guid);
        let (input, is_legal) = match request.attr_mod() {
            ACKNOWLEDGE if is_handed_to => (Input::HandedOver, true),
            ACKNOWLEDGE => (Input::Acknowledge, true),
            HANDOVER => (Input::Handover, sender.state == SmState::Master),
            DISABLE => (Input::Disable, sender.state == SmState::Master),
            STANDBY => (Input::StandBy, sender.state == SmState::Master),
            DISCOVER => (Input::Discover, sender.state == SmState::Master),
            _ => return None,
        };
        (is_legal && transition(self.state, input).is_some()).then_some((input, sender))
    }
}

#[cfg(test)]
mod tests;
