//! Blocks of a switch's forwarding tables (IBA 14.2.5.10, 14.2.5.12).

use crate::attr::Attribute;
use crate::format::{put_u16, u16_at};
use crate::mad::AttributeId;
use crate::{Format, ParseError, PortNum};

/// The ports of 64 consecutive unicast LIDs. The attribute modifier is the block: LID / 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearForwardingTable(pub [PortNum; 64]);

impl LinearForwardingTable {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;
}

/// A block without any route.
impl Default for LinearForwardingTable {
    fn default() -> Self {
        Self([PortNum::NONE; 64])
    }
}

impl Format for LinearForwardingTable {
    const NAME: &'static str = "LinearForwardingTable";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(core::array::from_fn(|index| PortNum::new(raw[index]))))
    }

    fn write(&self, raw: &mut [u8]) {
        for (byte, port) in raw.iter_mut().zip(self.0) {
            *byte = port.get();
        }
    }
}

impl Attribute for LinearForwardingTable {
    const ID: AttributeId = AttributeId::LINEAR_FORWARDING_TABLE;
}

/// The port masks of 32 consecutive multicast LIDs, 16 ports at a time: bit `b` of an entry at
/// position `p` stands for port `16 p + b`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MulticastForwardingTable(pub [u16; 32]);

impl MulticastForwardingTable {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;

    /// The attribute modifier that names a block, (MLID - 0xc000) / 32, at a position, 0..=15.
    #[must_use]
    pub const fn modifier(position: u8, block: u16) -> u32 {
        ((position as u32) << 28) | (block as u32 & 0x1ff)
    }

    /// Position and block that an attribute modifier names.
    #[must_use]
    pub const fn from_modifier(modifier: u32) -> (u8, u16) {
        let [high, _, block_high, block_low] = modifier.to_be_bytes();
        (high >> 4, u16::from_be_bytes([block_high & 1, block_low]))
    }
}

impl Format for MulticastForwardingTable {
    const NAME: &'static str = "MulticastForwardingTable";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(core::array::from_fn(|index| u16_at(raw, index * 2))))
    }

    fn write(&self, raw: &mut [u8]) {
        for (index, &mask) in self.0.iter().enumerate() {
            put_u16(raw, index * 2, mask);
        }
    }
}

impl Attribute for MulticastForwardingTable {
    const ID: AttributeId = AttributeId::MULTICAST_FORWARDING_TABLE;
}
