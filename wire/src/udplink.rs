//! The header in front of the records of a link over UDP, and what the two ends of one must know of
//! each other.
//!
//! InfiniBand links neither reorder nor duplicate, and a restarted peer must not use old credits; UDP
//! promises none of that. And any user of a machine can send a datagram to any port of it, or bind the
//! port of a process that has ended. So each end of a link has, for as long as its socket lives:
//!
//! - a *secret*, a random number that every sender to it must know. It goes over control sockets
//!   only, which other users cannot reach. The two directions have a secret each: a process that binds
//!   the port of an ended one, and so receives what its peer sends, learns the secret of the ended one, and not
//!   its peer's;
//! - an *epoch*, a random number that names its life. A receiver knows the epoch of the one peer
//!   that it is connected to and takes no other, so there is no order of epochs that could wrap.
//!
//! ```text
//! +---------------+-----------------------------------------------+
//! |  Version = 2  |                       0                       |
//! +---------------+-----------------------------------------------+
//! |                           Sequence                            |
//! +---------------------------------------------------------------+
//! |                    Secret of the receiver (8)                 |
//! +---------------------------------------------------------------+
//! |                     Epoch of the sender (8)                   |
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::net::SocketAddr;

use bincode::{Decode, Encode};

use crate::format::{put_u32, put_u64, u32_at, u64_at};
use crate::{Format, ParseError};

/// A number that counts datagrams and wraps around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub u32);

impl Sequence {
    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How many steps forward lead from `earlier` here: 1..=0x7fff_ffff is newer, 0 the same and
    /// anything above older.
    #[must_use]
    pub const fn steps_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// What a datagram must carry to be taken. It is never printed: it is all that a sender needs.
///
/// Two secrets are compared as whole numbers, which takes the same time whatever they have in
/// common.
#[derive(Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LinkSecret(pub u64);

impl fmt::Debug for LinkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkSecret(..)")
    }
}

/// One end of a link over UDP, as the other end must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct UdpEndpoint {
    /// Where it receives, and sends from.
    pub address: SocketAddr,
    /// What datagrams to it must carry.
    pub secret: LinkSecret,
    /// What its own datagrams carry: the number of its life.
    pub epoch: u64,
}

/// The header in front of the records of a link over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpLinkHeader {
    /// Number of the datagram since the sender was connected to this receiver, from 0.
    pub sequence: Sequence,
    /// The receiver's.
    pub secret: LinkSecret,
    /// The sender's.
    pub epoch: u64,
}

impl UdpLinkHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 24;
    /// The version of this layout.
    pub const VERSION: u8 = 2;
}

/// Besides truncation, parsing refuses another version. The reserved bytes are not looked at.
impl Format for UdpLinkHeader {
    const NAME: &'static str = "UDP link header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        ParseError::check_version(Self::NAME, raw[0], Self::VERSION)?;
        Ok(Self {
            sequence: Sequence(u32_at(raw, 4)),
            secret: LinkSecret(u64_at(raw, 8)),
            epoch: u64_at(raw, 16),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = Self::VERSION;
        put_u32(raw, 4, self.sequence.0);
        put_u64(raw, 8, self.secret.0);
        put_u64(raw, 16, self.epoch);
    }
}
