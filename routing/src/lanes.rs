//! Service levels and virtual lanes: which level a packet takes, and which lane a port maps it to.
//!
//! A packet keeps its service level from source to destination (IBA 7.6.5). Each switch maps it to
//! the lane of the next link by the port that the packet comes in by and the one that it leaves by
//! (IBA 7.6.6). Engines that avoid deadlock by layers give each (source switch, LID) a level.

use std::collections::BTreeMap;

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Lid, PortNum, Sl, Vl};

/// By service level the lane.
pub type SlToVl = [Vl; 16];

/// The levels and lanes of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// How many data lanes, from 0 on, the tables name: 1 to 15.
    pub data_vls: u8,
    /// The table of every pair of ports that has none of its own.
    pub sl2vl: SlToVl,
    /// Tables of pairs of ports: switch, port in, port out. Port 0 is the switch itself.
    pub by_ports: BTreeMap<(NodeId, PortNum, PortNum), SlToVl>,
    /// By node of the graph (empty for hosts) and LID: the level that packets take from hosts at
    /// that switch.
    levels: Vec<Vec<Sl>>,
}

impl Lanes {
    /// Every packet on level 0, every level on lane 0.
    #[must_use]
    pub fn single(graph: &Graph) -> Self {
        Self::identity(graph, 1)
    }

    /// Every packet on level 0; levels below `data_vls` on the lanes of the same number, the others
    /// on lane 0.
    #[must_use]
    pub fn identity(graph: &Graph, data_vls: u8) -> Self {
        let mut sl2vl = SlToVl::default();
        for (lane, vl) in (0..data_vls).zip(&mut sl2vl) {
            *vl = Vl::truncate(lane);
        }
        Self {
            data_vls,
            sl2vl,
            by_ports: BTreeMap::new(),
            levels: vec![Vec::new(); graph.len()],
        }
    }

    /// The level of packets to a LID from hosts at that switch, and from the switch itself.
    #[must_use]
    pub fn level(&self, switch: NodeId, dlid: Lid) -> Sl {
        self.levels
            .get(switch.index())
            .and_then(|levels| levels.get(dlid.index()))
            .copied()
            .unwrap_or_default()
    }

    /// Sets that level.
    pub fn set_level(&mut self, switch: NodeId, dlid: Lid, level: Sl) {
        if let Some(levels) = self.levels.get_mut(switch.index()) {
            if levels.len() <= dlid.index() {
                levels.resize(dlid.index() + 1, Sl::default());
            }
            levels[dlid.index()] = level;
        }
    }

    /// The level of packets from a port to a LID: that of the switch that it is, or is cabled to.
    #[must_use]
    pub fn level_from(&self, graph: &Graph, source: Endpoint, dlid: Lid) -> Sl {
        let switch = match graph.node(source.node).kind {
            NodeKind::Switch => Some(source.node),
            NodeKind::Host => graph.peer(source).map(|peer| peer.node),
        };
        switch.map_or_else(Sl::default, |switch| self.level(switch, dlid))
    }

    /// The same for the fabric that another graph is now; `now` says where a node is in it.
    pub(crate) fn moved(&self, graph: &Graph, now: impl Fn(NodeId) -> Option<NodeId>) -> Self {
        let mut levels = vec![Vec::new(); graph.len()];
        for (index, of_switch) in self.levels.iter().enumerate() {
            if let Some(node) = now(NodeId::from_index(index)) {
                levels[node.index()].clone_from(of_switch);
            }
        }
        let by_ports = self.by_ports.iter();
        Self {
            by_ports: by_ports
                .filter_map(|(&(node, entry, exit), table)| {
                    Some(((now(node)?, entry, exit), *table))
                })
                .collect(),
            levels,
            ..*self
        }
    }

    /// The lane on which a switch sends on what came in by one port and leaves by another.
    #[must_use]
    pub fn vl(&self, switch: NodeId, entry: PortNum, exit: PortNum, level: Sl) -> Vl {
        self.table(switch, entry, exit)[level.index()]
    }

    /// The table of a pair of ports.
    #[must_use]
    pub fn table(&self, switch: NodeId, entry: PortNum, exit: PortNum) -> &SlToVl {
        self.by_ports
            .get(&(switch, entry, exit))
            .unwrap_or(&self.sl2vl)
    }

    /// Whether some input of a switch with that many ports has another table towards `exit` than its
    /// port 0 has.
    #[must_use]
    pub fn differs_by_input(&self, switch: NodeId, ports: u8, exit: PortNum) -> bool {
        let own = self.table(switch, PortNum::MANAGEMENT, exit);
        (1..=ports)
            .map(PortNum::new)
            .any(|entry| self.table(switch, entry, exit) != own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_source_switchs_and_lanes_those_of_the_ports() {
        let graph = topologies::parse("ring-4-1").unwrap().graph;
        let mut lanes = Lanes::identity(&graph, 2);
        let switch = graph.switches().next().unwrap();
        let (host, _) = graph
            .links()
            .map(|(a, b)| if a.node == switch { (b, a) } else { (a, b) })
            .find(|(host, end)| end.node == switch && graph.node(host.node).kind == NodeKind::Host)
            .unwrap();
        let (lid, one) = (Lid::new(7), Sl::truncate(1));
        lanes.set_level(switch, lid, one);
        assert_eq!(lanes.level_from(&graph, host, lid), one);
        assert_eq!(lanes.level(switch, Lid::new(6)), Sl::default());
        let ports = [1, 2].map(PortNum::new);
        assert_eq!(lanes.vl(switch, ports[0], ports[1], one), Vl::truncate(1));
        lanes
            .by_ports
            .insert((switch, ports[0], ports[1]), SlToVl::default());
        assert_eq!(lanes.vl(switch, ports[0], ports[1], one), Vl::default());
        assert_eq!(lanes.vl(switch, ports[1], ports[0], one), Vl::truncate(1));
        assert_eq!(
            lanes.vl(switch, ports[1], ports[0], Sl::truncate(2)),
            Vl::default()
        );
    }
}
