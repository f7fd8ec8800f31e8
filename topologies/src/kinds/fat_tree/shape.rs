//! The m-port n-tree of MLID04, section 3: labels, wiring, and the graph IBFT(m, n).
//!
//! A tree has `n` levels of switches with `m` ports each; level 0 holds the roots, level `n - 1`
//! the leaf switches. With `h = m / 2` there are `2 h^n` hosts, `h^(n-1)` roots, and
//! `2 h^(n-1)` switches in every other level.
//!
//! A host `P(p_0 p_1 .. p_{n-1})` is known here by its PID, the number whose digits to base `h`
//! are its label (`p_0` may be as large as `m - 1`). A switch `SW<w_0 .. w_{n-2}, l>` is known by
//! its level and the number that its digits make. Ports `k` of the paper, from 0, are the
//! InfiniBand ports `k + 1`: a switch below the root has its children on ports `1..=h` and its
//! parents on ports `h+1..=m`; a root has children on all.
//!
//! The paper asks for `m` to be a power of two. Only its number of LIDs needs that, so every even
//! `m` is accepted here.

use wire::PortNum;
use wire::convert::{saturate, usize_of};

use super::PortsAndLevels;
use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TopologyError};
use crate::graph::{Endpoint, Graph, Node, NodeId, NodeKind};
use crate::kinds::numbers::join;
use crate::names::{host_guid, switch_guid};

/// The shape FT(m, n), and arithmetic on its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    ports: u8,
    levels: u8,
    /// `powers[i]` is `h^i`, for `i` from 0 to `n`.
    powers: Vec<u32>,
}

/// A switch `SW<w, level>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchLabel {
    /// Its level: 0 for a root, `n - 1` for a leaf switch.
    pub level: u8,
    /// The number whose `n - 1` digits to base `h` are `w_0 .. w_{n-2}`.
    pub index: u32,
}

/// What is below a port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// A switch, and which of its parents (0 to `h - 1`) this is.
    Switch(SwitchLabel, u32),
    /// The host of that PID.
    Host(u32),
}

/// How many levels at most.
const LEVELS_MAX: u64 = 64;

impl FatTree {
    /// FT(m, n): `ports` is m, `levels` is n.
    ///
    /// # Errors
    /// [`TopologyError`] if `ports` is odd or not 2 to 254, `levels` is 0 or above 64, or the
    /// tree has more nodes than a subnet has LIDs.
    pub fn new(ports: u64, levels: u64) -> Result<Self, TopologyError> {
        let topology = PortsAndLevels { ports, levels }.to_string();
        let range = |what, value, min, max| TopologyError::OutOfRange {
            topology: topology.clone(),
            what,
            value,
            min,
            max,
        };
        if ports % 2 == 1 {
            return Err(TopologyError::Impossible {
                reason: format!(
                    "{ports} ports a switch is odd; half of them lead up, so M is even, 2 to \
                     {SWITCH_PORTS_MAX}"
                ),
                topology,
            });
        }
        let (Ok(m), 2..=SWITCH_PORTS_MAX) = (u8::try_from(ports), ports) else {
            return Err(range("M (ports a switch)", ports, 2, SWITCH_PORTS_MAX));
        };
        let (Ok(n), 1..=LEVELS_MAX) = (u8::try_from(levels), levels) else {
            return Err(range("N (levels)", levels, 1, LEVELS_MAX));
        };
        let half = ports / 2;
        let power = |exponent: u8| half.saturating_pow(u32::from(exponent));
        let hosts = power(n).saturating_mul(2);
        let switches = (2 * levels - 1).saturating_mul(power(n - 1));
        if hosts.saturating_add(switches) > NODES_MAX {
            return Err(TopologyError::TooManyNodes {
                topology,
                hosts,
                switches,
            });
        }
        let powers = (0..=n).map(|i| saturate::<u32>(power(i))).collect();
        Ok(Self {
            ports: m,
            levels: n,
            powers,
        })
    }

    /// m: ports a switch.
    #[must_use]
    pub fn ports(&self) -> u8 {
        self.ports
    }

    /// n: levels of switches.
    #[must_use]
    pub fn levels(&self) -> u8 {
        self.levels
    }

    /// h = m / 2: parents of a switch below the roots.
    #[must_use]
    pub fn half(&self) -> u32 {
        u32::from(self.ports / 2)
    }

    /// `h^exponent`, for an exponent from 0 to n.
    ///
    /// # Panics
    /// If the exponent is above n.
    #[must_use]
    pub fn power(&self, exponent: u8) -> u32 {
        self.powers[usize::from(exponent)]
    }

    /// How many hosts: `2 h^n`. PIDs run from 0 to one less.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        2 * self.power(self.levels)
    }

    /// How many switches in all: `(2n - 1) h^(n-1)`.
    #[must_use]
    pub fn switches(&self) -> u32 {
        (2 * u32::from(self.levels) - 1) * self.power(self.levels - 1)
    }

    /// How many switches of that level.
    #[must_use]
    pub fn switches_at(&self, level: u8) -> u32 {
        self.power(self.levels - 1) * if level == 0 { 1 } else { 2 }
    }

    /// How many ports of a switch of that level lead down: m at a root, else h.
    #[must_use]
    pub fn down_ports(&self, level: u8) -> u32 {
        if level == 0 {
            u32::from(self.ports)
        } else {
            self.half()
        }
    }

    /// Whether switches of that level are the ones with hosts.
    #[must_use]
    pub fn is_leaf(&self, level: u8) -> bool {
        level + 1 == self.levels
    }

    /// All switches, level by level from the roots.
    pub fn labels(&self) -> impl Iterator<Item = SwitchLabel> + '_ {
        (0..self.levels).flat_map(move |level| {
            (0..self.switches_at(level)).map(move |index| SwitchLabel { level, index })
        })
    }

    /// The place of a switch in [`Self::labels`].
    #[must_use]
    pub fn ordinal(&self, label: SwitchLabel) -> usize {
        let before = match u32::from(label.level) {
            0 => 0,
            level => (2 * level - 1) * self.power(self.levels - 1),
        };
        usize_of(before + label.index)
    }

    /// The switch at that place in [`Self::labels`], if there are so many.
    #[must_use]
    pub fn label_at(&self, ordinal: u32) -> Option<SwitchLabel> {
        if ordinal >= self.switches() {
            return None;
        }
        let roots = self.switches_at(0);
        let Some(below) = ordinal.checked_sub(roots) else {
            return Some(SwitchLabel {
                level: 0,
                index: ordinal,
            });
        };
        Some(SwitchLabel {
            level: saturate::<u8>(1 + below / (2 * roots)),
            index: below % (2 * roots),
        })
    }

    /// The digits `w_0 .. w_{l-1}` of a switch of level `l` as one number: what it has in common
    /// with every host below it.
    #[must_use]
    pub fn switch_prefix(&self, label: SwitchLabel) -> u32 {
        label.index / self.power(self.levels - 1 - label.level)
    }

    /// The first `digits` digits of a host's label as one number.
    #[must_use]
    pub fn host_prefix(&self, pid: u32, digits: u8) -> u32 {
        if digits == 0 {
            0
        } else {
            pid / self.power(self.levels - digits)
        }
    }

    /// Whether the host is below the switch.
    #[must_use]
    pub fn is_above(&self, label: SwitchLabel, pid: u32) -> bool {
        self.switch_prefix(label) == self.host_prefix(pid, label.level)
    }

    /// Digit `position` of a host's label: the paper's port, from 0, by which a switch of level
    /// `position` reaches it downwards.
    #[must_use]
    pub fn host_digit(&self, pid: u32, position: u8) -> u32 {
        let shifted = pid / self.power(self.levels - 1 - position);
        if position == 0 {
            shifted
        } else {
            shifted % self.half()
        }
    }

    /// What is below port `k` (from 0) of a switch. `k` is taken to be one of its down ports.
    #[must_use]
    pub fn below(&self, label: SwitchLabel, k: u32) -> Below {
        if self.is_leaf(label.level) {
            return Below::Host(label.index * self.down_ports(label.level) + k);
        }
        let rest_digits = self.levels - 1 - label.level;
        let prefix = label.index / self.power(rest_digits);
        let rest = label.index % self.power(rest_digits);
        let index =
            prefix * self.power(rest_digits) + k * self.power(rest_digits - 1) + rest / self.half();
        let child = SwitchLabel {
            level: label.level + 1,
            index,
        };
        Below::Switch(child, rest % self.half())
    }

    /// Parent `j` (0 to h - 1) of a switch, and the port (from 0) on which the parent has it.
    /// A root has none.
    #[must_use]
    pub fn above(&self, label: SwitchLabel, j: u32) -> Option<(SwitchLabel, u32)> {
        let level = label.level.checked_sub(1)?;
        let rest_digits = self.levels - 2 - level;
        let low = label.index % self.power(rest_digits);
        let high = label.index / self.power(rest_digits);
        let (prefix, digit) = if level == 0 {
            (0, high)
        } else {
            (high / self.half(), high % self.half())
        };
        let index = prefix * self.power(rest_digits + 1) + low * self.half() + j;
        Some((SwitchLabel { level, index }, digit))
    }

    /// The leaf switch of a host.
    #[must_use]
    pub fn leaf_of(&self, pid: u32) -> SwitchLabel {
        let level = self.levels - 1;
        SwitchLabel {
            level,
            index: pid / self.down_ports(level),
        }
    }

    fn digits(&self, mut number: u32, count: u8) -> Vec<u32> {
        let mut digits = vec![0; usize::from(count)];
        for (place, digit) in digits.iter_mut().enumerate().rev() {
            if place == 0 {
                *digit = number;
            } else {
                *digit = number % self.half();
                number /= self.half();
            }
        }
        digits
    }

    /// The label `p_0 .. p_{n-1}` of a host.
    #[must_use]
    pub fn host_digits(&self, pid: u32) -> Vec<u32> {
        self.digits(pid, self.levels)
    }

    /// The label `w_0 .. w_{n-2}` of a switch.
    #[must_use]
    pub fn switch_digits(&self, label: SwitchLabel) -> Vec<u32> {
        self.digits(label.index, self.levels - 1)
    }

    fn number(&self, digits: &[u32], first_below: u32) -> Option<u32> {
        let mut number = 0;
        for (place, &digit) in digits.iter().enumerate() {
            if digit >= if place == 0 { first_below } else { self.half() } {
                return None;
            }
            number = number * self.half() + digit;
        }
        Some(number)
    }

    /// The PID of a label, if these are digits of one.
    #[must_use]
    pub fn pid(&self, digits: &[u32]) -> Option<u32> {
        if digits.len() != usize::from(self.levels) {
            return None;
        }
        self.number(digits, u32::from(self.ports))
    }

    /// The switch of a label, if these are level and digits of one.
    #[must_use]
    pub fn switch(&self, level: u8, digits: &[u32]) -> Option<SwitchLabel> {
        if level >= self.levels || digits.len() != usize::from(self.levels - 1) {
            return None;
        }
        let first_below = if level == 0 {
            self.half()
        } else {
            u32::from(self.ports)
        };
        let index = self.number(digits, first_below)?;
        Some(SwitchLabel { level, index })
    }

    /// `h3.1.0` for P(310).
    #[must_use]
    pub fn host_name(&self, pid: u32) -> String {
        format!("h{}", join(&self.host_digits(pid), "."))
    }

    /// `s1.3.0` for SW<30, 1>; the one switch of a tree of one level is `s0`.
    #[must_use]
    pub fn switch_name(&self, label: SwitchLabel) -> String {
        let mut numbers = vec![u32::from(label.level)];
        numbers.extend(self.switch_digits(label));
        format!("s{}", join(&numbers, "."))
    }

    fn topology(&self) -> String {
        let numbers = PortsAndLevels {
            ports: self.ports.into(),
            levels: self.levels.into(),
        };
        numbers.to_string()
    }

    /// IBFT(m, n) with port `k` of the paper on InfiniBand port `k + 1`: hosts by PID, then
    /// switches level by level from the roots.
    ///
    /// # Errors
    /// None in practice: the numbers were checked when the shape was made.
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        let refuse = |source| TopologyError::Graph {
            topology: self.topology(),
            source,
        };
        let mut graph = Graph::new();
        for pid in 0..self.hosts() {
            graph
                .add(Node::new(
                    self.host_name(pid),
                    NodeKind::Host,
                    host_guid(usize_of(pid)),
                    1,
                ))
                .map_err(refuse)?;
        }
        for label in self.labels() {
            graph
                .add(Node::new(
                    self.switch_name(label),
                    NodeKind::Switch,
                    switch_guid(self.ordinal(label)),
                    self.ports,
                ))
                .map_err(refuse)?;
        }
        let switch_at = |label| NodeId::from_index(usize_of(self.hosts()) + self.ordinal(label));
        for label in self.labels() {
            for k in 0..self.down_ports(label.level) {
                let upper = Endpoint {
                    node: switch_at(label),
                    port: self.port(k),
                };
                let lower = match self.below(label, k) {
                    Below::Host(pid) => Endpoint {
                        node: NodeId::from_index(usize_of(pid)),
                        port: self.port(0),
                    },
                    Below::Switch(child, parent) => Endpoint {
                        node: switch_at(child),
                        port: self.port(self.half() + parent),
                    },
                };
                graph.connect(upper, lower).map_err(refuse)?;
            }
        }
        Ok(graph)
    }

    /// The InfiniBand port of the paper's port `k`: `k + 1`.
    ///
    /// # Panics
    /// If `k` is no port of a switch.
    #[must_use]
    pub fn port(&self, k: u32) -> PortNum {
        assert!(k < u32::from(self.ports).max(1), "a port of the tree");
        u8::try_from(k + 1).map_or(PortNum::NONE, PortNum::new)
    }
}

#[cfg(test)]
mod tests;
