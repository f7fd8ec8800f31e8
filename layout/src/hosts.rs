//! Hosts beside the switches that they are cabled to.

use topologies::{Graph, NodeId, NodeKind};

use crate::Place;

/// Between two hosts.
pub(crate) const PITCH: f64 = 1.5;

/// By node of the graph: the hosts whose first cable to a switch leads there.
#[derive(Debug)]
pub(crate) struct Attached {
    hosts: Vec<Vec<usize>>,
    /// Hosts without a cable to a switch.
    loose: Vec<usize>,
}

impl Attached {
    pub(crate) fn of(graph: &Graph) -> Self {
        let mut hosts = vec![Vec::new(); graph.len()];
        let mut loose = Vec::new();
        for host in graph.hosts() {
            let is_switch = |node: &NodeId| graph.node(*node).kind == NodeKind::Switch;
            let mut peers = graph.cables(host).map(|(_, peer)| peer.node);
            match peers.find(is_switch) {
                Some(switch) => hosts[switch.index()].push(host.index()),
                None => loose.push(host.index()),
            }
        }
        Self { hosts, loose }
    }

    /// The hosts of a switch.
    pub(crate) fn at(&self, switch: NodeId) -> &[usize] {
        &self.hosts[switch.index()]
    }

    /// The most hosts of one switch.
    pub(crate) fn most(&self) -> usize {
        self.hosts.iter().map(Vec::len).max().unwrap_or_default()
    }
}

/// How many columns a block of so many hosts has: about as wide as high.
pub(crate) fn columns(hosts: usize) -> usize {
    (1..=hosts)
        .find(|columns| columns * columns >= hosts)
        .unwrap_or(1)
}

/// Places hosts in rows, the first below the point `top`.
pub(crate) fn block(hosts: &[usize], top: Place, places: &mut [Place]) {
    let columns = columns(hosts.len());
    for (row, hosts) in hosts.chunks(columns).enumerate() {
        let left = top.x - (hosts.len() as f64 - 1.0) / 2.0 * PITCH;
        for (column, &host) in hosts.iter().enumerate() {
            places[host] = Place {
                x: left + column as f64 * PITCH,
                y: top.y + row as f64 * PITCH,
            };
        }
    }
}

/// Places hosts without a switch in rows below all others.
pub(crate) fn place_loose(graph: &Graph, attached: &Attached, places: &mut [Place]) {
    if attached.loose.is_empty() {
        return;
    }
    let mut is_placed = vec![true; graph.len()];
    for &host in &attached.loose {
        is_placed[host] = false;
    }
    let placed = || places.iter().zip(&is_placed).filter(|(_, placed)| **placed);
    let lowest = placed().map(|(place, _)| place.y).fold(0.0, f64::max);
    let left = placed().map(|(place, _)| place.x).fold(0.0, f64::min);
    let right = placed().map(|(place, _)| place.x).fold(0.0, f64::max);
    let top = Place {
        x: f64::midpoint(left, right),
        y: lowest + 2.0 * PITCH,
    };
    block(&attached.loose, top, places);
}
