//! The levels of a tree and its planes, for people: what an administrator calls leaf, spine and core.
//!
//! Of the readings of the levels that make a tree ([`crate::levels`]) the one with the fewest levels is
//! told, of these the one with the fewest leaf switches. **Planes** are parts of the fabric that do not meet: of switches
//! that only hosts join (rails), or else, above the leaf switches of a tree of three levels or more, switches that only leaf switches
//! join (each spine of a pod and the cores that it has cables to).

use core::fmt;

use topologies::DisjointSets;

use crate::levels::{Levels, levels};
use crate::network::Network;

/// Levels and planes. [`fmt::Display`] says them in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// How many switches there are on each level, the leaf switches first; two levels at least.
    pub levels: Vec<usize>,
    /// By switch of the network: its level, from 0 at the leaves.
    pub level_of: Vec<usize>,
    /// How many planes there are.
    pub planes: usize,
}

impl Tiers {
    /// Recognises them; `None` if the fabric is no tree of two levels or more.
    #[must_use]
    pub fn of(network: &Network) -> Option<Self> {
        let counted = |levels: Levels| (count(&levels), levels);
        let readings = levels(network)?.ok()?.into_iter().map(counted);
        let (sizes, levels) =
            readings.min_by_key(|(sizes, _)| (sizes.len(), sizes.first().copied()))?;
        (sizes.len() > 1).then(|| Self {
            planes: planes(network, &levels, sizes.len()),
            level_of: levels.into_iter().map(wire::convert::usize_of).collect(),
            levels: sizes,
        })
    }
}

impl fmt::Display for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let top = self.levels.len().saturating_sub(1);
        write!(f, "{} levels: ", self.levels.len())?;
        for (level, count) in self.levels.iter().enumerate() {
            let name = match level {
                0 => " leaf",
                1 if top == 1 => " spine",
                _ if level == top => " core",
                1 => " spine",
                _ => "",
            };
            let separator = match level {
                0 => "",
                _ if level == top => " and ",
                _ => ", ",
            };
            write!(f, "{separator}{count}{name}")?;
        }
        f.write_str(" switches")?;
        match self.planes {
            0 | 1 => Ok(()),
            planes => write!(f, "; {planes} planes"),
        }
    }
}

fn count(levels: &Levels) -> Vec<usize> {
    let mut sizes = Vec::new();
    for &level in levels {
        let level = wire::convert::usize_of(level);
        sizes.resize(sizes.len().max(level + 1), 0);
        sizes[level] += 1;
    }
    sizes
}

fn planes(network: &Network, levels: &Levels, count: usize) -> usize {
    let parts = |is_in: &dyn Fn(usize) -> bool| {
        let mut sets = DisjointSets::new(levels.len());
        for channel in network.channels() {
            if is_in(channel.from) && is_in(channel.to) {
                sets.join(channel.from, channel.to);
            }
        }
        let firsts = sets.into_firsts();
        let own = firsts.iter().enumerate();
        own.filter(|&(switch, &first)| switch == first && is_in(switch))
            .count()
    };
    let rails = parts(&|_| true);
    if rails > 1 || count < 3 {
        return rails;
    }
    parts(&|switch| levels[switch] > 0)
}
