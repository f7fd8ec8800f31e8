//! The shape of an m-port n-tree: its numbers and the level of each switch, or why a fabric has none.
//!
//! Levels follow from the distance to the nearest host. Nothing depends on the order of the graph's
//! nodes.

use std::collections::VecDeque;

use thiserror::Error;
use topologies::{Endpoint, FatTree, Graph, NodeId, NodeKind};
use wire::convert::{saturate, u64_of, usize_of};

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

/// The numbers of the tree and the level of every switch.
pub(super) struct Shape {
    pub(super) tree: FatTree,
    /// By node; 0 for hosts, which are not asked for it.
    pub(super) levels: Vec<u8>,
    /// By level: the switches, in order of GUID.
    pub(super) at: Vec<Vec<NodeId>>,
}

impl Shape {
    pub(super) fn of(graph: &Graph) -> Result<Self, NotFatTree> {
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
        let tree = FatTree::new(u64_of(cables(first)), u64_of(top) + 1)
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
            if usize_of(want) == have {
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
        let ends = |(a, b): (Endpoint, Endpoint)| {
            let (a, b) = (graph.node(a.node), graph.node(b.node));
            if a.guid < b.guid { (a, b) } else { (b, a) }
        };
        let is_within = |&(a, b): &(Endpoint, Endpoint)| {
            let is_switch = |end: Endpoint| graph.node(end.node).kind == NodeKind::Switch;
            let level = |end: Endpoint| self.levels[end.node.index()];
            is_switch(a) && is_switch(b) && level(a) == level(b)
        };
        let within = graph.links().filter(is_within).map(ends);
        if let Some((a, b)) = within.min_by_key(|(a, b)| (a.guid, b.guid)) {
            return Err(NotFatTree::WithinLevel {
                a: a.name.clone(),
                b: b.name.clone(),
            });
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
    let is_bad = |host: &NodeId| {
        let mut cables = graph.cables(*host);
        match (cables.next(), cables.next()) {
            (Some((_, peer)), None) => graph.node(peer.node).kind != NodeKind::Switch,
            _ => true,
        }
    };
    let bad = graph.hosts().filter(is_bad);
    match bad.min_by_key(|&host| graph.node(host).guid) {
        None => Ok(()),
        Some(host) => Err(NotFatTree::HostCables {
            host: graph.node(host).name.clone(),
            cables: graph.cables(host).count(),
        }),
    }
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
