//! Nodes and cables by position, before ports are given out.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::convert::{saturate, usize_of};
use wire::{LinkRate, LinkSpeed, LinkWidth, PortNum};

use super::AsBuilt;
use crate::disjoint_sets::DisjointSets;
use crate::error::SWITCH_PORTS_MAX;
use crate::graph::{Endpoint, Graph, GraphError, Node, NodeId, NodeKind};
use crate::names::{AGGREGATION_NODE, host_guid, switch_guid};

/// Ports that a switch has beyond those that are taken, at most.
const SPARE_PORTS_MAX: u64 = 4;

/// One cable in so many runs at 1x, and as many at 2x.
const NARROW_ONE_IN: u32 = 32;

/// A fabric in the making. Switches come first, hosts behind them.
pub(super) struct Draft {
    random: ChaCha8Rng,
    names: Vec<String>,
    switches: usize,
    /// Ports of each host; a switch has as many as its cables need.
    rails: BTreeMap<usize, u8>,
    cables: Vec<(usize, usize)>,
    /// By switch: its aggregation node.
    aggregation: BTreeMap<usize, usize>,
    has_mixed_speeds: bool,
}

impl Draft {
    pub(super) fn of(plan: &AsBuilt) -> Self {
        let mut draft = Self {
            random: ChaCha8Rng::seed_from_u64(plan.seed),
            names: Vec::new(),
            switches: 0,
            rails: BTreeMap::new(),
            cables: Vec::new(),
            aggregation: BTreeMap::new(),
            has_mixed_speeds: plan.has_mixed_speeds,
        };
        let [leaves, spines, cores] = [plan.leaves, plan.spines, plan.cores].map(usize_of);
        for (word, count) in [("leaf", leaves), ("spine", spines), ("core", cores)] {
            draft
                .names
                .extend((0..count).map(|index| format!("{word}{index}")));
        }
        draft.switches = draft.names.len();
        draft.connect_switches(plan, leaves, spines);
        draft.fail(plan.failed_percent);
        draft.place_hosts(plan, leaves);
        draft
    }

    fn connect_switches(&mut self, plan: &AsBuilt, leaves: usize, spines: usize) {
        let pods = usize_of(plan.pods());
        let spine = |index| leaves + index;
        for leaf in 0..leaves {
            for index in (0..spines).filter(|index| index % pods == leaf % pods) {
                for _ in 0..self.random.random_range(1..=plan.uplinks_max) {
                    self.cables.push((leaf, spine(index)));
                }
            }
        }
        for core in spine(spines)..self.switches {
            self.cables
                .extend((0..spines).map(|index| (spine(index), core)));
        }
        for _ in 0..plan.loopbacks {
            let switch = self.random.random_range(0..self.switches);
            self.cables.push((switch, switch));
        }
    }

    /// Takes cables out, but none of a spanning tree drawn at random.
    fn fail(&mut self, percent: u32) {
        self.cables.shuffle(&mut self.random);
        let mut parts = DisjointSets::new(self.switches);
        let random = &mut self.random;
        self.cables.retain(|&(a, b)| {
            let is_needed = parts.join(a, b);
            // Drawn for every cable: more failures leave the rest of the fabric as it was.
            let has_failed = random.random_range(0..100) < percent;
            is_needed || !has_failed
        });
    }

    fn host(&mut self, name: String, switch: usize) -> usize {
        let host = self.names.len();
        self.names.push(name);
        self.rails.insert(host, 1);
        self.cables.push((switch, host));
        host
    }

    fn place_hosts(&mut self, plan: &AsBuilt, leaves: usize) {
        let mut count = 0;
        for leaf in 0..leaves {
            for _ in 0..self
                .random
                .random_range(plan.hosts.div_ceil(2)..=plan.hosts)
            {
                let host = self.host(format!("h{count}"), leaf);
                count += 1;
                if self.random.random_range(0..100) < plan.dual_rail_percent {
                    self.rails.insert(host, 2);
                    if self.random.random_range(0..100) >= plan.failed_percent {
                        self.cables.push(((leaf + 1) % leaves, host));
                    }
                }
            }
        }
        for index in 0..plan.service_hosts {
            let switch = self.random.random_range(leaves..self.switches);
            self.host(format!("service{index}"), switch);
        }
        if plan.has_aggregation_nodes {
            for switch in 0..self.switches {
                let node = self.names.len();
                self.names.push(format!("aggregation{switch}"));
                self.rails.insert(node, 1);
                self.aggregation.insert(switch, node);
            }
        }
    }

    fn ports_taken(&self) -> Vec<u64> {
        let mut taken = vec![0; self.names.len()];
        for &(a, b) in &self.cables {
            taken[a] += 1;
            taken[b] += 1;
        }
        for &switch in self.aggregation.keys() {
            taken[switch] += 1;
        }
        taken
    }

    /// The switch with the most ports taken, and how many.
    pub(super) fn largest_switch(&self) -> (&str, u64) {
        let taken = self.ports_taken();
        let names = self.names[..self.switches].iter().map(String::as_str);
        let largest = names.zip(taken).max_by_key(|&(_, ports)| ports);
        largest.unwrap_or(("", 0))
    }

    /// Gives ports and GUIDs out, both in no order that means anything.
    pub(super) fn graph(mut self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let mut free: Vec<Vec<u8>> = Vec::new();
        let switch_numbers = self.shuffled(0..self.switches);
        let host_numbers = self.shuffled(0..self.names.len() - self.switches);
        for (index, taken) in self.ports_taken().into_iter().enumerate() {
            let (kind, guid, ports) = if let Some(&rails) = self.rails.get(&index) {
                let guid = host_guid(host_numbers[index - self.switches]);
                (NodeKind::Host, guid, rails)
            } else {
                let spare = self.random.random_range(0..=SPARE_PORTS_MAX);
                let ports = (taken + spare).min(SWITCH_PORTS_MAX);
                let guid = switch_guid(switch_numbers[index]);
                (NodeKind::Switch, guid, saturate::<u8>(ports))
            };
            let mut node = Node::new(self.names[index].clone(), kind, guid, ports);
            // An aggregation node and its switch, which comes before all hosts, are one box.
            let mut of_switches = self.aggregation.iter();
            if let Some((&switch, _)) = of_switches.find(|&(_, &node)| node == index) {
                let switch = graph.node(NodeId::from_index(switch));
                node.system_image_guid = switch.system_image_guid;
                AGGREGATION_NODE.clone_into(&mut node.description);
            }
            graph.add(node)?;
            free.push(match kind {
                // The first cable of a host is in port 1.
                NodeKind::Host => (1..=ports).rev().collect(),
                NodeKind::Switch => {
                    let last = u8::from(self.aggregation.contains_key(&index));
                    self.shuffled(1..=ports - last)
                }
            });
        }
        for (&switch, &node) in &self.aggregation {
            let last = graph.node(NodeId::from_index(switch)).ports;
            graph.connect(end(switch, last), end(node, 1))?;
            free[node].clear();
        }
        let mut speeds = vec![None; self.names.len()];
        if self.has_mixed_speeds {
            speeds.fill_with(|| Some(self.drawn_speed()));
        }
        for place in 0..self.cables.len() {
            let (a, b) = self.cables[place];
            let slower = speeds[a].min(speeds[b]);
            let rate = slower.map(|speed| LinkRate {
                width: self.drawn_width(),
                speed,
            });
            let [a, b] = [a, b].map(|node| end(node, free[node].pop().unwrap_or(0)));
            graph.connect_at(a, b, rate)?;
        }
        Ok(graph)
    }

    /// The fastest speed of a device: three generations stand side by side.
    fn drawn_speed(&mut self) -> LinkSpeed {
        const SPEEDS: [LinkSpeed; 3] = [LinkSpeed::Edr, LinkSpeed::Hdr, LinkSpeed::Ndr];
        SPEEDS[self.random.random_range(0..SPEEDS.len())]
    }

    /// The width of a cable: a few have lost physical lanes.
    fn drawn_width(&mut self) -> LinkWidth {
        match self.random.random_range(0..NARROW_ONE_IN) {
            0 => LinkWidth::X1,
            1 => LinkWidth::X2,
            _ => LinkWidth::X4,
        }
    }

    fn shuffled<T>(&mut self, items: impl Iterator<Item = T>) -> Vec<T> {
        let mut items: Vec<T> = items.collect();
        items.shuffle(&mut self.random);
        items
    }
}

fn end(node: usize, port: u8) -> Endpoint {
    Endpoint {
        node: NodeId::from_index(node),
        port: PortNum::new(port),
    }
}
