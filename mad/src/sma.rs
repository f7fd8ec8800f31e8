//! The subnet management agent: what answers `Get` and `Set` of a node's attributes.

mod node;

pub use node::{
    ArbitrationHalf, Forwarding, Identity, LaneWeight, LinkCommand, LinkStatus, Node, NodeKind,
    PhysicalState, PortCapabilities, PortConfig, PortState,
};
