//! The syntax of the files that a subnet manager keeps across restarts.
//!
//! One statement a line, words separated by blanks; empty lines and lines that begin with `#`
//! are comments. Numbers are decimal, GUIDs `0x` and up to 16 hexadecimal digits. The first statement
//! is always `version 1`.

use core::str::FromStr;

use wire::Guid;

/// A line that cannot be parsed.
#[derive(Debug)]
pub(crate) struct Damaged {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) problem: String,
}

/// Calls `take` for each statement after the first, with its keyword and the rest of its line.
///
/// # Errors
/// [`Damaged`]: the first line that is no statement, or that `take` refuses.
pub(crate) fn read(
    text: &str,
    mut take: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), Damaged> {
    let mut versioned = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let taken = match (versioned, keyword) {
            (false, "version") if rest.trim() == "1" => {
                versioned = true;
                Ok(())
            }
            (false, _) => Err("the first statement must be `version 1`".to_owned()),
            (true, _) => take(keyword, rest),
        };
        taken.map_err(|problem| Damaged {
            line: index + 1,
            problem,
        })?;
    }
    Ok(())
}

/// The error for an unknown keyword.
pub(crate) fn unknown(keyword: &str) -> String {
    format!("unknown statement {keyword:?}")
}

/// A GUID.
pub(crate) fn guid(word: Option<&str>) -> Result<Guid, String> {
    let word = word.ok_or("a GUID is missing")?;
    word.strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .map(Guid)
        .ok_or_else(|| format!("{word:?} is no GUID (0x and up to 16 hexadecimal digits)"))
}

/// A number, called `what`.
pub(crate) fn number<N: FromStr>(word: Option<&str>, what: &str) -> Result<N, String> {
    let word = word.ok_or_else(|| format!("{what} is missing"))?;
    word.parse().map_err(|_| format!("{word:?} is not {what}"))
}

/// Asserts that the line ends here.
pub(crate) fn end(word: Option<&str>) -> Result<(), String> {
    word.map_or(Ok(()), |word| Err(format!("{word:?} is too much")))
}
