//! Names and GUIDs that the generators give.

use wire::Guid;
use wire::convert::u64_of;

/// The vendor of ibemu's own devices: a locally administered OUI, no vendor's.
pub const VENDOR_ID: u32 = wire::vendor::OUI;
/// The device number of ibemu's own channel adapters.
pub const ADAPTER_DEVICE_ID: u16 = 1;
/// The device number of ibemu's own switches.
pub const SWITCH_DEVICE_ID: u16 = 1;

/// The GUID of the `index`th host: 0x021be10000000010, 0x021be10000000020 and so on, so that each
/// host has room for 15 port GUIDs.
#[must_use]
pub fn host_guid(index: usize) -> Guid {
    Guid(0x021b_e100_0000_0000 + (u64_of(index) + 1) * 0x10)
}

/// The GUID of the `index`th switch: 0x021be20000000010, 0x021be20000000020 and so on.
#[must_use]
pub fn switch_guid(index: usize) -> Guid {
    Guid(0x021b_e200_0000_0000 + (u64_of(index) + 1) * 0x10)
}

/// How switches' aggregation nodes (SHARP) describe themselves, with the vendor's name before it.
pub(crate) const AGGREGATION_NODE: &str = "Aggregation Node";
