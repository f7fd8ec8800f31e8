//! The header of a cable's datagrams between machines, and what stands behind the payload.
//!
//! A tunnel is a cable over a network that loses, reorders, repeats and cuts, and in which others may forge
//! datagrams. Each direction is a stream of records back to back, cut into datagrams wherever the path's MTU is reached:
//!
//! ```text
//! +---------------+---------+-+-+-+-------------------------------+
//! |  Version = 3  |    0    |S|0|N|             KeyId             |
//! +---------------+---------+-+-+-+-------------------------------+
//! |                          Counter (8)                          |
//! +---------------------------------------------------------------+
//! |                         Position (8)                          |
//! +---------------------------------------------------------------+
//! |                       Acknowledged (8)                        |
//! +---------------+---------------+-------------------------------+
//! |     Round     |  HeardRound   |          FirstRecord          |
//! +---------------+---------------+-------------------------------+
//! |                    payload, then seal (16)                    |
//! +---------------------------------------------------------------+
//! ```
//!
//! `S` says that the payload is encrypted. The header is in the clear and covered by the seal. With [`LinkSecurity::Aes128Gcm`] the payload is encrypted, and
//! the seal is the tag; the nonce is four bytes of zero and `Counter`. With [`LinkSecurity::None`] the seal is a
//! [`PlainSeal`].

use core::fmt;

use bincode::{Decode, Encode};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::format::{put_u16, put_u64, u16_at, u64_at};
use crate::udplink::LinkSecret;
use crate::{Format, ParseError};

/// Bytes behind the payload of every datagram: an authentication tag, or a [`PlainSeal`].
pub const SEAL_BYTES: usize = 16;

/// How the datagrams of tunnels are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum LinkSecurity {
    /// Encrypted and authenticated: for any network.
    #[default]
    #[strum(serialize = "aes-128-gcm")]
    Aes128Gcm,
    /// In the clear, with a secret and an epoch: for a network whose every listener is trusted.
    None,
}
crate::choice!(LinkSecurity, "link security");

/// What the keys of one cable are made of. It is never printed.
#[derive(Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CableSecret(pub [u8; 32]);

impl fmt::Debug for CableSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CableSecret(..)")
    }
}

/// The header of a datagram of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelHeader {
    /// How the datagram is protected.
    pub security: LinkSecurity,
    /// `N`: the sender has seen a gap. It wants everything from `acknowledged` on again.
    pub nak: bool,
    /// Which key: 16 bits that come with it.
    pub key_id: u16,
    /// Number of the datagram under this key, never used twice.
    pub counter: u64,
    /// Where the payload stands in the stream of this direction, bytes.
    pub position: u64,
    /// The position up to which the sender has the stream of the other direction.
    pub acknowledged: u64,
    /// How often the sender has gone back in its stream, modulo 256.
    pub round: u8,
    /// The round of the last datagram that the sender has taken or missed something before.
    pub heard_round: u8,
    /// Where in the payload the first record begins; [`Self::NO_RECORD`] if none does.
    pub first_record: u16,
}

impl TunnelHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 32;
    /// The version of this layout.
    pub const VERSION: u8 = 3;
    /// No record begins in the payload.
    pub const NO_RECORD: u16 = u16::MAX;
    const NAK: u8 = 1;
    const SEALED: u8 = 1 << 2;
}

/// Besides truncation, parsing refuses another version, and a kind of protection or a flag that has no meaning.
impl Format for TunnelHeader {
    const NAME: &'static str = "tunnel header";
    const LEN: usize = Self::LEN;

    #[inline]
    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        ParseError::check_version(Self::NAME, raw[0], Self::VERSION)?;
        if raw[1] & !(Self::NAK | Self::SEALED) != 0 {
            return Err(ParseError::BadValue {
                what: "protection of a tunnel",
                value: u64::from(raw[1]),
            });
        }
        let is_sealed = raw[1] & Self::SEALED != 0;
        Ok(Self {
            security: match is_sealed {
                true => LinkSecurity::Aes128Gcm,
                false => LinkSecurity::None,
            },
            nak: raw[1] & Self::NAK != 0,
            key_id: u16_at(raw, 2),
            counter: u64_at(raw, 4),
            position: u64_at(raw, 12),
            acknowledged: u64_at(raw, 20),
            round: raw[28],
            heard_round: raw[29],
            first_record: u16_at(raw, 30),
        })
    }

    #[inline]
    fn write(&self, raw: &mut [u8]) {
        raw[0] = Self::VERSION;
        let security = match self.security {
            LinkSecurity::None => 0,
            LinkSecurity::Aes128Gcm => Self::SEALED,
        };
        raw[1] = security | if self.nak { Self::NAK } else { 0 };
        put_u16(raw, 2, self.key_id);
        put_u64(raw, 4, self.counter);
        put_u64(raw, 12, self.position);
        put_u64(raw, 20, self.acknowledged);
        raw[28] = self.round;
        raw[29] = self.heard_round;
        put_u16(raw, 30, self.first_record);
    }
}

/// What stands behind the payload where nothing is encrypted: what a datagram over UDP carries in its header
/// ([`crate::udplink`]).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                    Secret of the receiver (8)                 |
/// +---------------------------------------------------------------+
/// |                     Epoch of the sender (8)                   |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainSeal {
    /// The receiver's.
    pub secret: LinkSecret,
    /// The sender's.
    pub epoch: u64,
}

impl PlainSeal {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = SEAL_BYTES;
}

/// Parsing refuses truncation only.
impl Format for PlainSeal {
    const NAME: &'static str = "seal of a tunnel without encryption";
    const LEN: usize = Self::LEN;

    #[inline]
    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            secret: LinkSecret(u64_at(raw, 0)),
            epoch: u64_at(raw, 8),
        })
    }

    #[inline]
    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.secret.0);
        put_u64(raw, 8, self.epoch);
    }
}
