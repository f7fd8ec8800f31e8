//! Clos fabrics without interference (CLOS04): a routing tree for each spine and parallel cable,
//! and a controller that gives every connection a tree of which no link is taken.
//!
//! ```text
//!        spine 0    spine 1        a tree is one spine with one cable to each leaf;
//!        ||   ||    ||   ||        DLID = BaseLID + tree id names destination and path
//!       leaf 0     leaf 1
//!       | | |      | | |
//! ```
//!
//! **Shape** ([`Clos`]). Every leaf has `links` cables to every spine; there are
//! `trees = spines * links` routing trees, and tree `s * links + k` consists of spine `s` and the
//! `k`-th cable to each leaf.
//!
//! **Tables** ([`tables()`]). `2^LMC >= trees`, so `trees <= 128`. A leaf sends `base + t` into
//! tree `t` unless the host is its own; the spine of `t` sends it down the tree's cable to the
//! host's leaf. No other spine has an entry for it.
//!
//! **Connections** ([`Controller`]). In a window, each source sends to one destination at most and
//! each destination receives from one source at most (*admissible* traffic). A connection between two
//! leaves needs a tree that no other connection uses from its first leaf or to its last: in the
//! Paull matrix ([`Paull`]; rows are first leaves, columns last leaves, entries the trees in use) no
//! tree may stand twice in a row or in a column. With `n` hosts at a leaf, `trees >= n` lets every
//! admissible connection in if standing ones may be moved, `trees >= 2n - 1` without moving any.
//! FIG. 3 of the paper has two spines with two cables each, so that it is trees that count, not
//! spines.
//!
//! Cost: tables, switches times LIDs. A connection, trees; with rearrangement trees squared times
//! the length of a chain, at most twice the number of leaves.
//!
//! Differences from the paper:
//! * Connections within a leaf use no tree, rather than a looping path that is pruned later.
//! * LIDs from `base + trees` on, where trees are no power of two, repeat the first ones.
//! * The engine `clos` does give the other spines an entry for BaseLID itself (tree 0). What a spine
//!   sends on its own account (traps, answers to queries) goes to base LIDs and would be lost
//!   otherwise; no other packet for that LID ever comes to them, so trees stay apart.
//!   [`SpineEntries::OwnTrees`] is the paper's form.

mod controller;
mod paull;
mod shape;
mod tables;

use thiserror::Error;

pub use controller::{Admitted, Controller, Deferred, Mode, Moved, Reason, Window};
pub use paull::{Move, Paull};
pub use shape::{Clos, NonBlocking, NotClos};
pub(crate) use tables::ClosEngine;
pub use tables::{SpineEntries, TREES_MAX, tables};

/// Why a connection controller refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// Strictly non-blocking operation without the trees for it.
    #[error(
        "{hosts} hosts at a leaf need {needed} trees to work without rearrangement, not {trees}"
    )]
    TooFewTrees {
        /// Trees that there are.
        trees: usize,
        /// The most hosts at a leaf, n.
        hosts: usize,
        /// 2n - 1.
        needed: usize,
    },
    /// A fabric without trees.
    #[error("there is no routing tree")]
    NoTree,
    /// A host number that is too large.
    #[error("there is no host {host}; they are numbered from 0 to {}", hosts.saturating_sub(1))]
    NoSuchHost {
        /// The number.
        host: usize,
        /// How many hosts there are.
        hosts: usize,
    },
    /// A request whose source is its destination.
    #[error("host {0} asks for a connection to itself")]
    ToItself(usize),
    /// More requests than may wait.
    #[error("{waiting} requests wait already and no more than {waiting_max} may")]
    TooManyWaiting {
        /// Requests that would have to wait.
        waiting: usize,
        /// The limit.
        waiting_max: usize,
    },
}
