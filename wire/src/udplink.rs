//! The header in front of the records of a link over UDP.
//!
//! InfiniBand links neither reorder nor duplicate, and a restarted peer must not use old
//! credits; UDP promises none of that.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |    Version    |       0       |            LinkId             |
//! +---------------+---------------+-------------------------------+
//! |             Epoch             |           Sequence            |
//! +-------------------------------+-------------------------------+
//! ```

use crate::format::{put_u16, u16_at};
use crate::{Format, ParseError};

/// A number that counts datagrams and wraps around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub u16);

impl Sequence {
    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How many steps forward lead from `earlier` here: 1..=0x7fff is newer, 0 the same and
    /// anything above older.
    #[must_use]
    pub const fn steps_from(self, earlier: Self) -> u16 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this is later than `other`, across a wrap: at most 0x7fff steps ahead of it.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        let steps = self.steps_from(other);
        steps != 0 && steps < 0x8000
    }
}

/// The header in front of the records of a link over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpLinkHeader {
    /// Which link, so that a datagram for another one is noticed.
    pub link_id: u16,
    /// Chosen anew by the sender each time it opens the link.
    pub epoch: u16,
    /// Number of the datagram within the epoch, from 0.
    pub sequence: Sequence,
}

impl UdpLinkHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 8;
    /// The version of this layout.
    pub const VERSION: u8 = 1;
}

/// Besides truncation, parsing refuses another version. The reserved byte is not looked at.
impl Format for UdpLinkHeader {
    const NAME: &'static str = "UDP link header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        if raw[0] != Self::VERSION {
            return Err(ParseError::BadVersion {
                what: Self::NAME,
                value: raw[0],
                expected: Self::VERSION,
            });
        }
        Ok(Self {
            link_id: u16_at(raw, 2),
            epoch: u16_at(raw, 4),
            sequence: Sequence(u16_at(raw, 6)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = Self::VERSION;
        put_u16(raw, 2, self.link_id);
        put_u16(raw, 4, self.epoch);
        put_u16(raw, 6, self.sequence.0);
    }
}
