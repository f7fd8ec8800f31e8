//! Lists of GUIDs as text: what OpenSM reads with `-a`, `--io_guid_file` and `--cn_guid_file`.
//!
//! A line holds a GUID, `0x` and up to 16 hexadecimal digits; what follows it after a blank (a name, say)
//! says nothing. Empty lines, and everything from a `#` on, are passed over.

use core::fmt::Write as _;
use std::collections::BTreeSet;

use thiserror::Error;
use wire::Guid;

/// The most GUIDs of a list: a subnet has no more nodes.
pub const GUIDS_MAX: usize = 49_151;

/// A text that is no list of GUIDs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GuidListError {
    /// A line that begins with something else.
    #[error("line {line}: {found:?} is no GUID: write 0x and up to 16 hexadecimal digits")]
    NoGuid {
        /// The line, from 1.
        line: usize,
        /// Its first word, shortened.
        found: String,
    },
    /// Too many lines.
    #[error("line {line}: more than {GUIDS_MAX} GUIDs")]
    TooMany {
        /// The line, from 1.
        line: usize,
    },
}

/// Reads a list.
///
/// # Errors
/// [`GuidListError`] with the line.
pub fn read(text: &str) -> Result<BTreeSet<Guid>, GuidListError> {
    let mut guids = BTreeSet::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default();
        let Some(word) = text.split_whitespace().next() else {
            continue;
        };
        let guid = guid(word).ok_or_else(|| GuidListError::NoGuid {
            line,
            found: word.chars().take(40).collect(),
        })?;
        guids.insert(guid);
        if guids.len() > GUIDS_MAX {
            return Err(GuidListError::TooMany { line });
        }
    }
    Ok(guids)
}

/// Reads one GUID.
#[must_use]
pub fn guid(word: &str) -> Option<Guid> {
    let digits = word.strip_prefix("0x")?;
    let is_number = digits.len() <= 16 && digits.chars().all(|c| c.is_ascii_hexdigit());
    let number = is_number.then(|| u64::from_str_radix(digits, 16).ok());
    number.flatten().map(Guid)
}

/// The text that [`read`] reads.
#[must_use]
pub fn write(guids: &BTreeSet<Guid>) -> String {
    let mut text = String::new();
    for guid in guids {
        // Writing into a String does not fail.
        let _ = writeln!(text, "{guid}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_names_and_remarks_say_nothing() {
        let text = "# spines\n0x10 spine one\n\n  0x000000000000000a#two\n0x10\n";
        let guids = read(text).unwrap();
        assert_eq!(guids, BTreeSet::from([Guid(10), Guid(16)]));
        assert_eq!(read(&write(&guids)), Ok(guids));
    }

    #[test]
    fn other_words_are_refused_with_their_line() {
        for word in ["spine", "0x", "0x-1", "0x+1", "0x12345678901234567", "17"] {
            let error = read(&format!("0x1\n{word} x\n"));
            let found = word.to_owned();
            assert_eq!(error, Err(GuidListError::NoGuid { line: 2, found }));
        }
    }
}
