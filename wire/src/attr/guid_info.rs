//! GUIDInfo: a block of a port's GUIDs (IBA 14.2.5.5).

use crate::attr::Attribute;
use crate::format::{put_u64, u64_at};
use crate::mad::AttributeId;
use crate::{Format, Guid, ParseError};

/// Eight GUIDs of a port; entry 0 of block 0 is read only. The attribute modifier is the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GuidInfo(pub [Guid; 8]);

impl GuidInfo {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;
}

impl Format for GuidInfo {
    const NAME: &'static str = "GUIDInfo";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(core::array::from_fn(|index| {
            Guid(u64_at(raw, index * 8))
        })))
    }

    fn write(&self, raw: &mut [u8]) {
        for (index, guid) in self.0.iter().enumerate() {
            put_u64(raw, index * 8, guid.0);
        }
    }
}

impl Attribute for GuidInfo {
    const ID: AttributeId = AttributeId::GUID_INFO;
}
