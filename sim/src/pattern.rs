//! Traffic patterns: destinations, rates and VLs of what hosts send.

use core::fmt;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use thiserror::Error;
use wire::convert;

use crate::numbers::{index, number};

/// A load above this makes no sense on any link, bytes/ns.
const LOAD_MAX: f64 = 1000.0;

/// The destinations of hosts. Hosts are numbered in the order of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every packet to a host drawn anew, each of the others equally likely.
    Uniform,
    /// That part of the packets to one host, all others uniformly (that host itself sends
    /// uniformly).
    Centric {
        /// Percent of the packets that go to the one host, 0 to 100.
        percent: u8,
        /// The one host.
        target: u32,
    },
    /// Every host to one other host, drawn once, each host being drawn once.
    Permutation,
    /// Host `i` to host `i + by`, modulo the number of hosts.
    Shift {
        /// How far, 1 to the number of hosts less one.
        by: u32,
    },
    /// Every host to every other in turn, each beginning with the next one.
    AllToAll,
    /// As [`Pattern::Uniform`], in bursts of so many packets to one destination.
    Bursty {
        /// Packets a burst, at least 1.
        packets: u32,
    },
}

/// How a packet gets its service level, and with it its VL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum SlChoice {
    /// The routing engine's service level for source and DLID, on the VLs of its SL-to-VL tables;
    /// with an engine that has neither, as [`SlChoice::Random`].
    #[default]
    Engine,
    /// Drawn anew for every packet.
    Random,
    /// Drawn once for each pair of hosts.
    Connection,
}
wire::choice!(SlChoice, "choice of service levels");

impl SlChoice {
    /// The service levels of packets with an engine that has, or has not, service levels of its own,
    /// on so many VLs.
    pub(crate) fn levels(self, engine_has: bool, vls: u8) -> Levels {
        match self {
            Self::Engine if engine_has => Levels::Engine,
            Self::Engine | Self::Random => Levels::PerPacket(vls.max(1)),
            Self::Connection => Levels::PerPair(vls.max(1)),
        }
    }
}

/// The service levels that a pattern's packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Levels {
    /// Those of the routing engine: nothing is drawn.
    Engine,
    /// One of so many, drawn for each packet.
    PerPacket(u8),
    /// One of so many, drawn for each pair of hosts.
    PerPair(u8),
}

/// A workload that makes no sense on a fabric.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PatternError {
    /// No other host to send to.
    #[error("{0} hosts: traffic needs at least 2")]
    TooFewHosts(usize),
    /// No such host.
    #[error("target host {target}: there are hosts 0 to {last}")]
    Target {
        /// The host asked for.
        target: u32,
        /// The last there is.
        last: usize,
    },
    /// More than all.
    #[error("{0} percent to one host: 0 to 100")]
    Percent(u8),
    /// Onto itself.
    #[error("a shift by {by} among {hosts} hosts: 1 to {}", hosts - 1)]
    Shift {
        /// The shift asked for.
        by: u32,
        /// How many hosts there are.
        hosts: usize,
    },
    /// A burst of nothing.
    #[error("a burst has at least 1 packet")]
    EmptyBurst,
    /// A load that no link carries, or none at all.
    #[error("a load of {0} bytes/ns a host: above 0, and at most 1000")]
    Load(f64),
}

/// The name in tables and plots.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Centric { percent, .. } => write!(f, "{percent}%-centric"),
            Self::Permutation => f.write_str("permutation"),
            Self::Shift { by } => write!(f, "shift-{by}"),
            Self::AllToAll => f.write_str("all-to-all"),
            Self::Bursty { packets } => write!(f, "bursts-of-{packets}"),
        }
    }
}

impl Pattern {
    /// Checks that the pattern makes sense among so many hosts.
    ///
    /// # Errors
    /// [`PatternError`]: what does not fit.
    pub fn check(&self, hosts: usize) -> Result<(), PatternError> {
        if hosts < 2 {
            return Err(PatternError::TooFewHosts(hosts));
        }
        let is_host = |number: u32| index(number) < hosts;
        match *self {
            Self::Centric { percent, .. } if percent > 100 => Err(PatternError::Percent(percent)),
            Self::Centric { target, .. } if !is_host(target) => Err(PatternError::Target {
                target,
                last: hosts - 1,
            }),
            Self::Shift { by } if by == 0 || !is_host(by) => Err(PatternError::Shift { by, hosts }),
            Self::Bursty { packets: 0 } => Err(PatternError::EmptyBurst),
            _ => Ok(()),
        }
    }
}

/// Checks that a link could carry so much.
pub(crate) fn check_rate(bytes_per_ns: f64) -> Result<(), PatternError> {
    if bytes_per_ns > 0.0 && bytes_per_ns <= LOAD_MAX {
        return Ok(());
    }
    Err(PatternError::Load(bytes_per_ns))
}

/// The random generator of one host's packets.
#[derive(Debug)]
pub(crate) struct Draw {
    pattern: Pattern,
    levels: Levels,
    own: u32,
    hosts: u32,
    /// Where a permutation sends this host.
    partner: u32,
    sent: u32,
    burst_to: u32,
    seed: u64,
    random: ChaCha8Rng,
}

/// Where a permutation drawn by `seed` sends each of `hosts` hosts: never to itself.
#[must_use]
pub fn permutation(hosts: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..hosts).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed ^ 0x7065_726d));
    let mut partners = vec![0; order.len()];
    // One cycle through all hosts in random order: no host is its own partner.
    for (at, &host) in order.iter().enumerate() {
        let next = order[(at + 1) % order.len()];
        if let Some(partner) = partners.get_mut(index(host)) {
            *partner = next;
        }
    }
    partners
}

/// A hash of two numbers (SplitMix64): seeds of runs, of hosts, of all else that is drawn.
#[must_use]
pub fn split_mix(seed: u64, value: u64) -> u64 {
    let mut word = seed.wrapping_add(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Draw {
    pub(crate) fn new(
        pattern: Pattern,
        levels: Levels,
        own: u32,
        partners: &[u32],
        seed: u64,
    ) -> Self {
        let hosts = number(partners.len());
        let partner = partners.get(index(own));
        Self {
            pattern,
            levels,
            own,
            hosts,
            partner: partner.copied().unwrap_or(own),
            sent: 0,
            burst_to: own,
            seed,
            random: ChaCha8Rng::seed_from_u64(split_mix(seed, u64::from(own) + 1)),
        }
    }

    /// A moment of the first `interval`, for the host's first packet.
    pub(crate) fn phase(&mut self, interval: u64) -> u64 {
        self.random.random_range(0..interval.max(1))
    }

    fn other(&mut self) -> u32 {
        let drawn = self.random.random_range(0..self.hosts - 1);
        if drawn < self.own { drawn } else { drawn + 1 }
    }

    /// The next packet's destination and service level; `None` for the routing engine's.
    pub(crate) fn next(&mut self) -> (u32, Option<u8>) {
        let to = match self.pattern {
            Pattern::Uniform => self.other(),
            Pattern::Centric { percent, target } => {
                let central = self.random.random_range(0..100u8) < percent;
                if central && target != self.own {
                    target
                } else {
                    self.other()
                }
            }
            Pattern::Permutation => self.partner,
            Pattern::Shift { by } => (self.own + by) % self.hosts,
            Pattern::AllToAll => (self.own + 1 + self.sent % (self.hosts - 1)) % self.hosts,
            Pattern::Bursty { packets } => {
                if self.sent.is_multiple_of(packets) {
                    self.burst_to = self.other();
                }
                self.burst_to
            }
        };
        self.sent = self.sent.wrapping_add(1);
        let sl = match self.levels {
            Levels::Engine => None,
            Levels::PerPacket(1) | Levels::PerPair(1) => Some(0),
            Levels::PerPacket(levels) => Some(self.random.random_range(0..levels)),
            Levels::PerPair(levels) => {
                let pair = u64::from(self.own) << 32 | u64::from(to);
                let sl = split_mix(self.seed, pair) % u64::from(levels);
                Some(convert::saturate(sl))
            }
        };
        (to, sl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(pattern: Pattern, own: u32, count: usize) -> Vec<(u32, Option<u8>)> {
        let partners = permutation(8, 3);
        let mut draw = Draw::new(pattern, Levels::PerPacket(2), own, &partners, 3);
        (0..count).map(|_| draw.next()).collect()
    }

    #[test]
    fn uniform_traffic_reaches_all_others_and_never_oneself() {
        let mut counts = [0u32; 8];
        for (to, sl) in draws(Pattern::Uniform, 3, 7000) {
            counts[usize::try_from(to).unwrap()] += 1;
            assert!(sl.unwrap() < 2);
        }
        assert_eq!(counts[3], 0);
        let others = counts.iter().enumerate().filter(|&(host, _)| host != 3);
        assert!(
            others.into_iter().all(|(_, n)| (800..1200).contains(n)),
            "{counts:?}"
        );
    }

    #[test]
    fn centric_traffic_sends_its_share_to_the_one_host() {
        let pattern = Pattern::Centric {
            percent: 10,
            target: 0,
        };
        let central = draws(pattern, 5, 10_000)
            .iter()
            .filter(|d| d.0 == 0)
            .count();
        // 10 % and a seventh of the rest.
        assert!((2100..2500).contains(&central), "{central}");
    }

    #[test]
    fn a_permutation_gives_every_host_one_source_and_one_destination() {
        let mut partners = permutation(64, 9);
        assert!((0..).zip(&partners).all(|(own, &to): (u32, _)| own != to));
        partners.sort_unstable();
        assert!((0..64).eq(partners));
    }

    #[test]
    fn all_to_all_and_shift_go_round() {
        let to: Vec<u32> = draws(Pattern::AllToAll, 6, 8).iter().map(|d| d.0).collect();
        assert_eq!(to, [7, 0, 1, 2, 3, 4, 5, 7]);
        assert_eq!(draws(Pattern::Shift { by: 3 }, 6, 1)[0].0, 1);
        let burst: Vec<u32> = draws(Pattern::Bursty { packets: 4 }, 6, 8)
            .iter()
            .map(|d| d.0)
            .collect();
        assert!(burst[..4].iter().all(|&to| to == burst[0]));
    }

    #[test]
    fn a_pattern_that_does_not_fit_is_refused() {
        assert!(Pattern::Uniform.check(1).is_err());
        assert!(Pattern::Shift { by: 8 }.check(8).is_err());
        assert!(
            Pattern::Centric {
                percent: 101,
                target: 0
            }
            .check(8)
            .is_err()
        );
        assert!(
            Pattern::Centric {
                percent: 10,
                target: 8
            }
            .check(8)
            .is_err()
        );
        assert!(Pattern::Bursty { packets: 0 }.check(8).is_err());
    }
}
