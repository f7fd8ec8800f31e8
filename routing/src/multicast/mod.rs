//! Multicast: trees, multicast LIDs and forwarding tables for groups of hosts (MCAST07).
//!
//! **Cyclic trees** ([`Scheme::Cyclic`], fat trees only). All unicast LIDs `base(d) + off` of
//! MLID04 lie on one tree `T_off`: going up at level `l` by parent `floor(off / h^(n-1-l)) mod h`
//! leads from every leaf switch to one root, and equation (1) leads down again. There are
//! `h^(n-1)` such trees, each with a root of its own and no link in common with another above the
//! leaf switches of one root. Source `s` uses the tree of `off(s) = PID(s) mod h^(n-1)`; sources
//! with equal `off` share it. A group needs a multicast LID for each (group, tree) that a member
//! sends on. `MFT[switch]` holds the ports of the tree behind which a receiver sits; a switch
//! always leaves out the port that a packet came in by, so that the tree carries a copy to each
//! receiver once and to no other host ([`deliver`]).
//!
//! **Spanning tree** ([`Scheme::SpanningTree`], any fabric): one multicast LID for each group, on
//! the part of one breadth-first tree that joins its members, as OpenSM does. The root is the
//! switch nearest to all hosts, independent of the members, so that a member that joins or leaves changes
//! the branch to it and nothing else. (OpenSM takes the switch nearest to the members, and makes
//! the tree anew.)
//!
//! **Unicast** ([`unicast`]): a packet for each receiver, to compare with.
//!
//! Shapes: a table has a row for each multicast LID from 0xc000 on, written in blocks of 32 rows by
//! 16 ports (IBA 14.2.5.10). Cost: for each (group, tree), members times levels plus switches of
//! the tree.
//!
//! Differences from the paper:
//! * Section 3.3.2 takes the union over all switches, with the offset cut to the digits after the
//!   common prefix. Sources' and destinations' paths then belong to different trees, and the union
//!   holds forwarding loops in more than half of all cases; the smallest is FT(4, 3), source 010,
//!   group {000, 200}. So the offset is not cut here.
//! * One multicast LID for several offsets loops always. So a group has one MGID but several
//!   multicast LIDs, which IBA does not foresee: the SA answers each joiner with the LID of its own
//!   offset, and hosts accept by MGID whatever the LID. Stock clients get [`Scheme::SpanningTree`].
//! * Where a tree has lost a cable, the next whole one, or where none is the spanning tree, carries
//!   the packets to its multicast LID.

mod delivery;
mod groups;
mod mft;
mod trees;

use thiserror::Error;
use wire::{Guid, Lid};

use crate::fat_tree::NotFatTree;
use crate::tables::Tables;

pub use delivery::{Delivery, DeliveryProblem, check, deliver};
pub use groups::{BlockChange, GroupState, Joined, Mgid, Multicast, Options, Role, Scheme};
pub use mft::{BLOCK_ROWS, Mft, PORTS_A_POSITION, PortSet};

/// Why a member cannot join, or multicast cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MulticastError {
    /// Cyclic trees are for fat trees.
    #[error("cyclic multicast needs an m-port n-tree, and this fabric is none: {0}")]
    NotFatTree(#[from] NotFatTree),
    /// No tree reaches all switches with hosts.
    #[error("no tree reaches all switches that have hosts")]
    NoTree,
    /// A port that is not there.
    #[error("there is no connected host port {0}")]
    NoSuchPort(Guid),
    /// The tables of the switches have no room for another group or tree.
    #[error("all {rows} rows of the multicast forwarding tables are taken")]
    TableFull {
        /// Rows of the smallest table.
        rows: u16,
    },
    /// A port leaves a group that it is not a member of.
    #[error("port {0} is not a member of the group")]
    NotAMember(Guid),
}

/// Unicast instead of multicast: the DLID of each packet that a source sends to reach all
/// receivers but itself, by the tables' own path selection.
#[must_use]
pub fn unicast(tables: &Tables, source: Guid, receivers: &[Guid]) -> Vec<Lid> {
    receivers
        .iter()
        .filter(|&&receiver| receiver != source)
        .filter_map(|&receiver| tables.dlid_for(source, receiver))
        .collect()
}
