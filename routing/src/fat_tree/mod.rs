//! Fat trees: recognising an m-port n-tree (MLID04), and the labels that its devices have in it.
//!
//! A fabric is given the labels of an m-port n-tree ([`recognise`]). They outlive the loss of
//! devices.

mod labels;
mod recognition;
mod shape;
mod structure;

use topologies::FatTree;

pub use labels::{FatTreeLabels, LabelsDoNotFit};
pub use recognition::recognise;
pub use shape::NotFatTree;

/// The rank by which a source picks a LID of a destination (MLID04 section 4.2): with `alpha` the
/// length of their common prefix, the rank of the source in the group of hosts that have its first
/// `alpha + 1` digits. 0 for two hosts of one leaf switch, and for a host and itself.
#[must_use]
pub fn path_rank(tree: &FatTree, source: u32, destination: u32) -> u32 {
    (0..tree.levels())
        .find(|&digit| tree.host_digit(source, digit) != tree.host_digit(destination, digit))
        .map_or(0, |alpha| source % tree.power(tree.levels() - 1 - alpha))
}
