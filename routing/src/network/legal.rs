//! All legal paths between two switches up to a length.

use thiserror::Error;

use super::{Network, UpDown};

/// Which legal paths to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLimit {
    /// How many hops longer than the shortest legal path they may be.
    pub detour: u32,
    /// How many there may be for a pair of switches.
    pub paths_max: usize,
}

/// A pair of switches has too many legal paths to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("more than {paths_max} legal paths between two switches")]
pub struct PathsTooMany {
    /// The limit.
    pub paths_max: usize,
}

/// The legal paths from every switch to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegalPaths {
    /// `to[source]`: lists of channels, in order of length, then of channel numbers.
    paths: Vec<Vec<Vec<u32>>>,
}

impl LegalPaths {
    /// Lists them. A path visits no switch twice.
    ///
    /// # Errors
    /// [`PathsTooMany`] beyond `limit.paths_max`.
    pub fn to(
        network: &Network,
        updown: &UpDown,
        target: usize,
        limit: PathLimit,
    ) -> Result<Self, PathsTooMany> {
        let hops = updown.hops_to(network, target);
        let mut paths = Vec::with_capacity(network.switches().len());
        for source in 0..network.switches().len() {
            let mut search = Search {
                network,
                updown,
                hops: &hops,
                target,
                limit,
                path: Vec::new(),
                visited: vec![source],
                found: Vec::new(),
            };
            if let Some(shortest) = hops.any[source] {
                search.extend(source, false, shortest + limit.detour)?;
            }
            let mut found = search.found;
            found.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
            paths.push(found);
        }
        Ok(Self { paths })
    }

    /// The paths from `source`, the shortest first. From the target itself it is the empty path.
    #[must_use]
    pub fn from(&self, source: usize) -> &[Vec<u32>] {
        &self.paths[source]
    }
}

struct Search<'a> {
    network: &'a Network,
    updown: &'a UpDown,
    hops: &'a super::updown::LegalHops,
    target: usize,
    limit: PathLimit,
    path: Vec<u32>,
    visited: Vec<usize>,
    found: Vec<Vec<u32>>,
}

impl Search<'_> {
    fn extend(&mut self, at: usize, descending: bool, budget: u32) -> Result<(), PathsTooMany> {
        if at == self.target {
            if self.found.len() == self.limit.paths_max {
                return Err(PathsTooMany {
                    paths_max: self.limit.paths_max,
                });
            }
            self.found.push(self.path.clone());
            return Ok(());
        }
        for channel in self.network.leaving(at) {
            let up = self.updown.is_up(channel);
            let to = self.network.channels()[channel].to;
            if (up && descending) || self.visited.contains(&to) {
                continue;
            }
            let left = self.hops.left(to, descending || !up);
            if left.is_none_or(|left| left + 1 > budget) {
                continue;
            }
            self.path.extend(u32::try_from(channel));
            self.visited.push(to);
            self.extend(to, descending || !up, budget - 1)?;
            self.path.pop();
            self.visited.pop();
        }
        Ok(())
    }
}
