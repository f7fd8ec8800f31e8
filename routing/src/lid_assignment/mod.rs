//! LID assignment as a problem of its own (LID07): first paths, chosen for balance alone, then as
//! few LIDs as can realise them.
//!
//! **Paths.** One legal (up*/down*) path for each ordered pair of hosts: [`shortest_widest`],
//! [`path_selection`] or [`load_selection`]. To compare with, [`fully_explicit`] bends the paths until one LID for each
//! destination does.
//!
//! **LIDs.** A switch knows of a packet only its destination LID, so two paths may share a LID of
//! their destination only if they never leave a common switch by different channels. Destinations
//! are independent. For each, the paths are separated into *configurations* without such a split,
//! one LID each; to find the fewest is to colour the graph whose edges are the splits
//! ([`Problem::split_graph`]), hence NP-complete. Heuristics: [`greedy`], [`split_merge`],
//! [`color`], each in the S and L order of the paper; [`exact`] for problems that it can decide.
//! *Destination renaming*, the paper's other comparison, opens a new LID when a path conflicts
//! with the entries of all LIDs so far: that is `greedy` over shortest widest paths.
//!
//! **Tables.** A destination with `k` configurations gets `2^ceil(log2 k)` LIDs ([`Assignment::lmc`]);
//! LID `base + i` realises configuration `i` exactly. [`tables`] fills the entries that no path of
//! a configuration needs by legal paths into it, so that every LID reaches its owner from
//! everywhere; LIDs beyond the last configuration repeat the first ones.
//!
//! Shapes: with `N` hosts, `N (N - 1)` paths; a problem for each of `N` destinations with at most
//! `N - 1` distinct paths. Cost of colouring a destination: distinct paths times hops times
//! `N / 64`, then distinct paths times configurations times hops.
//!
//! Differences and readings: the paper names the path computations without defining them, see the
//! two functions. `split-merge` sorts switches by the number of paths across them. Degrees of
//! the split graph count every host's path, equal paths too. The orientation is that of
//! [`UpDown::new`], from a switch in the middle; the paper does not say how its root was found. Nor does it
//! say how path selection weighs alternatives. Counted ([`path_selection`]), they balance worse than
//! shortest widest paths on 16 switches and better on 32 and 64; weighed by the load that results, among four
//! of each pair ([`load_selection`]), they balance better and need fewer LIDs on all sizes, as in the
//! paper. The engine counts: on fabrics with many equal paths, as fat trees, four alternatives are too few.
//!
//! [`UpDown::new`]: crate::network::UpDown::new

mod assignment;
mod engine;
mod exact;
mod explicit;
mod heuristics;
mod load_selection;
mod path_selection;
mod ranges;
mod routes;
mod shortest_widest;
mod splits;
mod tables;

use thiserror::Error;

use crate::network::PathsTooMany;

pub use assignment::{Assignment, Scheme};
pub use engine::PathScheme;
pub(crate) use engine::Separate;
pub use exact::exact;
pub use explicit::fully_explicit;
pub use heuristics::{First, color, greedy, split_merge};
pub use load_selection::load_selection;
pub use path_selection::{path_selection, path_selection_among};
pub use routes::Routes;
pub use shortest_widest::shortest_widest;
pub use splits::{PathSet, Problem};
pub use tables::tables;

/// How many legal paths between two switches are looked at before giving up.
pub const PATHS_MAX: usize = 4096;

/// Why there is no routing or no assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LidError {
    /// Some host cannot be reached from some other.
    #[error("the switches are not all connected with each other")]
    NotConnected,
    /// Two switches with too many paths between them.
    #[error(transparent)]
    Paths(#[from] PathsTooMany),
    /// The exact search ran out of steps.
    #[error("{steps_max} steps do not decide a destination of {paths} distinct paths")]
    TooHard {
        /// Distinct paths to the destination.
        paths: usize,
        /// The limit of the search.
        steps_max: u64,
    },
    /// More configurations than a port can have LIDs.
    #[error("a destination needs {needed} LIDs; a port has at most 128 (LMC 7)")]
    TooManyConfigurations {
        /// Its configurations.
        needed: u32,
    },
}

#[cfg(test)]
mod tests;
