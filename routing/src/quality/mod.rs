//! How good tables are: link loads under named traffic patterns, effective bisection bandwidth,
//! path diversity, and what they cost in LIDs and entries.
//!
//! Everything is counted from the tables and their own path selection, so any tables can be
//! compared with any others. A link here is one direction of a cable between two switches; the
//! cables of hosts carry the same under every routing and are left out.

use std::borrow::Cow;

use topologies::Graph;

use crate::network::Network;
use crate::tables::Tables;

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

/// Tables that several figures are counted of: what all of them need is made once.
pub struct Quality<'a>(walk::Walker<'a>);

impl core::fmt::Debug for Quality<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Quality")
            .field("hosts", &self.0.hosts())
            .finish_non_exhaustive()
    }
}

impl<'a> Quality<'a> {
    /// Of tables of that fabric.
    #[must_use]
    pub fn of(graph: &Graph, tables: &'a Tables) -> Self {
        Self(walk::Walker::new(graph, tables))
    }

    /// The same for a fabric that is numbered already.
    pub(crate) fn on(network: &'a Network, tables: &'a Tables) -> Self {
        Self(walk::Walker::on(Cow::Borrowed(network), tables))
    }

    /// As [`link_loads`].
    #[must_use]
    pub fn link_loads(&self, pattern: Pattern) -> LinkLoads {
        loads::loads(&self.0, pattern)
    }

    /// As [`effective_bisection_bandwidth`].
    #[must_use]
    pub fn effective_bisection_bandwidth(&self, pairings: u32, seed: u64) -> Bisection {
        bisection::bisection(&self.0, pairings, seed)
    }

    /// As [`path_diversity`].
    #[must_use]
    pub fn path_diversity(&self) -> Diversity {
        diversity::diversity(&self.0)
    }
}

#[cfg(test)]
mod tests;
