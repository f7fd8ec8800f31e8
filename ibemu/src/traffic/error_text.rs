//! What the TOML parser says, in bounded length.

/// Characters of a message at most: a file may hold anything.
const MESSAGE_CHARS_MAX: usize = 300;

/// The message, with its line and column, whatever the file holds.
pub(super) fn error_text(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or(text);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    let message: String = error.message().chars().take(MESSAGE_CHARS_MAX).collect();
    let message = message.trim_end().replace('\n', ", ");
    format!("line {line}, column {column}: {message}")
}
