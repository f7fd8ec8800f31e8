//! ServiceRecord: a service that a port offers (IBA 15.2.5.14).
//!
//! ```text
//! byte   0  ServiceID (8)
//!        8  ServiceGID (16)
//!       24  ServiceP_Key (2)
//!       28  ServiceLease (4), seconds; all ones: for ever
//!       32  ServiceKey (16)
//!       48  ServiceName (64)
//!      112  ServiceData8 (16), 16 (8 of 2), 32 (4 of 4), 64 (2 of 8)
//! ```

use core::ops::Range;

use crate::format::{array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::mad::AttributeId;
use crate::sa::SaRecord;
use crate::{Format, Gid, ParseError};

/// Bits of a ServiceRecord query's ComponentMask.
pub mod service_component {
    /// ServiceID.
    pub const ID: u64 = 1 << 0;
    /// ServiceGID.
    pub const GID: u64 = 1 << 1;
    /// ServiceP_Key.
    pub const PKEY: u64 = 1 << 2;
    /// ServiceLease.
    pub const LEASE: u64 = 1 << 4;
    /// ServiceKey.
    pub const KEY: u64 = 1 << 5;
    /// ServiceName.
    pub const NAME: u64 = 1 << 6;
    /// Every component, the reserved one too.
    pub const ALL: u64 = (1 << 37) - 1;
}

/// A service that a port offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// ServiceID.
    pub id: u64,
    /// ServiceGID: the port.
    pub gid: Gid,
    /// ServiceP_Key.
    pub pkey: u16,
    /// ServiceLease: seconds that are left; [`ServiceRecord::FOR_EVER`].
    pub lease_s: u32,
    /// ServiceKey: a request with it may change the record.
    pub key: [u8; 16],
    /// ServiceName, UTF-8 filled up with zeros.
    pub name: [u8; 64],
    /// ServiceData8, 16, 32 and 64, as they stand.
    pub data: [u8; 64],
}

impl ServiceRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 176;
    /// The lease that does not end.
    pub const FOR_EVER: u32 = u32::MAX;
    /// The ServiceKey of a record that has none.
    pub const NO_KEY: [u8; 16] = [0; 16];
    /// The component of the first field of ServiceData.
    const DATA_FIRST: u32 = 7;

    /// The fields of ServiceData as bits of a ComponentMask, with where they stand in it.
    pub fn data_fields() -> impl Iterator<Item = (u64, Range<usize>)> {
        let widths = [(16, 1), (8, 2), (4, 4), (2, 8)];
        let lens = widths
            .into_iter()
            .flat_map(|(count, len)| core::iter::repeat_n(len, count));
        let fields = lens.scan(0, |at, len| {
            let field = *at..*at + len;
            *at += len;
            Some(field)
        });
        (Self::DATA_FIRST..).map(|bit| 1u64 << bit).zip(fields)
    }
}

impl Default for ServiceRecord {
    fn default() -> Self {
        Self {
            id: 0,
            gid: Gid::default(),
            pkey: 0,
            lease_s: 0,
            key: [0; 16],
            name: [0; 64],
            data: [0; 64],
        }
    }
}

impl Format for ServiceRecord {
    const NAME: &'static str = "ServiceRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            id: u64_at(raw, 0),
            gid: Gid(array(raw, 8)),
            pkey: u16_at(raw, 24),
            lease_s: u32_at(raw, 28),
            key: array(raw, 32),
            name: array(raw, 48),
            data: array(raw, 112),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.id);
        put(raw, 8, self.gid.0);
        put_u16(raw, 24, self.pkey);
        put_u32(raw, 28, self.lease_s);
        put(raw, 32, self.key);
        put(raw, 48, self.name);
        put(raw, 112, self.data);
    }
}

impl SaRecord for ServiceRecord {
    const ID: AttributeId = AttributeId::SERVICE_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 22;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_inverts_emit() {
        let record = ServiceRecord {
            id: 0x0102_0304_0506_0708,
            gid: Gid([9; 16]),
            pkey: 0x8001,
            lease_s: 0x0a0b_0c0d,
            key: [0x11; 16],
            name: [0x41; 64],
            data: core::array::from_fn(|at| [1, 2, 3][at % 3]),
        };
        let mut raw = [0xa5; ServiceRecord::LEN];
        record.emit(&mut raw);
        assert_eq!(ServiceRecord::parse(&raw), Ok((record, &[][..])));
        assert_eq!((raw[24], raw[26], raw[28], raw[112]), (0x80, 0, 0x0a, 1));
        for short in 0..raw.len() {
            assert!(ServiceRecord::parse(&raw[..short]).is_err());
        }
    }

    #[test]
    fn the_fields_of_the_data_fill_it_and_the_mask() {
        let fields: Vec<_> = ServiceRecord::data_fields().collect();
        assert_eq!(fields.len(), 30);
        assert_eq!(fields[0], (1 << 7, 0..1));
        assert_eq!(fields[16], (1 << 23, 16..18));
        assert_eq!(fields[24], (1 << 31, 32..36));
        assert_eq!(fields[29], (1 << 36, 56..64));
    }
}
