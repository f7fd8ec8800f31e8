//! Patterns: who sends to whom, and how much of it.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;
use wire::convert::usize_of;

use super::Share;
use crate::verify::Pair;

/// Who sends to whom among the hosts of a group, which are numbered in the order of the topology.
///
/// A flow has one destination. Where papers draw the destination of every packet anew, a host has a flow to
/// each destination instead, with its share of the host's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Pattern {
    /// Every host to every other, each with the same share.
    Uniform,
    /// As [`Pattern::Uniform`]; the name for a given number of packets of each pair.
    AllToAll,
    /// That many percent of every host's load to one host, the rest to all others; that host itself sends as
    /// in [`Pattern::Uniform`].
    Centric(u8),
    /// Every host to one other, each being chosen once, by the seed.
    Permutation,
    /// Host `i` to host `i + k`, modulo the number of hosts.
    Shift(u32),
    /// Host `i` of `n` to host `n - 1 - i`; the middle one of an odd number is silent.
    Complement,
    /// Every host to a multicast group of all: each packet once to every other, copied by the switches.
    Multicast,
}

/// A pattern that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PatternError {
    /// No such name.
    #[error(
        "there is no pattern {0:?}: uniform, all-to-all, centric-PERCENT, permutation, shift-BY, complement, multicast, \
         ring-allreduce, tree-allreduce, alltoall"
    )]
    Unknown(String),
    /// Nobody to send to.
    #[error("{0} hosts: a pattern needs two")]
    TooFewHosts(usize),
    /// Onto itself.
    #[error("shift-{by} among {hosts} hosts: shift-1 to shift-{}", hosts - 1)]
    Shift {
        /// The shift asked for.
        by: u32,
        /// How many hosts there are.
        hosts: usize,
    },
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let unknown = || PatternError::Unknown(text.chars().take(60).collect());
        let plain = match text {
            "uniform" => Some(Self::Uniform),
            "all-to-all" => Some(Self::AllToAll),
            "permutation" => Some(Self::Permutation),
            "complement" => Some(Self::Complement),
            "multicast" => Some(Self::Multicast),
            _ => None,
        };
        if let Some(plain) = plain {
            return Ok(plain);
        }
        let (name, number) = text.split_once('-').ok_or_else(unknown)?;
        let number: u32 = number.parse().map_err(|_| unknown())?;
        match name {
            "centric" => match u8::try_from(number) {
                Ok(percent @ 1..=100) => Ok(Self::Centric(percent)),
                _ => Err(unknown()),
            },
            "shift" if number > 0 => Ok(Self::Shift(number)),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::AllToAll => f.write_str("all-to-all"),
            Self::Centric(percent) => write!(f, "centric-{percent}"),
            Self::Permutation => f.write_str("permutation"),
            Self::Shift(by) => write!(f, "shift-{by}"),
            Self::Complement => f.write_str("complement"),
            Self::Multicast => f.write_str("multicast"),
        }
    }
}

/// A whole host's load.
const WHOLE: Share = Share { parts: 1, of: 1 };

impl Pattern {
    /// The pairs among `hosts` hosts and the share of its host's load that each has, by source and then by
    /// destination. `target` is the one host of [`Pattern::Centric`].
    ///
    /// # Errors
    /// Fewer than two hosts, or a shift that is no shift among so many.
    pub(crate) fn pairs(
        self,
        hosts: usize,
        target: usize,
        seed: u64,
    ) -> Result<Vec<(Pair, Share)>, PatternError> {
        let count = u32::try_from(hosts).unwrap_or(u32::MAX);
        if hosts < 2 {
            return Err(PatternError::TooFewHosts(hosts));
        }
        let to_one = |partner: &dyn Fn(usize) -> usize| {
            let pairs = (0..hosts).map(|host| ((host, partner(host)), WHOLE));
            pairs.filter(|&((from, to), _)| from != to).collect()
        };
        let to_all = |share: &dyn Fn(usize, usize) -> Share| {
            let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
            let others = pairs.filter(|(from, to)| from != to);
            let shares = others.map(|(from, to)| ((from, to), share(from, to)));
            shares.filter(|(_, share)| share.parts > 0).collect()
        };
        let even = Share {
            parts: 1,
            of: count - 1,
        };
        Ok(match self {
            Self::Uniform | Self::AllToAll => to_all(&|_, _| even),
            // One packet is for all, so each gets the whole.
            Self::Multicast => to_all(&|_, _| WHOLE),
            Self::Centric(percent) => {
                let percent = u32::from(percent);
                // Hosts beside the source and the target.
                let rest = count - 2;
                let of = 100 * rest.max(1);
                to_all(&|from, to| match (from == target, to == target) {
                    (true, _) => even,
                    (false, true) if rest == 0 => WHOLE,
                    (false, true) => Share {
                        parts: percent * rest,
                        of,
                    },
                    (false, false) => Share {
                        parts: 100 - percent,
                        of,
                    },
                })
            }
            Self::Permutation => {
                let partners = sim::permutation(count, seed);
                to_one(&|host| partners.get(host).map_or(host, |&to| usize_of(to)))
            }
            Self::Shift(by) if by >= count => {
                return Err(PatternError::Shift { by, hosts });
            }
            Self::Shift(by) => to_one(&|host| (host + usize_of(by)) % hosts),
            Self::Complement => to_one(&|host| hosts - 1 - host),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ALL: [Pattern; 6] = [
        Pattern::Uniform,
        Pattern::AllToAll,
        Pattern::Centric(30),
        Pattern::Permutation,
        Pattern::Shift(3),
        Pattern::Complement,
    ];

    #[test]
    fn every_name_is_read_as_it_is_shown() {
        for pattern in ALL {
            assert_eq!(pattern.to_string().parse(), Ok(pattern));
        }
        for wrong in [
            "",
            "unifrom",
            "shift",
            "shift-",
            "shift-0",
            "shift--1",
            "centric-0",
            "centric-101",
            "centric-4294967297",
            "shift-99999999999",
        ] {
            let refused = PatternError::Unknown(wrong.to_owned());
            assert_eq!(wrong.parse::<Pattern>(), Err(refused));
        }
    }

    #[test]
    fn the_shares_of_a_host_are_its_whole_load() {
        for pattern in ALL {
            for hosts in [2, 5, 16] {
                let Ok(pairs) = pattern.pairs(hosts, 1, 7) else {
                    assert!(matches!(pattern, Pattern::Shift(3)) && hosts == 2);
                    continue;
                };
                let mut loads: BTreeMap<usize, u64> = BTreeMap::new();
                for ((from, to), share) in pairs {
                    assert!(from != to && to < hosts, "{pattern}");
                    *loads.entry(from).or_default() += share.rate(1_000_000_000);
                }
                let is_silent = |host| pattern == Pattern::Complement && host * 2 + 1 == hosts;
                for host in (0..hosts).filter(|&host| !is_silent(host)) {
                    let load = loads[&host];
                    assert!(load.abs_diff(1_000_000_000) < 20, "{pattern}: {load}");
                }
            }
        }
    }

    #[test]
    fn a_centric_target_gets_its_percent_of_each() {
        let pairs = Pattern::Centric(60).pairs(5, 2, 1).expect("five hosts");
        let to_target: Vec<u64> = pairs
            .iter()
            .filter(|((_, to), _)| *to == 2)
            .map(|(_, share)| share.rate(1000))
            .collect();
        assert_eq!(to_target, [600; 4]);
        assert_eq!(pairs.len(), 20);
        let all = Pattern::Centric(100).pairs(5, 2, 1).expect("five hosts");
        // Four to the target, and the target's own four.
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn patterns_of_one_partner_choose_each_host_once() {
        for pattern in [Pattern::Permutation, Pattern::Shift(3), Pattern::Complement] {
            let pairs = pattern.pairs(8, 0, 42).expect("eight hosts");
            let mut chosen: Vec<usize> = pairs.iter().map(|((_, to), _)| *to).collect();
            chosen.sort_unstable();
            assert_eq!(chosen, [0, 1, 2, 3, 4, 5, 6, 7], "{pattern}");
        }
        assert_eq!(
            Pattern::Shift(8).pairs(8, 0, 1),
            Err(PatternError::Shift { by: 8, hosts: 8 })
        );
        assert_eq!(
            Pattern::Uniform.pairs(1, 0, 1),
            Err(PatternError::TooFewHosts(1))
        );
    }
}
