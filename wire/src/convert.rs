//! Numbers from one type to another, where the language asks for a decision: what happens to a
//! value that the other type does not hold.
//!
//! | from | to | function | a value that does not fit |
//! |---|---|---|---|
//! | `usize` | `u64` | [`u64_of`] | cannot be: `usize` has 64 bits |
//! | `u64` and less | `usize` | [`usize_of`] | cannot be: `usize` has 64 bits |
//! | an unsigned integer | a smaller one | [`saturate`] | becomes the largest that does |
//! | `f64` | `u64` | [`nearest`] | becomes 0 or [`u64::MAX`] |
//! | `u64` | `f64` | [`real`] | above 2^53: becomes the nearest that does |
//! | [`Duration`] | nanoseconds | [`nanoseconds`] | becomes [`u64::MAX`]: 584 years |
//!
//! Where a value that does not fit is an error of the caller, `try_from` and an error are right
//! and none of these.

use core::time::Duration;

const _: () = assert!(
    usize::BITS == 64,
    "ibemu runs where an index has 64 bits: LIDs, packets and bytes are counted by both types"
);

/// The number that 1 to 16 hexadecimal digits are; `None` for other text, be it a sign in front of them.
#[must_use]
pub fn hexadecimal(digits: &str) -> Option<u64> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = are_digits.then(|| u64::from_str_radix(digits, 16).ok());
    number.flatten()
}

/// A length or an index as a counter.
#[inline]
#[must_use]
pub const fn u64_of(number: usize) -> u64 {
    number as u64
}

/// A counter as a length or an index.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits, checked above"
)]
pub fn usize_of(number: impl Into<u64>) -> usize {
    number.into() as usize
}

/// `number`, or the largest value of `To` if that is less.
#[inline]
#[must_use]
pub fn saturate<To: Bounded>(number: impl Unsigned) -> To {
    To::try_from(number.widen()).unwrap_or(To::LARGEST)
}

/// The integer nearest to `value`; of two equally near ones the even one. 0 for what is below and
/// for what is not a number, [`u64::MAX`] for what is above.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` from a float saturates, as documented"
)]
pub const fn nearest(value: f64) -> u64 {
    value.round_ties_even() as u64
}

/// The floating-point number nearest to `number`: exact up to 2^53.
#[inline]
#[must_use]
pub const fn real(number: u64) -> f64 {
    number as f64
}

/// A duration in nanoseconds, [`u64::MAX`] if it is longer than that counts.
#[inline]
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    saturate(duration.as_nanos())
}

/// An integer that is never below zero, so that what does not fit another type is too large for it.
pub trait Unsigned: Copy {
    /// As the widest such type.
    fn widen(self) -> u128;
}

/// An integer type with a largest value.
pub trait Bounded: TryFrom<u128> {
    /// That value.
    const LARGEST: Self;
}

macro_rules! unsigned {
    ($($integer:ty),*) => {
        $(impl Unsigned for $integer {
            #[inline]
            fn widen(self) -> u128 {
                self as u128
            }
        })*
    };
}
macro_rules! bounded {
    ($($integer:ty),*) => {
        $(impl Bounded for $integer { const LARGEST: Self = Self::MAX; })*
    };
}
unsigned!(u8, u16, u32, u64, u128, usize);
bounded!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_no_hexadecimal_digit() {
        assert_eq!(hexadecimal("5"), Some(5));
        assert_eq!(hexadecimal("FFFFffffffffffff"), Some(u64::MAX));
        for text in ["", "+5", "-5", "0x5", " 5", "10000000000000000", "5g"] {
            assert_eq!(hexadecimal(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_number_that_does_not_fit_becomes_the_largest() {
        assert_eq!(saturate::<u8>(255_u64), 255);
        assert_eq!(saturate::<u8>(256_u64), u8::MAX);
        assert_eq!(saturate::<i32>(usize::MAX), i32::MAX);
        assert_eq!(saturate::<u32>(7_u8), 7);
        assert_eq!(nanoseconds(Duration::from_micros(3)), 3_000);
        assert_eq!(nanoseconds(Duration::MAX), u64::MAX);
        assert_eq!(u64_of(usize_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn a_float_is_rounded_to_the_nearest_as_the_formatter_does() {
        for value in [0.0, 0.4, 0.5, 1.5, 2.5, 2.500_001, 1e9 + 0.5, 9e15, 1.8e19] {
            let text: u64 = format!("{value:.0}").parse().unwrap();
            assert_eq!(nearest(value), text, "{value}");
        }
        assert_eq!(nearest(-0.6), 0);
        assert_eq!(nearest(f64::NAN), 0);
        assert_eq!(nearest(f64::INFINITY), u64::MAX);
        assert_eq!(nearest(real(1 << 53)), 1 << 53);
    }
}
