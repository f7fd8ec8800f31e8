//! Why bytes were refused, or could not be written.

use thiserror::Error;

/// Why bytes are not a valid instance of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The bytes end before the format does.
    #[error("{what}: {need} bytes needed, {have} there")]
    Truncated {
        /// The format that was read.
        what: &'static str,
        /// How many bytes it takes.
        need: usize,
        /// How many bytes there were.
        have: usize,
    },
    /// The bytes are of another version of the format.
    #[error("{what}: version {value}, expected {expected}")]
    BadVersion {
        /// The format that was read.
        what: &'static str,
        /// The version that the bytes state.
        value: u8,
        /// The version that is understood.
        expected: u8,
    },
    /// A field holds a value that is reserved or has no meaning.
    #[error("{what}: value {value:#x} has no meaning")]
    BadValue {
        /// The field.
        what: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A length field disagrees with the bytes that are there.
    #[error("{what}: length field says {stated} bytes, {actual} there")]
    LengthMismatch {
        /// The format whose length field it is.
        what: &'static str,
        /// The length that the field states, in bytes.
        stated: usize,
        /// The length found, in bytes.
        actual: usize,
    },
    /// A check sum does not match the bytes before it.
    #[error("{what}: {stated:#x} in the packet, {computed:#x} computed")]
    BadCrc {
        /// Which check sum: `ICRC`, `VCRC` or `LPCRC`.
        what: &'static str,
        /// The value in the packet.
        stated: u32,
        /// The value that its bytes give.
        computed: u32,
    },
}

impl ParseError {
    /// Refuses another version of a format than the one that is understood.
    ///
    /// # Errors
    /// [`ParseError::BadVersion`] if `value` is not `expected`.
    #[inline]
    pub(crate) const fn check_version(
        what: &'static str,
        value: u8,
        expected: u8,
    ) -> Result<(), Self> {
        if value == expected {
            return Ok(());
        }
        Err(Self::BadVersion {
            what,
            value,
            expected,
        })
    }
}

/// Why a value could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EmitError {
    /// The buffer is too small.
    #[error("{what}: {need} bytes needed, room for {have}")]
    NoRoom {
        /// The format to be written.
        what: &'static str,
        /// How many bytes it takes.
        need: usize,
        /// How many bytes the buffer has.
        have: usize,
    },
    /// The content is longer than the format's length field can encode.
    #[error("{what}: {len} bytes are too long (at most {max})")]
    TooLong {
        /// The format to be written.
        what: &'static str,
        /// The length wanted, in bytes.
        len: usize,
        /// The longest that can be written, in bytes.
        max: usize,
    },
}
