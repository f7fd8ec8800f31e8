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

/// The next of those that wait when each has its turn: the lowest bit of `waiting` above `last`, or else
/// the lowest. `None` if no bit is set.
#[inline]
pub(crate) fn next_in_turn(waiting: u16, last: u32) -> Option<u32> {
    let waiting = u32::from(waiting);
    let after = waiting & 0xfffe_u32.checked_shl(last).unwrap_or(0);
    let chosen = if after == 0 { waiting } else { after };
    (chosen != 0).then(|| chosen.trailing_zeros())
}
