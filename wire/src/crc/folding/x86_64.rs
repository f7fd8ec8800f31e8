//! Folding with registers of 128 and of 512 bits.
//!
//! The functions here are safe: they take no pointers, and only a function that is compiled for the
//! same processor can call them.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_cvtsi64_si128,
    _mm_cvtsi128_si64, _mm_extract_epi64, _mm_set_epi64x, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_srli_si128, _mm_unpackhi_epi64, _mm_xor_si128, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_xor_si256, _mm512_broadcast_i64x2, _mm512_castsi512_si256,
    _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64, _mm512_maskz_expand_epi8,
    _mm512_maskz_mov_epi64, _mm512_set_epi64, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    _mm512_zextsi128_si512,
};

use super::Polynomial;

/// Bytes of a register of 128 bits.
const BLOCK: usize = 16;
/// Bytes of four of them.
const WIDE: usize = 64;
/// Bytes that the register of a CRC is added to. A block in front that has fewer is not taken.
const REGISTER: usize = 4;
/// The truth table of `a ^ b ^ c`.
const XOR: i32 = 0x96;
/// The upper 128 of 512 bits, in words of 64.
const LAST_LANE: u8 = 0b1100_0000;

/// The register after `bytes`, by registers of 128 bits.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,pclmulqdq")]
pub(super) fn update_128(polynomial: &Polynomial, register: u32, bytes: &[u8]) -> Option<u32> {
    let (first, _) = bytes.split_first_chunk::<BLOCK>()?;
    let first = _mm_xor_si128(block(first), _mm_cvtsi32_si128(register.cast_signed()));
    let near = pair(polynomial.by_128);
    let (mut folded, mut rest) = match bytes.len() % BLOCK {
        0 => (first, &bytes[BLOCK..]),
        part @ REGISTER.. => (_mm_shuffle_epi8(first, last(part)?), &bytes[part..]),
        _ => return None,
    };
    while rest.len() % WIDE != 0 {
        let (next, behind) = rest.split_first_chunk()?;
        folded = _mm_xor_si128(fold(folded, near), block(next));
        rest = behind;
    }
    if !rest.is_empty() {
        folded = fold_lanes(polynomial, folded, rest);
    }
    Some(remainder(polynomial, folded))
}

/// Folds 128 bits and whole groups of four blocks behind them to 128 bits.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,pclmulqdq")]
fn fold_lanes(polynomial: &Polynomial, folded: __m128i, groups: &[u8]) -> __m128i {
    let far = pair(polynomial.by_512);
    let zero = _mm_setzero_si128();
    let mut lanes = [zero, zero, zero, folded];
    for group in groups.as_chunks::<WIDE>().0 {
        for (lane, next) in lanes.iter_mut().zip(group.as_chunks::<BLOCK>().0) {
            *lane = _mm_xor_si128(fold(*lane, far), block(next));
        }
    }
    let [first, second, third, fourth] = lanes;
    let first = fold(first, pair(polynomial.by_384));
    let second = fold(second, pair(polynomial.by_256));
    let third = fold(third, pair(polynomial.by_128));
    _mm_xor_si128(_mm_xor_si128(first, second), _mm_xor_si128(third, fourth))
}

/// The register after `bytes`, by registers of 512 bits where there are as many.
#[inline]
#[target_feature(
    enable = "sse4.1,ssse3,pclmulqdq,avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,vpclmulqdq"
)]
pub(super) fn update_512(polynomial: &Polynomial, register: u32, bytes: &[u8]) -> Option<u32> {
    let Some((first, _)) = bytes.split_first_chunk::<WIDE>() else {
        return update_128(polynomial, register, bytes);
    };
    let register = _mm512_zextsi128_si512(_mm_cvtsi32_si128(register.cast_signed()));
    let first = _mm512_xor_si512(wide_block(first), register);
    let (mut folded, rest) = match bytes.len() % WIDE {
        0 => (first, &bytes[WIDE..]),
        part @ REGISTER.. => (
            _mm512_maskz_expand_epi8(u64::MAX << (WIDE - part), first),
            &bytes[part..],
        ),
        _ => return None,
    };
    let far = _mm512_broadcast_i64x2(pair(polynomial.by_512));
    for next in rest.as_chunks::<WIDE>().0 {
        folded = fold_wide(folded, far, wide_block(next));
    }
    let onto_last = lanes([
        polynomial.by_384,
        polynomial.by_256,
        polynomial.by_128,
        [0; 2],
    ]);
    let last = _mm512_maskz_mov_epi64(LAST_LANE, folded);
    let lanes = fold_wide(folded, onto_last, last);
    let halves = _mm256_xor_si256(
        _mm512_castsi512_si256(lanes),
        _mm512_extracti64x4_epi64::<1>(lanes),
    );
    let folded = _mm_xor_si128(
        _mm256_castsi256_si128(halves),
        _mm256_extracti128_si256::<1>(halves),
    );
    Some(remainder(polynomial, folded))
}

/// Each of four lanes folded by its pair of remainders, onto a lane of `next`.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn fold_wide(folded: __m512i, by: __m512i, next: __m512i) -> __m512i {
    let first = _mm512_clmulepi64_epi128::<0x00>(folded, by);
    let second = _mm512_clmulepi64_epi128::<0x11>(folded, by);
    _mm512_ternarylogic_epi64::<XOR>(first, second, next)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes(lanes: [[u64; 2]; 4]) -> __m512i {
    let [a, b, c, d] = lanes.map(|pair| pair.map(u64::cast_signed));
    _mm512_set_epi64(d[1], d[0], c[1], c[0], b[1], b[0], a[1], a[0])
}

#[inline]
#[target_feature(enable = "avx512f")]
fn wide_block(bytes: &[u8; WIDE]) -> __m512i {
    let (words, _) = bytes.as_chunks();
    let word = |at: usize| i64::from_le_bytes(words[at]);
    _mm512_set_epi64(
        word(7),
        word(6),
        word(5),
        word(4),
        word(3),
        word(2),
        word(1),
        word(0),
    )
}

/// 128 bits folded by a pair of remainders.
#[inline]
#[target_feature(enable = "sse4.1,pclmulqdq")]
fn fold(folded: __m128i, by: __m128i) -> __m128i {
    _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(folded, by),
        _mm_clmulepi64_si128::<0x11>(folded, by),
    )
}

/// The remainder of 128 bits with 32 zeros behind them, reflected.
#[inline]
#[target_feature(enable = "sse4.1,pclmulqdq")]
fn remainder(polynomial: &Polynomial, folded: __m128i) -> u32 {
    let shorten = pair([polynomial.to_96, polynomial.to_64]);
    // The second half and the zeros behind it: 96 bits, at the upper end.
    let second_half = _mm_unpackhi_epi64(_mm_setzero_si128(), folded);
    let bits_96 = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(folded, shorten),
        _mm_srli_si128::<4>(second_half),
    );
    let bits_64 = _mm_xor_si128(_mm_clmulepi64_si128::<0x10>(bits_96, shorten), bits_96);
    let bits_64 = _mm_extract_epi64::<1>(bits_64).cast_unsigned();
    // Barrett: how often the polynomial is in these, by the quotient, and what is left without.
    let barrett = pair([polynomial.quotient, polynomial.whole]);
    let times = _mm_clmulepi64_si128::<0x00>(word(lower(bits_64)), barrett);
    let times = lower(_mm_cvtsi128_si64(times).cast_unsigned());
    let taken = _mm_clmulepi64_si128::<0x10>(word(times), barrett);
    let left = bits_64 ^ _mm_cvtsi128_si64(taken).cast_unsigned();
    let [.., a, b, c, d] = left.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[inline]
fn lower(word: u64) -> u64 {
    word & u64::from(u32::MAX)
}

#[inline]
#[target_feature(enable = "sse2")]
fn word(word: u64) -> __m128i {
    _mm_cvtsi64_si128(word.cast_signed())
}

#[inline]
#[target_feature(enable = "sse2")]
fn pair([low, high]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(high.cast_signed(), low.cast_signed())
}

#[inline]
#[target_feature(enable = "sse2")]
fn block(bytes: &[u8; BLOCK]) -> __m128i {
    let (words, _) = bytes.as_chunks();
    pair([u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])])
}

/// The order that moves the first `part` bytes of a block to its end, with zeros in front.
#[inline]
#[target_feature(enable = "sse2")]
fn last(part: usize) -> Option<__m128i> {
    const ZERO: u8 = 0x80;
    const ORDERS: [u8; 2 * BLOCK] = {
        let mut orders = [ZERO; 2 * BLOCK];
        let mut at: u8 = 0;
        while at < 16 {
            orders[BLOCK + at as usize] = at;
            at += 1;
        }
        orders
    };
    Some(block(ORDERS.get(part..)?.first_chunk()?))
}
