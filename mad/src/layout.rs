//! Where the fields of a MAD are, for code that changes a MAD in place (IBA 13.4.3, 14.2.1).
//!
//! Parsing a whole SMP at every hop of its route would copy 256 bytes to change two.

/// Management class.
pub(crate) const CLASS: usize = 1;
/// R bit and method.
pub(crate) const METHOD: usize = 3;
/// Status; in directed-route SMPs its highest bit is the D bit.
pub(crate) const STATUS: usize = 4;
/// HopPointer of a directed-route SMP.
pub(crate) const HOP_POINTER: usize = 6;
/// HopCount of a directed-route SMP.
pub(crate) const HOP_COUNT: usize = 7;
/// Transaction id, 8 bytes.
pub(crate) const TID: usize = 8;
/// Attribute id, 2 bytes.
pub(crate) const ATTRIBUTE: usize = 16;
/// Attribute modifier, 4 bytes.
pub(crate) const MODIFIER: usize = 20;
/// M_Key of an SMP, 8 bytes.
pub(crate) const M_KEY: usize = 24;
/// DrSLID of a directed-route SMP, 2 bytes; DrDLID follows.
pub(crate) const DR_SLID: usize = 32;
/// The attribute of an SMP, 64 bytes.
pub(crate) const SMP_DATA: usize = 64;
/// InitialPath of a directed-route SMP, 64 bytes.
pub(crate) const INITIAL_PATH: usize = 128;
/// ReturnPath of a directed-route SMP, 64 bytes.
pub(crate) const RETURN_PATH: usize = 192;

/// The D bit in the first byte of the status.
pub(crate) const RETURNING: u8 = 0x80;
/// The R bit in the method's byte.
pub(crate) const RESPONSE: u8 = 0x80;

/// Whether a directed-route SMP is on its way back.
pub(crate) fn is_returning(mad: &[u8; 256]) -> bool {
    mad[STATUS] & RETURNING != 0
}

/// DrSLID of a directed-route SMP.
pub(crate) fn dr_slid(mad: &[u8; 256]) -> u16 {
    u16_at(mad, DR_SLID)
}

/// DrDLID of a directed-route SMP.
pub(crate) fn dr_dlid(mad: &[u8; 256]) -> u16 {
    u16_at(mad, DR_SLID + 2)
}

/// The big-endian number in the two bytes at `at`.
pub(crate) fn u16_at(mad: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([mad[at], mad[at + 1]])
}

/// The big-endian number in the four bytes at `at`.
pub(crate) fn u32_at(mad: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([mad[at], mad[at + 1], mad[at + 2], mad[at + 3]])
}

/// The big-endian number in the eight bytes at `at`.
pub(crate) fn u64_at(mad: &[u8], at: usize) -> u64 {
    u64::from(u32_at(mad, at)) << 32 | u64::from(u32_at(mad, at + 4))
}
