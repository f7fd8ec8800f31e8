//! From a graph to what a subnet manager installs: LIDs and forwarding tables, and from tables to
//! a verdict on them.
//!
//! Everything here is a pure function: the same fabric and options give the same bytes, whatever
//! the order in which nodes were found. A [`RoutingEngine`] is chosen by name at run time; what it
//! computes, [`verify()`] checks against the graph without knowing how it was computed.
//!
//! ```
//! use routing::{Options, RoutingEngine, verify};
//!
//! let fabric = topologies::parse("fat-tree-4-3")?.graph;
//! let tables = RoutingEngine::Auto.route(&fabric, &Options::default())?;
//! assert_eq!(tables.engine, RoutingEngine::Mlid);
//! assert!(verify(&fabric, &tables, tables.promises).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acyclic;
mod auto;
mod balance;
pub mod clos;
mod dependencies;
mod detour;
mod dfsssp;
pub mod dor;
pub mod dump;
mod engine;
mod engines;
mod error;
pub mod fat_tree;
pub mod file;
pub mod ftree;
mod grid;
pub mod guid_list;
mod lash;
mod layers;
mod levels;
pub mod lid_assignment;
mod lids;
mod minhop;
mod mlid;
pub mod multicast;
pub mod network;
mod nue;
pub mod qos;
pub mod quality;
mod repair;
mod routing_engine;
pub mod structure;
mod switch_paths;
mod tables;
mod targets;
mod tiers;
pub mod torus_2qos;
mod updn;
mod verify;
mod vl_assignment;

pub use auto::{Attempt, Attempting, Choice, choose};
pub use engine::{DATA_VLS, Options};
pub use error::{EngineError, RoutingError, Warning};
pub use fat_tree::{FatTreeLabels, LabelsDoNotFit, NotFatTree, recognise};
pub use lids::{KnownLids, LidBase, LidRange, Lids};
pub use mlid::route_degraded;
pub use network::port_guid;
pub use repair::{Repair, repair};
pub use routing_engine::RoutingEngine;
pub use tables::{BLOCK, Hop, Lft, Path, Promises, Tables};
pub use tiers::Tiers;
pub use verify::{Channel, DeliveryFailure, LoopOf, PROBLEMS_SHOWN, Problem, Report, verify};
pub use vl_assignment::{SECOND_LEVEL, SlToVl, VlAssignment};
