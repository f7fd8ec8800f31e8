//! Traps: what devices report unasked (IBA 13.4.9, 14.2.5.1).
//!
//! Every trap is answered with TrapRepress, which ends its repetition. A change of link state
//! (128) or of a node's own settings (144) starts a heavy sweep after a short delay, in which
//! further traps are gathered: the loss of one switch makes all its neighbours report.

use mad::local::MadMessage;
use wire::attr::{Notice, Trap144, Trap256, Trap257, Trap259, trap};
use wire::{Format as _, Mad, Method, Qpn};

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
