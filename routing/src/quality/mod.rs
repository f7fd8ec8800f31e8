//! How good tables are: link loads under named traffic patterns, effective bisection bandwidth,
//! path diversity, and what they cost in LIDs and entries.
//!
//! Everything is counted from the tables and their own path selection, so any tables can be
//! compared with any others. A link here is one direction of a cable between two switches; the
//! cables of hosts carry the same under every routing and are left out.

mod bisection;
mod diversity;
mod loads;
mod pattern;
mod usage;
mod walk;

pub use bisection::{Bisection, effective_bisection_bandwidth};
pub use diversity::{Diversity, path_diversity};
pub use loads::{LinkLoads, link_loads};
pub use pattern::{Pattern, UnknownPattern};
pub use usage::{Usage, usage};

#[cfg(test)]
mod tests;
