//! The one graph type of the project.

use core::fmt;
use std::collections::BTreeMap;

use thiserror::Error;
use wire::{Guid, PortNum};

/// A node of a [`Graph`], by its position there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The node at `index`.
    ///
    /// # Panics
    /// If `index` does not fit in 32 bits: a graph never grows that large.
    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a graph holds fewer than 2^32 nodes"))
    }

    /// The node's position.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A switch: port 0 manages, ports from 1 carry cables.
    Switch,
    /// A channel adapter.
    Host,
}

/// A switch or host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique within the graph; the node description on the fabric.
    pub name: String,
    /// Switch or host.
    pub kind: NodeKind,
    /// Node GUID, unique within the graph. A host's port `p` has GUID `guid + p`; a switch's
    /// management port has the node's own.
    pub guid: Guid,
    /// How many external ports it has, 1..=254.
    pub ports: u8,
}

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The node.
    pub node: NodeId,
    /// Its port, from 1.
    pub port: PortNum,
}

/// An error in building a graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// Two nodes of one name.
    #[error("the name {0:?} is used twice")]
    NameTaken(String),
    /// Two nodes of one GUID.
    #[error("node {name:?}: the GUID {guid} is used twice")]
    GuidTaken {
        /// The second node.
        name: String,
        /// Its GUID.
        guid: Guid,
    },
    /// A port that the node does not have.
    #[error("node {name:?} has ports 1 to {ports}, not {port}")]
    NoSuchPort {
        /// The node.
        name: String,
        /// The port asked for.
        port: PortNum,
        /// How many it has.
        ports: u8,
    },
    /// A second cable in one port.
    #[error("port {port} of {name:?} already has a cable")]
    PortTaken {
        /// The node.
        name: String,
        /// The port.
        port: PortNum,
    },
}

/// Nodes, and the cables between their ports. Nodes keep the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    /// `peers[node][port]`; index 0 is never used.
    peers: Vec<Vec<Option<Endpoint>>>,
    by_name: BTreeMap<String, NodeId>,
    by_guid: BTreeMap<Guid, NodeId>,
}

impl Graph {
    /// A graph without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node.
    ///
    /// # Errors
    /// [`GraphError::NameTaken`], [`GraphError::GuidTaken`].
    pub fn add(&mut self, node: Node) -> Result<NodeId, GraphError> {
        let id = NodeId::from_index(self.nodes.len());
        if self.by_name.contains_key(&node.name) {
            return Err(GraphError::NameTaken(node.name));
        }
        if self.by_guid.contains_key(&node.guid) {
            return Err(GraphError::GuidTaken {
                name: node.name,
                guid: node.guid,
            });
        }
        self.by_name.insert(node.name.clone(), id);
        self.by_guid.insert(node.guid, id);
        self.peers.push(vec![None; usize::from(node.ports) + 1]);
        self.nodes.push(node);
        Ok(id)
    }

    /// Puts a cable between two ports (of one node, if need be).
    ///
    /// # Errors
    /// [`GraphError::NoSuchPort`], [`GraphError::PortTaken`].
    pub fn connect(&mut self, a: Endpoint, b: Endpoint) -> Result<(), GraphError> {
        for end in [a, b] {
            let node = &self.nodes[end.node.index()];
            if end.port.get() == 0 || end.port.get() > node.ports {
                return Err(GraphError::NoSuchPort {
                    name: node.name.clone(),
                    port: end.port,
                    ports: node.ports,
                });
            }
            if self.peers[end.node.index()][end.port.index()].is_some() || a == b {
                return Err(GraphError::PortTaken {
                    name: node.name.clone(),
                    port: end.port,
                });
            }
        }
        self.peers[a.node.index()][a.port.index()] = Some(b);
        self.peers[b.node.index()][b.port.index()] = Some(a);
        Ok(())
    }

    /// Takes out the cable at `end`, if there is one; returns its other end.
    pub fn disconnect(&mut self, end: Endpoint) -> Option<Endpoint> {
        let other = self.peers[end.node.index()]
            .get_mut(end.port.index())?
            .take()?;
        self.peers[other.node.index()][other.port.index()] = None;
        Some(other)
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node of this graph.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The node of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The node of that GUID.
    #[must_use]
    pub fn find_guid(&self, guid: Guid) -> Option<NodeId> {
        self.by_guid.get(&guid).copied()
    }

    /// All nodes in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.nodes.len()).map(NodeId::from_index)
    }

    /// All switches in order.
    pub fn switches(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids()
            .filter(|&id| self.node(id).kind == NodeKind::Switch)
    }

    /// All hosts in order.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids()
            .filter(|&id| self.node(id).kind == NodeKind::Host)
    }

    /// The other end of the cable at `end`.
    #[must_use]
    pub fn peer(&self, end: Endpoint) -> Option<Endpoint> {
        *self.peers[end.node.index()].get(end.port.index())?
    }

    /// The connected ports of a node and what they lead to, in ascending order of port.
    pub fn cables(&self, node: NodeId) -> impl Iterator<Item = (PortNum, Endpoint)> + '_ {
        self.peers[node.index()]
            .iter()
            .enumerate()
            .filter_map(|(port, peer)| {
                let port = PortNum::new(u8::try_from(port).ok()?);
                peer.map(|peer| (port, peer))
            })
    }

    /// The same graph with its nodes in the order of their GUIDs: one result for any order of lines in
    /// a file.
    #[must_use]
    pub fn in_guid_order(&self) -> Self {
        let order: Vec<NodeId> = self.by_guid.values().copied().collect();
        let mut now = vec![NodeId::from_index(0); order.len()];
        for (place, was) in order.iter().enumerate() {
            now[was.index()] = NodeId::from_index(place);
        }
        let moved = |end: Endpoint| Endpoint {
            node: now[end.node.index()],
            ..end
        };
        let peers = |was: &NodeId| {
            let peers = self.peers[was.index()].iter();
            peers.map(|peer| peer.map(moved)).collect()
        };
        let renamed = |id: &NodeId| now[id.index()];
        Self {
            nodes: order.iter().map(|&was| self.node(was).clone()).collect(),
            peers: order.iter().map(peers).collect(),
            by_name: self
                .by_name
                .iter()
                .map(|(name, id)| (name.clone(), renamed(id)))
                .collect(),
            by_guid: self
                .by_guid
                .iter()
                .map(|(&guid, id)| (guid, renamed(id)))
                .collect(),
        }
    }

    /// Every cable once, as (smaller end, larger end), in order.
    pub fn links(&self) -> impl Iterator<Item = (Endpoint, Endpoint)> + '_ {
        self.ids().flat_map(move |node| {
            self.cables(node).filter_map(move |(port, peer)| {
                let end = Endpoint { node, port };
                (end < peer).then_some((end, peer))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_switches() -> (Graph, NodeId, NodeId) {
        let mut graph = Graph::new();
        let node = |name: &str, guid| Node {
            name: name.into(),
            kind: NodeKind::Switch,
            guid: Guid(guid),
            ports: 2,
        };
        let a = graph.add(node("a", 1)).unwrap();
        let b = graph.add(node("b", 2)).unwrap();
        (graph, a, b)
    }

    fn end(node: NodeId, port: u8) -> Endpoint {
        Endpoint {
            node,
            port: PortNum::new(port),
        }
    }

    #[test]
    fn a_cable_is_seen_from_both_ends_and_listed_once() {
        let (mut graph, a, b) = two_switches();
        graph.connect(end(b, 1), end(a, 2)).unwrap();
        assert_eq!(graph.peer(end(a, 2)), Some(end(b, 1)));
        assert_eq!(graph.peer(end(b, 1)), Some(end(a, 2)));
        assert_eq!(graph.links().collect::<Vec<_>>(), [(end(a, 2), end(b, 1))]);
        assert_eq!(graph.disconnect(end(b, 1)), Some(end(a, 2)));
        assert_eq!(graph.links().count(), 0);
    }

    #[test]
    fn in_the_order_of_guids_nodes_keep_their_names_ports_and_cables() {
        let (mut graph, a, b) = two_switches();
        let host = Node {
            name: "h".into(),
            kind: NodeKind::Host,
            guid: Guid(0),
            ports: 1,
        };
        let host = graph.add(host).unwrap();
        graph.connect(end(b, 1), end(a, 2)).unwrap();
        graph.connect(end(host, 1), end(a, 1)).unwrap();
        let ordered = graph.in_guid_order();
        let names: Vec<&str> = ordered
            .ids()
            .map(|id| ordered.node(id).name.as_str())
            .collect();
        assert_eq!(names, ["h", "a", "b"]);
        let [h, a, b] = ["h", "a", "b"].map(|name| ordered.find(name).unwrap());
        assert_eq!(ordered.find_guid(Guid(2)), Some(b));
        assert_eq!(ordered.peer(end(h, 1)), Some(end(a, 1)));
        assert_eq!(ordered.peer(end(a, 2)), Some(end(b, 1)));
        assert_eq!(ordered.in_guid_order(), ordered);
    }

    #[test]
    fn a_port_that_is_taken_or_missing_is_refused_and_nothing_changes() {
        let (mut graph, a, b) = two_switches();
        graph.connect(end(a, 1), end(b, 1)).unwrap();
        let before = graph.clone();
        assert!(matches!(
            graph.connect(end(b, 2), end(a, 1)),
            Err(GraphError::PortTaken { .. })
        ));
        assert!(matches!(
            graph.connect(end(a, 3), end(b, 2)),
            Err(GraphError::NoSuchPort { ports: 2, .. })
        ));
        assert!(matches!(
            graph.connect(end(a, 2), end(a, 2)),
            Err(GraphError::PortTaken { .. })
        ));
        assert_eq!(graph, before);
    }
}
