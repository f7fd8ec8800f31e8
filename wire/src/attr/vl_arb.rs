//! VLArbitrationTable: a block of weights by which VLs share a port (IBA 14.2.5.9, 7.6.9).

use crate::attr::Attribute;
use crate::mad::AttributeId;
use crate::{Format, ParseError, PortNum, Vl};

/// One entry: a VL and its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VlArbEntry {
    /// The VL.
    pub vl: Vl,
    /// Weight in units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

/// 32 entries: half of the low- or of the high-priority table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VlArbTable(pub [VlArbEntry; 32]);

impl VlArbTable {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;
    /// Block of entries 0..=31 of the low-priority table.
    pub const LOW_FIRST: u8 = 1;
    /// Block of entries 32..=63 of the low-priority table.
    pub const LOW_SECOND: u8 = 2;
    /// Block of entries 0..=31 of the high-priority table.
    pub const HIGH_FIRST: u8 = 3;
    /// Block of entries 32..=63 of the high-priority table.
    pub const HIGH_SECOND: u8 = 4;

    /// The attribute modifier that names a block (1..=4) of a port; the port of a channel adapter
    /// is 0.
    #[must_use]
    pub const fn modifier(block: u8, port: PortNum) -> u32 {
        ((block as u32) << 16) | port.get() as u32
    }
}

impl Format for VlArbTable {
    const NAME: &'static str = "VLArbitrationTable";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(core::array::from_fn(|index| VlArbEntry {
            vl: Vl::truncate(raw[index * 2]),
            weight: raw[index * 2 + 1],
        })))
    }

    fn write(&self, raw: &mut [u8]) {
        for (index, entry) in self.0.iter().enumerate() {
            raw[index * 2] = entry.vl.get();
            raw[index * 2 + 1] = entry.weight;
        }
    }
}

impl Attribute for VlArbTable {
    const ID: AttributeId = AttributeId::VL_ARB_TABLE;
}
