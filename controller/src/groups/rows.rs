//! How many rows the multicast forwarding tables have, and which switches carry no multicast.
//!
//! A multicast LID has the same row in all tables, so the smallest one counts. A switch without a table,
//! or with one that is too small for the groups that there are, carries no multicast, and no tree goes
//! over it: it must not end the groups of others. One that leads nowhere (a single cable) is on no
//! tree, so its table does not count.

use routing::multicast::GroupState;
use topologies::{Endpoint, Graph, NodeId};

use crate::subnet::{Device, Subnet};

/// What multicast has to do with.
pub(super) struct Rows {
    /// Rows of the smallest table that counts.
    pub(super) smallest: u16,
    /// The fabric without the cables of switches that carry no multicast.
    pub(super) graph: Graph,
    /// Warnings of these switches.
    pub(super) warnings: Vec<String>,
}

/// The rows of a subnet, the graph of which is `graph`, for these groups.
pub(super) fn of(subnet: &Subnet, graph: &Graph, states: &[GroupState]) -> Rows {
    let needed: usize = states.iter().map(|group| group.mlids.len()).sum();
    let needed = u16::try_from(needed).unwrap_or(u16::MAX).max(1);
    let capacity = |device: &Device| device.switch.map(|switch| switch.multicast_fdb_cap);
    let leads_on = |device: &&Device| device.cables().nth(1).is_some();
    let mut counted: Vec<u16> = subnet
        .devices
        .iter()
        .filter(leads_on)
        .filter_map(capacity)
        .collect();
    if counted.is_empty() {
        counted = subnet.devices.iter().filter_map(capacity).collect();
    }
    let enough = counted.iter().copied().filter(|&rows| rows >= needed);
    let Some(smallest) = enough.min() else {
        // No switch has the room: groups end as far as they must.
        return Rows {
            smallest: counted.into_iter().max().unwrap_or(0),
            graph: graph.clone(),
            warnings: Vec::new(),
        };
    };
    let mut rows = Rows {
        smallest,
        graph: graph.clone(),
        warnings: Vec::new(),
    };
    for (index, device) in subnet.devices.iter().enumerate() {
        let Some(own) = capacity(device).filter(|&own| own < smallest) else {
            continue;
        };
        let node = NodeId::from_index(index);
        let ports: Vec<_> = graph.cables(node).map(|(port, _)| port).collect();
        if ports.len() > 1 && rows.warnings.len() < crate::control::LIST_MAX {
            rows.warnings.push(format!(
                "{} carries no multicast: its table has {own} rows, and {needed} are needed",
                device.label()
            ));
        }
        for port in ports {
            rows.graph.disconnect(Endpoint { node, port });
        }
    }
    rows
}
