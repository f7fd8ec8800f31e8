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

use std::collections::VecDeque;

use thiserror::Error;
use topologies::{FatTree, Graph, NodeId, NodeKind, SwitchLabel};

use wire::convert::saturate;

use super::labels::{Candidate, FatTreeLabels};
use super::structure;

/// Why a fabric is not an m-port n-tree.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotFatTree {
    /// No host or no switch.
    #[error("there are no hosts or no switches")]
    Empty,
    /// A host with no cable, or several, or one that leads to another host.
    #[error("host {host:?} has {cables} cables; it should have one, to a switch")]
    HostCables {
        /// The host.
        host: String,
        /// How many cables it has.
        cables: usize,
    },
    /// Switches with different numbers of cables.
    #[error("switch {a:?} has {a_cables} cables and switch {b:?} {b_cables}")]
    DifferentPorts {
        /// One switch.
        a: String,
        /// Its cables.
        a_cables: usize,
        /// Another switch.
        b: String,
        /// Its cables.
        b_cables: usize,
    },
    /// No such tree exists: an odd number of ports.
    #[error("{0}")]
    NoShape(String),
    /// A level, or the hosts, in the wrong number.
    #[error("a {ports}-port {levels}-tree has {want} {what}, not {have}")]
    Count {
        /// m.
        ports: u8,
        /// n.
        levels: u8,
        /// Of what.
        what: String,
        /// How many the tree has.
        want: u32,
        /// How many there are.
        have: usize,
    },
    /// A switch that no path leads to.
    #[error("switch {0:?} is not connected to the hosts")]
    Apart(String),
    /// A cable within a level.
    #[error("a cable joins {a:?} and {b:?}, which are of one level")]
    WithinLevel {
        /// One end.
        a: String,
        /// The other.
        b: String,
    },
    /// Two nodes would have one label.
    #[error("{0:?} is where the tree has no place for it")]
    NoPlace(String),
    /// A cable of the tree is missing.
    #[error("there is no cable between {from:?} and {to:?}")]
    NoCable {
        /// One end.
        from: String,
        /// The other.
        to: String,
    },
}

impl NotFatTree {
    pub(super) fn label(graph: &Graph, id: NodeId) -> Self {
        Self::NoPlace(graph.node(id).name.clone())
    }
}

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

/// The numbers of the tree and the level of every switch.
pub(super) struct Shape {
    pub(super) tree: FatTree,
    /// By node; 0 for hosts, which are not asked for it.
    pub(super) levels: Vec<u8>,
    /// By level: the switches, in order of GUID.
    pub(super) at: Vec<Vec<NodeId>>,
}

impl Shape {
    fn of(graph: &Graph) -> Result<Self, NotFatTree> {
        let mut switches: Vec<NodeId> = graph.switches().collect();
        switches.sort_by_key(|&id| graph.node(id).guid);
        let (Some(&first), Some(_)) = (switches.first(), graph.hosts().next()) else {
            return Err(NotFatTree::Empty);
        };
        check_hosts(graph)?;
        let cables = |id: NodeId| graph.cables(id).count();
        let name = |id: NodeId| graph.node(id).name.clone();
        for &switch in &switches {
            if cables(switch) != cables(first) {
                return Err(NotFatTree::DifferentPorts {
                    a: name(first),
                    a_cables: cables(first),
                    b: name(switch),
                    b_cables: cables(switch),
                });
            }
        }
        let heights = heights(graph);
        if let Some(&apart) = switches.iter().find(|id| heights[id.index()].is_none()) {
            return Err(NotFatTree::Apart(name(apart)));
        }
        let top = heights.iter().flatten().max().copied().unwrap_or(0);
        let tree = FatTree::new(cables(first) as u64, top as u64 + 1)
            .map_err(|error| NotFatTree::NoShape(error.to_string()))?;
        let levels: Vec<u8> = heights
            .iter()
            .map(|height| height.map_or(0, |height| top - height))
            .map(saturate::<u8>)
            .collect();
        let mut at = vec![Vec::new(); usize::from(tree.levels())];
        for id in switches {
            at[usize::from(levels[id.index()])].push(id);
        }
        let shape = Self { tree, levels, at };
        shape.check_counts(graph)?;
        Ok(shape)
    }

    fn check_counts(&self, graph: &Graph) -> Result<(), NotFatTree> {
        let count = |what: String, want: u32, have: usize| {
            if want as usize == have {
                return Ok(());
            }
            Err(NotFatTree::Count {
                ports: self.tree.ports(),
                levels: self.tree.levels(),
                what,
                want,
                have,
            })
        };
        count("hosts".to_owned(), self.tree.hosts(), graph.hosts().count())?;
        for (level, switches) in (0..).zip(&self.at) {
            let what = format!("switches of level {level}");
            count(what, self.tree.switches_at(level), switches.len())?;
        }
        for (a, b) in graph.links() {
            let (node_a, node_b) = (graph.node(a.node), graph.node(b.node));
            let both = node_a.kind == NodeKind::Switch && node_b.kind == NodeKind::Switch;
            if both && self.levels[a.node.index()] == self.levels[b.node.index()] {
                return Err(NotFatTree::WithinLevel {
                    a: node_a.name.clone(),
                    b: node_b.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// The cables of a switch: (own port, neighbour, neighbour's port) upwards or downwards.
    pub(super) fn neighbours<'a>(
        &'a self,
        graph: &'a Graph,
        id: NodeId,
        upwards: bool,
    ) -> impl Iterator<Item = (u32, NodeId, u32)> + 'a {
        graph.cables(id).filter_map(move |(port, peer)| {
            let is_switch = graph.node(peer.node).kind == NodeKind::Switch;
            let is_up = is_switch && self.levels[peer.node.index()] < self.levels[id.index()];
            (is_up == upwards).then_some((
                u32::from(port.get()),
                peer.node,
                u32::from(peer.port.get()),
            ))
        })
    }
}

fn check_hosts(graph: &Graph) -> Result<(), NotFatTree> {
    for host in graph.hosts() {
        let mut cables = graph.cables(host);
        let good = match (cables.next(), cables.next()) {
            (Some((_, peer)), None) => graph.node(peer.node).kind == NodeKind::Switch,
            _ => false,
        };
        if !good {
            return Err(NotFatTree::HostCables {
                host: graph.node(host).name.clone(),
                cables: graph.cables(host).count(),
            });
        }
    }
    Ok(())
}

/// By node: a switch's distance from the nearest switch with hosts.
fn heights(graph: &Graph) -> Vec<Option<usize>> {
    let mut heights = vec![None; graph.len()];
    let mut open = VecDeque::new();
    for host in graph.hosts() {
        for (_, peer) in graph.cables(host) {
            if heights[peer.node.index()].is_none() {
                heights[peer.node.index()] = Some(0);
                open.push_back((peer.node, 0));
            }
        }
    }
    while let Some((switch, height)) = open.pop_front() {
        for (_, peer) in graph.cables(switch) {
            let is_switch = graph.node(peer.node).kind == NodeKind::Switch;
            if is_switch && heights[peer.node.index()].is_none() {
                heights[peer.node.index()] = Some(height + 1);
                open.push_back((peer.node, height + 1));
            }
        }
    }
    heights
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

impl Shape {
    /// A candidate from prefixes (digits `w_0 .. w_{l-1}` of a switch of level `l`) and suffixes
    /// (the rest); `pid` makes a PID of a leaf's prefix and the leaf's port.
    pub(super) fn candidate(
        &self,
        graph: &Graph,
        prefix: &[u32],
        suffix: &[u32],
        pid: impl Fn(u32, u32) -> u32,
    ) -> Candidate {
        let mut candidate = Candidate {
            switches: vec![None; graph.len()],
            pids: vec![None; graph.len()],
        };
        for (level, switches) in (0..).zip(&self.at) {
            let rest = self.tree.power(self.tree.levels() - 1 - level);
            for &id in switches {
                let index = prefix[id.index()] * rest + suffix[id.index()];
                candidate.switches[id.index()] = Some(SwitchLabel { level, index });
            }
        }
        for host in graph.hosts() {
            candidate.pids[host.index()] = graph.cables(host).next().map(|(_, peer)| {
                let leaf_prefix = prefix[peer.node.index()];
                pid(leaf_prefix, u32::from(peer.port.get()))
            });
        }
        candidate
    }
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
