//! The three check sums of a link (IBA 7.8, 7.9.4).
//!
//! - ICRC, 32 bits, end to end: the Ethernet polynomial over LRH to payload, with everything that
//!   a switch or router may change replaced by ones.
//! - VCRC, 16 bits, link by link: polynomial 0x100B over LRH to ICRC.
//! - LPCRC, 16 bits: the same over the first four bytes of a flow-control packet.
//!
//! All start from ones, take the low bit of each byte first and are complemented at the end. The
//! numbers here are as the specification prints them: their big-endian bytes go on the wire.

mod folding;

use std::sync::LazyLock;

use crc::{Algorithm, Crc, Table};
use crc_fast::CrcParams;

use folding::Polynomial;

use crate::{bth::Bth, grh::Grh, lrh::Lnh, lrh::Lrh, types::Vl};

/// The CRC of VCRC and LPCRC (IBA 7.8.2), without check value and residue, which nothing reads.
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

/// By carry-less multiplication: VCRC's polynomial times `x^16`, and that of ICRC.
static VCRC: Polynomial = Polynomial::new((VCRC_ALGORITHM.poly as u32) << 16);
static ICRC: Polynomial = Polynomial::new(0x04c1_1db7);

/// Where that is not to be had, for short packets: 16 tables of 256 entries, 8 KiB.
static SLICED: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&VCRC_ALGORITHM);

/// The same for long packets: what other processors have of that kind.
static FOLDED: LazyLock<CrcParams> =
    LazyLock::new(|| CrcParams::new("VCRC", 16, 0x100b, 0xffff, true, 0xffff, 0));

/// From how many bytes on the latter is faster.
const FOLD_FROM: usize = 256;

/// Computes what is computed once a process, and asks the processor what it can do, which takes tens of
/// microseconds in a virtual machine: before the first packet waits for it.
pub fn prepare() {
    let packet = [0; 2 * FOLD_FROM];
    let _ = (vcrc(&packet), icrc(&packet));
}

/// VCRC of a packet, given from the first byte of the LRH up to, not including, the VCRC.
#[inline]
#[must_use]
pub fn vcrc(packet: &[u8]) -> u16 {
    match folding::update(&VCRC, u16::MAX.into(), packet) {
        Some(register) => {
            let [low, high, ..] = (!register).to_le_bytes();
            u16::from_be_bytes([low, high])
        }
        None => vcrc_by_tables(packet),
    }
}

/// [`vcrc`] of what cannot be folded.
#[cold]
fn vcrc_by_tables(packet: &[u8]) -> u16 {
    if packet.len() < FOLD_FROM {
        return SLICED.checksum(packet).swap_bytes();
    }
    let [low, high, ..] = crc_fast::checksum_with_params(*FOLDED, packet).to_le_bytes();
    u16::from_be_bytes([low, high])
}

/// LPCRC of a flow-control packet, given its first four bytes.
#[inline]
#[must_use]
pub fn lpcrc(packet: &[u8]) -> u16 {
    SLICED.checksum(packet).swap_bytes()
}

/// The VCRC of a packet whose VL changes from `from` to `to` and nothing else, given the VCRC
/// before and LRH.PktLen. A wrong VCRC stays wrong.
///
/// A CRC is linear: what a changed bit adds depends only on how many bytes follow. One table
/// lookup replaces the sum over the packet.
#[inline]
#[must_use]
pub const fn vcrc_update_vl(vcrc: u16, pkt_len_words: u16, from: Vl, to: Vl) -> u16 {
    let changed = from.get() ^ to.get();
    let weights = &VL_WEIGHTS[(pkt_len_words & Lrh::PKT_LEN_MAX) as usize];
    let mut vcrc = vcrc;
    let mut bit = 0;
    while bit < VL_BITS {
        // All ones if the bit changed: without a branch that no predictor could learn.
        let mask = ((changed >> bit) as u16 & 1).wrapping_neg();
        vcrc ^= weights[bit] & mask;
        bit += 1;
    }
    vcrc
}

const VL_BITS: usize = 4;
const PKT_LENS: usize = Lrh::PKT_LEN_MAX as usize + 1;

/// What each bit of LRH.VL adds to the VCRC, by PktLen.
static VL_WEIGHTS: [[u16; VL_BITS]; PKT_LENS] = vl_weights();

const fn vl_weights() -> [[u16; VL_BITS]; PKT_LENS] {
    const ZERO_BYTE: [u16; 256] = zero_byte_steps();
    let mut weights = [[0; VL_BITS]; PKT_LENS];
    let mut bit = 0;
    while bit < VL_BITS {
        // The bit as it stands in byte 0, where the VL is in the upper four bits.
        let mut register = 1u16 << (4 + bit);
        let mut bytes = 0;
        while bytes < (PKT_LENS - 1) * 4 {
            register = (register >> 8) ^ ZERO_BYTE[(register & 0xff) as usize];
            bytes += 1;
            if bytes % 4 == 0 {
                weights[bytes / 4][bit] = register.swap_bytes();
            }
        }
        bit += 1;
    }
    weights
}

/// What the low byte of the register becomes when a zero byte is shifted in.
const fn zero_byte_steps() -> [u16; 256] {
    let reflected = VCRC_ALGORITHM.poly.reverse_bits();
    let mut steps = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut register = byte;
        let mut bit = 0;
        while bit < 8 {
            let carry = (register & 1).wrapping_neg();
            register = (register >> 1) ^ (reflected & carry);
            bit += 1;
        }
        steps[byte as usize] = register;
        byte += 1;
    }
    steps
}

/// ICRC of an IBA packet, given from the first byte of the LRH up to, not including, the ICRC.
///
/// Replaced by ones (IBA 7.8.1): without GRH, LRH.VL; with GRH, the whole LRH and the GRH's
/// traffic class, flow label and hop limit; always BTH.Resv8a. A packet too short to hold its
/// headers is summed as far as it goes; raw packets have no ICRC.
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
    if global {
        for at in 0..Lrh::LEN {
            ones(at, 0xff);
        }
        ones(Lrh::LEN, 0x0f);
        ones(Lrh::LEN + 1, 0xff);
        ones(Lrh::LEN + 2, 0xff);
        ones(Lrh::LEN + 3, 0xff);
        ones(Lrh::LEN + 7, 0xff);
    } else {
        ones(0, 0xf0);
    }
    ones(bth_at + 4, 0xff);
    let folded = folding::update(&ICRC, u32::MAX, head);
    let folded = folded.and_then(|register| folding::update(&ICRC, register, rest));
    let icrc = folded.map_or_else(|| icrc_by_tables(head, rest), |register| !register);
    icrc.swap_bytes()
}

/// The CRC of what cannot be folded, in two parts.
#[cold]
fn icrc_by_tables(head: &[u8], rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(rest);
    hasher.finalize()
}
