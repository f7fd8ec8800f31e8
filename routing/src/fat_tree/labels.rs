//! The labels of a recognised fat tree, by GUID, so that they outlive any one graph.

use std::collections::BTreeMap;

use thiserror::Error;
use topologies::{Below, Endpoint, FatTree, Graph, NodeId, NodeKind, SwitchLabel};
use wire::convert::usize_of;
use wire::{Guid, PortNum};

use super::shape::{NotFatTree, Shape};

/// In what way a fabric is more than, or other than, the tree that it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LabelsDoNotFit {
    /// A node that has come since.
    #[error("{name:?} ({guid}) has no label")]
    NewNode {
        /// Its name.
        name: String,
        /// Its GUID.
        guid: Guid,
    },
    /// A cable that the tree does not have.
    #[error("a cable joins port {} of {:?} and port {} of {:?}", ends[0].1, ends[0].0, ends[1].1, ends[1].0)]
    NewCable {
        /// Names and ports.
        ends: Box<[(String, PortNum); 2]>,
    },
}

/// The labels of the nodes of an m-port n-tree, and the ports of its cables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTreeLabels {
    tree: FatTree,
    /// By PID.
    hosts: Vec<HostPlace>,
    /// By ordinal (level by level from the roots).
    switches: Vec<SwitchPlace>,
    pids: BTreeMap<Guid, u32>,
    ordinals: BTreeMap<Guid, u32>,
}

/// A host: its node GUID and the port that has the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostPlace {
    pub(crate) guid: Guid,
    pub(crate) port: PortNum,
}

/// A switch: its GUID and, for each port `k` of the paper, the port that it really is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwitchPlace {
    pub(crate) guid: Guid,
    pub(crate) ports: Vec<PortNum>,
}

/// The far end of a cable of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FarEnd {
    pub(crate) guid: Guid,
    pub(crate) port: PortNum,
}

/// A candidate: a label for every node, which may or may not agree with the cables.
pub(super) struct Candidate {
    /// By node; `None` for hosts.
    pub(super) switches: Vec<Option<SwitchLabel>>,
    /// By node; `None` for switches.
    pub(super) pids: Vec<Option<u32>>,
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

impl FatTreeLabels {
    /// Holds a candidate against the cables: every node has a label of its own, and every cable
    /// of the tree is there, in whatever ports.
    pub(super) fn place(
        graph: &Graph,
        tree: &FatTree,
        candidate: &Candidate,
    ) -> Result<Self, NotFatTree> {
        let mut host_at = vec![None; usize_of(tree.hosts())];
        let mut switch_at = vec![None; usize_of(tree.switches())];
        for id in graph.ids() {
            let slot = match (candidate.switches[id.index()], candidate.pids[id.index()]) {
                (Some(label), None) => switch_at.get_mut(tree.ordinal(label)),
                (None, Some(pid)) => host_at.get_mut(usize_of(pid)),
                _ => None,
            };
            match slot {
                Some(slot @ None) => *slot = Some(id),
                _ => return Err(NotFatTree::label(graph, id)),
            }
        }
        let (Some(host_at), Some(switch_at)) = (
            host_at.into_iter().collect::<Option<Vec<NodeId>>>(),
            switch_at.into_iter().collect::<Option<Vec<NodeId>>>(),
        ) else {
            return Err(NotFatTree::Empty);
        };
        let mut switches = Vec::with_capacity(switch_at.len());
        for label in tree.labels() {
            let id = switch_at[tree.ordinal(label)];
            switches.push(SwitchPlace {
                guid: graph.node(id).guid,
                ports: ports_of(graph, tree, label, id, &host_at, &switch_at)?,
            });
        }
        let hosts = host_at
            .iter()
            .map(|&id| HostPlace {
                guid: graph.node(id).guid,
                port: graph.cables(id).next().map_or(PortNum::NONE, |(p, _)| p),
            })
            .collect();
        Ok(Self::new(tree.clone(), hosts, switches))
    }

    fn new(tree: FatTree, hosts: Vec<HostPlace>, switches: Vec<SwitchPlace>) -> Self {
        Self {
            pids: hosts.iter().map(|h| h.guid).zip(0..).collect(),
            ordinals: switches.iter().map(|s| s.guid).zip(0..).collect(),
            tree,
            hosts,
            switches,
        }
    }

    /// The shape.
    #[must_use]
    pub fn tree(&self) -> &FatTree {
        &self.tree
    }

    /// The PID of the host of that node GUID.
    #[must_use]
    pub fn pid(&self, host: Guid) -> Option<u32> {
        self.pids.get(&host).copied()
    }

    /// The label of the switch of that GUID.
    #[must_use]
    pub fn switch(&self, switch: Guid) -> Option<SwitchLabel> {
        self.tree.label_at(*self.ordinals.get(&switch)?)
    }

    /// Whether every cable is where the paper has it, port `k` of the tree being port `k + 1`.
    #[must_use]
    pub fn follows_the_paper(&self) -> bool {
        self.switches.iter().all(|switch| {
            switch
                .ports
                .iter()
                .zip(0..)
                .all(|(&port, k)| port == self.tree.port(k))
        })
    }

    pub(crate) fn hosts(&self) -> &[HostPlace] {
        &self.hosts
    }

    pub(crate) fn switches(&self) -> &[SwitchPlace] {
        &self.switches
    }

    /// What port `k` of the paper leads to, from a switch in the tree.
    pub(crate) fn far(&self, label: SwitchLabel, k: u32) -> FarEnd {
        let switch_end = |label, k: u32| {
            let switch = &self.switches[self.tree.ordinal(label)];
            FarEnd {
                guid: switch.guid,
                port: switch.ports[usize_of(k)],
            }
        };
        let down = self.tree.down_ports(label.level);
        if let Some(j) = k.checked_sub(down) {
            // Below the roots every port that does not lead down has a parent.
            return self.tree.above(label, j).map_or(
                FarEnd {
                    guid: Guid(0),
                    port: PortNum::NONE,
                },
                |(parent, k)| switch_end(parent, k),
            );
        }
        match self.tree.below(label, k) {
            Below::Host(pid) => {
                let host = self.hosts[usize_of(pid)];
                FarEnd {
                    guid: host.guid,
                    port: host.port,
                }
            }
            Below::Switch(child, j) => switch_end(child, self.tree.half() + j),
        }
    }

    /// Whether there is nothing in the fabric that the tree does not have. What is missing does
    /// not matter, nor do hosts without a cable.
    ///
    /// # Errors
    /// The first node or cable that is new.
    pub fn fit(&self, graph: &Graph) -> Result<(), LabelsDoNotFit> {
        for id in graph.ids() {
            let node = graph.node(id);
            let known = match node.kind {
                NodeKind::Switch => self.ordinals.contains_key(&node.guid),
                NodeKind::Host => {
                    self.pids.contains_key(&node.guid) || graph.cables(id).next().is_none()
                }
            };
            if !known {
                return Err(LabelsDoNotFit::NewNode {
                    name: node.name.clone(),
                    guid: node.guid,
                });
            }
        }
        for (a, b) in graph.links() {
            if !self.has_cable(graph, a, b) {
                let show = |end: Endpoint| (graph.node(end.node).name.clone(), end.port);
                return Err(LabelsDoNotFit::NewCable {
                    ends: Box::new([show(a), show(b)]),
                });
            }
        }
        Ok(())
    }

    fn has_cable(&self, graph: &Graph, a: Endpoint, b: Endpoint) -> bool {
        let (a, b) = if graph.node(a.node).kind == NodeKind::Switch {
            (a, b)
        } else {
            (b, a)
        };
        let Some(label) = self.switch(graph.node(a.node).guid) else {
            return false;
        };
        let ports = &self.switches[self.tree.ordinal(label)].ports;
        (0..)
            .zip(ports)
            .find(|(_, port)| **port == a.port)
            .is_some_and(|(k, _)| {
                self.far(label, k)
                    == FarEnd {
                        guid: graph.node(b.node).guid,
                        port: b.port,
                    }
            })
    }
}

/// For each port `k` of the paper the port of `id` with the cable to where `k` should lead.
fn ports_of(
    graph: &Graph,
    tree: &FatTree,
    label: SwitchLabel,
    id: NodeId,
    host_at: &[NodeId],
    switch_at: &[NodeId],
) -> Result<Vec<PortNum>, NotFatTree> {
    let towards: BTreeMap<NodeId, PortNum> = graph
        .cables(id)
        .map(|(port, peer)| (peer.node, port))
        .collect();
    let find = |neighbour: NodeId| {
        towards
            .get(&neighbour)
            .copied()
            .ok_or_else(|| NotFatTree::NoCable {
                from: graph.node(id).name.clone(),
                to: graph.node(neighbour).name.clone(),
            })
    };
    let mut ports = Vec::with_capacity(usize::from(tree.ports()));
    for k in 0..tree.down_ports(label.level) {
        ports.push(find(match tree.below(label, k) {
            Below::Host(pid) => host_at[usize_of(pid)],
            Below::Switch(child, _) => switch_at[tree.ordinal(child)],
        })?);
    }
    for j in 0..tree.half() {
        if let Some((parent, _)) = tree.above(label, j) {
            ports.push(find(switch_at[tree.ordinal(parent)])?);
        }
    }
    Ok(ports)
}
