//! A second opinion on deadlock: channels on VLs, followed packet by packet through the public
//! interface.

use std::collections::BTreeMap;

use routing::Tables;
use topologies::{Graph, NodeId};
use wire::{PortNum, Sl, Vl};

use crate::support::is_switch;

/// A VL of a channel.
pub(crate) type ChannelVl = (NodeId, PortNum, Vl);

/// What depends on what when every host sends to every LID of every other.
pub(crate) fn dependencies(graph: &Graph, tables: &Tables) -> BTreeMap<ChannelVl, Vec<ChannelVl>> {
    let mut dependencies: BTreeMap<ChannelVl, Vec<ChannelVl>> = BTreeMap::new();
    for source in graph.hosts() {
        let Some(from) = tables.lids.of_node(source).and_then(|range| range.end) else {
            continue;
        };
        for range in tables.lids.iter() {
            let to = range.end.unwrap();
            if is_switch(graph, to.node) || to == from {
                continue;
            }
            for lid in range.lids() {
                let sl = tables
                    .vl_assignment
                    .as_ref()
                    .map_or_else(Sl::default, |one| one.sl_from(graph, from, lid));
                let path = tables.path(graph, from, lid);
                assert!(path.arrives);
                let mut held: Option<ChannelVl> = None;
                let between = &path.hops[1..path.hops.len() - 2];
                for hop in between {
                    let vl = tables
                        .vl_assignment
                        .as_ref()
                        .map_or_else(Vl::default, |one| one.vl(hop.node, hop.entry, hop.exit, sl));
                    let next = (hop.node, hop.exit, vl);
                    if let Some(held) = held {
                        let list = dependencies.entry(held).or_default();
                        if !list.contains(&next) {
                            list.push(next);
                        }
                    }
                    held = Some(next);
                }
            }
        }
    }
    dependencies
}

/// Whether there is a cycle: takes away what depends on nothing until nothing changes.
pub(crate) fn has_cycle(mut dependencies: BTreeMap<ChannelVl, Vec<ChannelVl>>) -> bool {
    loop {
        let nodes: Vec<ChannelVl> = dependencies.keys().copied().collect();
        for list in dependencies.values_mut() {
            list.retain(|next| nodes.binary_search(next).is_ok());
        }
        dependencies.retain(|_, list| !list.is_empty());
        if dependencies.len() == nodes.len() {
            return !dependencies.is_empty();
        }
    }
}
