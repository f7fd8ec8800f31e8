//! A node with its agent, and random numbers.

use mad::sma::Sma;
use topologies::{Graph, NodeId};
use wire::Mad;

use super::BedNode;

/// Random numbers from a seed (xorshift).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A node and its management agent.
pub struct Station {
    pub node: BedNode,
    pub sma: Sma,
    /// Gives no answers to management.
    pub silent: bool,
    /// Has no links.
    pub dead: bool,
    /// Changes its answers to subnet management.
    pub lie: Option<Lie>,
}

/// Changes an answer.
pub type Lie = Box<dyn FnMut(&mut Mad)>;

impl Station {
    pub fn new(graph: &Graph, id: NodeId, vls: u8) -> Self {
        let node = BedNode::new(graph.node(id), vls);
        Self {
            sma: Sma::new(&node),
            node,
            silent: false,
            dead: false,
            lie: None,
        }
    }
}
