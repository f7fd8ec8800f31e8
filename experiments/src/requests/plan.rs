//! Parameters of plans of request sequences.

use serde::Deserialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::checks::{Refusal, between};

/// The most requests of a run.
const REQUESTS_MAX: u32 = 10_000_000;
/// The most leaves, hosts of a leaf, and trees.
const SIDE_MAX: u32 = 128;

/// Sequences of requests for connections, with several numbers of trees.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestsPlan {
    /// Fabrics: leaves, and hosts of each.
    pub(super) fabric: Vec<Size>,
    /// The fewest trees are n (hosts of a leaf) less this many.
    pub(super) trees_below: u32,
    /// The most trees are 2n - 1 and this many more.
    pub(super) trees_above: u32,
    /// Which requests are made.
    pub(super) sequences: Vec<Sequence>,
    /// How connections are given trees.
    pub(super) policies: Vec<Policy>,
    /// Part of the hosts that send, percent.
    pub(super) occupancy_percent: Vec<u8>,
    /// Requests of a run, including those that fill the fabric.
    pub(super) requests: u32,
    /// Runs of each point, with seeds of their own.
    pub(super) runs: u32,
}

/// Leaves, and hosts of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    /// Leaves.
    pub(super) leaves: u32,
    /// Hosts of each leaf, n.
    pub(super) hosts: u32,
}

impl core::fmt::Display for Size {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}x{}", self.leaves, self.hosts)
    }
}

/// Which requests are made, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Sequence {
    /// One by one between leaves, each from an idle host to an idle host drawn at random; before
    /// each, random connections end so that the occupancy is kept.
    Random,
    /// The fewest requests after which, with 2n - 2 trees and the first free one always taken, a
    /// request finds no tree.
    Worst,
    /// In windows of the controller: in each, random hosts request connections, whether source and
    /// destination are busy or not.
    Windows,
}
wire::choice!(Sequence, "sequence of requests");

/// How connections are given trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Policy {
    /// The first tree that is free at both leaves; no connection is moved.
    Fixed,
    /// The same; if there is none, Paull's algorithm moves connections along the shorter of the
    /// two chains.
    Rearrange,
}
wire::choice!(Policy, "policy");

impl RequestsPlan {
    /// Numbers of trees for a fabric.
    pub(super) fn trees(&self, size: Size) -> core::ops::RangeInclusive<u32> {
        let least = size.hosts.saturating_sub(self.trees_below).max(1);
        let most = size.hosts.saturating_mul(2).saturating_sub(1).max(1);
        least..=most.saturating_add(self.trees_above)
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        for &size in &self.fabric {
            self.check_size(size)?;
        }
        let is_part = |percent: &u8| (1..=100).contains(percent);
        if !self.occupancy_percent.iter().all(is_part) {
            return Err(("occupancy_percent", "1 to 100 each".to_owned()));
        }
        between("requests", self.requests, (1, REQUESTS_MAX))?;
        let windows = self.sequences.contains(&Sequence::Windows);
        if windows && self.policies != [Policy::Rearrange] {
            let what = "windows: the controller rearranges: policies = [\"rearrange\"]";
            return Err(("policies", what.to_owned()));
        }
        Ok(())
    }

    fn check_size(&self, size: Size) -> Result<(), Refusal> {
        let Size { leaves, hosts } = size;
        if !(2..=SIDE_MAX).contains(&leaves) || !(1..=SIDE_MAX).contains(&hosts) {
            let what = format!("{size}: 2 to {SIDE_MAX} leaves of 1 to {SIDE_MAX} hosts");
            return Err(("leaves", what));
        }
        if self.trees_below >= hosts {
            let what = format!("{} with {size}: less than {hosts}", self.trees_below);
            return Err(("trees_below", what));
        }
        if *self.trees(size).end() > 2 * SIDE_MAX {
            let what = format!("{size}: more than {} trees", 2 * SIDE_MAX);
            return Err(("trees_above", what));
        }
        let worst = self.sequences.contains(&Sequence::Worst);
        if worst && (hosts < 2 || leaves < hosts + 1) {
            let what = format!(
                "{size}: the worst sequence needs 2 hosts at a leaf and one leaf more than hosts"
            );
            return Err(("leaves", what));
        }
        Ok(())
    }
}
