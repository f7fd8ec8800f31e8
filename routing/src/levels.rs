//! The levels of a tree.
//!
//! Leaf switches are at level 0, and every other switch is as high as it is far from the nearest of
//! them. It is a tree of levels if every cable joins two levels that follow each other.
//!
//! Which switches are leaf switches is not in the cables: switches of higher levels may have hosts of
//! their own (managers, gateways, storage). Aggregation nodes do not count: every switch may have one. Five
//! readings are tried: all switches with hosts are leaf
//! switches, or only those whose share of hosts among their cables is an eighth, a quarter or half of
//! the largest such share at least; or, where leaf switches have few hosts themselves, all but those that have cables to
//! many leaf switches: one by one the switch with the most such cables for each of its hosts is none, as long as there are
//! such cables, and all of these together have no more than one host in [`BESIDE_LEAVES`].

use crate::network::Network;

/// By switch its level, from 0 at the leaves.
pub(crate) type Levels = Vec<u32>;

/// A cable that leads neither up nor down, by one of its channels, and the level of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    pub(crate) channel: usize,
    pub(crate) level: u32,
}

/// One host in so many may be at switches that are taken for no leaf switches because of their cables.
const BESIDE_LEAVES: usize = 4;

/// All readings that make a tree of levels, without repetition; if there are none, what is wrong with
/// the first; `None` if no switch has a host.
pub(crate) fn levels(network: &Network) -> Option<Result<Vec<Levels>, Crossing>> {
    let hosts = hosts(network);
    let share = |switch: usize| (hosts[switch], hosts[switch] + network.leaving(switch).len());
    let with_hosts: Vec<usize> = (0..hosts.len())
        .filter(|&switch| hosts[switch] > 0)
        .collect();
    let largest = with_hosts.iter().map(|&switch| share(switch));
    let (most, of) = largest.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))?;
    let readings = [usize::MAX, 8, 4, 2].map(|part| {
        let is_leaf = |&&switch: &&usize| {
            let (hosts, cables) = share(switch);
            part == usize::MAX || hosts * of * part >= most * cables
        };
        with_hosts.iter().filter(is_leaf).copied().collect()
    });
    let by_cables = without_cables_between(network, &hosts, &with_hosts);
    let mut found: Vec<Levels> = Vec::new();
    let mut wrong = None;
    for leaves in readings.into_iter().chain(by_cables) {
        match from_leaves(network, &leaves) {
            Ok(levels) if !found.contains(&levels) => found.push(levels),
            Ok(_) => {}
            Err(crossing) => wrong = wrong.or(Some(crossing)),
        }
    }
    Some(match wrong {
        Some(crossing) if found.is_empty() => Err(crossing),
        _ => Ok(found),
    })
}

/// By switch: how many hosts are at it, without aggregation nodes unless there are no others.
fn hosts(network: &Network) -> Vec<usize> {
    let count = |also: bool| -> Vec<usize> {
        let of = |hosts: &Vec<usize>| {
            let counts = |&&host: &&usize| also || !network.hosts()[host].is_aggregation_node;
            hosts.iter().filter(counts).count()
        };
        network.hosts_at().iter().map(of).collect()
    };
    let hosts = count(false);
    if hosts.iter().all(|&hosts| hosts == 0) {
        count(true)
    } else {
        hosts
    }
}

/// The switches with hosts but those that have the most cables to others that are left, until there are none
/// between them; `None` if those have too many of the hosts.
fn without_cables_between(
    network: &Network,
    hosts: &[usize],
    with_hosts: &[usize],
) -> Option<Vec<usize>> {
    let mut leaves = with_hosts.to_vec();
    let mut is_leaf = vec![false; hosts.len()];
    for &leaf in &leaves {
        is_leaf[leaf] = true;
    }
    let mut left_out = 0;
    let all: usize = hosts.iter().sum();
    loop {
        let crossings = |leaf: usize| {
            let leaving = network.leaving(leaf);
            let between = leaving.filter(|&channel| is_leaf[network.channels()[channel].to]);
            between.count()
        };
        let counted = leaves.iter().map(|&leaf| (crossings(leaf), leaf));
        let worst = counted.max_by(|a, b| (a.0 * hosts[b.1]).cmp(&(b.0 * hosts[a.1])));
        let Some((_, leaf)) = worst.filter(|&(crossings, _)| crossings > 0) else {
            return Some(leaves);
        };
        left_out += hosts[leaf];
        if left_out * BESIDE_LEAVES > all {
            return None;
        }
        is_leaf[leaf] = false;
        leaves.retain(|&other| other != leaf);
    }
}

/// Levels above these switches. Switches that no cable joins to any of them are at level 0.
fn from_leaves(network: &Network, leaves: &[usize]) -> Result<Levels, Crossing> {
    let hops = network.hops_from_any(leaves);
    let joined = |channel: &usize| hops[network.channels()[*channel].from].is_some();
    let crossing = (0..network.channels().len())
        .filter(joined)
        .find(|&channel| {
            let ends = network.channels()[channel];
            hops[ends.from] == hops[ends.to]
        });
    match crossing {
        Some(channel) => Err(Crossing {
            channel,
            level: hops[network.channels()[channel].from].unwrap_or(0),
        }),
        None => Ok(hops.into_iter().map(Option::unwrap_or_default).collect()),
    }
}
