//! Words that several formats have in common.

use wire::choice::Choice as _;
use wire::{LinkRate, LinkSpeed, LinkWidth};

use crate::error::TextProblem;

/// Longest name or id that is taken; node descriptions have 64 bytes (IBA 14.2.5.2).
pub(super) const NAME_CHARACTERS_MAX: usize = 256;

/// How much of a line a message shows.
const EXCERPT_CHARACTERS_MAX: usize = 60;

/// The beginning of a text, for a message.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARACTERS_MAX).collect()
}

/// `4xHDR`.
pub(super) fn rate_word(LinkRate { width, speed }: LinkRate) -> String {
    format!("{}{}", width.name(), speed.name().to_ascii_uppercase())
}

/// A name, cut if it is far too long; nothing if it is blank.
pub(super) fn name(text: &str) -> &str {
    match text.char_indices().nth(NAME_CHARACTERS_MAX) {
        _ if text.trim().is_empty() => "",
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// What is wrong with a line that a terminal would interpret: names end up on terminals and in logs.
pub(super) fn control_character(line: &str) -> Option<TextProblem> {
    let mut characters = (1..).zip(line.chars());
    let (column, character) = characters.find(|&(_, c)| c.is_control() && c != '\t')?;
    Some(TextProblem::ControlCharacter { column, character })
}

/// Whether four digits or more of a GUID are blanked out with `x` or `*`.
pub(super) fn is_redacted(text: &str) -> bool {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let digits = digits
        .strip_prefix(['S', 'H', 'R'])
        .map_or(digits, |rest| rest.strip_prefix('-').unwrap_or(digits));
    let is_blank = |c: char| matches!(c, 'x' | 'X' | '*');
    digits.chars().filter(|&c| is_blank(c)).count() >= 4
        && digits.chars().all(|c| is_blank(c) || c.is_ascii_hexdigit())
}

/// A number of at most `digits` hexadecimal digits behind `0x`.
pub(super) fn hexadecimal(what: &'static str, text: &str, digits: u8) -> Result<u64, TextProblem> {
    let bad = || TextProblem::BadNumber {
        what,
        text: excerpt(text),
        digits,
    };
    let number = text.strip_prefix("0x").ok_or_else(bad)?;
    let is_short = number.len() <= usize::from(digits);
    let number = wire::convert::hexadecimal(number);
    number.filter(|_| is_short).ok_or_else(bad)
}

/// Width and speed as in `4xHDR`.
pub(super) fn rate(word: &str) -> Option<LinkRate> {
    let at = word.find('x')? + 1;
    Some(LinkRate {
        width: LinkWidth::from_name(&word[..at]).ok()?,
        speed: LinkSpeed::from_name(&word[at..].to_ascii_lowercase()).ok()?,
    })
}

/// The highest of the widths and speeds in masks as PortInfo has them: LinkWidthEnabled (0: 4x), LinkSpeedEnabled,
/// LinkSpeedExtEnabled.
pub(super) fn rate_of_masks(width: u8, speed: u8, extended: u8) -> Option<LinkRate> {
    let highest = |mask: u8, codes: &[u8]| codes.iter().copied().find(|code| mask & code != 0);
    let width = match highest(width, &[8, 4, 2, 16, 1]) {
        Some(8) => LinkWidth::X12,
        Some(4) => LinkWidth::X8,
        Some(16) => LinkWidth::X2,
        Some(1) => LinkWidth::X1,
        _ => LinkWidth::X4,
    };
    let extended = highest(extended, &[8, 4, 2, 1]).unwrap_or(0);
    let speed = highest(speed, &[4, 2, 1]).unwrap_or(0);
    let speed = LinkSpeed::from_codes(speed, extended, 0)?;
    Some(LinkRate { width, speed })
}
