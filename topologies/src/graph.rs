//! The one graph type of the project.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use wire::{Guid, LinkRate, PortNum};

use crate::names::{ADAPTER_DEVICE_ID, SWITCH_DEVICE_ID, VENDOR_ID};

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
    /// A node whose ports hold LIDs and forward nothing: a channel adapter, or with
    /// [`Node::is_router`] a router.
    Host,
}

/// A switch, a channel adapter or a router, with what it says of itself in NodeInfo and
/// NodeDescription (IBA 14.2.5.2, 14.2.5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique within the graph: what the command line and messages call it.
    pub name: String,
    /// Switch or host.
    pub kind: NodeKind,
    /// Node GUID, unique within the graph.
    pub guid: Guid,
    /// How many external ports it has, 1..=254, with a cable or without.
    pub ports: u8,
    /// The node description on the fabric. Several nodes may have the same.
    pub description: String,
    /// GUID of the box that holds the node: the adapters of one host share it.
    pub system_image_guid: Guid,
    /// Vendor, 24 bits (an OUI).
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// GUIDs of a host's ports other than `guid` + port number, by port.
    pub port_guids: BTreeMap<u8, Guid>,
    /// Whether a host is a router (NodeType 3).
    pub is_router: bool,
    /// Whether a switch has an enhanced port 0 (SwitchInfo:EnhancedPort0).
    pub enhanced_port0: bool,
    /// Ports without a cable that are switched off (PortPhysicalState Disabled); others without one look for
    /// a peer (Polling).
    pub disabled_ports: BTreeSet<u8>,
}

impl Node {
    /// A node of ibemu's own make: its description is its name, it stands in a box of its own, and its
    /// port `p` has GUID `guid + p`.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: NodeKind, guid: Guid, ports: u8) -> Self {
        let name = name.into();
        Self {
            description: name.clone(),
            name,
            kind,
            guid,
            ports,
            system_image_guid: guid,
            vendor_id: VENDOR_ID,
            device_id: match kind {
                NodeKind::Switch => SWITCH_DEVICE_ID,
                NodeKind::Host => ADAPTER_DEVICE_ID,
            },
            port_guids: BTreeMap::new(),
            is_router: false,
            enhanced_port0: false,
            disabled_ports: BTreeSet::new(),
        }
    }

    /// The GUID of a port: a switch's only one is the node's own; a host's is what
    /// [`Self::port_guids`] says, else node GUID + port number.
    #[must_use]
    pub fn port_guid(&self, port: PortNum) -> Guid {
        match self.kind {
            NodeKind::Switch => self.guid,
            NodeKind::Host => {
                let known = self.port_guids.get(&port.get()).copied();
                known.unwrap_or(Guid(self.guid.0.wrapping_add(u64::from(port.get()))))
            }
        }
    }
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

/// What is plugged into a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plug {
    peer: Endpoint,
    rate: Option<LinkRate>,
}

/// Nodes, and the cables between their ports. Nodes keep the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    /// `plugs[node][port]`; index 0 is never used.
    plugs: Vec<Vec<Option<Plug>>>,
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
        self.plugs.push(vec![None; usize::from(node.ports) + 1]);
        self.nodes.push(node);
        Ok(id)
    }

    /// Puts a cable between two ports (of one node, if need be), of which nothing is said about width and
    /// speed.
    ///
    /// # Errors
    /// [`GraphError::NoSuchPort`], [`GraphError::PortTaken`].
    pub fn connect(&mut self, a: Endpoint, b: Endpoint) -> Result<(), GraphError> {
        self.connect_at(a, b, None)
    }

    /// The same with the width and speed at which the link runs; `None`: nothing is said about them.
    ///
    /// # Errors
    /// [`GraphError::NoSuchPort`], [`GraphError::PortTaken`].
    pub fn connect_at(
        &mut self,
        a: Endpoint,
        b: Endpoint,
        rate: Option<LinkRate>,
    ) -> Result<(), GraphError> {
        for end in [a, b] {
            let node = &self.nodes[end.node.index()];
            if end.port.get() == 0 || end.port.get() > node.ports {
                return Err(GraphError::NoSuchPort {
                    name: node.name.clone(),
                    port: end.port,
                    ports: node.ports,
                });
            }
            if self.plugs[end.node.index()][end.port.index()].is_some() || a == b {
                return Err(GraphError::PortTaken {
                    name: node.name.clone(),
                    port: end.port,
                });
            }
        }
        self.plugs[a.node.index()][a.port.index()] = Some(Plug { peer: b, rate });
        self.plugs[b.node.index()][b.port.index()] = Some(Plug { peer: a, rate });
        Ok(())
    }

    /// Takes out the cable at `end`, if there is one; returns its other end.
    pub fn disconnect(&mut self, end: Endpoint) -> Option<Endpoint> {
        let other = self.plugs[end.node.index()]
            .get_mut(end.port.index())?
            .take()?
            .peer;
        self.plugs[other.node.index()][other.port.index()] = None;
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

    /// Gives a node another system image GUID.
    ///
    /// # Panics
    /// If the graph has no such node.
    pub fn set_system_image(&mut self, id: NodeId, image: Guid) {
        self.nodes[id.index()].system_image_guid = image;
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
        Some(self.plug(end)?.peer)
    }

    /// Width and speed at which the cable at `end` runs; `None` without a cable, or if nothing is said
    /// about them.
    #[must_use]
    pub fn rate(&self, end: Endpoint) -> Option<LinkRate> {
        self.plug(end)?.rate
    }

    fn plug(&self, end: Endpoint) -> Option<&Plug> {
        self.plugs[end.node.index()].get(end.port.index())?.as_ref()
    }

    /// The connected ports of a node and what they lead to, in ascending order of port.
    pub fn cables(&self, node: NodeId) -> impl Iterator<Item = (PortNum, Endpoint)> + '_ {
        self.plugs[node.index()]
            .iter()
            .enumerate()
            .filter_map(|(port, plug)| {
                let port = PortNum::new(u8::try_from(port).ok()?);
                plug.map(|plug| (port, plug.peer))
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
        let moved = |plug: Plug| Plug {
            peer: Endpoint {
                node: now[plug.peer.node.index()],
                ..plug.peer
            },
            ..plug
        };
        let plugs = |was: &NodeId| {
            let plugs = self.plugs[was.index()].iter();
            plugs.map(|plug| plug.map(moved)).collect()
        };
        let renamed = |id: &NodeId| now[id.index()];
        Self {
            nodes: order.iter().map(|&was| self.node(was).clone()).collect(),
            plugs: order.iter().map(plugs).collect(),
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
    use wire::{LinkSpeed, LinkWidth};

    use super::*;

    #[test]
    fn a_hosts_port_has_the_guid_that_is_given_or_the_nodes_plus_its_number() {
        let mut node = Node::new("h", NodeKind::Host, Guid(0x10), 2);
        node.port_guids.insert(1, Guid(0x10));
        let guids = [1, 2].map(|port| node.port_guid(PortNum::new(port)).0);
        assert_eq!(guids, [0x10, 0x12]);
        let switch = Node::new("s", NodeKind::Switch, Guid(0x20), 2);
        assert_eq!(switch.port_guid(PortNum::new(2)), Guid(0x20));
    }

    fn two_switches() -> (Graph, NodeId, NodeId) {
        let mut graph = Graph::new();
        let node = |name: &str, guid| Node::new(name, NodeKind::Switch, Guid(guid), 2);
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
        let host = Node::new("h", NodeKind::Host, Guid(0), 1);
        let host = graph.add(host).unwrap();
        let rate = LinkRate {
            width: LinkWidth::X1,
            speed: LinkSpeed::Hdr,
        };
        graph.connect_at(end(b, 1), end(a, 2), Some(rate)).unwrap();
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
        assert_eq!(ordered.rate(end(a, 2)), Some(rate));
        assert_eq!(ordered.rate(end(h, 1)), None);
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
