//! What a fabric is built of, where that shows: director switches, and groups as a dragonfly has them.
//!
//! A **director** is a chassis of leaf boards and spine boards: switches that show one system image GUID, each
//! cabled to others of them, whose cables among themselves all join one side to the other. The side from
//! which hosts and cables to the outside leave is that of the leaf boards. Hosts of an enclosure's own (aggregation
//! nodes) are no hosts here. Other switches of one image (both halves of a box with two) are no director.
//!
//! **Groups**: switches whose neighbours are mostly the same belong together; switches without hosts go with
//! the only such set that they are cabled to. It is a dragonfly-like fabric if that leaves at least
//! [`GROUPS_MIN`] groups of several switches and nothing beside them, if most pairs of groups are joined by
//! cables, and if each group has more cables within than to any other.
//!
//! ```text
//!   director            leaf boards   L L L L     (hosts, edge switches)
//!                                     |X|X|X|
//!                       spine boards   S S S
//!
//!   groups      a-b        a, b, c, d: each joined to all others of its group,
//!               |X| --- ..  few cables from one group to another
//!               c-d
//! ```
//!
//! Cost: for each switch its neighbours' neighbours.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use topologies::{DisjointSets, Graph};
use wire::Guid;

use crate::network::Network;

/// How many groups there are at least.
pub const GROUPS_MIN: usize = 3;
/// Of so many pairs of groups...
const PAIRS: usize = 4;
/// ... at least so many are joined.
const JOINED: usize = 3;

/// A chassis of leaf and spine boards. Switches are numbered as in the [`Network`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Director {
    /// What its boards show.
    pub system_image_guid: Guid,
    /// The boards that lead out of it.
    pub leaf_boards: Vec<usize>,
    /// The boards between them.
    pub spine_boards: Vec<usize>,
}

/// What a fabric is built of. [`fmt::Display`] says it in a few words; nothing if nothing was recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// In order of image GUID.
    pub directors: Vec<Director>,
    /// Switches by group, in order of their first; empty if there are none.
    pub groups: Vec<Vec<usize>>,
}

impl Structure {
    /// Recognises what there is.
    #[must_use]
    pub fn of(graph: &Graph, network: &Network) -> Self {
        let neighbours = neighbours(network);
        Self {
            directors: directors(graph, network, &neighbours),
            groups: groups(network, &neighbours),
        }
    }

    /// Whether neither directors nor groups were recognised.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.directors.is_empty() && self.groups.is_empty()
    }

    /// The spine boards of all directors, in ascending order.
    pub(crate) fn spine_boards(&self) -> Vec<usize> {
        let boards = self.directors.iter().flat_map(|one| &one.spine_boards);
        let sorted: BTreeSet<usize> = boards.copied().collect();
        sorted.into_iter().collect()
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for one in &self.directors {
            let size = (one.leaf_boards.len(), one.spine_boards.len());
            *kinds.entry(size).or_default() += 1;
        }
        let mut parts: Vec<String> = kinds
            .into_iter()
            .map(|((leaves, spines), count)| {
                format!(
                    "{count} director switch{} of {leaves} leaf and {spines} spine boards",
                    if count == 1 { "" } else { "es" }
                )
            })
            .collect();
        let sizes = self.groups.iter().map(Vec::len);
        if let (Some(least), Some(most)) = (sizes.clone().min(), sizes.max()) {
            let size = if least == most {
                least.to_string()
            } else {
                format!("{least} to {most}")
            };
            let count = self.groups.len();
            parts.push(format!(
                "{count} groups of {size} switches, joined as in a dragonfly"
            ));
        }
        f.write_str(&parts.join("; "))
    }
}

/// By switch, the switches that it has cables to.
fn neighbours(network: &Network) -> Vec<BTreeSet<usize>> {
    let of = |switch| {
        network
            .leaving(switch)
            .map(|channel| network.channels()[channel].to)
            .collect()
    };
    (0..network.switches().len()).map(of).collect()
}

fn directors(graph: &Graph, network: &Network, neighbours: &[BTreeSet<usize>]) -> Vec<Director> {
    let mut chassis: BTreeMap<Guid, BTreeSet<usize>> = BTreeMap::new();
    for (switch, &node) in network.switches().iter().enumerate() {
        let image = graph.node(node).system_image_guid;
        if image != Guid(0) {
            chassis.entry(image).or_default().insert(switch);
        }
    }
    let found = chassis
        .into_iter()
        .filter_map(|(image, boards)| director(network, neighbours, image, &boards));
    found.collect()
}

fn director(
    network: &Network,
    neighbours: &[BTreeSet<usize>],
    system_image_guid: Guid,
    boards: &BTreeSet<usize>,
) -> Option<Director> {
    let leads_out = |board: &usize| {
        let mut hosts = network.hosts_at()[*board].iter();
        hosts.any(|&host| !network.hosts()[host].is_aggregation_node)
            || !neighbours[*board].is_subset(boards)
    };
    // Sides by distance from one board that leads out.
    let first = boards.iter().find(|board| leads_out(board))?;
    let mut sides = BTreeMap::from([(*first, true)]);
    let mut open = vec![*first];
    while let Some(board) = open.pop() {
        let is_leaf = sides[&board];
        for &other in neighbours[board].intersection(boards) {
            match sides.get(&other) {
                Some(&side) if side == is_leaf => return None,
                Some(_) => {}
                None => {
                    sides.insert(other, !is_leaf);
                    open.push(other);
                }
            }
        }
    }
    let side = |wanted: bool| -> Vec<usize> {
        let of = sides.iter().filter(|&(_, &is_leaf)| is_leaf == wanted);
        of.map(|(&board, _)| board).collect()
    };
    let (leaf_boards, spine_boards) = (side(true), side(false));
    let is_whole = sides.len() == boards.len() && leaf_boards.len() > 1;
    let is_closed = !spine_boards.is_empty() && !spine_boards.iter().any(leads_out);
    (is_whole && is_closed).then_some(Director {
        system_image_guid,
        leaf_boards,
        spine_boards,
    })
}

/// The groups of a dragonfly-like fabric; none if it is no such.
fn groups(network: &Network, neighbours: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let Some(group_of) = with_hostless(network, neighbours, &alike(neighbours)) else {
        return Vec::new();
    };
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (switch, &group) in group_of.iter().enumerate() {
        groups.entry(group).or_default().push(switch);
    }
    let is_small = groups.len() < GROUPS_MIN || groups.values().any(|group| group.len() < 2);
    if is_small || !are_groups(network, &group_of, groups.len()) {
        return Vec::new();
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort();
    groups
}

/// By switch, the first of those whose neighbours are mostly the same as its own or another's of them:
/// more than half of what either has with itself, of two that are joined; half of what either has, but
/// two, of others.
fn alike(neighbours: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut sets = DisjointSets::new(neighbours.len());
    for one in 0..neighbours.len() {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for &between in &neighbours[one] {
            for &other in neighbours[between].iter().filter(|&&other| other > one) {
                *shared.entry(other).or_default() += 1;
            }
        }
        for (other, shared) in shared {
            let least = neighbours[one].len().min(neighbours[other].len());
            let is_alike = if neighbours[one].contains(&other) {
                2 * (shared + 2) > least + 1
            } else {
                shared > 1 && 2 * shared >= least
            };
            if is_alike {
                sets.join(one, other);
            }
        }
    }
    sets.into_firsts()
}

/// The sets, with those that have no hosts joined to the only one with hosts that they have cables to;
/// `None` if such a one has cables to several or none.
fn with_hostless(
    network: &Network,
    neighbours: &[BTreeSet<usize>],
    sets: &[usize],
) -> Option<Vec<usize>> {
    let has_hosts = |switch: &usize| {
        let mut hosts = network.hosts_at()[*switch].iter();
        hosts.any(|&host| !network.hosts()[host].is_aggregation_node)
    };
    let served: BTreeSet<usize> = (0..sets.len())
        .filter(has_hosts)
        .map(|switch| sets[switch])
        .collect();
    let mut beside: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (switch, &set) in sets.iter().enumerate() {
        if !served.contains(&set) {
            let around = neighbours[switch].iter().map(|&other| sets[other]);
            let around = around.filter(|other| served.contains(other));
            beside.entry(set).or_default().extend(around);
        }
    }
    let goes_with = |set: usize| match beside.get(&set) {
        None => Some(set),
        Some(around) if around.len() == 1 => around.first().copied(),
        Some(_) => None,
    };
    sets.iter().map(|&set| goes_with(set)).collect()
}

/// Whether most pairs of groups are joined, and each group has more cables within than to any other.
fn are_groups(network: &Network, group_of: &[usize], count: usize) -> bool {
    let mut cables: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for channel in network.channels() {
        let pair = (group_of[channel.from], group_of[channel.to]);
        *cables.entry(pair).or_default() += 1;
    }
    let within = |group: usize| cables.get(&(group, group)).copied().unwrap_or(0);
    let between = || cables.iter().filter(|((a, b), _)| a != b);
    between().count() * PAIRS >= count * (count - 1) * JOINED
        && between().all(|(&(group, _), &cables)| cables < within(group))
}
