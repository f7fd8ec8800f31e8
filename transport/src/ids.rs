//! Names of objects. Each contains a generation: the name of a destroyed object names no other one for its
//! next 254 successors.

use wire::Qpn;

use crate::slab::Place;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            pub(crate) fn new(place: Place) -> Self {
                Self(key(place))
            }

            pub(crate) fn place(self) -> Place {
                place_of(self.0)
            }
        }
    };
}

id! {
    /// A protection domain.
    PdId
}
id! {
    /// A completion queue.
    CqId
}
id! {
    /// A shared receive queue.
    SrqId
}
id! {
    /// An address handle.
    AhId
}

/// A key: the index, and the generation as the low byte, as keys of memory regions have it (IBA 10.6.3.3).
pub(crate) fn key(place: Place) -> u32 {
    (place.index << 8) | u32::from(place.generation)
}

#[inline]
pub(crate) fn place_of(key: u32) -> Place {
    let [a, b, c, generation] = key.to_be_bytes();
    Place {
        index: u32::from_be_bytes([0, a, b, c]),
        generation,
    }
}

/// The first number of a queue pair within its generation: those below are for services of the host.
pub(crate) const FIRST_QPN: u32 = 0x400;
/// How many queue pairs an engine can have.
pub(crate) const QUEUE_PAIRS_MAX: u32 = 0xf000;

pub(crate) fn qpn(place: Place) -> Qpn {
    Qpn::truncate((u32::from(place.generation) << 16) | (place.index + FIRST_QPN))
}

#[inline]
pub(crate) fn place_of_qpn(qpn: Qpn) -> Option<Place> {
    let [_, generation, high, low] = qpn.get().to_be_bytes();
    let index = u32::from_be_bytes([0, 0, high, low]).checked_sub(FIRST_QPN)?;
    Some(Place { index, generation })
}
