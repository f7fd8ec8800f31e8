//! Plans of request sequences as they are written.

use serde::Deserialize;

use crate::study::{Head, Refusal, check_head, check_lists};

/// The most points of one plan.
const POINTS_MAX: usize = 50_000;
/// The most requests of a run.
const REQUESTS_MAX: u32 = 10_000_000;
/// The most leaves, hosts of a leaf, and trees.
const SIDE_MAX: u32 = 128;

/// Sequences of requests for connections, with several numbers of trees.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestsPlan {
    /// `requests`.
    pub kind: String,
    /// Name of the plan and of the files of its results.
    pub(super) name: String,
    /// What the report is headed.
    pub(super) title: String,
    /// Key of the paper whose result this is.
    pub(super) paper: String,
    /// Fabrics: leaves, and hosts of each.
    pub(super) fabric: Vec<Size>,
    /// Numbers of trees, from n (hosts of a leaf) less this many.
    pub(super) trees_below: u32,
    /// To 2n - 1 and this many more.
    pub(super) trees_above: u32,
    /// Which requests are made.
    pub(super) sequences: Vec<Sequence>,
    /// How connections get trees.
    pub(super) policies: Vec<Policy>,
    /// Part of the hosts that send, percent.
    pub(super) occupancy_percent: Vec<u8>,
    /// Requests of a run, those that fill the fabric among them.
    pub(super) requests: u32,
    /// Runs of each point, with seeds of their own.
    pub(super) runs: u32,
    /// What the reduced plan does otherwise.
    #[serde(default)]
    pub(super) quick: Quick,
    /// What there is to say about the results.
    #[serde(default)]
    pub(super) notes: Vec<String>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sequence {
    /// One by one between leaves, each from an idle host to an idle host drawn at random; before
    /// each, so many connections end at random that the occupancy is kept.
    Random,
    /// The fewest requests after which, with 2n - 2 trees and the first free one always taken, a
    /// request finds no tree.
    Worst,
    /// In windows of the controller: in each, hosts ask at random, whether source and destination
    /// are busy or not.
    Windows,
}

impl core::fmt::Display for Sequence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Random => "random",
            Self::Worst => "worst",
            Self::Windows => "windows",
        })
    }
}

/// How connections get trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    /// The first tree that is free at both leaves; none is moved.
    Fixed,
    /// The same, and where there is none others are moved, as few as one exchange of two trees
    /// can do.
    Rearrange,
}

impl core::fmt::Display for Policy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Fixed => "fixed",
            Self::Rearrange => "rearrange",
        })
    }
}

/// What the reduced plan does otherwise; what is not said stays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quick {
    /// Instead of the plan's requests.
    pub(super) requests: Option<u32>,
    /// Instead of the plan's runs.
    pub(super) runs: Option<u32>,
}

impl RequestsPlan {
    pub(super) fn head(&self) -> Head<'_> {
        Head {
            name: &self.name,
            title: &self.title,
            paper: &self.paper,
        }
    }

    /// Numbers of trees for a fabric.
    pub(super) fn trees(&self, size: Size) -> core::ops::RangeInclusive<u32> {
        let least = size.hosts.saturating_sub(self.trees_below).max(1);
        least..=(2 * size.hosts).saturating_sub(1) + self.trees_above
    }

    /// How many points it has.
    pub(super) fn count(&self) -> usize {
        let trees = self
            .fabric
            .iter()
            .map(|&size| self.trees(size).count())
            .sum::<usize>();
        let series = self.sequences.len() * self.policies.len() * self.occupancy_percent.len();
        let runs = usize::try_from(self.runs).unwrap_or(usize::MAX);
        (trees * series).saturating_mul(runs)
    }

    /// The reduced plan.
    pub(super) fn shrunk(&self) -> Self {
        let mut plan = self.clone();
        plan.requests = self.quick.requests.unwrap_or(plan.requests);
        plan.runs = self.quick.runs.unwrap_or(1);
        plan
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        check_head(self.head())?;
        check_lists(&[
            ("fabric", self.fabric.is_empty()),
            ("sequences", self.sequences.is_empty()),
            ("policies", self.policies.is_empty()),
            ("occupancy_percent", self.occupancy_percent.is_empty()),
        ])?;
        for &size in &self.fabric {
            self.check_size(size)?;
        }
        let is_part = |percent: &u8| (1..=100).contains(percent);
        if !self.occupancy_percent.iter().all(is_part) {
            return Err(("occupancy_percent", "1 to 100 each".to_owned()));
        }
        if !(1..=REQUESTS_MAX).contains(&self.requests) {
            let what = format!("{}: 1 to {REQUESTS_MAX}", self.requests);
            return Err(("requests", what));
        }
        if self.runs == 0 || self.count() > POINTS_MAX {
            let what = format!("{} points: 1 to {POINTS_MAX}", self.count());
            return Err(("runs", what));
        }
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
