//! From cables between switches to a graph.
//!
//! All kinds but the fat tree are described by their cables between switches and then wired by one
//! rule: hosts take the first ports of their switch, cables to other switches follow in ascending
//! order of neighbour, parallel cables side by side.

use core::fmt;
use std::collections::BTreeMap;

use wire::PortNum;
use wire::convert::{saturate, usize_of};

use crate::error::{NODES_MAX, TopologyError};
use crate::graph::{Endpoint, Graph, GraphError, Node, NodeId, NodeKind};
use crate::names::{host_guid, switch_guid};

/// Switches, hosts and the cables among switches, before ports are given out.
pub(super) struct Wiring {
    /// The topology's name, for messages.
    topology: String,
    switches: usize,
    /// The first so many switches have hosts; the rest are spines.
    leaves: usize,
    /// How many hosts a leaf has.
    hosts_each: usize,
    /// Per switch: neighbour to number of cables.
    cables: Vec<BTreeMap<usize, usize>>,
    /// By switch that shows the system image GUID of another: that one.
    boxes: BTreeMap<usize, usize>,
}

impl Wiring {
    /// Switches that have so many hosts each, without cables among them yet.
    ///
    /// # Errors
    /// [`TopologyError::TooManyNodes`].
    pub(super) fn new(
        topology: &impl fmt::Display,
        switches: u64,
        hosts_each: u64,
    ) -> Result<Self, TopologyError> {
        Self::with_spines(topology, switches, hosts_each, 0)
    }

    /// Leaves that have so many hosts each and, after them, spines that have none.
    ///
    /// # Errors
    /// [`TopologyError::TooManyNodes`].
    pub(super) fn with_spines(
        topology: &impl fmt::Display,
        leaves: u64,
        hosts_each: u64,
        spines: u64,
    ) -> Result<Self, TopologyError> {
        let hosts = leaves.saturating_mul(hosts_each);
        let switches = leaves.saturating_add(spines);
        if hosts.saturating_add(switches) > NODES_MAX {
            return Err(TopologyError::TooManyNodes {
                topology: topology.to_string(),
                hosts,
                switches,
            });
        }
        Ok(Self {
            topology: topology.to_string(),
            switches: usize_of(switches),
            leaves: usize_of(leaves),
            hosts_each: usize_of(hosts_each),
            cables: vec![BTreeMap::new(); usize_of(switches)],
            boxes: BTreeMap::new(),
        })
    }

    /// How many switches there are, with spines.
    pub(super) fn switches(&self) -> usize {
        self.switches
    }

    /// How many of them, from the first on, have hosts.
    pub(super) fn leaves(&self) -> usize {
        self.leaves
    }

    /// Adds cables between two switches.
    pub(super) fn connect(&mut self, a: usize, b: usize, cables: u64) {
        let cables = usize_of(cables);
        *self.cables[a].entry(b).or_default() += cables;
        *self.cables[b].entry(a).or_default() += cables;
    }

    /// Puts a switch into the box of another.
    pub(super) fn put_into_box(&mut self, switch: usize, of: usize) {
        self.boxes.insert(switch, of);
    }

    /// Gives ports to all cables.
    ///
    /// # Errors
    /// [`TopologyError::Graph`] if a kind broke a rule of the graph: its defect.
    pub(super) fn graph(self) -> Result<Graph, TopologyError> {
        self.wire().map_err(|source| TopologyError::Graph {
            topology: self.topology.clone(),
            source,
        })
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

    fn wire(&self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let hosts = self.leaves * self.hosts_each;
        for host in 0..hosts {
            let name = format!("h{host}");
            graph.add(Node::new(name, NodeKind::Host, host_guid(host), 1))?;
        }
        for switch in 0..self.switches {
            let cables: usize = self.cables[switch].values().sum();
            let mut node = Node::new(
                self.switch_name(switch),
                NodeKind::Switch,
                switch_guid(switch),
                saturate::<u8>(self.hosts_at(switch) + cables),
            );
            if let Some(&of) = self.boxes.get(&switch) {
                node.system_image_guid = switch_guid(of);
            }
            graph.add(node)?;
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
