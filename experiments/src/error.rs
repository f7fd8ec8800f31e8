//! Why there are no results.

use std::path::PathBuf;

use sim::{SetupError, Violation};
use thiserror::Error;

/// Why there are no results.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The topology cannot be made.
    #[error(transparent)]
    Topology(#[from] topologies::TopologyError),
    /// A graph cannot be put together.
    #[error(transparent)]
    Graph(#[from] topologies::GraphError),
    /// There are no such paths or LIDs.
    #[error(transparent)]
    Lids(#[from] routing::lid_assignment::LidError),
    /// Connections cannot be tried.
    #[error(transparent)]
    Qos(#[from] routing::qos::QosError),
    /// A run cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A fabric cannot be used as its plan says.
    #[error("{fabric}: {source}")]
    Fabric {
        /// Which one, and on how many VLs.
        fabric: String,
        /// Why not.
        source: SetupError,
    },
    /// Connections with promised bandwidth on tables that have service levels of their own.
    #[error("{topology}: {routing} needs the VLs for itself; choose an engine that does not")]
    ServiceLevels {
        /// The topology.
        topology: String,
        /// The routing engine.
        routing: routing::RoutingEngine,
    },
    /// A checker found what must never happen: a fault of the simulator or of a device.
    #[error("a rule was broken: {0}")]
    Violation(String),
    /// A point cannot be run.
    #[error("{plan}: {point}")]
    Point {
        /// Which plan.
        plan: String,
        /// Which point.
        point: String,
        /// Why.
        source: Box<Self>,
    },
    /// An explanation that is of no statement.
    #[error(
        "{plan}: [[explain]] {statement:?} is part of no statement of the plan; the results are written. \
         The statements are those of its report"
    )]
    Unused {
        /// Which plan.
        plan: String,
        /// The statement that it is about.
        statement: String,
    },
    /// A folder without results.
    #[error("{}: no results here: `ibemu sim run` or `ibemu sim batch` writes them", .0.display())]
    NoResults(PathBuf),
    /// Two plans would write the same files.
    #[error("two plans are named {0}: their results would go to the same files")]
    SameName(String),
    /// Results cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// That the checkers of a run have found no broken rule.
///
/// # Errors
/// [`ExperimentError::Violation`]: the first one that they have found.
pub(crate) fn no_violations(found: &[Violation]) -> Result<(), ExperimentError> {
    match found.first() {
        Some(violation) => Err(ExperimentError::Violation(violation.to_string())),
        None => Ok(()),
    }
}
