//! A routing as LID07 sees it: one path for each pair of hosts, without regard to LIDs.

use std::collections::BTreeMap;

use wire::convert::{real, saturate, u64_of, usize_of};

use crate::network::Network;

/// One path, between switches, for each ordered pair of hosts. Hosts and channels are numbered as
/// in the [`Network`] that the routes were made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// The distinct paths, each a list of channels. The path from a switch to itself is empty.
    pool: Vec<Box<[u32]>>,
    /// `chosen[destination][source]`, places in the pool. The diagonal is not used.
    chosen: Vec<Vec<u32>>,
}

/// A routing in the making.
#[derive(Debug)]
pub(super) struct RoutesBuilder {
    routes: Routes,
    known: BTreeMap<(usize, Box<[u32]>), u32>,
}

impl RoutesBuilder {
    pub(super) fn new(hosts: usize) -> Self {
        Self {
            routes: Routes {
                pool: Vec::new(),
                chosen: vec![vec![0; hosts]; hosts],
            },
            known: BTreeMap::new(),
        }
    }

    /// Sets the path between two hosts. `switch` is that of the source.
    pub(super) fn set(&mut self, switch: usize, source: usize, destination: usize, path: &[u32]) {
        let pool = &mut self.routes.pool;
        let place = *self.known.entry((switch, path.into())).or_insert_with(|| {
            pool.push(path.into());
            saturate::<u32>(pool.len() - 1)
        });
        self.routes.chosen[destination][source] = place;
    }

    pub(super) fn finish(self) -> Routes {
        self.routes
    }
}

impl Routes {
    /// How many hosts there are.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.chosen.len()
    }

    /// The channels between the switches of two hosts; none if they share a switch.
    #[must_use]
    pub fn path(&self, source: usize, destination: usize) -> &[u32] {
        &self.pool[usize_of(self.chosen[destination][source])]
    }

    /// How many flows cross each channel when every host sends one to every other.
    #[must_use]
    pub fn loads(&self, network: &Network) -> Vec<u32> {
        let mut loads = vec![0; network.channels().len()];
        for destination in 0..self.hosts() {
            for source in (0..self.hosts()).filter(|&source| source != destination) {
                for &channel in self.path(source, destination) {
                    loads[usize_of(channel)] += 1;
                }
            }
        }
        loads
    }

    /// LID07's measure of balance: flows on the busiest channel in all-to-all traffic, divided by
    /// the number of hosts less one.
    #[must_use]
    pub fn load_max(&self, network: &Network) -> f64 {
        let busiest = self.loads(network).into_iter().max().unwrap_or(0);
        let others = self.hosts().saturating_sub(1).max(1);
        f64::from(busiest) / real(u64_of(others))
    }
}
