//! Why a plan cannot be used.

use std::path::PathBuf;

use thiserror::Error;

/// A plan that cannot be used.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No such plan.
    #[error("there is no plan {name:?}: {known}, or a file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Not TOML, an unknown key, or a value of the wrong type; says line and column.
    #[error("{file}: {error}")]
    Syntax {
        /// The file or plan.
        file: String,
        /// What is wrong where.
        error: String,
    },
    /// A value that makes no sense.
    #[error("{file}, line {line}: {key}: {what}")]
    Value {
        /// The file or plan.
        file: String,
        /// The line on which the key stands first; 1 where it does not.
        line: usize,
        /// The key.
        key: String,
        /// What is wrong, and what is allowed.
        what: String,
    },
}
