//! Whether a fabric is an m-port n-tree, and which place each device has in it.
//!
//! Levels follow from the distance to the nearest host. Many labellings agree with the cables
//! (any two sibling leaf switches can be exchanged), so these are tried in turn, and the first that
//! agrees is taken:
//!
//! 1. Port numbers that follow the paper's rule determine every label.
//! 2. Names as the generators give them (`h3.1.0`, `s1.3.0`) are labels.
//! 3. Labels from the structure alone, siblings in order of their smallest host GUID.
//!
//! Nothing depends on the order of the graph's nodes. Cost: near linear in cables.

use topologies::{Graph, NodeKind};

use super::labels::{Candidate, FatTreeLabels};
use super::shape::{NotFatTree, Shape};
use super::structure;

/// Finds the labels of a whole fat tree.
///
/// # Errors
/// [`NotFatTree`]: the first thing that is different.
pub fn recognise(graph: &Graph) -> Result<FatTreeLabels, NotFatTree> {
    let shape = Shape::of(graph)?;
    let by_rule = from_ports(graph, &shape)
        .and_then(|candidate| FatTreeLabels::place(graph, &shape.tree, &candidate).ok())
        .filter(FatTreeLabels::follows_the_paper);
    if let Some(labels) = by_rule {
        return Ok(labels);
    }
    let by_name = from_names(graph, &shape)
        .and_then(|candidate| FatTreeLabels::place(graph, &shape.tree, &candidate).ok());
    if let Some(labels) = by_name {
        return Ok(labels);
    }
    let candidate = structure::label(graph, &shape)?;
    FatTreeLabels::place(graph, &shape.tree, &candidate)
}

/// Labels as port numbers have them if they follow the rule `k -> k + 1`; `None` if they cannot.
///
/// Digit `l` of everything below a switch of level `l` is the port, from 0, that leads there; the
/// last digit of a switch is the port, counted from the first upward one, by which its children
/// know it.
fn from_ports(graph: &Graph, shape: &Shape) -> Option<Candidate> {
    let (tree, half) = (&shape.tree, shape.tree.half());
    let mut prefix = vec![0_u32; graph.len()];
    for level in 1..tree.levels() {
        let digits = tree.down_ports(level - 1);
        for &id in &shape.at[usize::from(level)] {
            let (_, parent, port) = shape.neighbours(graph, id, true).next()?;
            let digit = port.checked_sub(1).filter(|&digit| digit < digits)?;
            prefix[id.index()] = prefix[parent.index()] * half + digit;
        }
    }
    let mut suffix = vec![0_u32; graph.len()];
    for level in (0..tree.levels() - 1).rev() {
        for &id in &shape.at[usize::from(level)] {
            let (_, child, port) = shape.neighbours(graph, id, false).next()?;
            let digit = port.checked_sub(half + 1).filter(|&digit| digit < half)?;
            suffix[id.index()] = suffix[child.index()] * half + digit;
        }
    }
    Some(
        shape.candidate(graph, &prefix, &suffix, |leaf_prefix, port| {
            leaf_prefix * tree.down_ports(tree.levels() - 1) + port - 1
        }),
    )
}

/// Labels as names have them; `None` if one is no label of the tree, or of another level.
fn from_names(graph: &Graph, shape: &Shape) -> Option<Candidate> {
    let mut candidate = Candidate {
        switches: vec![None; graph.len()],
        pids: vec![None; graph.len()],
    };
    for id in graph.ids() {
        let node = graph.node(id);
        let (letter, digits) = node.name.split_at_checked(1)?;
        let digits: Vec<u32> = digits
            .split('.')
            .map(|digit| digit.parse().ok())
            .collect::<Option<_>>()?;
        match node.kind {
            NodeKind::Host if letter == "h" => {
                candidate.pids[id.index()] = Some(shape.tree.pid(&digits)?);
            }
            NodeKind::Switch if letter == "s" => {
                let (level, digits) = digits.split_first()?;
                let level = u8::try_from(*level).ok()?;
                let label = shape.tree.switch(level, digits)?;
                if shape.levels[id.index()] != level {
                    return None;
                }
                candidate.switches[id.index()] = Some(label);
            }
            _ => return None,
        }
    }
    Some(candidate)
}
