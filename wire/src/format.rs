//! The trait of formats of fixed length, and access to their big-endian fields.

use crate::ParseError;

/// A format of fixed length: bytes to a value and back.
///
/// [`parse`](Format::parse) and [`emit`](Format::emit) are inverses: what is emitted parses to an
/// equal value, and what parses and has its reserved bits zero is emitted unchanged.
pub trait Format: Sized {
    /// The format's name in errors.
    const NAME: &'static str;
    /// Its length in bytes.
    const LEN: usize;

    /// Reads the value from exactly [`Self::LEN`] bytes. Use [`Format::parse`], which checks that.
    ///
    /// # Errors
    /// What [`Format::parse`] says, but for the length.
    fn read(raw: &[u8]) -> Result<Self, ParseError>;

    /// Writes the value's fields into exactly [`Self::LEN`] bytes that are zero. Use
    /// [`Format::emit`], which provides them.
    fn write(&self, raw: &mut [u8]);

    /// Reads one value from the front of `bytes` and returns it with what follows.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] if `bytes` is shorter than [`Self::LEN`]; other variants where a
    /// field has an illegal value, as the type's documentation says.
    #[inline]
    fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let Some((raw, rest)) = bytes.split_at_checked(Self::LEN) else {
            return Err(ParseError::Truncated {
                what: Self::NAME,
                need: Self::LEN,
                have: bytes.len(),
            });
        };
        Ok((Self::read(raw)?, rest))
    }

    /// Writes the value into the first [`Self::LEN`] bytes of `out`: every one of them, reserved
    /// bits as zero, and none behind.
    ///
    /// # Panics
    /// If `out` is shorter than [`Self::LEN`].
    #[inline]
    fn emit(&self, out: &mut [u8]) {
        let raw = &mut out[..Self::LEN];
        raw.fill(0);
        self.write(raw);
    }

    /// The value's bytes; `N` must be [`Self::LEN`], which the compiler checks.
    #[inline]
    fn to_bytes<const N: usize>(&self) -> [u8; N] {
        const { assert!(N == Self::LEN, "the array's length must be the format's") };
        let mut raw = [0; N];
        self.write(&mut raw);
        raw
    }
}

/// The `N` bytes at `at`.
#[inline]
pub(crate) fn array<const N: usize>(raw: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&raw[at..at + N]);
    out
}

/// The big-endian number in the two bytes at `at`.
#[inline]
pub(crate) fn u16_at(raw: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(raw, at))
}

/// The big-endian number in the three bytes at `at`.
#[inline]
pub(crate) fn u24_at(raw: &[u8], at: usize) -> u32 {
    let [a, b, c] = array(raw, at);
    u32::from_be_bytes([0, a, b, c])
}

/// The big-endian number in the four bytes at `at`.
#[inline]
pub(crate) fn u32_at(raw: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(raw, at))
}

/// The big-endian number in the eight bytes at `at`.
#[inline]
pub(crate) fn u64_at(raw: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(raw, at))
}

/// Writes `bytes` at `at`.
#[inline]
pub(crate) fn put<const N: usize>(raw: &mut [u8], at: usize, bytes: [u8; N]) {
    raw[at..at + N].copy_from_slice(&bytes);
}

/// Writes `value` big-endian into the two bytes at `at`.
#[inline]
pub(crate) fn put_u16(raw: &mut [u8], at: usize, value: u16) {
    put(raw, at, value.to_be_bytes());
}

/// Writes the low 24 bits of `value` big-endian into the three bytes at `at`.
#[inline]
pub(crate) fn put_u24(raw: &mut [u8], at: usize, value: u32) {
    let [_, a, b, c] = value.to_be_bytes();
    put(raw, at, [a, b, c]);
}

/// Writes `value` big-endian into the four bytes at `at`.
#[inline]
pub(crate) fn put_u32(raw: &mut [u8], at: usize, value: u32) {
    put(raw, at, value.to_be_bytes());
}

/// Writes `value` big-endian into the eight bytes at `at`.
#[inline]
pub(crate) fn put_u64(raw: &mut [u8], at: usize, value: u64) {
    put(raw, at, value.to_be_bytes());
}

/// Two 4-bit fields in one byte.
#[inline]
pub(crate) const fn nibbles(high: u8, low: u8) -> u8 {
    (high << 4) | (low & 0x0f)
}
