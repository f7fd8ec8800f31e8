//! What the whole fabric is when something new is found.
//!
//! **Visitors.** What is found in the place of remembered hosts, and is more than a host, may be made up by those hosts. It is routed
//! as part of the fabric as long as it is there ([`with_visitors`]), and the fabric without it stays remembered
//! ([`without_visitors`]). A new switch at ports that led to no host is none.
//!
//! **While switches or cables between them are missing.** The memory of the whole fabric brings back labels, tables and LIDs when what is missing returns. A host alone must not
//! take that from the others: it can claim any GUID, its own new one or that of a host that is away. So what hangs on
//! known switches (hosts, and what claims to be a switch and leads nowhere else) is added to the whole fabric, in the place of
//! what had its ports. So are several devices with cables to each other that known switches have a single cable to: the host
//! at that cable can make all of them up. They are forgotten when that cable leads to something else, or what has the cable is
//! a host or switch and was the other before. Known switches are those that
//! known cables join to the manager's own host: what is away can be claimed by anybody. Only what no host can make
//! up, a new cable between known switches or devices with several cables to them, makes another whole fabric of what is there.

use std::collections::{BTreeMap, BTreeSet};

use topologies::{Endpoint, Graph, Node, NodeId, NodeKind};
use wire::{Guid, PortNum};

/// A port by the GUID of its device.
type Port = (Guid, PortNum);

/// What was found without what may be made up by hosts that are remembered; `None` if nothing may be. `own` is the manager's
/// own host in `found`.
pub(super) fn without_visitors(whole: &Graph, found: &Graph, own: NodeId) -> Option<Graph> {
    let known = cables(whole);
    let core = core(whole, found, own, &known);
    let groups = Groups::of(found, &core);
    let is_visiting = |group: &Group| {
        let leads_to_host = |&(guid, port): &Port| {
            let end = whole.find_guid(guid).map(|node| Endpoint { node, port });
            let peer = end.and_then(|end| whole.peer(end));
            peer.is_some_and(|peer| whole.node(peer.node).kind == NodeKind::Host)
        };
        let at = &group.core_ports;
        !at.is_empty() && at.iter().all(leads_to_host) && !group.is_host(whole, found)
    };
    let visiting = groups.groups.iter().filter(|group| is_visiting(group));
    let visitors: BTreeSet<NodeId> = visiting.flat_map(|group| &group.members).copied().collect();
    if visitors.is_empty() {
        return None;
    }
    let mut rest = Graph::new();
    for id in found.ids().filter(|id| !visitors.contains(id)) {
        rest.add(found.node(id).clone()).ok()?;
    }
    for (a, b) in cables(found) {
        connect(&mut rest, a, b);
    }
    Some(rest)
}

/// The whole fabric with visitors that `found` has.
pub(super) fn with_visitors(whole: &Graph, found: &Graph) -> Option<Graph> {
    let changed = found.ids().map(|id| found.node(id).guid);
    let changed = changed
        .filter(|&guid| has_changed(whole, found, guid))
        .collect();
    joined_by(whole, found, &cables(whole), &changed)
}

/// The whole fabric with what is new in `found`, if something between its switches is missing there, and what is new can be
/// made up by hosts. `own` is the manager's own host in `found`.
pub(super) fn extended(whole: &Graph, found: &Graph, own: NodeId) -> Option<Graph> {
    let changed = changed_in_place(whole, found);
    if changed.is_empty() && !lacks_core(whole, found) {
        return None;
    }
    let is_of_changed = |&(a, b): &(Port, Port)| changed.contains(&a.0) || changed.contains(&b.0);
    let mut known = cables(whole);
    known.retain(|cable| !is_of_changed(cable));
    let there = cables(found);
    let core = core(whole, found, own, &known);
    let groups = Groups::of(found, &core);
    for cable in there.difference(&known) {
        let group = groups.at(found, cable)?;
        if !group.is_host(whole, found) && group.core_ports.len() != 1 {
            return None;
        }
    }
    joined_by(whole, found, &known, &changed)
}

/// What was found, with what known cables that are in the way of no new one join to it. Of `changed` devices nothing is kept.
fn joined_by(
    whole: &Graph,
    found: &Graph,
    known: &BTreeSet<(Port, Port)>,
    changed: &BTreeSet<Guid>,
) -> Option<Graph> {
    let there = cables(found);
    let new: Vec<&(Port, Port)> = there.difference(known).collect();
    let taken: BTreeSet<Port> = new.iter().flat_map(|&&(a, b)| [a, b]).collect();
    let is_kept = |&&(a, b): &&(Port, Port)| !taken.contains(&a) && !taken.contains(&b);
    let mut cables: Vec<&(Port, Port)> = known.iter().filter(is_kept).chain(new).collect();
    let joined = joined(found, &cables);
    cables.retain(|(a, b)| joined.contains(&a.0) && joined.contains(&b.0));
    let is_kept = |node: &&Node| joined.contains(&node.guid) && !changed.contains(&node.guid);
    let mut extended = Graph::new();
    let remembered = whole.ids().map(|id| whole.node(id));
    for node in remembered.filter(is_kept) {
        extended.add(node.clone()).ok()?;
    }
    for node in found.ids().map(|id| found.node(id)) {
        if extended.find_guid(node.guid).is_none() {
            add(&mut extended, node)?;
        }
    }
    for &&(a, b) in &cables {
        // A device that was there may claim a port that it did not have: that one has no cable.
        connect(&mut extended, a, b);
    }
    Some(extended)
}

/// Devices at one of the cables that they had, which are no longer what they were.
fn changed_in_place(whole: &Graph, found: &Graph) -> BTreeSet<Guid> {
    let (known, there) = (cables(whole), cables(found));
    let in_place = known.intersection(&there).flat_map(|&(a, b)| [a.0, b.0]);
    in_place
        .filter(|&guid| has_changed(whole, found, guid))
        .collect()
}

/// Whether a device that is there was a switch and is a host, or was a host and is a switch.
fn has_changed(whole: &Graph, found: &Graph, guid: Guid) -> bool {
    let kind = |graph: &Graph| Some(graph.node(graph.find_guid(guid)?).kind);
    kind(whole)
        .zip(kind(found))
        .is_some_and(|(was, is)| was != is)
}

/// Connects two ports if there are both and they are free.
fn connect(graph: &mut Graph, a: Port, b: Port) {
    let end = |(guid, port): Port| {
        let node = graph.find_guid(guid)?;
        Some(Endpoint { node, port })
    };
    if let Some((a, b)) = end(a).zip(end(b)) {
        let _ = graph.connect(a, b);
    }
}

/// What is there, and what those cables join to that.
fn joined(found: &Graph, cables: &[&(Port, Port)]) -> BTreeSet<Guid> {
    let mut peers: BTreeMap<Guid, Vec<Guid>> = BTreeMap::new();
    for &&(a, b) in cables {
        peers.entry(a.0).or_default().push(b.0);
        peers.entry(b.0).or_default().push(a.0);
    }
    let mut waiting: Vec<Guid> = found.ids().map(|id| found.node(id).guid).collect();
    let mut joined = BTreeSet::new();
    while let Some(guid) = waiting.pop() {
        if joined.insert(guid) {
            waiting.extend(peers.get(&guid).into_iter().flatten());
        }
    }
    joined
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

/// The switches of the whole fabric that its cables, as far as they are there, join to the manager's own.
fn core(
    whole: &Graph,
    found: &Graph,
    own: NodeId,
    known: &BTreeSet<(Port, Port)>,
) -> BTreeSet<NodeId> {
    let is_known_switch = |id: NodeId| {
        let known = whole.find_guid(found.node(id).guid);
        known.is_some_and(|id| whole.node(id).kind == NodeKind::Switch)
    };
    let mut waiting: Vec<NodeId> = found.cables(own).map(|(_, peer)| peer.node).collect();
    let mut core = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !is_known_switch(id) || !core.insert(id) {
            continue;
        }
        for (port, peer) in found.cables(id) {
            let cable = ordered((found.node(id).guid, port), self::port(found, peer));
            if known.contains(&cable) {
                waiting.push(peer.node);
            }
        }
    }
    core
}

/// Devices outside the core that cables join to each other.
#[derive(Debug, Default)]
struct Group {
    members: Vec<NodeId>,
    /// The core's ports with cables to it.
    core_ports: Vec<Port>,
}

impl Group {
    /// Whether it is one host, that was no switch before.
    fn is_host(&self, whole: &Graph, found: &Graph) -> bool {
        let &[id] = &self.members[..] else {
            return false;
        };
        let node = found.node(id);
        let was = whole.find_guid(node.guid).map(|id| whole.node(id).kind);
        node.kind == NodeKind::Host && was != Some(NodeKind::Switch)
    }
}

/// All groups.
#[derive(Debug)]
struct Groups {
    groups: Vec<Group>,
    of: BTreeMap<NodeId, usize>,
}

impl Groups {
    fn of(found: &Graph, core: &BTreeSet<NodeId>) -> Self {
        let mut all = Self {
            groups: Vec::new(),
            of: BTreeMap::new(),
        };
        for first in found.ids().filter(|id| !core.contains(id)) {
            let number = all.groups.len();
            let mut group = Group::default();
            let mut waiting = vec![first];
            while let Some(id) = waiting.pop() {
                if all.of.contains_key(&id) {
                    continue;
                }
                all.of.insert(id, number);
                group.members.push(id);
                for (_, peer) in found.cables(id) {
                    match core.contains(&peer.node) {
                        true => group.core_ports.push(port(found, peer)),
                        false => waiting.push(peer.node),
                    }
                }
            }
            if !group.members.is_empty() {
                all.groups.push(group);
            }
        }
        all
    }

    /// The group at one of a cable's ends; `None` between switches of the core.
    fn at(&self, found: &Graph, &(a, b): &(Port, Port)) -> Option<&Group> {
        let mut ends = [a, b].into_iter();
        ends.find_map(|(guid, _)| self.groups.get(*self.of.get(&found.find_guid(guid)?)?))
    }
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

fn cables(graph: &Graph) -> BTreeSet<(Port, Port)> {
    let links = graph.links();
    links
        .map(|(a, b)| ordered(port(graph, a), port(graph, b)))
        .collect()
}

fn ordered(a: Port, b: Port) -> (Port, Port) {
    (a.min(b), a.max(b))
}
