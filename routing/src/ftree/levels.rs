//! The levels of a tree.
//!
//! Leaf switches are at level 0, and every other switch is as high as it is far from the nearest of
//! them. It is a tree of levels if every cable joins two levels that follow each other.
//!
//! Which switches are leaf switches is not in the cables: switches of higher levels may have hosts of
//! their own (managers, gateways, storage). Four readings are tried: all switches with hosts are leaf
//! switches, or only those whose share of hosts among their cables is an eighth, a quarter or half of
//! the largest such share at least.

use thiserror::Error;
use wire::PortNum;

use crate::network::Network;

/// How a fabric is no tree that `ftree` can use. Switches are named as in the graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotTree {
    /// A cable beside the levels.
    #[error(
        "the cable from port {port} of {switch} to port {other_port} of {other} joins two switches of \
         level {level} (leaf switches are level 0); in a tree every cable leads one level up or down"
    )]
    SameLevel {
        /// A switch.
        switch: String,
        /// Its port.
        port: PortNum,
        /// The switch at the other end.
        other: String,
        /// Its port.
        other_port: PortNum,
        /// The level of both.
        level: u32,
    },
    /// Two switches that no path joins which first goes up and then down, and no detour that is free
    /// of deadlock.
    #[error(
        "no path from {from} to {to} goes first up and then down, and no detour between them is free \
         of deadlock"
    )]
    NoPath {
        /// A switch.
        from: String,
        /// A switch.
        to: String,
    },
    /// No switch has a host.
    #[error("no switch has a host, so that there is no lowest level")]
    NoHost,
}

/// By switch its level, from 0 at the leaves.
pub(super) type Levels = Vec<u32>;

/// A cable that leads neither up nor down, by one of its channels, and the level of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crossing {
    pub(super) channel: usize,
    pub(super) level: u32,
}

/// All readings that make a tree of levels, without repetition; if there are none, what is wrong with
/// the first; `None` if no switch has a host.
pub(super) fn levels(network: &Network) -> Option<Result<Vec<Levels>, Crossing>> {
    let share = |switch: usize| {
        let hosts = network.hosts_at()[switch].len();
        (hosts, hosts + network.leaving(switch).len())
    };
    let with_hosts: Vec<usize> = (0..network.switches().len())
        .filter(|&switch| network.has_hosts(switch))
        .collect();
    let largest = with_hosts.iter().map(|&switch| share(switch));
    let (most, of) = largest.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))?;
    let mut found: Vec<Levels> = Vec::new();
    let mut wrong = None;
    for part in [usize::MAX, 8, 4, 2] {
        let is_leaf = |&&switch: &&usize| {
            let (hosts, cables) = share(switch);
            part == usize::MAX || hosts * of * part >= most * cables
        };
        let leaves: Vec<usize> = with_hosts.iter().filter(is_leaf).copied().collect();
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
