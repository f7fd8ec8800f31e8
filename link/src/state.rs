//! The logical state of a port (IBA 7.2): which packets pass, and the events that change it.
//!
//! ```text
//!             link up                SetArmed               SetActive, or the first
//!   +------+ ---------> +------+ ---------------> +-------+ data packet  +--------+
//!   | Down |            | Init |                  | Armed | -----------> | Active |
//!   +------+ <--------- +------+                  +-------+              +--------+
//!      ^      link down,    |  link down, SetDown      |  link down, SetDown  |
//!      |      SetDown       +                          |                      |
//!      +-----------------------------------------------+----------------------+
//! ```
//!
//! | state | sends | takes in |
//! |---|---|---|
//! | Down | training | training |
//! | Init | flow control, VL15 | flow control, VL15 |
//! | Armed | flow control, VL15 | everything |
//! | Active | everything | everything |

use bincode::{Decode, Encode};
use thiserror::Error;

/// The logical state of a port. The discriminant is PortInfo's PortState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[repr(u8)]
pub enum PortState {
    /// No link.
    #[default]
    Down = 1,
    /// The link is up; only flow control and VL15 pass.
    Init = 2,
    /// Configured; data is taken in and not yet sent.
    Armed = 3,
    /// Everything passes.
    Active = 4,
}

/// The state of the physical link. The discriminant is PortInfo's PortPhysicalState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[repr(u8)]
pub enum PhysicalState {
    /// Looking for a peer, also without a cable.
    #[default]
    Polling = 2,
    /// Switched off by management, or from the start.
    Disabled = 3,
    /// A peer is heard; the ends agree on a link-up.
    Training = 4,
    /// Link packets pass.
    LinkUp = 5,
}

/// A change of link state that a subnet manager commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCommand {
    /// PortState := Down: the link starts anew.
    Down,
    /// PortState := Armed; the port is in Init.
    Arm,
    /// PortState := Active; the port is in Armed.
    Activate,
    /// PortPhysicalState := Polling: the link starts anew, also if it was disabled.
    Poll,
    /// PortPhysicalState := Disabled.
    Disable,
}

impl LinkCommand {
    /// Whether the command takes the link down.
    #[must_use]
    pub const fn is_for_down(self) -> bool {
        matches!(self, Self::Down | Self::Poll | Self::Disable)
    }
}

/// An event that may move a port from one logical state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortStateEvent {
    /// The physical link has come up.
    LinkUp,
    /// The physical link has gone down.
    LinkDown,
    /// Management sets PortState to Down.
    SetDown,
    /// Management sets PortState to Armed.
    SetArmed,
    /// Management sets PortState to Active.
    SetActive,
    /// A data packet has come in (ActiveEnable): the neighbour is active already.
    DataArrived,
}

/// Management asked for a change of state that IBA 14.2.5.6 does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a port in state {from:?} does not take {event:?}")]
pub struct InvalidTransition {
    /// The state that the port is in, and stays in.
    pub from: PortState,
    /// The event that does not apply to it.
    pub event: PortStateEvent,
}

impl PortState {
    /// The state with this code, 1..=4.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Down),
            2 => Some(Self::Init),
            3 => Some(Self::Armed),
            4 => Some(Self::Active),
            _ => None,
        }
    }

    /// PortInfo's code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The state after `event`; the same one where nothing changes.
    ///
    /// # Errors
    /// [`InvalidTransition`] where management asks for a step that does not exist.
    pub const fn after(self, event: PortStateEvent) -> Result<Self, InvalidTransition> {
        use PortState::{Active, Armed, Down, Init};
        use PortStateEvent::{DataArrived, LinkDown, LinkUp, SetActive, SetArmed, SetDown};
        match (self, event) {
            (Down, LinkUp) => Ok(Init),
            (Down, LinkDown | SetDown | DataArrived) => Ok(Down),
            (Init, SetArmed) => Ok(Armed),
            (Init, LinkUp | DataArrived) => Ok(Init),
            (Armed, SetActive | DataArrived) => Ok(Active),
            (Armed, LinkUp | SetArmed) => Ok(Armed),
            (Active, LinkUp | SetActive | DataArrived) => Ok(Active),
            (Init | Armed | Active, LinkDown | SetDown) => Ok(Down),
            (Down, SetArmed | SetActive) | (Init, SetActive) | (Active, SetArmed) => {
                Err(InvalidTransition { from: self, event })
            }
        }
    }

    /// Whether data packets (all VLs but VL15) are taken in.
    #[inline]
    #[must_use]
    pub const fn takes_data(self) -> bool {
        matches!(self, Self::Armed | Self::Active)
    }

    /// Whether data packets are sent.
    #[inline]
    #[must_use]
    pub const fn sends_data(self) -> bool {
        matches!(self, Self::Active)
    }

    /// Whether flow control and VL15 pass, both ways.
    #[inline]
    #[must_use]
    pub const fn passes_management(self) -> bool {
        !matches!(self, Self::Down)
    }
}

impl PhysicalState {
    /// PortInfo's code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::PortState::{Active, Armed, Down, Init};
    use super::PortStateEvent::{DataArrived, LinkDown, LinkUp, SetActive, SetArmed, SetDown};
    use super::*;

    #[test]
    fn every_state_answers_every_event_as_the_table_says() {
        let events = [LinkUp, LinkDown, SetDown, SetArmed, SetActive, DataArrived];
        let table = [
            (
                Down,
                [Some(Init), Some(Down), Some(Down), None, None, Some(Down)],
            ),
            (
                Init,
                [
                    Some(Init),
                    Some(Down),
                    Some(Down),
                    Some(Armed),
                    None,
                    Some(Init),
                ],
            ),
            (
                Armed,
                [
                    Some(Armed),
                    Some(Down),
                    Some(Down),
                    Some(Armed),
                    Some(Active),
                    Some(Active),
                ],
            ),
            (
                Active,
                [
                    Some(Active),
                    Some(Down),
                    Some(Down),
                    None,
                    Some(Active),
                    Some(Active),
                ],
            ),
        ];
        for (state, after) in table {
            for (event, expected) in events.into_iter().zip(after) {
                let refused = InvalidTransition { from: state, event };
                assert_eq!(
                    state.after(event),
                    expected.ok_or(refused),
                    "{state:?} on {event:?}"
                );
            }
        }
    }

    #[test]
    fn what_passes_grows_with_the_state() {
        let passes = |state: PortState| {
            (
                state.passes_management(),
                state.takes_data(),
                state.sends_data(),
            )
        };
        assert_eq!(passes(Down), (false, false, false));
        assert_eq!(passes(Init), (true, false, false));
        assert_eq!(passes(Armed), (true, true, false));
        assert_eq!(passes(Active), (true, true, true));
    }

    #[test]
    fn codes_are_those_of_port_info() {
        for state in [Down, Init, Armed, Active] {
            assert_eq!(PortState::from_code(state.code()), Some(state));
        }
        assert_eq!(
            PortState::from_code(0),
            None,
            "0 is no state but 'no change'"
        );
        assert_eq!(PhysicalState::LinkUp.code(), 5);
    }
}
