//! Types of what is known of a fabric.
//!
//! Ports of all nodes are in one list ([`Fabric::ports`]); a port is known by its place in it, which stays the same
//! as long as a [`Sampler`](crate::Sampler) lives: what leaves the fabric is no longer [`Node::is_present`], and has
//! its place when it comes back. A [`Snapshot`] has one [`Reading`] a port, in the same order.

mod control;
mod counters;
mod guid_text;
mod node;
mod process;
mod shared;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wire::Guid;

pub use control::{ControllerFacts, Device, DeviceFacts, Lane};
pub use counters::{COUNTERS, Counter, Counters, Rates, Reading};
pub use node::{Node, NodeKind, PhysicalState, Port, PortState};
pub use process::ProcessFacts;

/// The devices of a fabric, their ports and cables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// How often something of it has changed.
    pub generation: u64,
    /// In the order in which they were found; in the first discovery by GUID.
    pub nodes: Vec<Node>,
    /// The ports of all nodes: those of one node stand together, in ascending order.
    pub ports: Vec<Port>,
}

impl Fabric {
    /// The place of a node among [`Self::nodes`].
    #[must_use]
    pub fn node(&self, guid: Guid) -> Option<usize> {
        self.nodes.iter().position(|node| node.guid == guid.0)
    }

    /// The place of the first present node with this description.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<usize> {
        let is_it = |node: &Node| node.is_present && node.name == name;
        self.nodes.iter().position(is_it)
    }

    /// The place of a port among [`Self::ports`].
    #[must_use]
    pub fn port(&self, node: usize, number: u8) -> Option<usize> {
        let places = self.nodes.get(node)?.places();
        let ports = self.ports.get(places.clone())?;
        let at = ports.iter().position(|port| port.number == number)?;
        Some(places.start + at)
    }

    /// The ports of a node, with their places.
    pub fn ports_of(&self, node: &Node) -> impl Iterator<Item = (usize, &Port)> {
        let places = node.places();
        let ports = self.ports.get(places.clone()).unwrap_or_default();
        places.zip(ports)
    }

    /// The node that a port belongs to, and the port.
    #[must_use]
    pub fn at(&self, port: usize) -> Option<(&Node, &Port)> {
        let port = self.ports.get(port)?;
        Some((self.nodes.get(port.node)?, port))
    }
}

/// How the latest sample was collected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collection {
    /// From the first request to the last answer, seconds.
    pub duration_s: f64,
    /// Requests that were sent, repetitions included.
    pub requests: u64,
    /// Nodes of which a request was refused, or answered by nonsense.
    pub errors: u64,
    /// Nodes of which a request was not answered.
    pub timeouts: u64,
    /// Why nothing could be collected, if so: what is wrong, where, what to do.
    pub failure: Option<String>,
}

/// How the latest requests to one node went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeCollection {
    /// From the first request to the last answer, seconds.
    pub duration_s: f64,
    /// A request was refused, or answered by nonsense.
    pub is_error: bool,
    /// A request was not answered.
    pub is_timeout: bool,
}

/// All that is known at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Number of the sample, from 1; 0 before the first one.
    pub sequence: u64,
    /// When it was complete, milliseconds since 1970.
    pub at_ms: u64,
    /// The devices, ports and cables.
    #[serde(with = "shared")]
    pub fabric: Arc<Fabric>,
    /// By place of the port.
    #[serde(with = "shared::list")]
    pub readings: Arc<[Reading]>,
    /// By place of the node.
    #[serde(with = "shared::list")]
    pub nodes: Arc<[NodeCollection]>,
    /// What devices say of themselves beyond management datagrams, by place of the node.
    #[serde(with = "shared::list")]
    pub devices: Arc<[DeviceFacts]>,
    /// What the fabric's own controllers say; empty without.
    #[serde(with = "shared::list")]
    pub controllers: Arc<[ControllerFacts]>,
    /// The processes of the fabric; empty if nobody has told them.
    #[serde(with = "shared::list")]
    pub processes: Arc<[ProcessFacts]>,
    /// How the sample was collected.
    pub collection: Collection,
}

impl Snapshot {
    /// The reading of a port, by its place.
    #[must_use]
    pub fn reading(&self, port: usize) -> Reading {
        self.readings.get(port).copied().unwrap_or_default()
    }
}
