//! Numbers that other processes cannot predict: secrets and names.

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::NetError;

/// `N` random bytes of the system's generator, 256 at most: that many it gives in one piece.
///
/// # Errors
/// If the system has no generator (a kernel older than 3.17).
pub fn bytes<const N: usize>() -> Result<[u8; N], NetError> {
    const { assert!(N <= 256, "more may come in pieces") };
    let mut bytes = [0; N];
    retry_on_intr(|| getrandom(&mut bytes[..], GetRandomFlags::empty()))
        .map_err(|errno| NetError::new("draw a random number", errno.into()))?;
    Ok(bytes)
}

/// A random number of 64 bits.
///
/// # Errors
/// As [`bytes`].
pub fn number() -> Result<u64, NetError> {
    bytes().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_are_not_the_same() {
        assert_ne!(number().unwrap(), number().unwrap());
    }
}
