//! Traps: what devices report unasked (IBA 13.4.9, 14.2.5.1).
//!
//! Every trap is answered with TrapRepress, which ends its repetition. A change of link state
//! (128) or of a node's own settings (144) starts a heavy sweep after a short delay, in which
//! further traps are gathered: the loss of one switch makes all its neighbours report.
//!
//! A trap may come when a sweep has seen its change already: the first one was lost with the link that it tells
//! of, say, and is repeated after a second. Then the switch is asked for its change flag, and only if that is set
//! a sweep follows ([`LinkTraps`]).

use std::collections::{BTreeMap, BTreeSet};

use mad::local::MadMessage;
use wire::attr::{Notice, Trap144, Trap256, Trap257, Trap259, trap};
use wire::{Format as _, Guid, Mad, Method, Qpn};

use crate::smp::message;

/// The content of a trap, as far as the manager acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing of the generic kind.
    NotGeneric,
    /// The state of a link of the switch has changed.
    LinkState,
    /// The node has another description.
    NodeDescription,
    /// The node has other capabilities, or another system image GUID.
    Capability,
    /// A request came without the right M_Key (trap 256).
    BadMKey(Trap256),
    /// A packet with a P_Key that its receiver does not take.
    BadPKey(Trap257),
    /// A packet with a Q_Key that its receiver does not take.
    BadQKey(Trap257),
    /// A packet with a P_Key that a port of the switch does not let through.
    Stopped(Trap259),
    /// Another generic trap, by number.
    Other(u16),
}

impl Cause {
    /// What the notice of a trap says.
    pub(crate) fn of(notice: &Notice) -> Self {
        if !notice.is_generic {
            return Self::NotGeneric;
        }
        match notice.trap_number {
            trap::LINK_STATE_CHANGE => Self::LinkState,
            trap::CAPABILITY_CHANGE | trap::SYSTEM_IMAGE_GUID_CHANGE => {
                let is_renamed = Trap144::parse(&notice.details).is_ok_and(|(change, _)| {
                    change.change_flags & Trap144::NODE_DESCRIPTION_CHANGE != 0
                });
                match is_renamed {
                    true => Self::NodeDescription,
                    false => Self::Capability,
                }
            }
            trap::BAD_M_KEY => match Trap256::parse(&notice.details) {
                Ok((details, _)) => Self::BadMKey(details),
                Err(_) => Self::Other(trap::BAD_M_KEY),
            },
            trap::BAD_P_KEY => match Trap257::parse(&notice.details) {
                Ok((details, _)) => Self::BadPKey(details),
                Err(_) => Self::Other(trap::BAD_P_KEY),
            },
            trap::BAD_Q_KEY => match Trap257::parse(&notice.details) {
                Ok((details, _)) => Self::BadQKey(details),
                Err(_) => Self::Other(trap::BAD_Q_KEY),
            },
            trap::BAD_P_KEY_SWITCH => match Trap259::parse(&notice.details) {
                Ok((details, _)) => Self::Stopped(details),
                Err(_) => Self::Other(trap::BAD_P_KEY_SWITCH),
            },
            number => Self::Other(number),
        }
    }
}

/// TrapRepress for a trap, with that M_Key.
pub(crate) fn repress(from: &MadMessage, request: &Mad, m_key: u64) -> MadMessage {
    let mut repress = *request;
    repress.set_m_key(m_key);
    repress.set_method(Method::TRAP_REPRESS);
    message(from.lid, Qpn::SMI, &repress)
}

/// Which changes of links switches have told of, and which a discovery has seen by itself.
#[derive(Debug, Default)]
pub(crate) struct LinkTraps {
    /// Switches that have told of a change since the last discovery has ended.
    told: BTreeSet<Guid>,
    /// Switches whose change the last discovery has seen before they told of it.
    owing: BTreeSet<Guid>,
    /// The transaction id of each switch's last trap.
    last: BTreeMap<Guid, u64>,
}

impl LinkTraps {
    /// A switch tells of a change. `is_seen`: a discovery under way has seen one by itself. Whether it may be
    /// one that a discovery has seen: the first trap since, or one that is repeated, because what represses it
    /// was lost.
    pub(crate) fn is_late(&mut self, switch: Guid, tid: u64, is_seen: bool) -> bool {
        let is_first = self.told.insert(switch);
        let is_repeated = self.last.insert(switch, tid) == Some(tid);
        self.owing.remove(&switch) || is_repeated || (is_seen && is_first)
    }

    /// A discovery has ended, in which these switches had a change; it has found those that `is_found`.
    pub(crate) fn discovered(&mut self, changed: BTreeSet<Guid>, is_found: impl Fn(Guid) -> bool) {
        self.last.retain(|&switch, _| is_found(switch));
        self.owing = changed;
        let told = core::mem::take(&mut self.told);
        self.owing.retain(|switch| !told.contains(switch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Guid = Guid(1);
    const OTHER: Guid = Guid(2);

    #[test]
    fn the_first_trap_after_a_change_that_was_seen_without_it_is_late_and_no_other() {
        let mut traps = LinkTraps::default();
        assert!(!traps.is_late(ONE, 1, false), "nothing was discovered yet");
        traps.discovered([ONE, OTHER].into(), |_| true);
        assert!(!traps.is_late(ONE, 2, false), "it had told before");
        assert!(traps.is_late(OTHER, 1, false));
        assert!(!traps.is_late(OTHER, 2, false), "this is a further change");
        traps.discovered([ONE].into(), |_| true);
        assert!(!traps.is_late(ONE, 3, false), "it had told before");
        traps.discovered(BTreeSet::new(), |_| true);
        assert!(!traps.is_late(ONE, 4, false), "no change was seen");
    }

    #[test]
    fn a_trap_of_a_change_that_a_discovery_under_way_has_seen_is_late_once() {
        let mut traps = LinkTraps::default();
        assert!(traps.is_late(ONE, 1, true));
        assert!(!traps.is_late(ONE, 2, true));
    }

    #[test]
    fn a_repeated_trap_is_late_unless_its_switch_was_away() {
        let mut traps = LinkTraps::default();
        assert!(!traps.is_late(ONE, 1, false));
        traps.discovered([ONE].into(), |_| true);
        assert!(traps.is_late(ONE, 1, false));
        traps.discovered(BTreeSet::new(), |_| false);
        assert!(!traps.is_late(ONE, 1, false));
    }
}
