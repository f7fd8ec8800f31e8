//! Fabric graphs: nodes, ports and the cables between them; generators by name, readers and
//! writers of ibnetdiscover and ibsim text.
//!
//! Every other crate that needs to know what is connected to what uses [`Graph`].
//!
//! ```
//! let topology = topologies::parse("fat-tree-4-3")?;
//! assert_eq!(topology.graph.hosts().count(), 16);
//! assert_eq!(topology.graph.switches().count(), 20);
//! # Ok::<(), topologies::TopologyError>(())
//! ```

mod error;
mod graph;
mod kinds;
mod names;
mod text;
mod topology;

pub use error::{NODES_MAX, SWITCH_PORTS_MAX, TextError, TextProblem, TopologyError};
pub use graph::{Endpoint, Graph, GraphError, Node, NodeId, NodeKind};
pub use kinds::{Below, FatTree, SwitchLabel, forms};
pub use names::{host_guid, switch_guid};
pub use text::{read_text, write_ibnetdiscover, write_net};
pub use topology::{Topology, parse};
