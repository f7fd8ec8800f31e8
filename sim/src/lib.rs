//! A fabric in virtual time: the very switches and ports of the daemons, in one process, as a
//! discrete-event simulation whose every byte follows from its plan and its seed.
//!
//! ```
//! use sim::{FaultPlan, Load, Model, Prepared};
//!
//! let fabric = topologies::parse("fat-tree-4-2")?.graph;
//! let prepared = Prepared::new(&fabric, "mlid")?;
//! let outcome = prepared.run(
//!     &Model::mlid04(1),
//!     &Load::uniform(0.03, 1),
//!     &FaultPlan::default(),
//! )?;
//! assert_eq!(outcome.violations, []);
//! assert!((outcome.accepted - 0.03).abs() < 0.002);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audit;
mod cable;
mod deadlock;
mod desk;
pub mod experiments;
mod fabric;
mod faults;
mod ledger;
mod load;
mod measure;
mod model;
mod node;
mod queue;
mod setup;
mod smp;
mod station;
mod twin;
mod workload;

pub use audit::Balance;
pub use deadlock::{Deadlock, Lane};
pub use fabric::Tally;
pub use faults::{End, Fault, FaultError, FaultPlan, Trouble};
pub use ledger::Violation;
pub use load::{Load, Outcome, Prepared};
pub use model::{CreditReturn, Model, ModelError, PACKET_BYTES_MAX, PACKET_BYTES_MIN};
pub use setup::SetupError;
pub use twin::{Twin, TwinConfig, TwinError};
pub use workload::{LaneChoice, Pattern, WorkloadError};
