//! Logs to stderr, one line an event: time, level, span, message, fields.
//!
//! The level is the only filter, so that the start of a daemon compiles no expressions. Lines of
//! level ERROR hold the word ` ERROR `, by which tests find them.

use std::io;

use tracing::level_filters::LevelFilter;

/// Sends the events of `level` and above of the whole process to stderr. A second call has no
/// effect.
pub fn to_stderr(level: LevelFilter) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        .with_writer(io::stderr)
        .finish();
    // A second subscriber is refused: the first one stays, which is what the doc promises.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
