//! Fabric graphs: nodes, ports and the cables between them.
//!
//! Every other crate that needs to know what is connected to what uses [`Graph`].

mod graph;

pub use graph::{Endpoint, Graph, GraphError, Node, NodeId, NodeKind};
