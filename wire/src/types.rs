//! The field's small numbers as types, so that a LID is never taken for a port.

use core::fmt;

use bincode::de::Decoder;
use bincode::error::DecodeError;
use bincode::{Decode, Encode};
use thiserror::Error;

/// A number outside the range of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} {value:#x} is out of range (at most {max:#x})")]
pub struct OutOfRange {
    /// The type's name, as the specification writes it.
    pub what: &'static str,
    /// The value that was offered.
    pub value: u64,
    /// The largest value that the type holds.
    pub max: u64,
}

/// Methods of numbers of both kinds.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($repr:ty), max $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
        pub struct $name($repr);

        impl $name {
            /// The largest value.
            pub const MAX: Self = Self($max);

            /// The plain number.
            #[must_use]
            pub const fn get(self) -> $repr {
                self.0
            }

            /// The plain number as an index.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<$name> for $repr {
            fn from(value: $name) -> $repr {
                value.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

/// A number that uses every value of its representation.
macro_rules! whole_number {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        number! { $(#[$doc])* $name($repr), max <$repr>::MAX }

        impl $name {
            /// Wraps `value`.
            #[must_use]
            pub const fn new(value: $repr) -> Self {
                Self(value)
            }
        }

        impl From<$repr> for $name {
            fn from(value: $repr) -> Self {
                Self(value)
            }
        }

        impl<C> Decode<C> for $name {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                Ok(Self(<$repr as Decode<C>>::decode(decoder)?))
            }
        }
        bincode::impl_borrow_decode!($name);
    };
}

/// A number of fewer bits than its representation.
macro_rules! small_number {
    ($(#[$doc:meta])* $name:ident($repr:ty), max $max:expr) => {
        number! { $(#[$doc])* $name($repr), max $max }

        impl $name {
            /// Wraps `value`.
            ///
            /// # Errors
            /// [`OutOfRange`] if `value` is above [`Self::MAX`].
            pub const fn new(value: $repr) -> Result<Self, OutOfRange> {
                if value > $max {
                    return Err(OutOfRange {
                        what: stringify!($name),
                        value: value as u64,
                        max: $max as u64,
                    });
                }
                Ok(Self(value))
            }

            /// Wraps a number that is known to fit, most often a literal.
            ///
            /// # Panics
            /// If `value` is above [`Self::MAX`]; where the result is a constant, that is an
            /// error of compilation. What comes from outside goes through [`Self::new`].
            #[must_use]
            pub const fn constant(value: $repr) -> Self {
                assert!(value <= $max, concat!(stringify!($name), " out of range"));
                Self(value)
            }

            /// Wraps the low bits of `value` and discards the rest: for a field cut from a header
            /// and for a counter that wraps.
            #[must_use]
            pub const fn truncate(value: $repr) -> Self {
                Self(value & $max)
            }
        }

        impl TryFrom<$repr> for $name {
            type Error = OutOfRange;
            fn try_from(value: $repr) -> Result<Self, OutOfRange> {
                Self::new(value)
            }
        }

        impl<C> Decode<C> for $name {
            /// A number out of range makes the message malformed.
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                let value = <$repr as Decode<C>>::decode(decoder)?;
                Self::new(value).map_err(|error| DecodeError::OtherString(error.to_string()))
            }
        }
        bincode::impl_borrow_decode!($name);
    };
}

whole_number! {
    /// A local identifier (IBA 4.1.3): 0 reserved, 0x0001..=0xbfff unicast,
    /// 0xc000..=0xfffe multicast, 0xffff permissive.
    Lid(u16)
}
whole_number! {
    /// A port of a node: 0 is a switch's management port, 1..=254 are external ports. As an entry
    /// of a forwarding table 255 means "no port: drop".
    PortNum(u8)
}
small_number! {
    /// A virtual lane: 0..=14 carry data, 15 carries subnet management packets.
    Vl(u8), max 0x0f
}
small_number! {
    /// A service level, 0..=15.
    Sl(u8), max 0x0f
}
small_number! {
    /// A queue pair number, 24 bits.
    Qpn(u32), max 0x00ff_ffff
}
small_number! {
    /// A packet sequence number, 24 bits.
    Psn(u32), max 0x00ff_ffff
}
small_number! {
    /// A LID mask control, 0..=7: a port answers to `2^lmc` consecutive LIDs.
    Lmc(u8), max 7
}

impl Lid {
    /// "No LID yet".
    pub const ZERO: Self = Self(0);
    /// The permissive LID: every receiver accepts it (directed-route SMPs).
    pub const PERMISSIVE: Self = Self(0xffff);
    /// The first multicast LID.
    pub const MULTICAST_FIRST: Self = Self(0xc000);
    /// The last unicast LID.
    pub const UNICAST_LAST: Self = Self(0xbfff);

    /// Whether this names one port: 0x0001..=0xbfff.
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        self.0 >= 1 && self.0 <= 0xbfff
    }

    /// Whether this names a multicast group: 0xc000..=0xfffe.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0 >= 0xc000 && self.0 != 0xffff
    }

    /// Whether this is one of the `2^lmc` LIDs of a port whose base LID is `base`.
    #[must_use]
    pub const fn belongs_to(self, base: Self, lmc: Lmc) -> bool {
        self.is_unicast() && base.0 != 0 && (self.0 >> lmc.0) == (base.0 >> lmc.0)
    }
}

impl PortNum {
    /// A switch's management port.
    pub const MANAGEMENT: Self = Self(0);
    /// The entry of a forwarding table that drops the packet.
    pub const NONE: Self = Self(255);
}

impl Vl {
    /// The virtual lane of subnet management packets.
    pub const MANAGEMENT: Self = Self(15);
    /// How many virtual lanes carry data at most: 0..=14.
    pub const DATA_COUNT: u8 = 15;

    /// The data VLs of a port that has `count` of them, from 0; at most [`Self::DATA_COUNT`].
    pub fn data(count: u8) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..count.min(Self::DATA_COUNT)).map(Self)
    }

    /// The lowest VL of a set that has a bit for each; `None` of an empty one.
    #[must_use]
    pub const fn lowest(set: u16) -> Option<Self> {
        match set.trailing_zeros().to_le_bytes() {
            [vl @ 0..=15, ..] => Some(Self(vl)),
            _ => None,
        }
    }
}

impl Sl {
    /// All service levels, from 0.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..=Self::MAX.0).map(Self)
    }
}

impl Qpn {
    /// QP0: subnet management interface.
    pub const SMI: Self = Self(0);
    /// QP1: general services interface.
    pub const GSI: Self = Self(1);
    /// The destination QP of a multicast packet.
    pub const MULTICAST: Self = Self(0x00ff_ffff);
}

impl Psn {
    /// The number `count` packets later, modulo 2^24.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::truncate(self.0.wrapping_add(count))
    }

    /// The number `count` packets earlier, modulo 2^24.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self::truncate(self.0.wrapping_sub(count))
    }

    /// How many packets this is behind `earlier`, modulo 2^24: below 2^23 it is the same or later, from
    /// there on earlier (IBA 9.7.1: half of the numbers are valid, half duplicates).
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MAX.0
    }

    /// Whether this is earlier than `other`.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) >= 1 << 23
    }
}

impl Lmc {
    /// How many LIDs the port answers to: 1, 2, 4 .. 128.
    #[must_use]
    pub const fn lids(self) -> u16 {
        1 << self.0
    }
}

/// A 64-bit globally unique identifier (EUI-64) of a node, port or system image.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Guid(pub u64);

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({:#018x})", self.0)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_above_its_range_is_refused_with_its_name() {
        let refused = Vl::new(16).unwrap_err();
        assert_eq!(
            refused,
            OutOfRange {
                what: "Vl",
                value: 16,
                max: 15
            }
        );
        assert_eq!(Vl::truncate(0x1f), Vl::MANAGEMENT);
    }

    #[test]
    fn data_vls_and_service_levels_are_counted_from_zero() {
        const FIVE: Vl = Vl::constant(5);
        assert_eq!(Vl::data(6).next_back(), Some(FIVE));
        assert_eq!(Vl::data(200).map(Vl::get).max(), Some(14));
        assert_eq!(Sl::all().len(), 16);
        assert_eq!(Vl::lowest(0x8020), Some(FIVE));
        assert_eq!(
            (Vl::lowest(0x8000), Vl::lowest(0)),
            (Some(Vl::MANAGEMENT), None)
        );
        assert!(std::panic::catch_unwind(|| Vl::constant(16)).is_err());
    }

    #[test]
    fn sequence_numbers_wrap_and_half_of_them_are_later() {
        let last = Psn::MAX;
        assert_eq!(last.plus(1), Psn::default());
        assert_eq!(Psn::default().minus(1), last);
        assert_eq!(Psn::constant(3).since(last), 4);
        assert!(last.is_before(Psn::constant(0x7f_fffe)));
        assert!(!last.is_before(last));
        assert!(!Psn::constant(0x7f_fffe).is_before(last));
    }

    #[test]
    fn a_port_answers_to_the_lids_that_share_its_high_bits() {
        let (base, lmc) = (Lid::new(116), Lmc::constant(2));
        let own: Vec<u16> = (100..130)
            .filter(|&lid| Lid::new(lid).belongs_to(base, lmc))
            .collect();
        assert_eq!(own, [116, 117, 118, 119]);
    }
}
