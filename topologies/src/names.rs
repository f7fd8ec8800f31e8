//! Names and GUIDs that the generators give.

use wire::Guid;

/// The GUID of the `index`th host: 0x021be10000000010, 0x021be10000000020 and so on, so that each
/// host has room for 15 port GUIDs.
#[must_use]
pub fn host_guid(index: usize) -> Guid {
    Guid(0x021b_e100_0000_0000 + (index as u64 + 1) * 0x10)
}

/// The GUID of the `index`th switch: 0x021be20000000010, 0x021be20000000020 and so on.
#[must_use]
pub fn switch_guid(index: usize) -> Guid {
    Guid(0x021b_e200_0000_0000 + (index as u64 + 1) * 0x10)
}
