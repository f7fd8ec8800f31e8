//! Records of a port's tables: GUIDs, SL-to-VL mapping and VL arbitration (IBA 15.2.5.18, 15.2.5.4, 15.2.5.9).

use crate::attr::{GuidInfo, SlToVlTable, VlArbTable};
use crate::format::{put_u16, u16_at};
use crate::mad::AttributeId;
use crate::sa::SaRecord;
use crate::{Format, Lid, ParseError, PortNum};

/// A block of a port's GUIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuidInfoRecord {
    /// LID of the port.
    pub lid: Lid,
    /// Which block.
    pub block: u8,
    /// The block.
    pub guids: GuidInfo,
}

impl Format for GuidInfoRecord {
    const NAME: &'static str = "GuidInfoRecord";
    const LEN: usize = 72;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            block: raw[2],
            guids: GuidInfo::read(&raw[8..72])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        raw[2] = self.block;
        self.guids.write(&mut raw[8..72]);
    }
}

impl SaRecord for GuidInfoRecord {
    const ID: AttributeId = AttributeId::GUID_INFO_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 9;
}

/// The VLs of service levels between two ports of a switch, or of a port of a channel adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlToVlTableRecord {
    /// LID of the port; of a switch's external port that of the switch.
    pub lid: Lid,
    /// The port that packets come in by.
    pub input: PortNum,
    /// The port that they leave by.
    pub output: PortNum,
    /// The table.
    pub table: SlToVlTable,
}

/// Refuses what [`SlToVlTable`] refuses.
impl Format for SlToVlTableRecord {
    const NAME: &'static str = "SLtoVLMappingTableRecord";
    const LEN: usize = 16;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            input: PortNum::new(raw[2]),
            output: PortNum::new(raw[3]),
            table: SlToVlTable::read(&raw[8..16])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        raw[2] = self.input.get();
        raw[3] = self.output.get();
        self.table.write(&mut raw[8..16]);
    }
}

impl SaRecord for SlToVlTableRecord {
    const ID: AttributeId = AttributeId::SL_TO_VL_TABLE_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 2;
}

/// A block of a port's VL arbitration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlArbTableRecord {
    /// LID of the port; of a switch's external port that of the switch.
    pub lid: Lid,
    /// The port.
    pub port: PortNum,
    /// Which block: 1 and 2 the low-priority table, 3 and 4 the high-priority one.
    pub block: u8,
    /// The block.
    pub table: VlArbTable,
}

/// Refuses what [`VlArbTable`] refuses.
impl Format for VlArbTableRecord {
    const NAME: &'static str = "VLArbitrationTableRecord";
    const LEN: usize = 72;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            port: PortNum::new(raw[2]),
            block: raw[3],
            table: VlArbTable::read(&raw[8..72])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        raw[2] = self.port.get();
        raw[3] = self.block;
        self.table.write(&mut raw[8..72]);
    }
}

impl SaRecord for VlArbTableRecord {
    const ID: AttributeId = AttributeId::VL_ARB_TABLE_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 9;
}

#[cfg(test)]
mod tests {
    use core::fmt::Debug;

    use super::*;
    use crate::attr::VlArbEntry;
    use crate::{Guid, Vl};

    fn inverse<R: SaRecord + Debug + PartialEq>(record: &R) -> Vec<u8> {
        let mut raw = vec![0xa5; R::LEN];
        record.emit(&mut raw);
        let (read, rest) = R::parse(&raw).unwrap();
        assert_eq!((&read, rest.len()), (record, 0));
        assert_eq!(R::LEN, usize::from(R::ATTRIBUTE_OFFSET) * 8);
        for short in 0..R::LEN {
            assert!(R::parse(&raw[..short]).is_err());
        }
        raw
    }

    #[test]
    fn parse_inverts_emit() {
        let mut guids = GuidInfo::default();
        guids.0[7] = Guid(0x0102_0304_0506_0708);
        let raw = inverse(&GuidInfoRecord {
            lid: Lid::new(0x1112),
            block: 3,
            guids,
        });
        assert_eq!((&raw[..3], raw[71]), (&[0x11, 0x12, 3][..], 8));
        let mut table = SlToVlTable::default();
        table.0[15] = Vl::constant(7);
        let raw = inverse(&SlToVlTableRecord {
            lid: Lid::new(9),
            input: PortNum::new(1),
            output: PortNum::new(2),
            table,
        });
        assert_eq!((&raw[..4], raw[15]), (&[0, 9, 1, 2][..], 7));
        let mut table = VlArbTable::default();
        table.0[31] = VlArbEntry {
            vl: Vl::constant(4),
            weight: 200,
        };
        let raw = inverse(&VlArbTableRecord {
            lid: Lid::new(9),
            port: PortNum::new(5),
            block: 4,
            table,
        });
        assert_eq!((&raw[..4], &raw[70..]), (&[0, 9, 5, 4][..], &[4, 200][..]));
    }
}
