//! `fat-tree-M-N`: the m-port n-tree of MLID04.

use core::fmt;

use super::{Generator, Kind};
use crate::error::TopologyError;
use crate::graph::Graph;

mod shape;

pub use shape::{Below, FatTree, SwitchLabel};

pub(super) const KIND: Kind = Kind {
    name: "fat-tree",
    form: "fat-tree-M-N",
    read: |numbers| {
        let [ports, levels] = numbers.all()?;
        Ok(Box::new(PortsAndLevels { ports, levels }))
    },
};

struct PortsAndLevels {
    /// m, ports a switch: even.
    ports: u64,
    /// n, levels of switches.
    levels: u64,
}

impl fmt::Display for PortsAndLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fat-tree-{}-{}", self.ports, self.levels)
    }
}

impl Generator for PortsAndLevels {
    fn graph(&self) -> Result<Graph, TopologyError> {
        FatTree::new(self.ports, self.levels)?.graph()
    }
}
