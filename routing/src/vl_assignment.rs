//! Service levels and virtual lanes: which SL a packet takes, and which VL a port maps it to.
//!
//! A packet keeps its service level from source to destination (IBA 7.6.5). Each switch maps it to
//! the VL of the next link by the port that the packet comes in by and the one that it leaves by
//! (IBA 7.6.6). Engines that avoid deadlock by layers give each (source switch, LID) an SL.
//!
//! An engine may offer a second level of service ([`VlAssignment::has_second_level`]): what asks for it takes the
//! same SL with [`SECOND_LEVEL`] set, and VLs of its own on the same path.

use std::collections::BTreeMap;

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Lid, PortNum, Sl, Vl};

/// By service level the VL.
pub type SlToVl = [Vl; 16];

/// The bit of a service level that asks for the second level of service, where there is one (torus-2QoS(8): SL bit
/// 3).
pub const SECOND_LEVEL: u8 = 8;

/// The service levels and SL-to-VL tables of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlAssignment {
    /// How many data VLs, from 0 on, the tables name: 1 to 15.
    pub data_vls: u8,
    /// The table of every pair of ports that has none of its own.
    pub sl2vl: SlToVl,
    /// Tables of pairs of ports: switch, port in, port out. Port 0 is the switch itself.
    pub by_ports: BTreeMap<(NodeId, PortNum, PortNum), SlToVl>,
    /// Whether every SL that packets have may also be taken with [`SECOND_LEVEL`] set. All of them are below it
    /// then.
    pub has_second_level: bool,
    /// By node of the graph (empty for hosts) and LID: the SL that packets take from hosts at that
    /// switch.
    sls: Vec<Vec<Sl>>,
    /// By port of a switch and LID: the SL that packets take from the host there, where it is not that of the
    /// switch.
    sls_of_hosts: BTreeMap<Endpoint, Vec<Sl>>,
}

impl VlAssignment {
    /// Every packet on SL 0, every SL on VL 0.
    #[must_use]
    pub fn single(graph: &Graph) -> Self {
        Self::identity(graph, 1)
    }

    /// Every packet on SL 0; SLs below `data_vls` on the VLs of the same number, the others on VL
    /// 0.
    #[must_use]
    pub fn identity(graph: &Graph, data_vls: u8) -> Self {
        let mut sl2vl = SlToVl::default();
        for (own, vl) in Vl::data(data_vls).zip(&mut sl2vl) {
            *vl = own;
        }
        Self {
            data_vls,
            sl2vl,
            by_ports: BTreeMap::new(),
            has_second_level: false,
            sls: vec![Vec::new(); graph.len()],
            sls_of_hosts: BTreeMap::new(),
        }
    }

    /// The SLs that packets may take where the tables name this one: itself, and that of the second level of
    /// service if there is one.
    pub fn levels(&self, sl: Sl) -> impl Iterator<Item = Sl> + use<> {
        let second = self.has_second_level && sl.get() < SECOND_LEVEL;
        let second = second.then(|| Sl::constant(sl.get() | SECOND_LEVEL));
        core::iter::once(sl).chain(second)
    }

    /// The SL of packets to a LID from hosts at that switch, and from the switch itself.
    #[must_use]
    pub fn sl(&self, switch: NodeId, dlid: Lid) -> Sl {
        self.sls
            .get(switch.index())
            .and_then(|sls| sls.get(dlid.index()))
            .copied()
            .unwrap_or_default()
    }

    /// Sets that SL.
    pub fn set_sl(&mut self, switch: NodeId, dlid: Lid, sl: Sl) {
        if let Some(sls) = self.sls.get_mut(switch.index()) {
            set(sls, dlid, sl);
        }
    }

    /// Gives packets to a LID the SLs of those to another.
    pub(crate) fn copy(&mut self, from: Lid, to: Lid) {
        for sls in self.sls.iter_mut().chain(self.sls_of_hosts.values_mut()) {
            if let Some(&sl) = sls.get(from.index()) {
                set(sls, to, sl);
            }
        }
    }

    /// Sets the SL of packets to a LID from the host at that port of a switch. Where one was set for a host, all its
    /// others are 0 unless they are set, too.
    pub fn set_sl_of_host(&mut self, at: Endpoint, dlid: Lid, sl: Sl) {
        set(self.sls_of_hosts.entry(at).or_default(), dlid, sl);
    }

    /// The SL of packets to a LID from what is at that port of a switch; port 0 is the switch itself.
    #[must_use]
    pub fn sl_at(&self, at: Endpoint, dlid: Lid) -> Sl {
        match self.sls_of_hosts.get(&at) {
            Some(sls) => sls.get(dlid.index()).copied().unwrap_or_default(),
            None => self.sl(at.node, dlid),
        }
    }

    /// Whether packets from all hosts at a switch go on alike, on whatever port they come in.
    #[must_use]
    pub fn is_alike_for_hosts(&self) -> bool {
        self.by_ports.is_empty() && self.sls_of_hosts.is_empty()
    }

    /// The highest SL that packets have.
    #[must_use]
    pub fn sl_max(&self) -> Sl {
        let sls = self.sls.iter().chain(self.sls_of_hosts.values());
        sls.flatten().copied().max().unwrap_or_default()
    }

    /// The SL of packets from a port to a LID: that of the switch that it is, or of the host's or switch's port that
    /// it is cabled to.
    #[must_use]
    pub fn sl_from(&self, graph: &Graph, source: Endpoint, dlid: Lid) -> Sl {
        match graph.node(source.node).kind {
            NodeKind::Switch => self.sl(source.node, dlid),
            NodeKind::Host => graph
                .peer(source)
                .map_or_else(Sl::default, |at| self.sl_at(at, dlid)),
        }
    }

    /// The same for the fabric that another graph is now; `now` says where a node is in it.
    pub(crate) fn moved(&self, graph: &Graph, now: impl Fn(NodeId) -> Option<NodeId>) -> Self {
        let mut sls = vec![Vec::new(); graph.len()];
        for (index, of_switch) in self.sls.iter().enumerate() {
            if let Some(node) = now(NodeId::from_index(index)) {
                sls[node.index()].clone_from(of_switch);
            }
        }
        let by_ports = self.by_ports.iter();
        let of_hosts = self.sls_of_hosts.iter().filter_map(|(&at, sls)| {
            let node = now(at.node)?;
            Some((Endpoint { node, ..at }, sls.clone()))
        });
        Self {
            by_ports: by_ports
                .filter_map(|(&(node, entry, exit), table)| {
                    Some(((now(node)?, entry, exit), *table))
                })
                .collect(),
            sls,
            sls_of_hosts: of_hosts.collect(),
            ..*self
        }
    }

    /// The VL on which a switch sends on what came in by one port and leaves by another.
    #[must_use]
    pub fn vl(&self, switch: NodeId, entry: PortNum, exit: PortNum, sl: Sl) -> Vl {
        self.table(switch, entry, exit)[sl.index()]
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

fn set(sls: &mut Vec<Sl>, dlid: Lid, sl: Sl) {
    if sls.len() <= dlid.index() {
        sls.resize(dlid.index() + 1, Sl::default());
    }
    sls[dlid.index()] = sl;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sls_are_those_of_the_source_switch_and_vls_those_of_the_ports() {
        let graph = topologies::parse("ring-4-1").unwrap().graph;
        let mut assignment = VlAssignment::identity(&graph, 2);
        let switch = graph.switches().next().unwrap();
        let (host, _) = graph
            .links()
            .map(|(a, b)| if a.node == switch { (b, a) } else { (a, b) })
            .find(|(host, end)| end.node == switch && graph.node(host.node).kind == NodeKind::Host)
            .unwrap();
        let (lid, one) = (Lid::new(7), Sl::constant(1));
        assignment.set_sl(switch, lid, one);
        assert_eq!(assignment.sl_from(&graph, host, lid), one);
        assert_eq!(assignment.sl(switch, Lid::new(6)), Sl::default());
        let ports = [1, 2].map(PortNum::new);
        assert_eq!(
            assignment.vl(switch, ports[0], ports[1], one),
            Vl::constant(1)
        );
        assignment
            .by_ports
            .insert((switch, ports[0], ports[1]), SlToVl::default());
        assert_eq!(
            assignment.vl(switch, ports[0], ports[1], one),
            Vl::default()
        );
        assert_eq!(
            assignment.vl(switch, ports[1], ports[0], one),
            Vl::constant(1)
        );
        assert_eq!(
            assignment.vl(switch, ports[1], ports[0], Sl::constant(2)),
            Vl::default()
        );
    }
}
