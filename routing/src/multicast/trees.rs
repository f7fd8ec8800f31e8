//! Trees of switches that multicast travels on.

use std::collections::{BTreeMap, VecDeque};

use topologies::{FatTree, Graph, NodeId, SwitchLabel};
use wire::PortNum;
use wire::convert::saturate;

use super::mft::PortSet;
use crate::fat_tree::FatTreeLabels;
use crate::network::Network;

/// A tree of switches of a [`Network`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// By switch: the channel to its parent. None for the root and for switches off the tree.
    parent: Vec<Option<usize>>,
    /// Whether a switch is on the tree.
    on: Vec<bool>,
    /// Children before their parents.
    order: Vec<usize>,
}

impl Tree {
    fn new(network: &Network, parent: Vec<Option<usize>>, root: usize) -> Self {
        let mut children = vec![Vec::new(); parent.len()];
        for (switch, channel) in parent.iter().enumerate() {
            if let Some(channel) = *channel {
                children[network.channels()[channel].to].push(switch);
            }
        }
        let mut order = vec![root];
        let mut on = vec![false; parent.len()];
        let mut next = 0;
        while let Some(&switch) = order.get(next) {
            on[switch] = true;
            order.extend(&children[switch]);
            next += 1;
        }
        order.reverse();
        Self { parent, on, order }
    }

    /// Whether every switch with hosts is on the tree.
    pub(super) fn spans_hosts(&self, network: &Network) -> bool {
        network.hosts().iter().all(|host| self.on[host.switch])
    }

    /// The breadth-first tree from the switch nearest to all hosts (then the first); parents by
    /// their lowest port. Hosts that cannot be reached from most others are left off it.
    pub(super) fn spanning(network: &Network) -> Option<Self> {
        let distance = |switch: &usize| {
            let hops = network.hops_to(*switch);
            let far = saturate::<u32>(network.switches().len());
            network
                .hosts()
                .iter()
                .map(|host| u64::from(hops[host.switch].unwrap_or(far)))
                .sum::<u64>()
        };
        let root = (0..network.switches().len()).min_by_key(distance)?;
        let mut parent = vec![None; network.switches().len()];
        let mut open = VecDeque::from([root]);
        while let Some(switch) = open.pop_front() {
            for channel in network.leaving(switch) {
                let next = network.channels()[channel].to;
                if next != root && parent[next].is_none() {
                    parent[next] = Some(network.channels()[channel].reverse);
                    open.push_back(next);
                }
            }
        }
        Some(Self::new(network, parent, root))
    }

    /// `T_off` for every offset; `None` where a cable of it is missing.
    pub(super) fn cyclic(
        graph: &Graph,
        network: &Network,
        labels: &FatTreeLabels,
    ) -> Vec<Option<Self>> {
        let tree = labels.tree();
        let numbers: BTreeMap<SwitchLabel, usize> = network
            .switches()
            .iter()
            .enumerate()
            .filter_map(|(number, &node)| Some((labels.switch(graph.node(node).guid)?, number)))
            .collect();
        (0..tree.power(tree.levels() - 1))
            .map(|offset| Self::of_offset(network, tree, &numbers, offset))
            .collect()
    }

    fn of_offset(
        network: &Network,
        tree: &FatTree,
        numbers: &BTreeMap<SwitchLabel, usize>,
        offset: u32,
    ) -> Option<Self> {
        let mut parent = vec![None; network.switches().len()];
        let mut root = None;
        let leaves = tree.labels().filter(|label| tree.is_leaf(label.level));
        for leaf in leaves {
            let mut label = leaf;
            let mut at = *numbers.get(&leaf)?;
            while label.level > 0 {
                if parent[at].is_some() {
                    break;
                }
                // Equation (2) of MLID04 for lid - 1 = offset.
                let digit = offset / tree.power(tree.levels() - 1 - label.level) % tree.half();
                let (above, _) = tree.above(label, digit)?;
                let up = *numbers.get(&above)?;
                let channel = network
                    .leaving(at)
                    .find(|&channel| network.channels()[channel].to == up)?;
                parent[at] = Some(channel);
                (label, at) = (above, up);
            }
            if label.level == 0 {
                root = Some(at);
            }
        }
        Some(Self::new(network, parent, root?))
    }

    /// By switch on the tree: the ports behind which one of the `receivers` (hosts, by number) sits.
    /// With `pruned`, only the switches between `members` get ports.
    pub(super) fn ports(
        &self,
        network: &Network,
        receivers: &[usize],
        members: &[usize],
        pruned: bool,
    ) -> BTreeMap<NodeId, PortSet> {
        let count = |hosts: &[usize]| {
            let mut below = vec![0usize; self.parent.len()];
            for &host in hosts {
                below[network.hosts()[host].switch] += 1;
            }
            for &switch in &self.order {
                if let Some(channel) = self.parent[switch] {
                    below[network.channels()[channel].to] += below[switch];
                }
            }
            below
        };
        let (receiving, joined) = (count(receivers), count(members));
        let mut ports: Vec<PortSet> = vec![PortSet::default(); self.parent.len()];
        for &host in receivers {
            let host = network.hosts()[host];
            if self.on[host.switch] {
                ports[host.switch].insert(host.port);
            }
        }
        for &switch in &self.order {
            let Some(channel) = self.parent[switch] else {
                continue;
            };
            let up = network.channels()[channel];
            let down: PortNum = network.channels()[up.reverse].port;
            // A packet crosses this cable only if members sit on both sides of it.
            let crossed = !pruned || (joined[switch] > 0 && joined[switch] < members.len());
            if crossed && receiving[switch] > 0 {
                ports[up.to].insert(down);
            }
            if crossed && receiving[switch] < receivers.len() {
                ports[switch].insert(up.port);
            }
        }
        network
            .switches()
            .iter()
            .zip(ports)
            .filter(|(_, ports)| !ports.is_empty())
            .map(|(&node, ports)| (node, ports))
            .collect()
    }
}
