//! The tree as it is now: which switches and cables are there, and which switches still lead where.

use topologies::{Endpoint, Graph, NodeId, SwitchLabel};
use wire::PortNum;
use wire::convert::{saturate, usize_of};

use crate::fat_tree::FatTreeLabels;

/// How a switch reaches a destination switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Not by going up and then down.
    Never,
    /// By a parent first.
    Up,
    /// Downwards, or it is the destination.
    Down,
}

/// Parents, ports and live cables by ordinal.
pub(super) struct Wiring<'a> {
    pub(super) labels: &'a FatTreeLabels,
    pub(super) switches: Vec<SwitchLabel>,
    /// By ordinal: where the switch is in the graph.
    pub(super) nodes: Vec<Option<NodeId>>,
    /// By ordinal: whether to take the switch as there.
    present: Vec<bool>,
    /// `h` for each switch, nothing useful for roots.
    parents: Vec<u32>,
    /// `m` for each switch: whether the cable in port `k` of the paper is there.
    alive: Vec<bool>,
    ports: usize,
    half: usize,
}

impl<'a> Wiring<'a> {
    pub(super) fn new(graph: &Graph, labels: &'a FatTreeLabels) -> Self {
        let tree = labels.tree();
        let (ports, half) = (usize::from(tree.ports()), usize::from(tree.ports() / 2));
        let switches: Vec<SwitchLabel> = tree.labels().collect();
        let nodes: Vec<_> = labels
            .switches()
            .iter()
            .map(|place| graph.find_guid(place.guid))
            .collect();
        let mut wiring = Self {
            labels,
            present: nodes.iter().map(Option::is_some).collect(),
            nodes,
            parents: vec![0; switches.len() * half],
            alive: vec![false; switches.len() * ports],
            switches,
            ports,
            half,
        };
        for (ordinal, &label) in wiring.switches.iter().enumerate() {
            for (j, slot) in (0..).zip(&mut wiring.parents[ordinal * half..][..half]) {
                if let Some((parent, _)) = tree.above(label, j) {
                    *slot = saturate::<u32>(tree.ordinal(parent));
                }
            }
            let Some(node) = wiring.nodes[ordinal] else {
                continue;
            };
            let place = &labels.switches()[ordinal];
            let alive = &mut wiring.alive[ordinal * ports..][..ports];
            for (slot, &port) in alive.iter_mut().zip(&place.ports) {
                // That no cable leads elsewhere than in the tree was checked before.
                *slot = graph.peer(Endpoint { node, port }).is_some();
            }
        }
        wiring
    }

    /// As if nothing were missing.
    pub(super) fn whole(&self) -> Self {
        Self {
            labels: self.labels,
            switches: self.switches.clone(),
            nodes: self.nodes.clone(),
            present: vec![true; self.present.len()],
            parents: self.parents.clone(),
            alive: vec![true; self.alive.len()],
            ports: self.ports,
            half: self.half,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.labels.tree().switches()
    }

    pub(super) fn is_alive(&self, ordinal: u32, k: u32) -> bool {
        self.alive[usize_of(ordinal) * self.ports + usize_of(k)]
    }

    /// The real port of port `k` of the paper.
    pub(super) fn port(&self, ordinal: u32, k: u32) -> PortNum {
        self.labels.switches()[usize_of(ordinal)].ports[usize_of(k)]
    }

    /// Parent `j` of a switch below the roots, if the cable to it is there.
    pub(super) fn live_parent(&self, ordinal: u32, j: u32) -> Option<u32> {
        self.is_alive(ordinal, j + self.down_ports())
            .then(|| self.parents[usize_of(ordinal) * self.half + usize_of(j)])
    }

    /// Ports of a switch below the roots that lead down.
    fn down_ports(&self) -> u32 {
        self.labels.tree().half()
    }

    /// How every switch reaches switch `destination`.
    pub(super) fn reach(&self, destination: u32, reach: &mut Vec<Reach>) {
        reach.clear();
        reach.resize(self.switches.len(), Reach::Never);
        if !self.present[usize_of(destination)] {
            return;
        }
        reach[usize_of(destination)] = Reach::Down;
        let mut open = vec![destination];
        while let Some(below) = open.pop() {
            if self.switches[usize_of(below)].level == 0 {
                continue;
            }
            for j in 0..self.down_ports() {
                let Some(parent) = self.live_parent(below, j) else {
                    continue;
                };
                if core::mem::replace(&mut reach[usize_of(parent)], Reach::Down) == Reach::Never {
                    open.push(parent);
                }
            }
        }
        // Parents stand before their children.
        for ordinal in self.labels.tree().switches_at(0)..self.len() {
            if reach[usize_of(ordinal)] == Reach::Never
                && (0..self.down_ports()).any(|j| self.leads(ordinal, j, reach))
            {
                reach[usize_of(ordinal)] = Reach::Up;
            }
        }
    }

    /// Whether parent `j` is there and leads to where `reach` was computed for.
    pub(super) fn leads(&self, ordinal: u32, j: u32, reach: &[Reach]) -> bool {
        self.live_parent(ordinal, j)
            .is_some_and(|parent| reach[usize_of(parent)] != Reach::Never)
    }
}
