//! The assignment problem for one destination: which paths split, and sets of paths that do not.
//!
//! Two paths to one destination split if they leave a common switch by different channels. Paths
//! without a split form a configuration, and a configuration is what one LID can realise.

use wire::convert::usize_of;

use crate::network::Network;

/// All paths to one destination, each once, with how many sources use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem<'a> {
    network: &'a Network,
    paths: Vec<&'a [u32]>,
    weights: Vec<u32>,
}

impl<'a> Problem<'a> {
    /// The problem for these paths, of which equal ones become one of greater weight. Returns also
    /// which of the problem's paths each of the given ones has become.
    #[must_use]
    pub fn new(network: &'a Network, given: &[&'a [u32]]) -> (Self, Vec<usize>) {
        let mut problem = Self {
            network,
            paths: Vec::new(),
            weights: Vec::new(),
        };
        let mut known = std::collections::BTreeMap::new();
        let places = given
            .iter()
            .map(|&path| {
                let place = *known.entry(path).or_insert_with(|| {
                    problem.paths.push(path);
                    problem.weights.push(0);
                    problem.paths.len() - 1
                });
                problem.weights[place] += 1;
                place
            })
            .collect();
        (problem, places)
    }

    /// How many distinct paths there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there is no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The channels of a path.
    #[must_use]
    pub fn path(&self, path: usize) -> &'a [u32] {
        self.paths[path]
    }

    /// How many sources use a path.
    #[must_use]
    pub fn weight(&self, path: usize) -> u32 {
        self.weights[path]
    }

    pub(super) fn switches(&self) -> usize {
        self.network.switches().len()
    }

    /// The switches of a path with the channel by which it leaves each.
    pub(super) fn steps(&self, path: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.paths[path]
            .iter()
            .map(|&channel| (self.network.channels()[usize_of(channel)].from, channel))
    }

    /// The split graph: by path, the set of paths that it splits with.
    #[must_use]
    pub fn split_graph(&self) -> Vec<PathSet> {
        let none = PathSet::new(self.len());
        let mut crossing = vec![none.clone(); self.switches()];
        let mut leaving = vec![none.clone(); self.network.channels().len()];
        for path in 0..self.len() {
            for (switch, channel) in self.steps(path) {
                crossing[switch].insert(path);
                leaving[usize_of(channel)].insert(path);
            }
        }
        (0..self.len())
            .map(|path| {
                let mut splits = none.clone();
                for (switch, channel) in self.steps(path) {
                    splits.add_difference(&crossing[switch], &leaving[usize_of(channel)]);
                }
                splits
            })
            .collect()
    }
}

/// A set of a problem's paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSet(Vec<u64>);

impl PathSet {
    pub(super) fn new(paths: usize) -> Self {
        Self(vec![0; paths.div_ceil(64)])
    }

    pub(super) fn insert(&mut self, path: usize) {
        self.0[path / 64] |= 1 << (path % 64);
    }

    pub(super) fn remove(&mut self, path: usize) {
        self.0[path / 64] &= !(1 << (path % 64));
    }

    /// Whether a path is in the set.
    #[must_use]
    pub fn contains(&self, path: usize) -> bool {
        self.0[path / 64] >> (path % 64) & 1 == 1
    }

    fn add_difference(&mut self, of: &Self, without: &Self) {
        for ((word, of), without) in self.0.iter_mut().zip(&of.0).zip(&without.0) {
            *word |= of & !without;
        }
    }

    pub(super) fn is_subset(&self, of: &Self) -> bool {
        self.0.iter().zip(&of.0).all(|(a, b)| a & !b == 0)
    }

    /// The paths in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(place, &word)| {
            core::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|&word| word != 0)
                .map(move |word| place * 64 + usize_of(word.trailing_zeros()))
        })
    }
}

/// No channel.
const NONE: u32 = u32::MAX;

/// A set of paths without a split, as the entries that it makes in the switches' tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    entries: Vec<u32>,
}

impl Configuration {
    pub(super) fn new(switches: usize) -> Self {
        Self {
            entries: vec![NONE; switches],
        }
    }

    /// Whether a path splits with none of those in the set.
    pub(super) fn fits(&self, problem: &Problem<'_>, path: usize) -> bool {
        problem
            .steps(path)
            .all(|(switch, channel)| [NONE, channel].contains(&self.entries[switch]))
    }

    pub(super) fn insert(&mut self, problem: &Problem<'_>, path: usize) {
        for (switch, channel) in problem.steps(path) {
            self.entries[switch] = channel;
        }
    }

    /// Whether no path of one set splits with a path of the other.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        self.entries
            .iter()
            .zip(&other.entries)
            .all(|(&a, &b)| a == NONE || b == NONE || a == b)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (a, &b) in self.entries.iter_mut().zip(&other.entries) {
            if b != NONE {
                *a = b;
            }
        }
    }
}
