//! Topologies by name: `fat-tree-4-3`, `torus-4x4-2` and so on.

use core::fmt;

use crate::error::TopologyError;

/// A topology and its numbers. [`fmt::Display`] writes the name, [`Kind::parse`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `fat-tree-M-N`: the M-port N-tree of MLID04.
    FatTree {
        /// m, ports a switch: even.
        ports: u64,
        /// n, levels of switches.
        levels: u64,
    },
    /// `clos-LEAVES-HOSTS-SPINES[-LINKS]`: every leaf has LINKS cables to every spine.
    Clos {
        /// Leaf switches.
        leaves: u64,
        /// Hosts at each leaf.
        hosts: u64,
        /// Spine switches.
        spines: u64,
        /// Cables between a leaf and a spine.
        links: u64,
    },
    /// `hypercube-D-HOSTS`: 2^D switches.
    Hypercube {
        /// D, neighbours of a switch.
        dimensions: u64,
        /// Hosts at each switch.
        hosts: u64,
    },
    /// `mesh-XxY-HOSTS`; any number of dimensions from 1 to 8.
    Mesh {
        /// Switches along each dimension.
        sizes: Vec<u64>,
        /// Hosts at each switch.
        hosts: u64,
    },
    /// `torus-XxY-HOSTS`: a mesh whose ends are joined. A dimension of two switches has two
    /// cables between them, one each way round.
    Torus {
        /// Switches along each dimension.
        sizes: Vec<u64>,
        /// Hosts at each switch.
        hosts: u64,
    },
    /// `ring-S-HOSTS`.
    Ring {
        /// Switches in the ring.
        switches: u64,
        /// Hosts at each switch.
        hosts: u64,
    },
    /// `irregular-SWITCHES-HOSTS-DEGREE-SEED`: a random connected graph in which every switch has
    /// DEGREE neighbours (LID07).
    Irregular {
        /// Switches.
        switches: u64,
        /// Hosts at each switch.
        hosts: u64,
        /// Neighbours of each switch.
        degree: u64,
        /// What the random numbers start from.
        seed: u64,
    },
    /// `star-HOSTS`: one switch.
    Star {
        /// Hosts in all.
        hosts: u64,
    },
}

/// Name and form of every kind.
const FORMS: [(&str, &str); 8] = [
    ("fat-tree", "fat-tree-M-N"),
    ("clos", "clos-LEAVES-HOSTS-SPINES[-LINKS]"),
    ("hypercube", "hypercube-D-HOSTS"),
    ("mesh", "mesh-XxY-HOSTS"),
    ("torus", "torus-XxY-HOSTS"),
    ("ring", "ring-S-HOSTS"),
    ("irregular", "irregular-SWITCHES-HOSTS-DEGREE-SEED"),
    ("star", "star-HOSTS"),
];

/// How many edits a word may be away from the name of a kind that it is taken to mean.
const TYPING_ERRORS_MAX: usize = 2;

/// The forms of all kinds, for help texts.
#[must_use]
pub fn forms() -> Vec<&'static str> {
    FORMS.iter().map(|&(_, form)| form).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FatTree { ports, levels } => write!(f, "fat-tree-{ports}-{levels}"),
            Self::Clos {
                leaves,
                hosts,
                spines,
                links: 1,
            } => write!(f, "clos-{leaves}-{hosts}-{spines}"),
            Self::Clos {
                leaves,
                hosts,
                spines,
                links,
            } => write!(f, "clos-{leaves}-{hosts}-{spines}-{links}"),
            Self::Hypercube { dimensions, hosts } => write!(f, "hypercube-{dimensions}-{hosts}"),
            Self::Mesh { sizes, hosts } => write!(f, "mesh-{}-{hosts}", crosses(sizes)),
            Self::Torus { sizes, hosts } => write!(f, "torus-{}-{hosts}", crosses(sizes)),
            Self::Ring { switches, hosts } => write!(f, "ring-{switches}-{hosts}"),
            Self::Irregular {
                switches,
                hosts,
                degree,
                seed,
            } => write!(f, "irregular-{switches}-{hosts}-{degree}-{seed}"),
            Self::Star { hosts } => write!(f, "star-{hosts}"),
        }
    }
}

fn crosses(sizes: &[u64]) -> String {
    let words: Vec<String> = sizes.iter().map(u64::to_string).collect();
    words.join("x")
}

impl Kind {
    /// Reads a name. Whether such a topology exists is not asked here.
    ///
    /// # Errors
    /// [`TopologyError::Unknown`] if it starts with the name of no kind,
    /// [`TopologyError::Form`] if the numbers behind are not those of its kind.
    pub fn parse(given: &str) -> Result<Self, TopologyError> {
        let Some((name, form, rest)) = split(given) else {
            return Err(TopologyError::Unknown {
                given: given.to_owned(),
                close: close_to(given),
                kinds: forms().join(", "),
            });
        };
        let words = Words { given, form, rest };
        match name {
            "fat-tree" => {
                let [ports, levels] = words.numbers()?;
                Ok(Self::FatTree { ports, levels })
            }
            "clos" => {
                let [leaves, hosts, spines, links] = match words.count() {
                    3 => {
                        let [leaves, hosts, spines] = words.numbers()?;
                        [leaves, hosts, spines, 1]
                    }
                    _ => words.numbers()?,
                };
                Ok(Self::Clos {
                    leaves,
                    hosts,
                    spines,
                    links,
                })
            }
            "hypercube" => {
                let [dimensions, hosts] = words.numbers()?;
                Ok(Self::Hypercube { dimensions, hosts })
            }
            "mesh" => {
                let (sizes, hosts) = words.sizes_and_hosts()?;
                Ok(Self::Mesh { sizes, hosts })
            }
            "torus" => {
                let (sizes, hosts) = words.sizes_and_hosts()?;
                Ok(Self::Torus { sizes, hosts })
            }
            "ring" => {
                let [switches, hosts] = words.numbers()?;
                Ok(Self::Ring { switches, hosts })
            }
            "irregular" => {
                let [switches, hosts, degree, seed] = words.numbers()?;
                Ok(Self::Irregular {
                    switches,
                    hosts,
                    degree,
                    seed,
                })
            }
            _ => {
                let [hosts] = words.numbers()?;
                Ok(Self::Star { hosts })
            }
        }
    }
}

/// Name of the kind, its form, and what stands behind the name.
fn split(given: &str) -> Option<(&'static str, &'static str, &str)> {
    FORMS.iter().find_map(|&(name, form)| {
        let rest = given.strip_prefix(name)?;
        if rest.is_empty() {
            Some((name, form, rest))
        } else {
            Some((name, form, rest.strip_prefix('-')?))
        }
    })
}

/// The numbers behind a kind's name.
struct Words<'a> {
    given: &'a str,
    form: &'static str,
    rest: &'a str,
}

impl Words<'_> {
    fn refuse(&self, problem: String) -> TopologyError {
        TopologyError::Form {
            given: self.given.to_owned(),
            problem,
            form: self.form,
        }
    }

    fn count(&self) -> usize {
        if self.rest.is_empty() {
            0
        } else {
            self.rest.split('-').count()
        }
    }

    fn number(&self, word: &str) -> Result<u64, TopologyError> {
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.refuse(format!("{word:?} is not a number")));
        }
        word.parse()
            .map_err(|_| self.refuse(format!("{word} is above {}", u64::MAX)))
    }

    fn numbers<const N: usize>(&self) -> Result<[u64; N], TopologyError> {
        let have = self.count();
        if have != N {
            return Err(self.refuse(format!("{have} numbers where {N} are wanted")));
        }
        let mut numbers = [0; N];
        for (number, word) in numbers.iter_mut().zip(self.rest.split('-')) {
            *number = self.number(word)?;
        }
        Ok(numbers)
    }

    fn sizes_and_hosts(&self) -> Result<(Vec<u64>, u64), TopologyError> {
        let have = self.count();
        let (Some((sizes, hosts)), 2) = (self.rest.split_once('-'), have) else {
            return Err(self.refuse(format!("{have} words where 2 are wanted")));
        };
        let sizes = sizes
            .split('x')
            .map(|word| self.number(word))
            .collect::<Result<_, _>>()?;
        Ok((sizes, self.number(hosts)?))
    }
}

/// Kinds whose names are a few typing errors away from what was given.
fn close_to(given: &str) -> Vec<&'static str> {
    let word = given
        .split(|c: char| c.is_ascii_digit())
        .next()
        .unwrap_or_default()
        .trim_matches(|c: char| !c.is_alphabetic())
        .to_ascii_lowercase();
    if word.is_empty() || word.chars().count() > 32 {
        return Vec::new();
    }
    FORMS
        .iter()
        .filter(|(name, _)| {
            strsim::levenshtein(&word, name) <= TYPING_ERRORS_MAX
                || (word.len() > 2 && (name.contains(&word) || word.contains(name)))
        })
        .map(|&(_, form)| form)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds() -> impl Strategy<Value = Kind> {
        let n = any::<u64>;
        let sizes = || prop::collection::vec(any::<u64>(), 1..4);
        prop_oneof![
            (n(), n()).prop_map(|(ports, levels)| Kind::FatTree { ports, levels }),
            (n(), n(), n(), n()).prop_map(|(leaves, hosts, spines, links)| Kind::Clos {
                leaves,
                hosts,
                spines,
                links
            }),
            (n(), n()).prop_map(|(dimensions, hosts)| Kind::Hypercube { dimensions, hosts }),
            (sizes(), n()).prop_map(|(sizes, hosts)| Kind::Mesh { sizes, hosts }),
            (sizes(), n()).prop_map(|(sizes, hosts)| Kind::Torus { sizes, hosts }),
            (n(), n()).prop_map(|(switches, hosts)| Kind::Ring { switches, hosts }),
            (n(), n(), n(), n()).prop_map(|(switches, hosts, degree, seed)| Kind::Irregular {
                switches,
                hosts,
                degree,
                seed
            }),
            n().prop_map(|hosts| Kind::Star { hosts }),
        ]
    }

    proptest! {
        #[test]
        fn a_kind_reads_back_from_its_name(kind in kinds()) {
            prop_assert_eq!(Kind::parse(&kind.to_string()).unwrap(), kind);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
            let _ = Kind::parse(&text);
        }
    }

    fn message(given: &str) -> String {
        Kind::parse(given).unwrap_err().to_string()
    }

    #[test]
    fn a_misspelt_kind_is_answered_with_the_kinds_that_are_close() {
        for (given, meant) in [
            ("fattree-4-3", "did you mean fat-tree-M-N?"),
            ("Torus-4x4-1", "did you mean torus-XxY-HOSTS?"),
            ("hyper-cube-3-1", "did you mean hypercube-D-HOSTS?"),
            ("irregualr-8-1-3-1", "did you mean irregular-"),
        ] {
            assert!(message(given).contains(meant), "{}", message(given));
        }
        let far = message("dragonfly-3");
        assert!(!far.contains("did you mean"), "{far}");
        assert!(far.contains("ring-S-HOSTS"), "{far}");
    }

    #[test]
    fn missing_or_malformed_numbers_are_answered_with_the_form() {
        for given in [
            "fat-tree",
            "fat-tree-4",
            "fat-tree-4-3-2",
            "fat-tree-4-x",
            "clos-1-2",
            "mesh-4-4-1",
            "mesh-4x-1",
            "star--1",
            "star-+1",
            "ring-99999999999999999999-1",
        ] {
            let message = message(given);
            assert!(message.contains("the form is"), "{message}");
        }
    }
}
