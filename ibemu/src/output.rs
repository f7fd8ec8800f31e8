//! Standard output: text, tables, JSON. A closed pipe is no error.
//!
//! Names come from files and from the fabric and may hold anything. What a terminal would obey is
//! escaped before it is written for people; JSON keeps it, in JSON's own escapes.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use serde::Serialize;

/// Whether standard output was found closed.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes lines and ends the last one. Control characters are escaped.
///
/// # Errors
/// If standard output fails for another reason than a closed pipe.
pub fn line(text: impl Display) -> Result<()> {
    let text = text.to_string();
    finish(writeln!(io::stdout().lock(), "{}", printable(&text)))
}

/// Writes a text. Control characters are escaped.
///
/// # Errors
/// As [`line()`].
pub fn text(text: &str) -> Result<()> {
    let text = printable(text);
    let mut stdout = io::stdout().lock();
    finish(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

/// Writes bytes that this command has made, as they are.
///
/// # Errors
/// As [`line()`].
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    finish(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Before what replaces the text from before: on a terminal clears it, else writes an empty line.
///
/// # Errors
/// As [`line()`].
pub(crate) fn top_of_screen() -> Result<()> {
    let mut stdout = io::stdout().lock();
    let clear = match stdout.is_terminal() {
        true => "\x1b[H\x1b[2J",
        false => "\n",
    };
    finish(stdout.write_all(clear.as_bytes()))
}

/// Writes a value as JSON on one line.
///
/// # Errors
/// As [`line()`].
pub(crate) fn json_line(value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string(value).context("cannot write JSON")?;
    let json = escaped(&json, |c| format!("\\u{:04x}", u32::from(c)));
    finish(writeln!(io::stdout().lock(), "{json}"))
}

/// Writes a value as indented JSON.
///
/// # Errors
/// As [`line()`].
pub fn json(value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    let json = escaped(&json, |c| format!("\\u{:04x}", u32::from(c)));
    finish(writeln!(io::stdout().lock(), "{json}"))
}

/// The text with `\u{1b}` and the like for what a terminal would obey, or what would turn the
/// direction of writing. Line ends and tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_unicode().to_string())
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) {
            shown.push_str(&escape(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters but line ends and tabs; marks of the direction of writing.
fn is_unprintable(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// Whether the reader of standard output has gone, as far as what was written shows.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

fn finish(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        result => result.context("cannot write to standard output"),
    }
}

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// Lines of cells under headings, columns two blanks apart.
#[derive(Debug)]
pub struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self {
            align: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    /// Adds a line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = |cell: String| printable(&cell).replace('\n', r"\u{a}");
        self.rows.push(cells.into_iter().map(shown).collect());
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((cell, &width), align) in row.iter().zip(&widths).zip(&self.align) {
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            if number > 0 {
                f.write_str("\n")?;
            }
            f.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

/// The table of a path: name of each node, the port by which a packet comes in, the port by which it leaves.
#[must_use]
pub fn hop_table<'a>(hops: impl IntoIterator<Item = (&'a str, Option<u8>, Option<u8>)>) -> Table {
    let mut table = Table::new(&[
        ("HOP", Align::Right),
        ("NODE", Align::Left),
        ("IN", Align::Right),
        ("OUT", Align::Right),
    ]);
    let port = |port: Option<u8>| port.map_or_else(|| "-".to_owned(), |port| port.to_string());
    for (number, (node, entry, exit)) in hops.into_iter().enumerate() {
        table.row([number.to_string(), node.to_owned(), port(entry), port(exit)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(printable("a\tb\nc \u{e4}"), "a\tb\nc \u{e4}");
        assert_eq!(
            printable("\u{1b}]0;x\u{7}\r\u{9b}2J\u{7f}\u{202e}"),
            r"\u{1b}]0;x\u{7}\u{d}\u{9b}2J\u{7f}\u{202e}"
        );
        let mut table = Table::new(&[("NAME", Align::Left)]);
        table.row(["\u{1b}[2J".into()]);
        assert_eq!(table.to_string(), "NAME\n\\u{1b}[2J");
    }

    #[test]
    fn escaped_json_holds_the_same_value() {
        let name = "a\u{1b}\u{7f}\u{9b}\n\u{202e}";
        let json = serde_json::to_string(name).unwrap();
        let json = escaped(&json, |c| format!("\\u{:04x}", u32::from(c)));
        assert!(!json.chars().any(is_unprintable), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("LID", Align::Right)]);
        table.row(["h0.0.0".into(), "1".into()]);
        table.row(["s".into(), "12345".into()]);
        assert_eq!(
            table.to_string(),
            "NAME      LID\nh0.0.0      1\ns       12345"
        );
    }
}
