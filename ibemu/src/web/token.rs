//! The token that a request must show.

use std::path::Path;

use anyhow::{Context, Result};
use netio::random;
use netio::secret_file::read_secret;

use crate::usage::UsageError;

/// How many random bytes a token is drawn of.
const BYTES: usize = 20;
/// How long a token of the user's own may be.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=128;

/// Letters and digits that nobody can guess.
#[derive(Clone)]
pub(super) struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// The token of the file, else a new one.
    ///
    /// # Errors
    /// If the file cannot be read or holds no token.
    pub(super) fn given(file: Option<&Path>) -> Result<Self> {
        let Some(file) = file else {
            let bytes: [u8; BYTES] = random::bytes().context("cannot draw a token")?;
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            return Ok(Self(digits.collect()));
        };
        let text = read_secret(file).context("--token-file")?;
        Ok(Self::of(text.trim())
            .map_err(|problem| UsageError(format!("--token-file {}: {problem}", file.display())))?)
    }

    /// A token of the user's own.
    pub(super) fn of(text: &str) -> Result<Self, &'static str> {
        let fits = LENGTH.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err("a token is 16 to 128 letters and digits")
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is it. How long that takes does not tell how much of it is right.
    pub(super) fn is(&self, shown: &str) -> bool {
        let pairs = self.0.bytes().zip(shown.bytes());
        let differences = pairs.fold(0, |all, (a, b)| all | (a ^ b));
        shown.len() == self.0.len() && std::hint::black_box(differences) == 0
    }
}
