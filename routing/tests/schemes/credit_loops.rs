//! A second opinion on deadlock: channels on VLs, followed packet by packet through the public
//! interface.

use std::collections::{BTreeMap, BTreeSet};

use routing::{LidRange, Tables};
use topologies::{Endpoint, Graph, NodeId};
use wire::{Lid, PortNum, Sl, Vl};

use crate::support::is_switch;

/// A VL of a channel.
pub(crate) type ChannelVl = (NodeId, PortNum, Vl);

type Dependencies = BTreeMap<ChannelVl, Vec<ChannelVl>>;

/// What depends on what when every host sends to every LID of every other.
pub(crate) fn dependencies(graph: &Graph, tables: &Tables) -> Dependencies {
    let mut dependencies = Dependencies::new();
    for (from, _, to) in pairs(graph, tables) {
        for lid in to.lids() {
            let sl = level(graph, tables, from, lid);
            follow(graph, tables, (from, lid, sl), &mut dependencies);
        }
    }
    dependencies
}

/// What depends on what when every host answers all those packets, to every LID of their senders and
/// on their service level.
pub(crate) fn answers(graph: &Graph, tables: &Tables) -> Dependencies {
    let mut dependencies = Dependencies::new();
    for (from, own, to) in pairs(graph, tables) {
        let levels: BTreeSet<Sl> = (to.lids())
            .map(|lid| level(graph, tables, from, lid))
            .collect();
        for sl in levels {
            for lid in own.lids() {
                follow(graph, tables, (to.end.unwrap(), lid, sl), &mut dependencies);
            }
        }
    }
    dependencies
}

/// Every host with its LIDs, and the LIDs of every other.
fn pairs<'t>(graph: &Graph, tables: &'t Tables) -> Vec<(Endpoint, &'t LidRange, &'t LidRange)> {
    let is_host = |range: &&LidRange| !is_switch(graph, range.end.unwrap().node);
    let hosts: Vec<&LidRange> = tables.lids.iter().filter(is_host).collect();
    let of = |&from: &&'t LidRange| {
        let others = hosts.iter().filter(move |to| to.end != from.end);
        others.map(move |&to| (from.end.unwrap(), from, to))
    };
    hosts.iter().flat_map(of).collect()
}

fn level(graph: &Graph, tables: &Tables, from: Endpoint, lid: Lid) -> Sl {
    let assignment = tables.vl_assignment.as_ref();
    assignment.map_or_else(Sl::default, |one| one.sl_from(graph, from, lid))
}

fn follow(
    graph: &Graph,
    tables: &Tables,
    (from, lid, sl): (Endpoint, Lid, Sl),
    dependencies: &mut Dependencies,
) {
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

/// Whether there is a cycle: takes away what depends on nothing until nothing changes.
pub(crate) fn has_cycle(mut dependencies: Dependencies) -> bool {
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
