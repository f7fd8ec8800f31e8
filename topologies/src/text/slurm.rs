//! Slurm's `topology.conf` with `topology/tree`:
//!
//! ```text
//! SwitchName=spine1 Switches=leaf[1-2]
//! SwitchName=leaf1 Nodes=node[01-16]
//! ```
//!
//! topograph writes `# switch.1.1=NAME` above a switch that it calls `switch.1.1`: NAME is taken.

use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::convert::usize_of;

use super::draft::Draft;
use super::hostlist;
use super::tree::Tree;
use super::words;
use crate::error::{NODES_MAX, TextError, TextProblem};
use crate::graph::{Graph, NodeId, NodeKind};
use crate::names::AGGREGATION_NODE;

/// What stands in a `topology.conf`.
pub(super) fn read(text: &str) -> Result<Draft, TextError> {
    let mut draft = Draft::default();
    let mut tree = Tree::default();
    let mut alias: Option<(String, String)> = None;
    for (number, line) in statements(text) {
        if let Some(problem) = words::control_character(&line) {
            draft.lose(number, problem);
            continue;
        }
        if let Some(comment) = line.strip_prefix('#') {
            let pair = comment.trim().split_once('=');
            alias = pair.map(|(name, real)| (name.to_owned(), real.to_owned()));
            continue;
        }
        match statement(&mut tree, number, &line, alias.take()) {
            Ok(()) => {}
            Err(problem @ TextProblem::NotUnderstood(_)) => draft.warn(number, problem),
            Err(problem) => {
                return Err(TextError {
                    line: number,
                    problem,
                });
            }
        }
    }
    tree.into_draft(draft)
}

/// Whether a line is one of Slurm's.
pub(super) fn is_statement(line: &str) -> bool {
    let key = line.split_once('=').map_or("", |(key, _)| key);
    ["SwitchName", "BlockName", "BlockSizes"]
        .iter()
        .any(|name| key.eq_ignore_ascii_case(name))
}

/// Lines that say something with the number of their first line; a backslash at the end joins the next.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let (said, more) = match line.strip_suffix('\\') {
            Some(said) => (said, true),
            None => (line, false),
        };
        match all.last_mut() {
            Some((_, last)) if goes_on => last.push_str(said),
            _ if said.is_empty() => {}
            _ => all.push((index + 1, said.to_owned())),
        }
        goes_on = more;
    }
    all
}

fn statement(
    tree: &mut Tree,
    line: usize,
    text: &str,
    alias: Option<(String, String)>,
) -> Result<(), TextProblem> {
    let bad = || TextProblem::NotUnderstood(words::excerpt(text));
    let text = text.split('#').next().unwrap_or_default();
    let mut switch = None;
    let (mut hosts, mut switches) = (Vec::new(), Vec::new());
    for word in text.split_whitespace() {
        let (key, value) = word.split_once('=').ok_or_else(bad)?;
        let list = || {
            let names = hostlist::expand(value, usize_of(NODES_MAX));
            names.ok_or_else(|| TextProblem::BadList(words::excerpt(value)))
        };
        match key.to_ascii_lowercase().as_str() {
            "switchname" => switch = Some(words::name(value)),
            "nodes" => hosts = list()?,
            "switches" => switches = list()?,
            "linkspeed" => {}
            "blockname" | "blocksizes" => return Err(TextProblem::Blocks),
            _ => return Err(bad()),
        }
    }
    let switch = switch.filter(|name| !name.is_empty()).ok_or_else(bad)?;
    let place = tree.described(line, switch)?;
    if let Some((_, real)) = alias.filter(|(name, _)| name == switch) {
        tree.describe(place, words::name(&real));
    }
    let hosts = hosts.iter().map(|name| (NodeKind::Host, name));
    let switches = switches.iter().map(|name| (NodeKind::Switch, name));
    for (kind, name) in hosts.chain(switches) {
        let below = tree.node(line, kind, words::name(name))?;
        tree.connect(line, below, place)?;
    }
    Ok(())
}

/// The graph as `topology.conf`, for `topology/tree`.
///
/// Levels count from the leaves, the switches with a quarter or more of the hosts that the fullest has: a
/// switch is above its neighbours of lower levels; cables within a level are not said. Hosts are called by the
/// first word of their description, so that adapters of one machine are one node; aggregation nodes
/// and switches that no leaf reaches are left out. Slurm wants nodes or switches under a switch, not both: hosts
/// of a switch that has switches below stand under a switch NAME-nodes.
pub(super) fn write(graph: &Graph) -> String {
    let names = Names::of(graph);
    let levels = levels(graph, &names);
    let mut out = String::from("# topology.conf, written by ibemu\n");
    for switch in graph.switches() {
        let Some(level) = levels[switch.index()] else {
            continue;
        };
        let name = &names.switches[&switch];
        let is_below = |other: &NodeId| levels[other.index()].is_some_and(|other| other < level);
        let peers = || graph.cables(switch).map(|(_, peer)| peer.node);
        let mut nodes: Vec<&str> = peers().filter_map(|peer| names.host(peer)).collect();
        let below = peers().filter(is_below);
        let mut below: Vec<&str> = below.map(|peer| names.switches[&peer].as_str()).collect();
        let own = format!("{name}-nodes");
        if !nodes.is_empty() && !below.is_empty() {
            statement_line(&mut out, &own, "Nodes", std::mem::take(&mut nodes));
            below.push(&own);
        }
        match below.is_empty() {
            true => statement_line(&mut out, name, "Nodes", nodes),
            false => statement_line(&mut out, name, "Switches", below),
        }
    }
    out
}

fn statement_line(out: &mut String, switch: &str, key: &str, mut names: Vec<&str>) {
    names.sort_by_key(|name| hostlist::natural(name));
    names.dedup();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let list = hostlist::contract(&names);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "SwitchName={switch} {key}={list}");
}

/// What Slurm is to call things.
struct Names {
    switches: BTreeMap<NodeId, String>,
    hosts: BTreeMap<NodeId, String>,
}

impl Names {
    fn of(graph: &Graph) -> Self {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for id in graph.ids() {
            *counts.entry(&graph.node(id).description).or_default() += 1;
        }
        let mut taken = BTreeSet::new();
        let switches = graph.switches().map(|id| {
            let mut name = plain(&graph.node(id).name);
            if !taken.insert(name.clone()) {
                name = format!("{name}-{:x}", graph.node(id).guid.0);
            }
            (id, name)
        });
        let host = |id: NodeId| {
            let node = graph.node(id);
            let description = node.description.as_str();
            if description.contains(AGGREGATION_NODE) {
                return None;
            }
            let is_own = counts[description] == 1;
            let first = description.split_whitespace().next();
            Some((id, plain(first.filter(|_| is_own).unwrap_or(&node.name))))
        };
        Self {
            switches: switches.collect(),
            hosts: graph.hosts().filter_map(host).collect(),
        }
    }

    fn host(&self, id: NodeId) -> Option<&str> {
        self.hosts.get(&id).map(String::as_str)
    }
}

/// A name of characters that mean nothing in a list.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

/// By node: how far a switch is from the next leaf; nothing for hosts and what no leaf reaches.
fn levels(graph: &Graph, names: &Names) -> Vec<Option<u32>> {
    let hosts = |switch: NodeId| {
        let peers = graph.cables(switch);
        peers
            .filter(|(_, peer)| names.host(peer.node).is_some())
            .count()
    };
    let most = graph.switches().map(hosts).max().unwrap_or(0);
    let mut levels = vec![None; graph.len()];
    let mut next: VecDeque<NodeId> = graph
        .switches()
        .filter(|&switch| hosts(switch) > 0 && hosts(switch) * 4 >= most)
        .collect();
    for leaf in &next {
        levels[leaf.index()] = Some(0);
    }
    while let Some(switch) = next.pop_front() {
        for (_, peer) in graph.cables(switch) {
            let is_switch = graph.node(peer.node).kind == NodeKind::Switch;
            if is_switch && levels[peer.node.index()].is_none() {
                levels[peer.node.index()] = levels[switch.index()].map(|level| level + 1);
                next.push_back(peer.node);
            }
        }
    }
    levels
}
