//! Communication management: how two queue pairs become a connection, and how a queue pair of datagrams is found
//! (IBA 12.6, 12.11; RDMA IP CM service, annex A11).
//!
//! Datagrams of class 0x07, version 2, on QP1: the common header, then 232 bytes of the message.
//!
//! ```text
//!  active                     passive          asks for a queue pair of datagrams
//!    | ------ Req -----------> |                 | ------ SidrReq -----> |
//!    | <----- Mra, Rej, Rep -- |                 | <----- SidrRep ------ |
//!    | ------ Rtu, Rej ------> |
//!    |        ...              |               loads an alternate path: Lap, answered by Apr
//!    | ------ Dreq ----------> |
//!    | <----- Drep ----------- |
//! ```

mod connection;
mod datagram;
mod ip;
mod release;

pub use connection::{CmPath, Mra, Rej, RejReason, Rep, Req, Rtu, Subject};
pub use datagram::{SidrRep, SidrReq, SidrStatus};
pub use ip::{IpCmHeader, PORT_SPACE_TCP, PORT_SPACE_UDP, ip_service, ip_service_parts};
pub use release::{Apr, Drep, Dreq, Lap};

use crate::mad::{AttributeId, Mad, MadHeader, Method, MgmtClass};
use crate::{Format, ParseError};

/// The version of the class.
pub const CLASS_VERSION: u8 = 2;
/// The bytes of a message behind the common header.
pub const MESSAGE_LEN: usize = 232;
const DATA_AT: usize = MadHeader::LEN;

/// A message of communication management. Its length is [`MESSAGE_LEN`].
pub trait CmMessage: Format {
    /// By which datagrams name it.
    const ID: AttributeId;
}

/// Which message names an attribute of the class (IBA table 103).
pub mod id {
    use crate::mad::AttributeId;

    /// [`super::Req`].
    pub const REQ: AttributeId = AttributeId(0x0010);
    /// [`super::Mra`].
    pub const MRA: AttributeId = AttributeId(0x0011);
    /// [`super::Rej`].
    pub const REJ: AttributeId = AttributeId(0x0012);
    /// [`super::Rep`].
    pub const REP: AttributeId = AttributeId(0x0013);
    /// [`super::Rtu`].
    pub const RTU: AttributeId = AttributeId(0x0014);
    /// [`super::Dreq`].
    pub const DREQ: AttributeId = AttributeId(0x0015);
    /// [`super::Drep`].
    pub const DREP: AttributeId = AttributeId(0x0016);
    /// [`super::SidrReq`].
    pub const SIDR_REQ: AttributeId = AttributeId(0x0017);
    /// [`super::SidrRep`].
    pub const SIDR_REP: AttributeId = AttributeId(0x0018);
    /// [`super::Lap`].
    pub const LAP: AttributeId = AttributeId(0x0019);
    /// [`super::Apr`].
    pub const APR: AttributeId = AttributeId(0x001a);
}

/// The datagram behind a MAD.
impl Mad {
    /// A datagram with this message.
    #[must_use]
    pub fn cm<M: CmMessage>(tid: u64, message: &M) -> Self {
        let header = MadHeader {
            class_version: CLASS_VERSION,
            ..MadHeader::request(MgmtClass::COMM, Method::SEND, M::ID, 0, tid)
        };
        let mut mad = Self::new(&header);
        message.emit(&mut mad.0[DATA_AT..]);
        mad
    }

    /// Whether class, version and method say that this is a message of communication management.
    #[must_use]
    pub fn is_cm(&self) -> bool {
        let header = self.header();
        header.base_version == MadHeader::BASE_VERSION
            && header.class == MgmtClass::COMM
            && header.class_version == CLASS_VERSION
            && header.method == Method::SEND
    }

    /// The message. Whether class and attribute id fit is not looked at.
    ///
    /// # Errors
    /// What the message's [`parse`](Format::parse) says.
    pub fn cm_message<M: CmMessage>(&self) -> Result<M, ParseError> {
        M::parse(&self.0[DATA_AT..]).map(|(message, _)| message)
    }
}
