//! What may stand between the ends of all cables and tamper with what passes.
//!
//! Faults of cables that a real fabric has are [`crate::FaultKind`]s. This is for faults that no
//! device of ours should have, so that tests can show that they are found: a credit that is never
//! returned, a table that is not what was written, a packet that comes twice.

use core::fmt;

use link::Time;
use topologies::Endpoint;

/// How often a frame goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It does not.
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
