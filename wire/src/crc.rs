//! The three check sums of a link (IBA 7.8, 7.9.4).
//!
//! - ICRC, 32 bits, end to end: the Ethernet polynomial over LRH to payload, with everything that
//!   a switch or router may change replaced by ones.
//! - VCRC, 16 bits, link by link: polynomial 0x100B over LRH to ICRC.
//! - LPCRC, 16 bits: the same over the first four bytes of a flow-control packet.
//!
//! All start from ones, take the low bit of each byte first and are complemented at the end. The
//! numbers here are as the specification prints them: their big-endian bytes go on the wire.

use crc::{Algorithm, Crc, Table};

use crate::lrh::Lnh;
use crate::{bth::Bth, grh::Grh, lrh::Lrh};

/// The CRC of VCRC and LPCRC (IBA 7.8.2).
const VCRC_ALGORITHM: Algorithm<u16> = Algorithm {
    width: 16,
    poly: 0x100b,
    init: 0xffff,
    refin: true,
    refout: true,
    xorout: 0xffff,
    check: 0,
    residue: 0,
};

static VCRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&VCRC_ALGORITHM);

/// VCRC of a packet, given from the first byte of the LRH up to, not including, the VCRC.
#[inline]
#[must_use]
pub fn vcrc(packet: &[u8]) -> u16 {
    VCRC.checksum(packet).swap_bytes()
}

/// LPCRC of a flow-control packet, given its first four bytes.
#[inline]
#[must_use]
pub fn lpcrc(packet: &[u8]) -> u16 {
    VCRC.checksum(packet).swap_bytes()
}

/// ICRC of an IBA packet, given from the first byte of the LRH up to, not including, the ICRC.
///
/// Replaced by ones (IBA 7.8.1): LRH.VL; GRH traffic class, flow label and hop limit; BTH Resv8a.
/// A packet too short to hold its headers is summed as far as it goes; raw packets have no ICRC.
#[must_use]
pub fn icrc(packet: &[u8]) -> u32 {
    const MASKED_MAX: usize = Lrh::LEN + Grh::LEN + Bth::LEN;
    let mut head = [0u8; MASKED_MAX];
    let global = packet
        .get(1)
        .is_some_and(|&byte| Lnh::from_bits(byte) == Lnh::IbaGlobal);
    let bth_at = if global {
        Lrh::LEN + Grh::LEN
    } else {
        Lrh::LEN
    };
    let (masked, rest) = packet.split_at(packet.len().min(bth_at + Bth::LEN));
    let head = &mut head[..masked.len()];
    head.copy_from_slice(masked);
    let mut ones = |at: usize, bits: u8| {
        if let Some(byte) = head.get_mut(at) {
            *byte |= bits;
        }
    };
    ones(0, 0xf0);
    if global {
        ones(Lrh::LEN, 0x0f);
        ones(Lrh::LEN + 1, 0xff);
        ones(Lrh::LEN + 2, 0xff);
        ones(Lrh::LEN + 3, 0xff);
        ones(Lrh::LEN + 7, 0xff);
    }
    ones(bth_at + 4, 0xff);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(rest);
    hasher.finalize().swap_bytes()
}
