//! CRCs by carry-less multiplication, on processors that have it.
//!
//! A message is a polynomial over GF(2), and its CRC a remainder. A block of it is *folded* onto a
//! later one: multiplied by the remainder of `x^d`, `d` bits being the distance, which leaves the
//! message's remainder as it is. So a message of any length becomes 128 bits, in blocks that do not
//! wait for each other, and a few more multiplications make its remainder of those (V. Gopal et
//! al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel 2009).
//!
//! All sums of a link take the low bit of each byte first, so that everything is *reflected*: the
//! low bit of a register belongs to the highest power. A product of two reflected registers of 64
//! bits has 127 bits and stands one bit too low in 128, which is why the powers below are one less
//! than the distance.
//!
//! The blocks at the end of a message are whole: what a message is too short by stands as zeros in front of it,
//! where zeros add nothing.

use multiversion::multiversion;
use multiversion::target::match_target;

#[cfg(target_arch = "x86_64")]
mod x86_64;

/// A polynomial of degree 32, prepared for folding. One of a lower degree is raised to it by a power
/// of `x`: the remainder is the same, raised as well.
#[derive(Debug)]
pub(super) struct Polynomial {
    /// Remainders that fold a block of 128 bits onto one that is 512 bits further on: by the
    /// distance of its first half, and of its second.
    by_512: [u64; 2],
    /// The same for 384, 256 and 128 bits.
    by_384: [u64; 2],
    by_256: [u64; 2],
    by_128: [u64; 2],
    /// Remainders that shorten 128 bits to 96, and those to 64.
    to_96: u64,
    to_64: u64,
    /// The quotient of `x^64` by the polynomial, and the polynomial, 33 bits each (Barrett).
    quotient: u64,
    whole: u64,
}

impl Polynomial {
    /// The polynomial `x^32` plus what the bits of `low` stand for, not reflected.
    pub(super) const fn new(low: u32) -> Self {
        let whole = 1 << 32 | low as u64;
        Self {
            by_512: fold_by(512, whole),
            by_384: fold_by(384, whole),
            by_256: fold_by(256, whole),
            by_128: fold_by(128, whole),
            to_96: power(96 - 1, whole),
            to_64: power(64 - 1, whole),
            quotient: quotient(whole).reverse_bits() >> 31,
            whole: whole.reverse_bits() >> 31,
        }
    }
}

const fn fold_by(bits: u32, whole: u64) -> [u64; 2] {
    [power(bits + 64 - 1, whole), power(bits - 1, whole)]
}

/// The remainder of `x^exponent`, reflected in 64 bits.
const fn power(exponent: u32, whole: u64) -> u64 {
    let mut remainder: u64 = 1;
    let mut done = 0;
    while done < exponent {
        remainder <<= 1;
        if remainder >> 32 & 1 == 1 {
            remainder ^= whole;
        }
        done += 1;
    }
    remainder.reverse_bits()
}

/// `x^64` divided by a polynomial of degree 32.
const fn quotient(whole: u64) -> u64 {
    let mut remainder: u128 = 1 << 64;
    let mut quotient = 0;
    let mut degree = 64;
    while degree >= 32 {
        if remainder >> degree & 1 == 1 {
            remainder ^= (whole as u128) << (degree - 32);
            quotient |= 1 << (degree - 32);
        }
        degree -= 1;
    }
    quotient
}

/// The register after `bytes`, if it was `register` before them, reflected. `None` where the processor
/// cannot fold, and of messages that are too short for it: below 16 bytes, or 1 to 3 bytes longer
/// than whole blocks.
#[multiversion(
    targets(
        "x86_64+sse4.1+ssse3+pclmulqdq+avx2+avx512f+avx512bw+avx512dq+avx512vl+avx512vbmi2+vpclmulqdq",
        "x86_64+sse4.1+ssse3+pclmulqdq"
    ),
    dispatcher = "direct"
)]
pub(super) fn update(polynomial: &Polynomial, register: u32, bytes: &[u8]) -> Option<u32> {
    match_target! {
        "x86_64+sse4.1+ssse3+pclmulqdq+avx2+avx512f+avx512bw+avx512dq+avx512vl+avx512vbmi2+vpclmulqdq" => {
            x86_64::update_512(polynomial, register, bytes)
        }
        "x86_64+sse4.1+ssse3+pclmulqdq" => x86_64::update_128(polynomial, register, bytes),
        _ => {
            let _ = (polynomial, register, bytes);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use crc::{CRC_32_ISO_HDLC, Crc, Table};

    use super::*;

    static ETHERNET: Polynomial = Polynomial::new(0x04c1_1db7);
    static TABLES: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);

    /// As [`update`] on a processor without the wide registers.
    #[multiversion(targets("x86_64+sse4.1+ssse3+pclmulqdq"), dispatcher = "direct")]
    fn update_narrow(polynomial: &Polynomial, register: u32, bytes: &[u8]) -> Option<u32> {
        match_target! {
            "x86_64+sse4.1+ssse3+pclmulqdq" => x86_64::update_128(polynomial, register, bytes),
            _ => update(polynomial, register, bytes),
        }
    }

    #[test]
    fn folding_in_either_width_agrees_with_tables_from_any_register_on() {
        let bytes: Vec<u8> = (0..4300u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
            .collect();
        for len in (0..1100).chain((1100..bytes.len()).step_by(61)) {
            for cut in [0, 20, len / 2] {
                let (head, rest) = bytes[..len].split_at(cut.min(len));
                let before = !TABLES.checksum(head);
                let both = [
                    update(&ETHERNET, before, rest),
                    update_narrow(&ETHERNET, before, rest),
                ];
                for register in both.into_iter().flatten() {
                    assert_eq!(
                        !register,
                        TABLES.checksum(&bytes[..len]),
                        "{len} from {cut}"
                    );
                }
                let refused = rest.len() < 16 || matches!(rest.len() % 16, 1..=3);
                let can_fold = update_narrow(&ETHERNET, 0, &[0; 16]).is_some();
                let folded = update_narrow(&ETHERNET, before, rest);
                assert_eq!(folded.is_some(), can_fold && !refused, "{len} from {cut}");
            }
        }
    }
}
