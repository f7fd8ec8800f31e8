//! Subnet administration: the header of its datagrams and its records (IBA 15.2).
//!
//! ```text
//! byte   0  common header (class version 2)
//!       24  RMPP header (12)
//!       36  SM_Key (8)
//!       44  AttributeOffset (2): distance of records in units of 8 bytes
//!       46  reserved (2)
//!       48  ComponentMask (8)
//!       56  data (200)
//! ```

mod header;
mod inform;
mod mc_member;
mod multi_path;
mod path;
mod port_tables;
mod records;
mod service;
mod tables;

pub use header::{Rmpp, RmppKind, SaHeader, rmpp_flag};
pub use inform::{InformInfo, InformInfoRecord};
pub use mc_member::{McMemberRecord, mc_member_component};
pub use multi_path::{MULTI_PATH_GIDS, MultiPathRecord, multi_path_component};
pub use path::{PathRecord, Selector, path_component};
pub use port_tables::{GuidInfoRecord, SlToVlTableRecord, VlArbTableRecord};
pub use records::{LinkRecord, NodeRecord, PortInfoRecord};
pub use service::{ServiceRecord, service_component};
pub use tables::{LftRecord, MftRecord, PKeyTableRecord, SmInfoRecord, SwitchInfoRecord};

use crate::mad::{AttributeId, Mad, MadHeader, Method, MgmtClass};
use crate::{Format, ParseError};

const DATA_AT: usize = 56;

/// The bytes of records that one datagram holds.
pub const DATA_LEN: usize = 200;

/// A record of subnet administration.
pub trait SaRecord: Format {
    /// The id by which datagrams ask for it.
    const ID: AttributeId;
    /// Distance of records in a table, in units of 8 bytes: AttributeOffset.
    const ATTRIBUTE_OFFSET: u16;
}

/// Subnet administration: the datagram behind a MAD.
impl Mad {
    /// A subnet administration request without RMPP.
    #[must_use]
    pub fn sa(method: Method, attr_id: AttributeId, attr_mod: u32, tid: u64) -> Self {
        Self::new(&MadHeader::request(
            MgmtClass::SUBN_ADM,
            method,
            attr_id,
            attr_mod,
            tid,
        ))
    }

    /// The header of subnet administration, behind the common one.
    ///
    /// # Errors
    /// What [`SaHeader`] refuses.
    pub fn sa_header(&self) -> Result<SaHeader, ParseError> {
        SaHeader::parse(&self.0[MadHeader::LEN..]).map(|(header, _)| header)
    }

    /// Replaces the header of subnet administration.
    pub fn set_sa_header(&mut self, header: &SaHeader) {
        header.emit(&mut self.0[MadHeader::LEN..]);
    }

    /// The bytes of the records.
    #[must_use]
    pub fn sa_data(&self) -> &[u8; DATA_LEN] {
        let Some(data) = self.0[DATA_AT..].first_chunk() else {
            unreachable!("the data ends with the datagram");
        };
        data
    }

    /// The bytes of the records, to be changed.
    pub fn sa_data_mut(&mut self) -> &mut [u8; DATA_LEN] {
        let Some(data) = self.0[DATA_AT..].first_chunk_mut() else {
            unreachable!("the data ends with the datagram");
        };
        data
    }

    /// The first record.
    ///
    /// # Errors
    /// What the record's [`parse`](Format::parse) says. Whether the attribute id fits is not
    /// looked at.
    pub fn sa_record<R: SaRecord>(&self) -> Result<R, ParseError> {
        R::parse(self.sa_data()).map(|(record, _)| record)
    }

    /// Puts one record into the datagram and zeroes what is left of the 200 bytes.
    pub fn set_sa_record<R: SaRecord>(&mut self, record: &R) {
        let data = self.sa_data_mut();
        data[R::LEN..].fill(0);
        record.emit(data);
    }
}
