//! The management key (M_Key) of a subnet, as its administrator keeps it (IBA 14.2.4), and the SM_Key by
//! which subnet administration knows trusted requests (IBA 15.4.1).
//!
//! A file of one key: one line of `0x` and up to sixteen hexadecimal digits, not all zero; empty
//! lines and what follows a `#` do not count.

use core::fmt;
use core::num::NonZeroU64;

use thiserror::Error;

/// A management key. Its `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MKey(NonZeroU64);

/// Why a text is no key. The text itself is not shown: it may be a key with a typing
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MKeyError {
    /// There is no line with a key.
    #[error("there is no key in it: write one line, 0x and up to 16 hexadecimal digits")]
    Empty,
    /// A line is not a key.
    #[error("line {0}: this is no key: write 0x and up to 16 hexadecimal digits, not all zero")]
    NoKey(usize),
    /// There is a second key.
    #[error("line {0}: a second key: there is one")]
    Second(usize),
}

impl MKey {
    /// The key of this value; `None` for 0, which is no key (IBA 14.2.4: the port is open).
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// Its value.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The key that the text of a file holds.
    ///
    /// # Errors
    /// [`MKeyError`] with the line, from 1.
    pub fn read(text: &str) -> Result<Self, MKeyError> {
        let mut found = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if found.is_some() {
                return Err(MKeyError::Second(number));
            }
            let digits = line
                .strip_prefix("0x")
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            found = Some(value.and_then(Self::new).ok_or(MKeyError::NoKey(number))?);
        }
        found.ok_or(MKeyError::Empty)
    }

    /// The text of a file with this key.
    #[must_use]
    pub fn write(self) -> String {
        format!("{:#018x}\n", self.get())
    }
}

/// The SM_Key of trusted requests to subnet administration. Its `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SaKey(u64);

impl SaKey {
    /// The key of this value, as a file of it says.
    #[must_use]
    pub const fn new(key: MKey) -> Self {
        Self(key.get())
    }

    /// Its value.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Default for SaKey {
    /// 1: the default of OpenSM and its tools, so no secret.
    fn default() -> Self {
        Self(1)
    }
}

impl fmt::Debug for SaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaKey(..)")
    }
}

impl fmt::Debug for MKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MKey(..)")
    }
}
