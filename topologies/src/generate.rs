//! From a [`Kind`] to its graph.
//!
//! All kinds but the fat tree are described by their cables between switches and then wired by one
//! rule: hosts take the first ports of their switch, cables to other switches follow in ascending
//! order of neighbour, parallel cables side by side.

use std::collections::BTreeMap;

use wire::PortNum;
use wire::convert::{saturate, usize_of};

use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TopologyError};
use crate::fat_tree::FatTree;
use crate::graph::{Endpoint, Graph, GraphError, Node, NodeId, NodeKind};
use crate::irregular;
use crate::kind::Kind;
use crate::names::{host_guid, switch_guid};

/// More dimensions than this are taken for a typing error.
const DIMENSIONS_MAX: u64 = 8;

impl Kind {
    /// The graph of this topology.
    ///
    /// # Errors
    /// [`TopologyError`] that names the number at fault and what is allowed.
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        match self {
            Self::FatTree { ports, levels } => FatTree::new(*ports, *levels)?.graph(),
            Self::Clos {
                leaves,
                hosts,
                spines,
                links,
            } => self.clos(*leaves, *hosts, *spines, *links),
            Self::Hypercube { dimensions, hosts } => self.hypercube(*dimensions, *hosts),
            Self::Mesh { sizes, hosts } => self.grid(sizes, *hosts, false),
            Self::Torus { sizes, hosts } => self.grid(sizes, *hosts, true),
            Self::Ring { switches, hosts } => {
                self.range("S (switches)", *switches, 2, NODES_MAX)?;
                self.grid(&[*switches], *hosts, true)
            }
            Self::Irregular {
                switches,
                hosts,
                degree,
                seed,
            } => self.irregular(*switches, *hosts, *degree, *seed),
            Self::Star { hosts } => {
                self.range("HOSTS", *hosts, 1, SWITCH_PORTS_MAX)?;
                Plan::new(self, 1, *hosts)?.build()
            }
        }
    }

    fn clos(
        &self,
        leaves: u64,
        hosts: u64,
        spines: u64,
        links: u64,
    ) -> Result<Graph, TopologyError> {
        self.range("LEAVES", leaves, 1, SWITCH_PORTS_MAX)?;
        self.range("HOSTS", hosts, 1, SWITCH_PORTS_MAX)?;
        self.range("SPINES", spines, 1, SWITCH_PORTS_MAX)?;
        self.range("LINKS", links, 1, SWITCH_PORTS_MAX)?;
        self.ports("a leaf", hosts + spines * links)?;
        self.ports("a spine", leaves * links)?;
        let mut plan = Plan::with_spines(self, leaves, hosts, spines)?;
        for leaf in 0..plan.leaves {
            for spine in plan.leaves..plan.switches {
                plan.join(leaf, spine, links);
            }
        }
        plan.build()
    }

    fn hypercube(&self, dimensions: u64, hosts: u64) -> Result<Graph, TopologyError> {
        self.range("D (dimensions)", dimensions, 1, 15)?;
        self.range("HOSTS", hosts, 1, SWITCH_PORTS_MAX)?;
        self.ports("a switch", hosts + dimensions)?;
        let mut plan = Plan::new(self, 1 << dimensions, hosts)?;
        for switch in 0..plan.switches {
            for dimension in 0..dimensions {
                let other = switch ^ (1 << dimension);
                if switch < other {
                    plan.join(switch, other, 1);
                }
            }
        }
        plan.build()
    }

    /// A mesh, or with `wrap` a torus.
    fn grid(&self, sizes: &[u64], hosts: u64, wrap: bool) -> Result<Graph, TopologyError> {
        self.range(
            "the number of dimensions",
            count(sizes.len()),
            1,
            DIMENSIONS_MAX,
        )?;
        for &size in sizes {
            self.range("the size of a dimension", size, 1, NODES_MAX)?;
        }
        self.range("HOSTS", hosts, 1, SWITCH_PORTS_MAX)?;
        let cables: u64 = sizes.iter().map(|&size| (size - 1).min(2)).sum();
        self.ports("a switch", hosts + cables)?;
        let switches = sizes
            .iter()
            .fold(1_u64, |product, &size| product.saturating_mul(size));
        let mut plan = Plan::new(self, switches, hosts)?;
        // The last dimension varies fastest: s0, s1 .. along it.
        let mut stride = 1;
        for &size in sizes.iter().rev() {
            let size = usize_of(size);
            for switch in 0..plan.switches {
                let place = switch / stride % size;
                if place + 1 < size {
                    plan.join(switch, switch + stride, 1);
                } else if wrap && size > 1 {
                    plan.join(switch, switch - place * stride, 1);
                }
            }
            stride *= size;
        }
        plan.build()
    }

    fn irregular(
        &self,
        switches: u64,
        hosts: u64,
        degree: u64,
        seed: u64,
    ) -> Result<Graph, TopologyError> {
        self.range("SWITCHES", switches, 1, NODES_MAX)?;
        self.range("HOSTS", hosts, 1, SWITCH_PORTS_MAX)?;
        if degree >= switches {
            return Err(self.impossible(format!(
                "DEGREE is {degree}, but a switch among {switches} has at most {} neighbours",
                switches - 1
            )));
        }
        if degree < 2 && switches > degree + 1 {
            return Err(self.impossible(format!(
                "with DEGREE {degree} the {switches} switches cannot be connected; allowed is 2 to \
                 {}",
                switches - 1
            )));
        }
        if switches * degree % 2 == 1 {
            return Err(self.impossible(format!(
                "{switches} switches with {degree} neighbours each make an odd number of cable \
                 ends; one of the two must be even"
            )));
        }
        self.ports("a switch", hosts + degree)?;
        let mut plan = Plan::new(self, switches, hosts)?;
        let degree = usize_of(degree);
        let cables = irregular::connected(plan.switches, degree, seed).ok_or_else(|| {
            self.impossible("no connected graph was found from this SEED; take another".to_owned())
        })?;
        for (a, b) in cables {
            plan.join(a, b, 1);
        }
        plan.build()
    }

    fn range(
        &self,
        what: &'static str,
        value: u64,
        min: u64,
        max: u64,
    ) -> Result<(), TopologyError> {
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(TopologyError::OutOfRange {
            topology: self.to_string(),
            what,
            value,
            min,
            max,
        })
    }

    fn ports(&self, which: &str, ports: u64) -> Result<(), TopologyError> {
        if ports <= SWITCH_PORTS_MAX {
            return Ok(());
        }
        Err(self.impossible(format!(
            "{which} would need {ports} ports; a switch has at most {SWITCH_PORTS_MAX}"
        )))
    }

    fn impossible(&self, reason: String) -> TopologyError {
        TopologyError::Impossible {
            topology: self.to_string(),
            reason,
        }
    }
}

fn count(items: usize) -> u64 {
    items as u64
}

/// Switches, hosts and the cables among switches, before ports are given out.
struct Plan {
    topology: String,
    switches: usize,
    /// The first so many switches have hosts; the rest are spines.
    leaves: usize,
    hosts_each: usize,
    /// Per switch: neighbour to number of cables.
    cables: Vec<BTreeMap<usize, usize>>,
}

impl Plan {
    fn new(kind: &Kind, switches: u64, hosts_each: u64) -> Result<Self, TopologyError> {
        Self::with_spines(kind, switches, hosts_each, 0)
    }

    fn with_spines(
        kind: &Kind,
        leaves: u64,
        hosts_each: u64,
        spines: u64,
    ) -> Result<Self, TopologyError> {
        let hosts = leaves.saturating_mul(hosts_each);
        let switches = leaves.saturating_add(spines);
        if hosts.saturating_add(switches) > NODES_MAX {
            return Err(TopologyError::TooManyNodes {
                topology: kind.to_string(),
                hosts,
                switches,
            });
        }
        // All of these are below NODES_MAX now.
        let small = |number| usize_of(number);
        Ok(Self {
            topology: kind.to_string(),
            switches: small(switches),
            leaves: small(leaves),
            hosts_each: small(hosts_each),
            cables: vec![BTreeMap::new(); small(switches)],
        })
    }

    fn join(&mut self, a: usize, b: usize, cables: u64) {
        let cables = usize_of(cables);
        *self.cables[a].entry(b).or_default() += cables;
        *self.cables[b].entry(a).or_default() += cables;
    }

    fn hosts_at(&self, switch: usize) -> usize {
        if switch < self.leaves {
            self.hosts_each
        } else {
            0
        }
    }

    fn switch_name(&self, switch: usize) -> String {
        if self.leaves == self.switches {
            format!("s{switch}")
        } else if switch < self.leaves {
            format!("leaf{switch}")
        } else {
            format!("spine{}", switch - self.leaves)
        }
    }

    fn build(self) -> Result<Graph, TopologyError> {
        self.wire().map_err(|source| TopologyError::Graph {
            topology: self.topology.clone(),
            source,
        })
    }

    fn wire(&self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let hosts = self.leaves * self.hosts_each;
        for host in 0..hosts {
            graph.add(Node {
                name: format!("h{host}"),
                kind: NodeKind::Host,
                guid: host_guid(host),
                ports: 1,
            })?;
        }
        for switch in 0..self.switches {
            let cables: usize = self.cables[switch].values().sum();
            graph.add(Node {
                name: self.switch_name(switch),
                kind: NodeKind::Switch,
                guid: switch_guid(switch),
                ports: saturate::<u8>(self.hosts_at(switch) + cables),
            })?;
        }
        for host in 0..hosts {
            let (switch, place) = (host / self.hosts_each, host % self.hosts_each);
            graph.connect(end(host, 1), end(hosts + switch, place + 1))?;
        }
        for (switch, neighbours) in self.cables.iter().enumerate() {
            for (&neighbour, &cables) in neighbours.range(switch + 1..) {
                let here = self.first_port(switch, neighbour);
                let there = self.first_port(neighbour, switch);
                for cable in 0..cables {
                    graph.connect(
                        end(hosts + switch, here + cable),
                        end(hosts + neighbour, there + cable),
                    )?;
                }
            }
        }
        Ok(graph)
    }

    /// The first port of `switch` that leads to `neighbour`.
    fn first_port(&self, switch: usize, neighbour: usize) -> usize {
        let before: usize = self.cables[switch].range(..neighbour).map(|(_, n)| n).sum();
        self.hosts_at(switch) + before + 1
    }
}

fn end(node: usize, port: usize) -> Endpoint {
    Endpoint {
        node: NodeId::from_index(node),
        port: u8::try_from(port).map_or(PortNum::NONE, PortNum::new),
    }
}

#[cfg(test)]
mod tests;
