//! Records of forwarding tables, and of subnet managers (IBA 15.2.5.5 to 15.2.5.9).

use crate::attr::{LinearForwardingTable, MulticastForwardingTable, PKeyTable, SmInfo, SwitchInfo};
use crate::format::{put_u16, u16_at};
use crate::mad::AttributeId;
use crate::sa::SaRecord;
use crate::{Format, Lid, ParseError, PortNum};

/// A block of a switch's linear forwarding table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LftRecord {
    /// LID of the switch.
    pub lid: Lid,
    /// Which block: LID / 64.
    pub block: u16,
    /// The block.
    pub table: LinearForwardingTable,
}

impl LftRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 72;
}

impl Format for LftRecord {
    const NAME: &'static str = "LinearForwardingTableRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            block: u16_at(raw, 2),
            table: LinearForwardingTable::read(&raw[8..72])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        put_u16(raw, 2, self.block);
        self.table.write(&mut raw[8..72]);
    }
}

impl SaRecord for LftRecord {
    const ID: AttributeId = AttributeId::LINEAR_FORWARDING_TABLE_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 9;
}

/// A block of a switch's multicast forwarding table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MftRecord {
    /// LID of the switch.
    pub lid: Lid,
    /// Which ports, 0..=15 (emitting drops higher bits): `16 position` and the 15 behind.
    pub position: u8,
    /// Which block, 9 bits (emitting drops higher ones): (MLID - 0xc000) / 32.
    pub block: u16,
    /// The block.
    pub table: MulticastForwardingTable,
}

impl MftRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 72;
}

impl Format for MftRecord {
    const NAME: &'static str = "MulticastForwardingTableRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            position: raw[2] >> 4,
            block: u16_at(raw, 2) & 0x01ff,
            table: MulticastForwardingTable::read(&raw[8..72])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        let position = u16::from(self.position & 0x0f) << 12;
        put_u16(raw, 2, position | (self.block & 0x01ff));
        self.table.write(&mut raw[8..72]);
    }
}

impl SaRecord for MftRecord {
    const ID: AttributeId = AttributeId::MULTICAST_FORWARDING_TABLE_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 9;
}

/// A block of a port's partition keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PKeyTableRecord {
    /// LID of the port; of a switch's external port that of the switch.
    pub lid: Lid,
    /// Which block.
    pub block: u16,
    /// The port of a switch; of a channel adapter not looked at.
    pub port: PortNum,
    /// The block.
    pub table: PKeyTable,
}

impl PKeyTableRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 72;
}

impl Format for PKeyTableRecord {
    const NAME: &'static str = "P_KeyTableRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            block: u16_at(raw, 2),
            port: PortNum::new(raw[4]),
            table: PKeyTable::read(&raw[8..72])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        put_u16(raw, 2, self.block);
        raw[4] = self.port.get();
        self.table.write(&mut raw[8..72]);
    }
}

impl SaRecord for PKeyTableRecord {
    const ID: AttributeId = AttributeId::PKEY_TABLE_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 9;
}

/// Capabilities and forwarding settings of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchInfoRecord {
    /// LID of the switch.
    pub lid: Lid,
    /// What it says.
    pub switch_info: SwitchInfo,
}

impl SwitchInfoRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 24;
}

impl Format for SwitchInfoRecord {
    const NAME: &'static str = "SwitchInfoRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            switch_info: SwitchInfo::read(&raw[4..24])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        self.switch_info.write(&mut raw[4..24]);
    }
}

impl SaRecord for SwitchInfoRecord {
    const ID: AttributeId = AttributeId::SWITCH_INFO_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 3;
}

/// A subnet manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmInfoRecord {
    /// LID of its port.
    pub lid: Lid,
    /// What it says.
    pub sm_info: SmInfo,
}

impl SmInfoRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 25;
}

/// Refuses what [`SmInfo`] refuses.
impl Format for SmInfoRecord {
    const NAME: &'static str = "SMInfoRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
            sm_info: SmInfo::read(&raw[4..25])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
        self.sm_info.write(&mut raw[4..25]);
    }
}

impl SaRecord for SmInfoRecord {
    const ID: AttributeId = AttributeId::SM_INFO_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 4;
}
