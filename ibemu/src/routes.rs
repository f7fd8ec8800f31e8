//! Directed routes along the cables of a fabric as it was brought up.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use wire::PortNum;

use crate::state::{End, FabricState, Kind};

/// By position of a device, the exit ports of a shortest route from the host port at position `from`. Nothing
/// passes through a host. Devices that no cable leads to are left out.
pub(crate) fn shortest(state: &FabricState, from: usize) -> BTreeMap<usize, Vec<PortNum>> {
    shortest_over(state, from, |_| true)
}

/// The same over the cables whose ends are like that.
pub(crate) fn shortest_over(
    state: &FabricState,
    from: usize,
    is_there: impl Fn(End) -> bool,
) -> BTreeMap<usize, Vec<PortNum>> {
    let start = state.host_end(from);
    let mut cables: BTreeMap<usize, Vec<(u8, usize)>> = BTreeMap::new();
    for (end, peer) in state.peers().into_iter().filter(|&(end, _)| is_there(end)) {
        if end.node != start.node || end == start {
            let exits = cables.entry(end.node).or_default();
            exits.push((end.port, peer.node));
        }
    }
    let mut routes = BTreeMap::from([(start.node, Vec::new())]);
    let mut next = VecDeque::from([start.node]);
    while let Some(node) = next.pop_front() {
        let route: Vec<PortNum> = routes[&node].clone();
        for &(port, peer) in cables.get(&node).into_iter().flatten() {
            if let Entry::Vacant(new) = routes.entry(peer) {
                let mut further = route.clone();
                further.push(PortNum::new(port));
                new.insert(further);
                if state.nodes[peer].kind == Kind::Switch {
                    next.push_back(peer);
                }
            }
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Verb};
    use crate::process::ProcessRecord;

    /// Adapters with two cabled ports, two adapters of one host, and a cable from a switch to itself.
    fn state() -> FabricState {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/files");
        let file = format!("{folder}/quirks.ibnetdiscover");
        let Verb::Up(up) = Cli::try_parse_from(["ibemu", "up", &file]).unwrap().verb else {
            panic!("not up");
        };
        let topology = topologies::parse(&up.topology).unwrap();
        let own = ProcessRecord::own().unwrap();
        let fabric = "ib".parse().unwrap();
        FabricState::plan(&fabric, &topology.graph, topology.name, &up, own).unwrap()
    }

    #[test]
    fn a_route_begins_at_its_ports_own_cable_and_passes_no_host() {
        let state = state();
        let peers = state.peers();
        for host in state.hosts() {
            let start = state.host_end(host);
            let routes = shortest(&state, host);
            for switch in state.switches() {
                let route = &routes[&switch];
                assert_eq!(route.first().map(|port| port.get()), Some(start.port));
                let mut node = start.node;
                for (hop, port) in route.iter().enumerate() {
                    assert!(hop == 0 || state.nodes[node].kind == Kind::Switch);
                    let port = port.get();
                    node = peers[&End { node, port }].node;
                }
                assert_eq!(node, switch);
            }
        }
    }
}
