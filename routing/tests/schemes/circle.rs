//! A second opinion on deadlock: channels on lanes, followed packet by packet through the public
//! interface.

use std::collections::BTreeMap;

use routing::Tables;
use topologies::{Graph, NodeId};
use wire::{PortNum, Sl, Vl};

use crate::support::is_switch;

/// A channel on a lane.
pub(crate) type Place = (NodeId, PortNum, Vl);

/// What waits for what when every host sends to every LID of every other.
pub(crate) fn waits(graph: &Graph, tables: &Tables) -> BTreeMap<Place, Vec<Place>> {
    let mut waits: BTreeMap<Place, Vec<Place>> = BTreeMap::new();
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
                let level = tables
                    .lanes
                    .as_ref()
                    .map_or_else(Sl::default, |lanes| lanes.level_from(graph, from, lid));
                let path = tables.path(graph, from, lid);
                assert!(path.arrives);
                let mut held: Option<Place> = None;
                let between = &path.hops[1..path.hops.len() - 2];
                for hop in between {
                    let vl = tables.lanes.as_ref().map_or_else(Vl::default, |lanes| {
                        lanes.vl(hop.node, hop.entry, hop.exit, level)
                    });
                    let next = (hop.node, hop.exit, vl);
                    if let Some(held) = held {
                        let list = waits.entry(held).or_default();
                        if !list.contains(&next) {
                            list.push(next);
                        }
                    }
                    held = Some(next);
                }
            }
        }
    }
    waits
}

/// Whether the packets can wait for each other in a circle: takes away what waits for nothing until
/// nothing changes.
pub(crate) fn has_circle(mut waits: BTreeMap<Place, Vec<Place>>) -> bool {
    loop {
        let places: Vec<Place> = waits.keys().copied().collect();
        for list in waits.values_mut() {
            list.retain(|next| places.binary_search(next).is_ok());
        }
        waits.retain(|_, list| !list.is_empty());
        if waits.len() == places.len() {
            return !waits.is_empty();
        }
    }
}
