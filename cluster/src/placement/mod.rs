//! Which device of a fabric runs on which machine: few cables between machines, and the load of each in
//! proportion to its processors.
//!
//! Devices that have to be on one machine are one vertex of a graph: a switch with the hosts whose first
//! cable leads to it, and adapters of one host. A vertex weighs as much as its devices have cabled ports, since
//! what a device costs is what passes its ports; two vertices are joined by as many cables as there are between
//! them. METIS divides that graph by recursive bisection (Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998).
//! It may leave a machine without devices where there are few vertices; such a machine is then given the one that
//! adds the fewest cut cables. The same graph and machines give the same placement.

mod lines;
mod partition;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use thiserror::Error;
use topologies::{Endpoint, Graph, NodeId, NodeKind};

pub use lines::MachineName;

/// The most machines that a fabric is placed on.
pub const MACHINES_MAX: usize = 1024;

/// Why devices cannot be placed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlacementError {
    /// No machine, or too many.
    #[error("{0} machines: a fabric is placed on 1 to {MACHINES_MAX}")]
    Machines(usize),
    /// A machine without processors.
    #[error("machine {0} has no processor: give each 1 or more")]
    NoCpus(usize),
    /// More machines than there are parts that can be separated.
    #[error(
        "the fabric has {groups} switches with their hosts, and there are {machines} machines: hosts stay on the \
         machine of their switch. Take {groups} machines or fewer, or say by hand what runs where (--placement)"
    )]
    TooFewGroups {
        /// Parts that can be separated.
        groups: usize,
        /// Machines.
        machines: usize,
    },
    /// METIS has refused the graph.
    #[error("METIS does not divide the fabric: {0}")]
    Metis(String),
    /// A line of a placement cannot be read.
    #[error("line {line}: {problem}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it, and what to write.
        problem: String,
    },
    /// A device that no line places.
    #[error("no line places {name}: write MACHINE {name}, or a pattern that is like it")]
    Unplaced {
        /// Its name.
        name: String,
    },
    /// A machine that nothing was placed on.
    #[error("nothing is placed on machine {machine}; leave it out, or give it a device")]
    Idle {
        /// Its number.
        machine: usize,
    },
    /// Devices that share a network namespace on different machines.
    #[error("{first} and {second} are adapters of one host and have to be on one machine")]
    Separated {
        /// One device.
        first: String,
        /// Another.
        second: String,
    },
}

/// Which machine each node of a graph runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    machines: usize,
    of: Vec<usize>,
}

/// The load of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Its switches.
    pub switches: usize,
    /// Its hosts (adapters).
    pub hosts: usize,
    /// Cabled ports of its devices.
    pub ports: usize,
}

impl Placement {
    /// Places `graph` on machines with so many processors. Nodes with the same number in `siblings` (of a node's
    /// position) stay together. `first`, if given, runs on machine 0 where that makes no difference otherwise.
    ///
    /// # Errors
    /// See [`PlacementError`].
    pub fn compute(
        graph: &Graph,
        siblings: &BTreeMap<NodeId, usize>,
        first: Option<NodeId>,
        cpus: &[u32],
    ) -> Result<Self, PlacementError> {
        check_machines(cpus)?;
        let groups = Groups::of(graph, siblings);
        if groups.count < cpus.len() {
            return Err(PlacementError::TooFewGroups {
                groups: groups.count,
                machines: cpus.len(),
            });
        }
        let mut parts = partition::divide(graph, &groups, cpus)?;
        if let Some(first) = first {
            let part = parts[groups.of[first.index()]];
            if cpus[part] == cpus[0] {
                // Machines that are alike may change places.
                for of in &mut parts {
                    *of = match *of {
                        of if of == part => 0,
                        0 => part,
                        of => of,
                    };
                }
            }
        }
        let of = groups.of.iter().map(|&group| parts[group]).collect();
        let machines = cpus.len();
        Ok(Self { machines, of })
    }

    /// A placement by hand: lines `MACHINE NODE` (see [`lines`](self::MachineName)). Hosts without a line follow the
    /// switch of their first cable.
    ///
    /// # Errors
    /// See [`PlacementError`].
    pub fn read(
        text: &str,
        graph: &Graph,
        siblings: &BTreeMap<NodeId, usize>,
        machines: &[MachineName],
    ) -> Result<Self, PlacementError> {
        let of = lines::read(text, graph, machines)?;
        let placement = Self {
            machines: machines.len(),
            of,
        };
        placement.check(graph, siblings)?;
        Ok(placement)
    }

    fn check(
        &self,
        graph: &Graph,
        siblings: &BTreeMap<NodeId, usize>,
    ) -> Result<(), PlacementError> {
        let mut seen: BTreeMap<usize, NodeId> = BTreeMap::new();
        for (&node, &host) in siblings {
            let first = *seen.entry(host).or_insert(node);
            if self.machine(first) != self.machine(node) {
                let name = |id| graph.node(id).name.clone();
                return Err(PlacementError::Separated {
                    first: name(first),
                    second: name(node),
                });
            }
        }
        let idle = (0..self.machines).find(|machine| !self.of.contains(machine));
        idle.map_or(Ok(()), |machine| Err(PlacementError::Idle { machine }))
    }

    /// As lines that [`Self::read`] reads.
    #[must_use]
    pub fn lines(&self, graph: &Graph) -> String {
        let lines = graph.ids().map(|id| {
            let name = &graph.node(id).name;
            format!("{} {name}\n", self.machine(id))
        });
        lines.collect()
    }

    /// The machine of a node, from 0.
    #[must_use]
    pub fn machine(&self, node: NodeId) -> usize {
        self.of[node.index()]
    }

    /// The machine of each node, by position.
    #[must_use]
    pub fn machines(&self) -> &[usize] {
        &self.of
    }

    /// The cables between machines, each once, in order.
    pub fn cut<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = (Endpoint, Endpoint)> + 'a {
        graph
            .links()
            .filter(|(a, b)| self.machine(a.node) != self.machine(b.node))
    }

    /// The load of each machine.
    #[must_use]
    pub fn loads(&self, graph: &Graph) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.machines];
        for id in graph.ids() {
            let load = &mut loads[self.machine(id)];
            match graph.node(id).kind {
                NodeKind::Switch => load.switches += 1,
                NodeKind::Host => load.hosts += 1,
            }
            load.ports += graph.cables(id).count();
        }
        loads
    }
}

fn check_machines(cpus: &[u32]) -> Result<(), PlacementError> {
    if cpus.is_empty() || cpus.len() > MACHINES_MAX {
        return Err(PlacementError::Machines(cpus.len()));
    }
    match cpus.iter().position(|&cpus| cpus == 0) {
        Some(machine) => Err(PlacementError::NoCpus(machine)),
        None => Ok(()),
    }
}

/// The switch that a host's first cable leads to; `None` if it leads to none.
fn leaf(graph: &Graph, host: NodeId) -> Option<NodeId> {
    let mut peers = graph.cables(host).map(|(_, peer)| peer.node);
    peers.find(|&peer| graph.node(peer).kind == NodeKind::Switch)
}

/// Nodes that have to be on one machine.
#[derive(Debug)]
struct Groups {
    count: usize,
    /// The group of each node, by position.
    of: Vec<usize>,
}

impl Groups {
    fn of(graph: &Graph, siblings: &BTreeMap<NodeId, usize>) -> Self {
        // Each node's representative: adapters follow the first one of their host, that one its switch.
        let mut first_of_host: BTreeMap<usize, NodeId> = BTreeMap::new();
        for (&node, &host) in siblings {
            first_of_host.entry(host).or_insert(node);
        }
        let representative = |id: NodeId| {
            if graph.node(id).kind == NodeKind::Switch {
                return id;
            }
            let host = siblings.get(&id).map_or(id, |host| first_of_host[host]);
            leaf(graph, host).unwrap_or(host)
        };
        let mut numbers: BTreeMap<NodeId, usize> = BTreeMap::new();
        let of = graph
            .ids()
            .map(|id| {
                let next = numbers.len();
                *numbers.entry(representative(id)).or_insert(next)
            })
            .collect();
        Self {
            count: numbers.len(),
            of,
        }
    }
}
