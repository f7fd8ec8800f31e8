//! Interposers change, drop or duplicate frames between the ends of cables.
//!
//! Faults of real cables are [`crate::FaultKind`]s. Interposers imitate faults of devices, so that tests can
//! show that checkers find them: a credit that is never returned, a table entry that was not written as
//! requested, a packet that is sent twice.

use core::fmt;

use link::Time;
use topologies::Endpoint;

/// How often a frame is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Never: it is lost.
    Never,
    /// Once, as it is now.
    Once,
    /// Twice.
    Twice,
}

/// Sees every frame that is put on a cable of a [`crate::Twin`], before any fault of that cable.
pub trait Interposer: fmt::Debug + Send {
    /// A frame leaves a port: link control, or one packet behind its delimiter. Its bytes may be
    /// changed in place.
    fn pass(&mut self, now: Time, from: Endpoint, frame: &mut [u8]) -> Passage;
}
