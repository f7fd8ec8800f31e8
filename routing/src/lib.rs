//! From a graph to what a subnet manager installs: LIDs and forwarding tables, and from tables to
//! a verdict on them.
//!
//! Everything here is a pure function: the same fabric and options give the same bytes, whatever
//! the order in which nodes were found. An [`Engine`] is chosen by name at run time; what it
//! computes, [`verify()`] checks against the graph without knowing how it was computed.
//!
//! ```
//! use routing::{Options, engine, verify};
//!
//! let fabric = topologies::parse("fat-tree-4-3")?.graph;
//! let tables = engine("auto")?.route(&fabric, &Options::default())?;
//! assert_eq!(tables.engine, "mlid");
//! assert!(verify(&fabric, &tables, tables.promises).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod balance;
mod channels;
pub mod clos;
mod detour;
mod dfsssp;
pub mod dor;
pub mod dump;
mod engines;
mod error;
pub mod fat_tree;
pub mod file;
mod keep;
mod lanes;
pub mod lid_assignment;
mod lids;
mod minhop;
pub mod multicast;
mod net;
pub mod network;
pub mod qos;
pub mod quality;
mod tables;
mod updn;
mod verify;

pub use engines::{Engine, Options, engine, engines};
pub use error::{LabelsDoNotFit, RoutingError, Warning};
pub use fat_tree::{FatTreeLabels, NotFatTree, recognise, route_degraded};
pub use keep::{Kept, keep};
pub use lanes::{Lanes, SlToVl};
pub use lids::{KnownLids, LidBase, LidRange, Lids, port_guid};
pub use tables::{BLOCK, Hop, Lft, Path, Promises, Tables};
pub use verify::{Channel, PROBLEMS_SHOWN, Problem, Report, Trouble, verify};
