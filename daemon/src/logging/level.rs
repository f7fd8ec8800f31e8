//! How severe an event must be to be logged.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tracing::level_filters::LevelFilter;
use wire::choice::Choice;

/// The least severe events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum LogLevel {
    /// No events
    Off,
    /// Failures of the process itself
    Error,
    /// Events that are worth a look
    Warn,
    /// States of ports and links
    Info,
    /// Settings of a device
    Debug,
    /// Packets
    Trace,
}
wire::choice!(LogLevel, "log level");

impl LogLevel {
    /// The help text of an option that takes a log level.
    #[must_use]
    pub fn help() -> String {
        let names: Vec<&str> = Self::names().collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        format!(
            "The least severe events to log: {} or {last}",
            others.join(", ")
        )
    }
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_means_the_filter_of_its_name() {
        for &level in LogLevel::VARIANTS {
            assert_eq!(level.name().parse(), Ok(level));
            assert_eq!(LevelFilter::from(level).to_string(), level.name());
        }
    }

    #[test]
    fn the_help_lists_all_levels() {
        assert_eq!(
            LogLevel::help(),
            "The least severe events to log: off, error, warn, info, debug or trace"
        );
    }
}
