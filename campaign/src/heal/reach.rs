//! Which hosts reach each other by the tables that switches hold.

use link::PortState;
use sim::Twin;
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::attr::{Attribute as _, PortInfo};
use wire::{Lid, Mad, Method, PortNum};

use super::faults::Faults;

/// LIDs in a block of a linear forwarding table.
const BLOCK: u16 = 64;

/// The LIDs of the hosts of a fabric that is up.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    lids: Vec<(NodeId, Vec<Lid>)>,
    top: u16,
}

/// How things stand at a moment.
struct State<'a> {
    graph: &'a Graph,
    /// By node: its forwarding table, if it is a switch.
    tables: Vec<Vec<PortNum>>,
    /// By node and port: whether it is Active.
    active: Vec<Vec<bool>>,
    /// By node: the part of what is left that it is in; `None` if it is not there.
    parts: Vec<Option<usize>>,
}

impl Reach {
    /// The LIDs that hosts have now.
    pub(super) fn of(twin: &mut Twin, graph: &Graph) -> Self {
        let mut lids = Vec::new();
        for host in graph.hosts() {
            let mut mad = Mad::lid_smp(Method::GET, PortInfo::ID, 1, 1);
            twin.read(host, &mut mad);
            if let Ok(info) = mad.smp_attribute::<PortInfo>() {
                let range = info.lid.get()..info.lid.get().saturating_add(info.lmc.lids());
                lids.push((host, range.map(Lid::new).collect::<Vec<Lid>>()));
            }
        }
        let all = lids.iter().flat_map(|(_, lids)| lids);
        let top = all.map(|lid| lid.get()).max().unwrap_or_default();
        Self { lids, top }
    }

    /// Whether all pairs of hosts reach each other that what is left connects, and connects with a manager.
    pub(super) fn is_connected(&self, twin: &Twin, graph: &Graph, faults: &Faults) -> bool {
        let state = State::of(twin, graph, faults, self.top);
        let managers = (0..twin.managers()).filter(|at| !faults.missing_managers.contains(at));
        let managed: Vec<usize> = managers
            .filter_map(|at| state.parts[twin.manager_host(at)?.index()])
            .collect();
        let there: Vec<&(NodeId, Vec<Lid>)> = self
            .lids
            .iter()
            .filter(|(host, _)| {
                state.parts[host.index()].is_some_and(|part| managed.contains(&part))
            })
            .collect();
        there.iter().all(|(to, lids)| {
            lids.iter().all(|&lid| {
                let mut known = vec![None; graph.len()];
                there.iter().all(|(from, _)| {
                    state.parts[from.index()] != state.parts[to.index()]
                        || from == to
                        || state.leads(*from, *to, lid, &mut known)
                })
            })
        })
    }
}

impl<'a> State<'a> {
    fn of(twin: &Twin, graph: &'a Graph, faults: &Faults, top: u16) -> Self {
        let is_there = |node: NodeId| !twin.is_down(node) && !faults.silence.has(node);
        let mut tables = vec![Vec::new(); graph.len()];
        let mut active = vec![Vec::new(); graph.len()];
        for id in graph.ids().filter(|&id| is_there(id)) {
            let node = graph.node(id);
            let switch = twin.switch(&node.name);
            let host = twin.host(&node.name);
            let port = |number: PortNum| match node.kind {
                NodeKind::Switch => switch?.port(number),
                NodeKind::Host => host?.port_of(number),
            };
            let is_active = |number: PortNum| {
                let state = port(number).map(link::Port::state);
                state == Some(PortState::Active)
            };
            active[id.index()] = (0..=node.ports).map(PortNum::new).map(is_active).collect();
            let blocks = (0..=top / BLOCK).filter_map(|block| Some(switch?.linear_block(block)));
            tables[id.index()] = blocks.flatten().collect();
        }
        let mut state = Self {
            graph,
            tables,
            active,
            parts: vec![None; graph.len()],
        };
        state.find_parts(twin, is_there);
        state
    }

    fn find_parts(&mut self, twin: &Twin, is_there: impl Fn(NodeId) -> bool) {
        for first in self.graph.ids() {
            let mut next = vec![first];
            while let Some(node) = next.pop() {
                if !is_there(node) || self.parts[node.index()].is_some() {
                    continue;
                }
                self.parts[node.index()] = Some(first.index());
                let cables = self.graph.cables(node);
                let whole = cables.filter(|&(port, _)| !twin.is_unplugged(Endpoint { node, port }));
                next.extend(whole.map(|(_, peer)| peer.node));
            }
        }
    }

    /// The device behind a port, if a packet comes through.
    fn behind(&self, end: Endpoint) -> Option<NodeId> {
        let peer = self.graph.peer(end)?;
        let is_active = |end: Endpoint| {
            let ports = &self.active[end.node.index()];
            ports.get(end.port.index()).copied().unwrap_or_default()
        };
        (is_active(end) && is_active(peer)).then_some(peer.node)
    }

    /// Whether a packet finds its way from a host to a LID of another one. `known`: what is known of switches.
    fn leads(&self, from: NodeId, to: NodeId, lid: Lid, known: &mut [Option<bool>]) -> bool {
        let first = self.graph.cables(from).next().map(|(port, _)| port);
        let mut at = first.and_then(|port| self.behind(Endpoint { node: from, port }));
        let mut path = Vec::new();
        let found = loop {
            let Some(node) = at else { break false };
            if node == to {
                break true;
            }
            if let Some(found) = known[node.index()] {
                break found;
            }
            if path.contains(&node) {
                break false;
            }
            path.push(node);
            let port = self.tables[node.index()].get(lid.index()).copied();
            at = port.and_then(|port| self.behind(Endpoint { node, port }));
        };
        for node in path {
            known[node.index()] = Some(found);
        }
        found
    }
}
