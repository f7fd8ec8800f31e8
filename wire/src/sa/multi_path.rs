//! MultiPathRecord: a query for paths between several ports (IBA 15.2.5.20). Its answer is a table of
//! PathRecords.
//!
//! ```text
//! byte  0  RawTraffic (1), FlowLabel (20), HopLimit (8)
//!       4  TClass
//!       5  Reversible (1), NumbPath (7)
//!       6  P_Key (2)
//!       8  QoSClass (12), SL (4)
//!      10  MTUSelector (2), MTU (6)
//!      11  RateSelector (2), Rate (6)
//!      12  PacketLifeTimeSelector (2), PacketLifeTime (6)
//!      13  ServiceID, high byte
//!      14  IndependenceSelector (2)
//!      15  SGIDCount
//!      16  DGIDCount
//!      17  ServiceID, low 7 bytes
//!      24  SGIDs, then DGIDs, 16 bytes each
//! ```

use crate::format::{array, put, put_u16, u16_at};
use crate::mad::AttributeId;
use crate::sa::{DATA_LEN, SaRecord};
use crate::{Format, Gid, ParseError, Sl};

/// GIDs that one datagram holds.
pub const MULTI_PATH_GIDS: usize = 11;
const GIDS_AT: usize = 24;

/// Bits of a MultiPathRecord query's ComponentMask.
pub mod multi_path_component {
    /// NumbPath.
    pub const PATHS: u64 = 1 << 6;
    /// P_Key.
    pub const PKEY: u64 = 1 << 7;
    /// SL.
    pub const SL: u64 = 1 << 9;
    /// SGIDCount.
    pub const SGID_COUNT: u64 = 1 << 19;
    /// DGIDCount.
    pub const DGID_COUNT: u64 = 1 << 20;
}

/// A query for paths from each of some ports to each of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultiPathRecord {
    /// Reversible.
    pub reversible: bool,
    /// NumbPath: paths of each pair at most, 7 bits (emitting drops higher ones).
    pub paths: u8,
    /// P_Key.
    pub pkey: u16,
    /// SL.
    pub sl: Sl,
    /// SGIDCount.
    pub sgid_count: u8,
    /// DGIDCount.
    pub dgid_count: u8,
    /// The SGIDs, then the DGIDs.
    pub gids: [Gid; MULTI_PATH_GIDS],
}

impl MultiPathRecord {
    /// SGIDs and DGIDs; `None` if their numbers are not those of one datagram.
    #[must_use]
    pub fn ends(&self) -> Option<(&[Gid], &[Gid])> {
        let (sources, rest) = self.gids.split_at_checked(self.sgid_count.into())?;
        Some((sources, rest.get(..self.dgid_count.into())?))
    }
}

impl Format for MultiPathRecord {
    const NAME: &'static str = "MultiPathRecord";
    const LEN: usize = DATA_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            reversible: raw[5] & 0x80 != 0,
            paths: raw[5] & 0x7f,
            pkey: u16_at(raw, 6),
            sl: Sl::truncate(raw[9]),
            sgid_count: raw[15],
            dgid_count: raw[16],
            gids: core::array::from_fn(|at| Gid(array(raw, GIDS_AT + 16 * at))),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[5] = (u8::from(self.reversible) << 7) | (self.paths & 0x7f);
        put_u16(raw, 6, self.pkey);
        raw[9] = self.sl.get();
        raw[15] = self.sgid_count;
        raw[16] = self.dgid_count;
        for (at, gid) in self.gids.iter().enumerate() {
            put(raw, GIDS_AT + 16 * at, gid.0);
        }
    }
}

impl SaRecord for MultiPathRecord {
    const ID: AttributeId = AttributeId::MULTI_PATH_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 25;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_inverts_emit() {
        let record = MultiPathRecord {
            reversible: true,
            paths: 5,
            pkey: 0x8001,
            sl: Sl::constant(9),
            sgid_count: 2,
            dgid_count: 9,
            gids: core::array::from_fn(|at| Gid([[1, 2, 3][at % 3]; 16])),
        };
        let mut raw = [0xa5; DATA_LEN];
        record.emit(&mut raw);
        assert_eq!(MultiPathRecord::parse(&raw), Ok((record, &[][..])));
        assert_eq!(
            (raw[5], raw[9], raw[15], raw[16], raw[24]),
            (0x85, 9, 2, 9, 1)
        );
        let (sources, destinations) = record.ends().unwrap();
        assert_eq!((sources.len(), destinations.len()), (2, 9));
        for (sgid_count, dgid_count) in [(12, 0), (2, 10), (255, 255)] {
            let long = MultiPathRecord {
                sgid_count,
                dgid_count,
                ..record
            };
            assert_eq!(long.ends(), None);
        }
    }
}
