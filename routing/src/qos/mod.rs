//! Quality of service by arbitration tables: which connections a fabric can promise bandwidth,
//! and the table entries that keep the promise (VLARB01).
//!
//! Time on a link is cut into frames of `64 * 255` slots of 64 bytes, one turn through a full
//! table. A connection of mean rate `B` owns `ceil(B * 64 * 255 / B_link)` slots on each link of
//! its path ([`slots`]). Its class ([`Class`]) decides its service level and VL
//! ([`ServiceLevels`]); connections of one VL share entries ([`Table`]). DBTS fills the
//! high-priority table, DB the low one, which also holds best effort's reserved share and one slot
//! for challenged traffic ([`LinkState`]). A connection is admitted on every link of its path or
//! on none ([`Admission`]).
//!
//! Shapes: one `LinkState` for each output port, two tables of 64 entries each. Cost: a request
//! looks at 128 entries a hop. Since every weight is relative to the same frame, no entry of a
//! connection that stands is ever recomputed for another's sake.
//!
//! Differences from the paper:
//! * Slots are computed in integers.
//! * Entries do limit admission: best effort (20 %, 13 entries) and challenged traffic (1) leave
//!   50 of 64 to DB, and in most fills the first refusal is for want of an entry. Both entries
//!   and slots are checked.
//! * The whole path is checked at one place (the subnet manager's side), not switch by switch.
//! * Entries may also be interleaved ([`Layout`]): with contiguous ones a VL's longest wait is
//!   nearly a frame once best effort is backlogged.
//! * The paper leaves the high-priority table empty for want of DBTS traffic. Here DBTS counts
//!   against the same frame as everything else, so that its limit ([`Options::high_limit`]) may
//!   be "unlimited" as long as senders keep to their rates.
//!
//! A weight of 1 still sends a whole packet, however long: shares hold over many frames.

mod admission;
mod audit;
mod class;
mod error;
mod fill;
mod link_state;
mod slots;
mod table;

use topologies::{Endpoint, Graph, NodeId};

use crate::tables::Tables;

pub use admission::{Admission, Connection, ConnectionId, Request};
pub use audit::{Fault, PortTables, audit};
pub use class::{Band, Class, ServiceLevels};
pub use error::{Cause, QosError};
pub use fill::{FillOptions, FillReport, RATES_BPS, fill};
pub use link_state::{LinkState, Options};
pub use slots::{
    ENTRIES, FRAME_SLOTS, LinkRate, SLOT_BYTES, WEIGHT_MAX, frame_ns, link_rate, slots,
};
pub use table::{Entry, Layout, NoEntries, Table};

/// The output ports that a packet leaves between two hosts by the tables' own path selection, the
/// source's first: the path of a connection. `None` if it does not arrive.
#[must_use]
pub fn path(graph: &Graph, tables: &Tables, from: NodeId, to: NodeId) -> Option<Vec<Endpoint>> {
    let source = tables.lids.of_node(from)?.end?;
    let path = tables.path(graph, source, tables.dlid_between(from, to)?);
    let ports = path.hops.iter().map(|hop| Endpoint {
        node: hop.node,
        port: hop.exit,
    });
    let links = path.hops.len().saturating_sub(1);
    path.arrives.then(|| ports.take(links).collect())
}
