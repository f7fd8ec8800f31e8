//! What faults leave of a fabric: which hosts reach each other over devices that run and cables that
//! are plugged, and which of them have a subnet manager to route them.

use std::collections::BTreeSet;

use crate::state::{End, FabricState};

/// Devices and cables of a fabric that are down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Devices that do not run, by position.
    pub nodes: BTreeSet<usize>,
    /// Cables that are pulled, by position in the fabric's list.
    pub cables: BTreeSet<usize>,
    /// Controllers that do not run, by position.
    pub controllers: BTreeSet<usize>,
}

/// The part of the fabric that each node is in: `None` for a node that is missing, or whose part has
/// no subnet manager.
pub(super) fn managed_parts(state: &FabricState, missing: &Missing) -> Vec<Option<usize>> {
    let mut parts: Vec<usize> = (0..state.nodes.len()).collect();
    let there = |end: &End| !missing.nodes.contains(&end.node);
    let cables = state.links.iter().enumerate();
    for (_, ends) in cables
        .filter(|(cable, _)| !missing.cables.contains(cable))
        .filter(|(_, ends)| ends.iter().all(there))
    {
        // Each port of a host is a node of its own: nothing passes from one to the other.
        let [a, b] = ends.map(|end| root(&mut parts, state.node_at(end)));
        parts[a.max(b)] = a.min(b);
    }
    let roots: Vec<usize> = (0..state.nodes.len())
        .map(|node| root(&mut parts, node))
        .collect();
    let managers = state.sm_nodes.iter().enumerate();
    let managed: BTreeSet<usize> = managers
        .filter(|(position, _)| !missing.controllers.contains(position))
        .map(|(_, sm_node)| sm_node.node)
        .filter(|&node| !missing.nodes.contains(&state.device_of(node)))
        .map(|node| roots[node])
        .collect();
    let part = |node: usize| {
        let is_there = !missing.nodes.contains(&state.device_of(node));
        (is_there && managed.contains(&roots[node])).then_some(roots[node])
    };
    (0..state.nodes.len()).map(part).collect()
}

/// The smallest node of the part that `node` is in.
fn root(parts: &mut [usize], node: usize) -> usize {
    let mut at = node;
    while parts[at] != at {
        parts[at] = parts[parts[at]];
        at = parts[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Verb};
    use crate::process::ProcessRecord;
    use crate::state::Kind;

    /// Three switches in a ring, each with a host; controllers beside h0 and h2.
    fn state() -> FabricState {
        planned("ring-3-1", "h0,h2")
    }

    fn planned(topology: &str, sm_nodes: &str) -> FabricState {
        let line = ["ibemu", "up", topology, "--sm-node", sm_nodes];
        let Verb::Up(up) = Cli::try_parse_from(line).unwrap().verb else {
            panic!("not up");
        };
        let topology = topologies::parse(&up.topology).unwrap();
        let own = ProcessRecord::own().unwrap();
        let fabric = "ib".parse().unwrap();
        FabricState::plan(&fabric, &topology.graph, topology.name, &up, own).unwrap()
    }

    fn connected(state: &FabricState, missing: &Missing) -> Vec<String> {
        let parts = managed_parts(state, missing);
        let hosts: Vec<usize> = state.hosts().collect();
        let mut pairs = Vec::new();
        for &a in &hosts {
            for &b in hosts.iter().filter(|&&b| a < b) {
                if parts[a].is_some() && parts[a] == parts[b] {
                    let (a, b) = (&state.nodes[a].name, &state.nodes[b].name);
                    pairs.push(format!("{a}-{b}"));
                }
            }
        }
        pairs
    }

    fn node(state: &FabricState, name: &str) -> usize {
        state.find(name).unwrap()
    }

    #[test]
    fn hosts_that_the_rest_of_the_graph_connects_are_one_part() {
        let state = state();
        let all = ["h0-h1", "h0-h2", "h1-h2"];
        assert_eq!(connected(&state, &Missing::default()), all);
        let between = |a: &str, b: &str| {
            let ends = BTreeSet::from([node(&state, a), node(&state, b)]);
            let cable = |[a, b]: &[End; 2]| BTreeSet::from([a.node, b.node]) == ends;
            state.links.iter().position(cable).unwrap()
        };
        let mut missing = Missing::default();
        missing.cables.insert(between("s0", "s1"));
        assert_eq!(connected(&state, &missing), all, "the other way round");
        missing.cables.insert(between("s1", "s2"));
        assert_eq!(connected(&state, &missing), ["h0-h2"]);
    }

    #[test]
    fn the_ports_of_a_host_are_apart_and_go_with_their_process() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/files");
        let file = format!("{folder}/quirks.ibnetdiscover");
        let state = planned(&file, "node02 mlx4_0");
        let [first, second] = ["node01 mlx4_0", "node01 mlx4_0:2"].map(|name| node(&state, name));
        let reached = |missing: &Missing| -> Vec<usize> {
            let parts = managed_parts(&state, missing);
            state
                .hosts()
                .filter(|&host| parts[host].is_some())
                .collect()
        };
        let all: Vec<usize> = state.hosts().collect();
        let without = |gone: &[usize]| -> Vec<usize> {
            all.iter()
                .copied()
                .filter(|host| !gone.contains(host))
                .collect()
        };
        assert_eq!(reached(&Missing::default()), all);
        let cable = |end: End| {
            let has_end = |link: &[End; 2]| link.contains(&end);
            state.links.iter().position(has_end).unwrap()
        };
        let mut missing = Missing::default();
        missing.cables.insert(cable(state.host_end(second)));
        assert_eq!(reached(&missing), without(&[second]), "its cable is pulled");
        // Without the cables between the switches the host's two ports join nothing.
        let is_trunk = |link: &[End; 2]| {
            link.iter()
                .all(|end| state.nodes[end.node].kind == Kind::Switch)
        };
        let links = state.links.iter().enumerate();
        let trunks = links
            .filter(|(_, link)| is_trunk(link))
            .map(|(cable, _)| cable);
        let apart = Missing {
            cables: trunks.collect(),
            ..Missing::default()
        };
        let left = reached(&apart);
        assert!(left.contains(&first) && !left.contains(&second), "{left:?}");
        let mut missing = Missing::default();
        missing.nodes.insert(first);
        assert_eq!(reached(&missing), without(&[first, second]), "one process");
    }

    #[test]
    fn a_part_without_a_manager_is_none() {
        let state = state();
        let mut missing = Missing::default();
        missing.nodes.insert(node(&state, "h0"));
        assert_eq!(connected(&state, &missing), ["h1-h2"]);
        missing.controllers.insert(1);
        assert!(connected(&state, &missing).is_empty());
    }
}
