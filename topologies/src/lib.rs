//! Fabric graphs: nodes, ports and the cables between them; generators by name, readers and
//! writers of the texts in which fabrics are described ([`TextFormat`]).
//!
//! Every other crate that needs to know what is connected to what uses [`Graph`].
//!
//! ```
//! let topology = topologies::parse("fat-tree-4-3")?;
//! assert_eq!(topology.graph.hosts().count(), 16);
//! assert_eq!(topology.graph.switches().count(), 20);
//! # Ok::<(), topologies::TopologyError>(())
//! ```

mod disjoint_sets;
mod error;
mod graph;
mod kinds;
mod names;
mod reduce;
mod text;
mod topology;

pub use disjoint_sets::DisjointSets;
pub use error::{NODES_MAX, SWITCH_PORTS_MAX, TextError, TextProblem, TopologyError};
pub use graph::{Endpoint, Graph, GraphError, Node, NodeId, NodeKind};
pub use kinds::{AsBuilt, Below, FatTree, SwitchLabel, forms};
pub use names::{ADAPTER_DEVICE_ID, SWITCH_DEVICE_ID, VENDOR_ID, host_guid, switch_guid};
pub use reduce::matches;
pub use text::{
    Description, ReadError, TEXT_BYTES_MAX, TextFormat, TextWarning, TextWarnings, read_bounded,
    read_description, read_text, write_as_found, write_ibnetdiscover, write_net,
};
pub use topology::{Topology, parse};
