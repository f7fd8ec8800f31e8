//! Conversions between the numbers that devices, hosts and packets are counted by.

use wire::convert;

pub use wire::convert::real;

/// The place in a list of what has that number.
#[inline]
#[must_use]
pub fn index(number: u32) -> usize {
    convert::saturate(number)
}

/// The number of what has that place in a list.
#[inline]
#[must_use]
pub fn number(index: usize) -> u32 {
    convert::saturate(index)
}
