//! Why a plan cannot be run.

use std::io;
use std::path::PathBuf;

use hostd::control::FLOWS_MAX;
use thiserror::Error;

use super::{GROUPS_MAX, SECONDS_MAX};

/// A plan that cannot be run.
#[derive(Debug, Error)]
pub(crate) enum PlanError {
    /// Not read.
    #[error("{}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, or not a plan.
    #[error("{}: {error}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        error: String,
    },
    /// A value out of its range.
    #[error("{group}: {what}")]
    Value {
        /// Which group of flows.
        group: String,
        /// What is wrong, and what is allowed.
        what: String,
    },
    /// No flows.
    #[error("a plan needs 1 to {GROUPS_MAX} [[flows]], and has {0}")]
    Groups(usize),
    /// The time before anything is measured.
    #[error("warmup {0}: 0 to {SECONDS_MAX} seconds")]
    Warmup(f64),
    /// More than a host holds.
    #[error(
        "{host} would have {flows} flows, and a host holds {FLOWS_MAX} each way: leave out hosts (hosts = [\"GLOB\"]), \
         or the warm-up, which doubles them"
    )]
    TooManyFlows {
        /// The host.
        host: String,
        /// Its flows.
        flows: usize,
    },
    /// Nothing at all.
    #[error("no host sends to another")]
    Nothing,
}
