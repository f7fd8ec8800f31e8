//! Management datagrams: the header that all classes share, and a datagram's 256 bytes (IBA 13.4).
//!
//! ```text
//! +---------------+---------------+---------------+-+-------------+
//! |  BaseVersion  |   MgmtClass   | ClassVersion  |R|   Method    |
//! +---------------+---------------+---------------+-+-------------+
//! |            Status             |         ClassSpecific         |
//! +-------------------------------+-------------------------------+
//! |                       TransactionID (8)                       |
//! +-------------------------------+-------------------------------+
//! |          AttributeID          |               0               |
//! +-------------------------------+-------------------------------+
//! |                       AttributeModifier                       |
//! +---------------------------------------------------------------+
//! ```

mod codes;

use core::fmt;

use bincode::{Decode, Encode};

use crate::format::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::{Format, ParseError};
pub use codes::{AttributeId, MadStatus, Method, MgmtClass};

/// The header that all management datagrams share.
///
/// Parsing takes every bit pattern: what an agent does not support it answers with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MadHeader {
    /// Version of this header; [`MadHeader::BASE_VERSION`].
    pub base_version: u8,
    /// Management class.
    pub class: MgmtClass,
    /// Version of the class: 1, for subnet administration 2.
    pub class_version: u8,
    /// Method.
    pub method: Method,
    /// Status, and in directed-route SMPs the direction.
    pub status: MadStatus,
    /// Class specific; in directed-route SMPs hop pointer and hop count.
    pub class_specific: u16,
    /// Transaction id.
    pub tid: u64,
    /// Attribute.
    pub attr_id: AttributeId,
    /// Attribute modifier.
    pub attr_mod: u32,
}

impl MadHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 24;
    /// The version of this header's layout.
    pub const BASE_VERSION: u8 = 1;

    /// The header of a request: version 1 (class version 2 for subnet administration), the rest 0.
    #[must_use]
    pub const fn request(
        class: MgmtClass,
        method: Method,
        attr_id: AttributeId,
        attr_mod: u32,
        tid: u64,
    ) -> Self {
        Self {
            base_version: Self::BASE_VERSION,
            class,
            class_version: if class.0 == MgmtClass::SUBN_ADM.0 {
                2
            } else {
                1
            },
            method,
            status: MadStatus::OK,
            class_specific: 0,
            tid,
            attr_id,
            attr_mod,
        }
    }
}

impl Format for MadHeader {
    const NAME: &'static str = "MAD header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            base_version: raw[0],
            class: MgmtClass(raw[1]),
            class_version: raw[2],
            method: Method(raw[3]),
            status: MadStatus(u16_at(raw, 4)),
            class_specific: u16_at(raw, 6),
            tid: u64_at(raw, 8),
            attr_id: AttributeId(u16_at(raw, 16)),
            attr_mod: u32_at(raw, 20),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.base_version;
        raw[1] = self.class.0;
        raw[2] = self.class_version;
        raw[3] = self.method.0;
        put_u16(raw, 4, self.status.0);
        put_u16(raw, 6, self.class_specific);
        put_u64(raw, 8, self.tid);
        put_u16(raw, 16, self.attr_id.0);
        put_u32(raw, 20, self.attr_mod);
    }
}

/// One management datagram: its 256 bytes, with access to what all classes share. Accessors of one
/// class stand in that class's module ([`smp`](crate::smp), [`pma`](crate::pma),
/// [`sa`](crate::sa)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Mad(pub(crate) [u8; Self::LEN]);

impl Mad {
    /// The length in bytes of every datagram.
    pub const LEN: usize = 256;

    /// A datagram with this header, the rest zero.
    #[must_use]
    pub fn new(header: &MadHeader) -> Self {
        let mut mad = Self([0; Self::LEN]);
        header.emit(&mut mad.0);
        mad
    }

    /// A datagram from its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Copies a datagram from the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] below 256 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (mad, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated {
            what: "MAD",
            need: Self::LEN,
            have: bytes.len(),
        })?;
        Ok((Self(*mad), rest))
    }

    /// All bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// All bytes, to be changed.
    pub const fn as_bytes_mut(&mut self) -> &mut [u8; Self::LEN] {
        &mut self.0
    }

    /// The common header.
    #[must_use]
    pub fn header(&self) -> MadHeader {
        MadHeader {
            base_version: self.0[0],
            class: self.class(),
            class_version: self.0[2],
            method: self.method(),
            status: self.status(),
            class_specific: u16_at(&self.0, 6),
            tid: self.tid(),
            attr_id: self.attr_id(),
            attr_mod: self.attr_mod(),
        }
    }

    /// Replaces the common header.
    pub fn set_header(&mut self, header: &MadHeader) {
        header.emit(&mut self.0);
    }

    /// Management class.
    #[must_use]
    pub const fn class(&self) -> MgmtClass {
        MgmtClass(self.0[1])
    }

    /// Method.
    #[must_use]
    pub const fn method(&self) -> Method {
        Method(self.0[3])
    }

    /// Replaces the method.
    pub const fn set_method(&mut self, method: Method) {
        self.0[3] = method.0;
    }

    /// Status as it stands: in a directed-route SMP with the direction bit.
    #[must_use]
    pub fn status(&self) -> MadStatus {
        MadStatus(u16_at(&self.0, 4))
    }

    /// Replaces all 16 bits of the status.
    pub fn set_status(&mut self, status: MadStatus) {
        put_u16(&mut self.0, 4, status.0);
    }

    /// Turns a request into its response with that status.
    pub fn answer(&mut self, status: MadStatus) {
        self.set_method(self.method().response());
        self.set_status(status);
    }

    /// Transaction id.
    #[must_use]
    pub fn tid(&self) -> u64 {
        u64_at(&self.0, 8)
    }

    /// Replaces the transaction id.
    pub fn set_tid(&mut self, tid: u64) {
        put_u64(&mut self.0, 8, tid);
    }

    /// Attribute.
    #[must_use]
    pub fn attr_id(&self) -> AttributeId {
        AttributeId(u16_at(&self.0, 16))
    }

    /// Attribute modifier.
    #[must_use]
    pub fn attr_mod(&self) -> u32 {
        u32_at(&self.0, 20)
    }

    /// Replaces the attribute modifier.
    pub fn set_attr_mod(&mut self, attr_mod: u32) {
        put_u32(&mut self.0, 20, attr_mod);
    }
}

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.header(), f)
    }
}
