//! P_KeyTable: a block of a port's partition keys (IBA 14.2.5.7).

use crate::attr::Attribute;
use crate::format::{put_u16, u16_at};
use crate::mad::AttributeId;
use crate::{Format, ParseError, PortNum};

/// 32 partition keys: top bit full membership, then the partition; 0 is an empty entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PKeyTable(pub [u16; 32]);

impl PKeyTable {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;
    /// The key of the default partition with full membership.
    pub const DEFAULT_FULL: u16 = 0xffff;

    /// The attribute modifier that names a block of a switch's external port.
    #[must_use]
    pub const fn switch_modifier(port: PortNum, block: u16) -> u32 {
        ((port.get() as u32) << 16) | block as u32
    }
}

impl Format for PKeyTable {
    const NAME: &'static str = "P_KeyTable";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(core::array::from_fn(|index| u16_at(raw, index * 2))))
    }

    fn write(&self, raw: &mut [u8]) {
        for (index, &key) in self.0.iter().enumerate() {
            put_u16(raw, index * 2, key);
        }
    }
}

impl Attribute for PKeyTable {
    const ID: AttributeId = AttributeId::PKEY_TABLE;
}
