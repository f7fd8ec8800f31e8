//! SMInfo: a subnet manager to another (IBA 14.2.5.13, 14.4.1).

use crate::attr::Attribute;
use crate::format::{nibbles, put_u32, put_u64, u32_at, u64_at};
use crate::mad::AttributeId;
use crate::{Format, Guid, ParseError};

/// The state of a subnet manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SmState {
    /// Takes no part.
    NotActive = 0,
    /// Looks for others.
    Discovering = 1,
    /// Waits for the master to fail.
    Standby = 2,
    /// Manages the subnet.
    Master = 3,
}

/// A subnet manager to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmInfo {
    /// GUID of the port it runs on.
    pub guid: Guid,
    /// Key that it shows to a trusted peer, else 0.
    pub sm_key: u64,
    /// Grows while it works.
    pub act_count: u32,
    /// Priority, 0..=15 (emitting drops higher bits); the highest becomes master.
    pub priority: u8,
    /// Its state.
    pub state: SmState,
}

impl SmInfo {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 21;
}

/// Besides truncation, parsing refuses a state above 3.
impl Format for SmInfo {
    const NAME: &'static str = "SMInfo";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            guid: Guid(u64_at(raw, 0)),
            sm_key: u64_at(raw, 8),
            act_count: u32_at(raw, 16),
            priority: raw[20] >> 4,
            state: match raw[20] & 0x0f {
                0 => SmState::NotActive,
                1 => SmState::Discovering,
                2 => SmState::Standby,
                3 => SmState::Master,
                other => {
                    return Err(ParseError::BadValue {
                        what: "SMInfo:SMState",
                        value: u64::from(other),
                    });
                }
            },
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.guid.0);
        put_u64(raw, 8, self.sm_key);
        put_u32(raw, 16, self.act_count);
        raw[20] = nibbles(self.priority, self.state as u8);
    }
}

impl Attribute for SmInfo {
    const ID: AttributeId = AttributeId::SM_INFO;
}
