//! Labels of a fat tree from its cables alone, whatever ports they are in.
//!
//! In an m-port n-tree a switch of level `l` has a prefix of `l` digits, which says in which
//! subtree it is, and a suffix of `n - 1 - l` digits, which says which of the equal switches at
//! the top of that subtree it is.
//!
//! Prefixes: take away the levels above `l`, and what remains falls into one part for each prefix
//! of `l` digits. Numbering the parts within each larger part gives the digits.
//!
//! Suffixes: a switch and its child differ in the suffix by one last digit only, so all children of
//! a switch have one suffix, and so have all children of switches with the same suffix. That
//! groups the switches of each level, from the roots down to a single group of leaf switches.
//! Numbering, from the leaves up, the groups above each group gives the digits.

use std::collections::BTreeMap;

use topologies::{DisjointSets, Graph, NodeId, NodeKind};
use wire::Guid;

use super::labels::Candidate;
use super::shape::{NotFatTree, Shape};

/// Labels that agree with the cables if any do. Equals are numbered by the smallest GUID of a
/// host (parts) or switch (groups).
pub(super) fn label(graph: &Graph, shape: &Shape) -> Result<Candidate, NotFatTree> {
    let prefix = prefixes(graph, shape)?;
    let suffix = suffixes(graph, shape)?;
    let places = places_at_leaf(graph);
    let down = shape.tree.down_ports(shape.tree.levels() - 1);
    let mut candidate = shape.candidate(graph, &prefix, &suffix, |leaf, _| leaf * down);
    for host in graph.hosts() {
        if let Some(pid) = &mut candidate.pids[host.index()] {
            *pid += places[host.index()];
        }
    }
    Ok(candidate)
}

/// By host: how many hosts of its leaf switch have smaller GUIDs.
fn places_at_leaf(graph: &Graph) -> Vec<u32> {
    let mut hosts: Vec<NodeId> = graph.hosts().collect();
    hosts.sort_by_key(|&id| graph.node(id).guid);
    let mut seen = vec![0_u32; graph.len()];
    let mut places = vec![0; graph.len()];
    for host in hosts {
        for (_, leaf) in graph.cables(host) {
            places[host.index()] = seen[leaf.node.index()];
            seen[leaf.node.index()] += 1;
        }
    }
    places
}

fn prefixes(graph: &Graph, shape: &Shape) -> Result<Vec<u32>, NotFatTree> {
    let levels = usize::from(shape.tree.levels());
    let leaves = &shape.at[levels - 1];
    // When the levels above `l` are taken away: the parts of the leaves, and of the switches of
    // level `l` itself.
    let mut leaf_parts = vec![Vec::new(); levels];
    let mut own_part = vec![0; graph.len()];
    let mut sets = DisjointSets::new(graph.len());
    for level in (0..levels).rev() {
        for &id in &shape.at[level] {
            for child in children(graph, shape, id) {
                sets.join(id.index(), child.index());
            }
        }
        for &id in &shape.at[level] {
            own_part[id.index()] = sets.first(id.index());
        }
        leaf_parts[level] = leaves.iter().map(|id| sets.first(id.index())).collect();
    }
    let smallest: Vec<Guid> = leaves
        .iter()
        .map(|&leaf| smallest_host(graph, leaf))
        .collect();
    let mut of_leaf = vec![0_u32; leaves.len()];
    let mut prefix = vec![0_u32; graph.len()];
    for (level, leaf_parts) in leaf_parts.iter().enumerate().skip(1) {
        let mut parts: BTreeMap<usize, (u32, Guid)> = BTreeMap::new();
        for (leaf, &part) in leaf_parts.iter().enumerate() {
            let entry = parts.entry(part).or_insert((of_leaf[leaf], smallest[leaf]));
            entry.1 = entry.1.min(smallest[leaf]);
        }
        let digits = numbered(
            parts
                .iter()
                .map(|(&part, &(outer, guid))| (outer, guid, part)),
        );
        for (leaf, part) in leaf_parts.iter().enumerate() {
            of_leaf[leaf] = of_leaf[leaf] * shape.tree.half() + digits[part];
        }
        for &id in &shape.at[level] {
            let part = own_part[id.index()];
            let (outer, _) = parts
                .get(&part)
                .ok_or_else(|| NotFatTree::label(graph, id))?;
            prefix[id.index()] = outer * shape.tree.half() + digits[&part];
        }
    }
    Ok(prefix)
}

fn suffixes(graph: &Graph, shape: &Shape) -> Result<Vec<u32>, NotFatTree> {
    let levels = usize::from(shape.tree.levels());
    // By node: the group of its level.
    let mut group: Vec<usize> = (0..graph.len()).collect();
    let mut sets = DisjointSets::new(graph.len());
    for level in 1..levels {
        let mut first_child: BTreeMap<usize, NodeId> = BTreeMap::new();
        for &id in &shape.at[level - 1] {
            for child in children(graph, shape, id) {
                let first = *first_child.entry(group[id.index()]).or_insert(child);
                sets.join(first.index(), child.index());
            }
        }
        for &id in &shape.at[level] {
            group[id.index()] = sets.first(id.index());
        }
    }
    let mut suffix_of_group: BTreeMap<usize, u32> = shape.at[levels - 1]
        .iter()
        .map(|id| (group[id.index()], 0))
        .collect();
    let mut suffix = vec![0_u32; graph.len()];
    for level in (0..levels - 1).rev() {
        let mut groups: BTreeMap<usize, (u32, Guid)> = BTreeMap::new();
        for &id in &shape.at[level] {
            let below = children(graph, shape, id)
                .next()
                .and_then(|child| suffix_of_group.get(&group[child.index()]))
                .ok_or_else(|| NotFatTree::label(graph, id))?;
            // Switches stand in order of GUID, so the first of a group has the smallest.
            groups
                .entry(group[id.index()])
                .or_insert((*below, graph.node(id).guid));
        }
        let digits = numbered(
            groups
                .iter()
                .map(|(&group, &(below, guid))| (below, guid, group)),
        );
        suffix_of_group = groups
            .iter()
            .map(|(group, (below, _))| (*group, below * shape.tree.half() + digits[group]))
            .collect();
        for &id in &shape.at[level] {
            suffix[id.index()] = suffix_of_group[&group[id.index()]];
        }
    }
    Ok(suffix)
}

fn children<'a>(
    graph: &'a Graph,
    shape: &'a Shape,
    id: NodeId,
) -> impl Iterator<Item = NodeId> + 'a {
    shape
        .neighbours(graph, id, false)
        .map(|(_, child, _)| child)
        .filter(|&child| graph.node(child).kind == NodeKind::Switch)
}

fn smallest_host(graph: &Graph, leaf: NodeId) -> Guid {
    graph
        .cables(leaf)
        .map(|(_, peer)| graph.node(peer.node))
        .filter(|node| node.kind == NodeKind::Host)
        .map(|node| node.guid)
        .min()
        .unwrap_or_default()
}

/// Numbers the members of each class from 0 in order of GUID; items are (class, GUID, member).
fn numbered(items: impl Iterator<Item = (u32, Guid, usize)>) -> BTreeMap<usize, u32> {
    let mut items: Vec<_> = items.collect();
    items.sort_unstable();
    let mut digits = BTreeMap::new();
    let mut next = 0;
    let mut class = None;
    for (outer, _, member) in items {
        if class.replace(outer) != Some(outer) {
            next = 0;
        }
        digits.insert(member, next);
        next += 1;
    }
    digits
}
