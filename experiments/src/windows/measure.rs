//! Measurements of a run: delays, and the cables that connections share.

use std::collections::BTreeMap;

use topologies::{Endpoint, NodeId, NodeKind};
use wire::convert::u64_of;

use crate::windows::pattern::{Pattern, WindowPaths};
use sim::FlowRecord;
use sim::{RoutedFabric, real};

/// Each bin of delays ends one part in so many above the one before.
const BIN_GROWTH: u64 = 128;

/// The leaf switch of each host.
pub(super) struct Leaves(Vec<Option<NodeId>>);

impl Leaves {
    pub(super) fn of(prepared: &RoutedFabric) -> Self {
        let graph = prepared.graph();
        let leaf = |host| graph.cables(host).next().map(|(_, peer)| peer.node);
        Self(graph.hosts().map(leaf).collect())
    }

    pub(super) fn hosts(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_within(&self, from: usize, to: usize) -> bool {
        self.0[from] == self.0[to]
    }
}

/// Upper edges of the bins of delays: a bin of its own for each delay of an empty network, then
/// bins that grow in proportion to the delay.
pub(super) fn edges(empty_ns: [u64; 2], limit_ns: u64) -> Vec<u64> {
    let mut edges = Vec::new();
    for ns in empty_ns {
        edges.extend([ns - 1, ns]);
    }
    let mut ns = empty_ns[1];
    while ns < limit_ns {
        ns += (ns / BIN_GROWTH).max(1);
        edges.push(ns);
    }
    edges
}

/// The delays of all packets of a run: flow 0 within leaves, flow 1 between them.
pub(super) struct Delays<'a> {
    flows: &'a [FlowRecord],
    edges: &'a [u64],
    /// Deliveries of both flows in each bin; the last one is open.
    bins: Vec<u64>,
}

impl<'a> Delays<'a> {
    pub(super) fn new(flows: &'a [FlowRecord], edges: &'a [u64]) -> Self {
        let bin = |bin: usize| flows.iter().filter_map(|flow| flow.delays.get(bin)).sum();
        Self {
            flows,
            edges,
            bins: (0..=edges.len()).map(bin).collect(),
        }
    }

    pub(super) fn packets(&self) -> u64 {
        self.flows.iter().map(|flow| flow.delivered).sum()
    }

    /// Bytes, LRH to ICRC.
    pub(super) fn bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).sum()
    }

    /// The packets whose delay is not that of an empty network.
    pub(super) fn waited(&self, empty_ns: [u64; 2]) -> u64 {
        let undisturbed = self.flows.iter().zip(empty_ns).filter_map(|(flow, ns)| {
            let bin = self.edges.iter().position(|&edge| edge == ns)?;
            flow.delays.get(bin)
        });
        self.packets() - undisturbed.sum::<u64>()
    }

    pub(super) fn mean(&self) -> f64 {
        let sum: u64 = self.flows.iter().map(|flow| flow.delay_sum_ns).sum();
        real(sum) / real(self.packets().max(1))
    }

    pub(super) fn max(&self) -> u64 {
        let longest = self.flows.iter().map(|flow| flow.delay_max_ns);
        longest.max().unwrap_or(0)
    }

    /// The longest within a leaf; 0 without packets.
    pub(super) fn max_within(&self) -> u64 {
        self.flows.first().map_or(0, |flow| flow.delay_max_ns)
    }

    /// The least edge up to which so many permille of the packets were delivered.
    pub(super) fn quantile(&self, permille: u64) -> u64 {
        let wanted = (self.packets() * permille).div_ceil(1000);
        let mut so_far = 0;
        for (bin, &edge) in self.bins.iter().zip(self.edges) {
            so_far += bin;
            if so_far >= wanted {
                return edge.min(self.max());
            }
        }
        self.max()
    }
}

/// Cables between switches that two or more connections of a window use, over all windows, and the
/// most connections on one. A connection whose packets use random trees counts on all of them.
pub(super) fn shared_links(
    prepared: &RoutedFabric,
    patterns: &[Pattern],
    window_paths: &[WindowPaths],
) -> (u64, u64) {
    let hosts: Vec<NodeId> = prepared.graph().hosts().collect();
    let (mut links, mut most) = (0, 0);
    for (pattern, window_paths) in patterns.iter().zip(window_paths) {
        let mut users: BTreeMap<Endpoint, u64> = BTreeMap::new();
        for (source, dlids) in window_paths.dlids.iter().enumerate().take(pattern.len()) {
            for out in used(prepared, hosts[source], dlids) {
                *users.entry(out).or_default() += 1;
            }
        }
        links += u64_of(users.values().filter(|&&users| users > 1).count());
        most = most.max(users.values().copied().max().unwrap_or(0));
    }
    (links, most)
}

/// The ports by which packets from a host with any of these DLIDs go from switch to switch.
fn used(prepared: &RoutedFabric, host: NodeId, dlids: &[wire::Lid]) -> Vec<Endpoint> {
    let (graph, tables) = (prepared.graph(), prepared.tables());
    let Some((port, _)) = graph.cables(host).next() else {
        return Vec::new();
    };
    let end = Endpoint { node: host, port };
    let is_switch = |node| graph.node(node).kind == NodeKind::Switch;
    let is_between = |out: &Endpoint| {
        is_switch(out.node) && graph.peer(*out).is_some_and(|peer| is_switch(peer.node))
    };
    let mut used: Vec<Endpoint> = dlids
        .iter()
        .flat_map(|&dlid| tables.path(graph, end, dlid).hops)
        .map(|hop| Endpoint {
            node: hop.node,
            port: hop.exit,
        })
        .filter(is_between)
        .collect();
    used.sort_unstable();
    used.dedup();
    used
}
