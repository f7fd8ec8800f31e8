//! SLtoVLMappingTable: the VL that a service level takes out of a port (IBA 14.2.5.8).

use crate::attr::Attribute;
use crate::format::nibbles;
use crate::mad::AttributeId;
use crate::{Format, ParseError, PortNum, Sl, Vl};

/// The VL of each service level, from one input to one output port. VL15 drops the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlToVlTable(pub [Vl; 16]);

impl SlToVlTable {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 8;

    /// The VL of a service level.
    #[must_use]
    pub const fn vl(&self, sl: Sl) -> Vl {
        self.0[sl.index()]
    }

    /// The attribute modifier that names the table of a switch from `input` to `output`.
    #[must_use]
    pub const fn switch_modifier(input: PortNum, output: PortNum) -> u32 {
        ((input.get() as u32) << 8) | output.get() as u32
    }
}

impl Format for SlToVlTable {
    const NAME: &'static str = "SLtoVLMappingTable";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(core::array::from_fn(|sl| {
            let pair = raw[sl / 2];
            Vl::truncate(if sl % 2 == 0 { pair >> 4 } else { pair & 0x0f })
        })))
    }

    fn write(&self, raw: &mut [u8]) {
        for (byte, pair) in raw.iter_mut().zip(self.0.chunks_exact(2)) {
            *byte = nibbles(pair[0].get(), pair[1].get());
        }
    }
}

impl Attribute for SlToVlTable {
    const ID: AttributeId = AttributeId::SL_TO_VL_TABLE;
}
