//! What the whole fabric is while switches or cables between them are missing and something new is found.
//!
//! The memory of the whole fabric brings back labels, tables and LIDs when what is missing returns. A host alone must not
//! take that from the others: it can claim any GUID, its own new one or that of a host that is away. So what hangs on
//! known switches (hosts, and what claims to be a switch and leads nowhere else) is added to the whole fabric, in the place of
//! what had its ports; only what hosts cannot make up, a new cable between switches or a switch with several, makes another whole
//! fabric of what is there.

use std::collections::BTreeSet;

use topologies::{Endpoint, Graph, Node, NodeId, NodeKind};
use wire::{Guid, PortNum};

/// A port by the GUID of its device.
type Port = (Guid, PortNum);

/// The whole fabric with what is new in `found`, if something between its switches is missing there, and what is new hangs on
/// switches that it has.
pub(super) fn extended(whole: &Graph, found: &Graph) -> Option<Graph> {
    if !lacks_core(whole, found) {
        return None;
    }
    let cables = |graph: &Graph| -> BTreeSet<(Port, Port)> {
        let links = graph.links();
        links
            .map(|(a, b)| ordered(port(graph, a), port(graph, b)))
            .collect()
    };
    let (known, there) = (cables(whole), cables(found));
    let new: Vec<&(Port, Port)> = there.difference(&known).collect();
    let hangs = |&&(a, b): &&(Port, Port)| {
        (is_outer(whole, found, a.0) && is_core(whole, b.0))
            || (is_outer(whole, found, b.0) && is_core(whole, a.0))
    };
    if !new.iter().all(hangs) {
        return None;
    }
    let taken: BTreeSet<Port> = new.iter().flat_map(|&&(a, b)| [a, b]).collect();
    let is_kept = |&&(a, b): &&(Port, Port)| !taken.contains(&a) && !taken.contains(&b);
    let kept: Vec<&(Port, Port)> = known.iter().filter(is_kept).collect();
    let cabled: BTreeSet<Guid> = kept.iter().flat_map(|&&(a, b)| [a.0, b.0]).collect();
    let mut extended = Graph::new();
    let is_there = |node: &Node| found.find_guid(node.guid).is_some();
    let remembered = whole.ids().map(|id| whole.node(id));
    for node in remembered.filter(|node| is_there(node) || cabled.contains(&node.guid)) {
        extended.add(node.clone()).ok()?;
    }
    let arrived = found.ids().map(|id| found.node(id));
    for node in arrived.filter(|node| whole.find_guid(node.guid).is_none()) {
        add(&mut extended, node)?;
    }
    for &&(a, b) in kept.iter().chain(&new) {
        let end = |(guid, port): Port| {
            let node = extended.find_guid(guid)?;
            Some(Endpoint { node, port })
        };
        let (a, b) = (end(a)?, end(b)?);
        extended.connect(a, b).ok()?;
    }
    Some(extended)
}

/// Whether a switch, or a cable between two, is missing.
fn lacks_core(whole: &Graph, found: &Graph) -> bool {
    let is_switch = |end: Endpoint| whole.node(end.node).kind == NodeKind::Switch;
    let counterpart = |end: Endpoint| {
        let node = found.find_guid(whole.node(end.node).guid)?;
        Some(Endpoint {
            node,
            port: end.port,
        })
    };
    let is_missing = |id: NodeId| found.find_guid(whole.node(id).guid).is_none();
    whole.switches().any(is_missing)
        || whole
            .links()
            .filter(|&(a, b)| is_switch(a) && is_switch(b))
            .any(|(a, b)| {
                let ends = counterpart(a).zip(counterpart(b));
                ends.is_none_or(|(a, b)| found.peer(a) != Some(b))
            })
}

/// Whether a device is a host, or claims to be a switch that the whole fabric does not have, and has one cable.
fn is_outer(whole: &Graph, found: &Graph, guid: Guid) -> bool {
    found.find_guid(guid).is_some_and(|id| {
        let is_alone = whole.find_guid(guid).is_none() && found.cables(id).count() == 1;
        found.node(id).kind == NodeKind::Host || is_alone
    })
}

/// Whether a device is a switch of the whole fabric.
fn is_core(whole: &Graph, guid: Guid) -> bool {
    let known = whole.find_guid(guid);
    known.is_some_and(|id| whole.node(id).kind == NodeKind::Switch)
}

/// Adds a device; its name may be that of one that is away.
fn add(graph: &mut Graph, node: &Node) -> Option<NodeId> {
    let renamed = || Node {
        name: format!("{}#{}", node.name, node.guid),
        ..node.clone()
    };
    let added = graph.add(node.clone());
    added.or_else(|_| graph.add(renamed())).ok()
}

fn port(graph: &Graph, end: Endpoint) -> Port {
    (graph.node(end.node).guid, end.port)
}

fn ordered(a: Port, b: Port) -> (Port, Port) {
    (a.min(b), a.max(b))
}
