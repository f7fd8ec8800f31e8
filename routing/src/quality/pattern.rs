//! Traffic patterns by name.

use core::fmt;
use core::str::FromStr;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

/// Who sends to whom. Hosts are numbered from 0 in order of port GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every host to every other.
    AllToAll,
    /// Every host to one other and from one other, drawn at random; a host drawn for itself is
    /// silent.
    Permutation {
        /// What the random numbers start from.
        seed: u64,
    },
    /// Every host to one.
    AllToOne {
        /// That one.
        host: usize,
    },
    /// Hosts are halved at random; each of the first half sends to a partner in the second. Of an
    /// odd number one is left out.
    Bisection {
        /// What the random numbers start from.
        seed: u64,
    },
    /// Host `i` to host `i + by`, round the end.
    Shift {
        /// How far.
        by: usize,
    },
}

impl Pattern {
    /// The (source, destination) pairs among `hosts` hosts.
    pub fn pairs(self, hosts: usize) -> Box<dyn Iterator<Item = (usize, usize)>> {
        match self {
            Self::AllToAll => Box::new(
                (0..hosts)
                    .flat_map(move |source| (0..hosts).map(move |to| (source, to)))
                    .filter(|(source, to)| source != to),
            ),
            Self::Permutation { seed } => Box::new(
                (0..hosts)
                    .zip(shuffled(hosts, seed))
                    .filter(|(source, to)| source != to),
            ),
            Self::AllToOne { host } => Box::new(
                (0..hosts)
                    .filter(move |&source| source != host && host < hosts)
                    .map(move |source| (source, host)),
            ),
            Self::Bisection { seed } => {
                let mut first = shuffled(hosts, seed);
                let second = first.split_off(hosts.div_ceil(2));
                Box::new(first.into_iter().zip(second))
            }
            Self::Shift { by } => Box::new(
                (0..hosts)
                    .map(move |source| (source, (source + by % hosts) % hosts))
                    .filter(|(source, to)| source != to),
            ),
        }
    }
}

fn shuffled(hosts: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..hosts).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    order
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllToAll => write!(f, "all-to-all"),
            Self::Permutation { seed } => write!(f, "permutation-{seed}"),
            Self::AllToOne { host } => write!(f, "all-to-one-{host}"),
            Self::Bisection { seed } => write!(f, "bisection-{seed}"),
            Self::Shift { by } => write!(f, "shift-{by}"),
        }
    }
}

/// A text that names no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no traffic pattern is called {0:?}; there are all-to-all, permutation-SEED, all-to-one-HOST, \
     bisection-SEED, shift-BY"
)]
pub struct UnknownPattern(pub String);

impl FromStr for Pattern {
    type Err = UnknownPattern;

    /// Reads what [`fmt::Display`] writes. A number that is left out is 0, for a shift 1.
    fn from_str(text: &str) -> Result<Self, UnknownPattern> {
        let unknown = || UnknownPattern(text.to_owned());
        let number = |rest: &str, default: u64| match rest.strip_prefix('-') {
            Some(digits) => digits.parse::<u64>().map_err(|_| unknown()),
            None if rest.is_empty() => Ok(default),
            None => Err(unknown()),
        };
        let index = |rest, default| usize::try_from(number(rest, default)?).map_err(|_| unknown());
        if text == "all-to-all" {
            Ok(Self::AllToAll)
        } else if let Some(rest) = text.strip_prefix("permutation") {
            Ok(Self::Permutation {
                seed: number(rest, 0)?,
            })
        } else if let Some(rest) = text.strip_prefix("all-to-one") {
            Ok(Self::AllToOne {
                host: index(rest, 0)?,
            })
        } else if let Some(rest) = text.strip_prefix("bisection") {
            Ok(Self::Bisection {
                seed: number(rest, 0)?,
            })
        } else if let Some(rest) = text.strip_prefix("shift") {
            Ok(Self::Shift {
                by: index(rest, 1)?,
            })
        } else {
            Err(unknown())
        }
    }
}
