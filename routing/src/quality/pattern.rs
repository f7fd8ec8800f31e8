//! Traffic patterns by name.

use core::fmt;
use core::str::FromStr;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use thiserror::Error;
use wire::choice::Choice;
use wire::convert::usize_of;

/// The flows of a traffic pattern: pairs of a source and a destination. Hosts are numbered from 0 in order of port GUID.
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
        /// The destination.
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

/// The names of patterns, without their numbers.
#[derive(Clone, Copy, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Name {
    AllToAll,
    Permutation,
    AllToOne,
    Bisection,
    Shift,
}
wire::choice!(Name, "traffic pattern");

impl Name {
    /// What help texts call the number that follows the name.
    fn number(self) -> Option<&'static str> {
        match self {
            Self::AllToAll => None,
            Self::Permutation | Self::Bisection => Some("SEED"),
            Self::AllToOne => Some("HOST"),
            Self::Shift => Some("BY"),
        }
    }

    /// The pattern of this name with that number, or if it is left out with 0, for a shift 1.
    /// `None` if there is none with it.
    fn pattern(self, number: Option<u64>) -> Option<Pattern> {
        let seed = number.unwrap_or(0);
        Some(match self {
            Self::AllToAll => match number {
                None => Pattern::AllToAll,
                Some(_) => return None,
            },
            Self::Permutation => Pattern::Permutation { seed },
            Self::AllToOne => Pattern::AllToOne {
                host: usize_of(seed),
            },
            Self::Bisection => Pattern::Bisection { seed },
            Self::Shift => Pattern::Shift {
                by: usize_of(number.unwrap_or(1)),
            },
        })
    }
}

impl Pattern {
    /// How patterns are written, for help texts: `shift-BY`.
    #[must_use]
    pub fn forms() -> Vec<String> {
        let form = |&name: &Name| match name.number() {
            Some(number) => format!("{name}-{number}"),
            None => name.to_string(),
        };
        Name::VARIANTS.iter().map(form).collect()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllToAll => write!(f, "{}", Name::AllToAll),
            Self::Permutation { seed } => write!(f, "{}-{seed}", Name::Permutation),
            Self::AllToOne { host } => write!(f, "{}-{host}", Name::AllToOne),
            Self::Bisection { seed } => write!(f, "{}-{seed}", Name::Bisection),
            Self::Shift { by } => write!(f, "{}-{by}", Name::Shift),
        }
    }
}

/// A text that names no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no traffic pattern is called {given:?}; there are {}",
    Pattern::forms().join(", "),
    given = .0
)]
pub struct UnknownPattern(pub String);

impl FromStr for Pattern {
    type Err = UnknownPattern;

    /// Reads what [`fmt::Display`] writes. A number that is left out is 0, for a shift 1.
    fn from_str(text: &str) -> Result<Self, UnknownPattern> {
        let read = |&name: &Name| {
            let number = match text.strip_prefix(name.name())? {
                "" => None,
                rest => Some(rest.strip_prefix('-')?.parse().ok()?),
            };
            name.pattern(number)
        };
        let mut patterns = Name::VARIANTS.iter().filter_map(read);
        patterns
            .next()
            .ok_or_else(|| UnknownPattern(text.to_owned()))
    }
}
