//! Path selection by the load that results: each pair of hosts takes, of a few alternatives, the one
//! whose busiest channel carries the least, and takes again until no pair changes its path.
//!
//! LID07 names Koibuchi's path selection without saying how alternatives are weighed.
//! [`path_selection`](super::path_selection()) counts alternatives, which says where traffic could meet;
//! here flows that were chosen are counted, which says where it does. The alternatives of a pair are its
//! first few legal paths in order of length, then of channels: with more of them, paths of a destination
//! differ more than its LIDs are worth (128 hosts on 16 switches: 452 LIDs by colouring with four
//! alternatives, 495 with six, 517 with eight, at equal loads).
//!
//! Shapes: one path for each ordered pair of hosts. Cost: at most 20 times pairs, alternatives and hops, plus the listing of the legal paths.

use wire::convert::usize_of;

use super::LidError;
use super::routes::{Routes, RoutesBuilder};
use crate::network::{LegalPaths, Network, PathLimit, UpDown};

/// How often each pair may choose; on random graphs of 16 to 64 switches nothing changes after about ten.
const PASSES_MAX: u32 = 20;

/// Routes for every pair of hosts, each over one of its first `alternatives_max` legal paths.
///
/// Pairs choose in the order of sources, then of destinations. Ties: the shorter path, then the one that
/// the pair has, then the first one.
///
/// # Errors
/// [`LidError::Paths`] if two switches have more alternatives than `limit.paths_max`;
/// [`LidError::NotConnected`].
pub fn load_selection(
    network: &Network,
    updown: &UpDown,
    limit: PathLimit,
    alternatives_max: usize,
) -> Result<Routes, LidError> {
    let mut selection = Selection::new(network, updown, limit, alternatives_max)?;
    for _ in 0..PASSES_MAX {
        if !selection.pass() {
            break;
        }
    }
    Ok(selection.routes())
}

struct Selection<'n> {
    network: &'n Network,
    /// `alternatives[target][source]`, by switch; empty to switches without hosts.
    alternatives: Vec<Vec<Vec<Vec<u32>>>>,
    /// By source and destination (`hosts * source + destination`): which alternative; `None` as long as
    /// nothing was chosen, and between hosts of one switch.
    chosen: Vec<Option<usize>>,
    /// By channel: flows that cross it.
    loads: Vec<u32>,
}

impl<'n> Selection<'n> {
    fn new(
        network: &'n Network,
        updown: &UpDown,
        limit: PathLimit,
        alternatives_max: usize,
    ) -> Result<Self, LidError> {
        let mut alternatives = Vec::new();
        for (target, destinations) in network.hosts_at().iter().enumerate() {
            if destinations.is_empty() {
                alternatives.push(Vec::new());
                continue;
            }
            let paths = LegalPaths::to(network, updown, target, limit)?;
            let mut to_target = Vec::new();
            for (switch, sources) in network.hosts_at().iter().enumerate() {
                let paths = paths.from(switch);
                if paths.is_empty() && !sources.is_empty() {
                    return Err(LidError::NotConnected);
                }
                to_target.push(
                    paths
                        .iter()
                        .take(alternatives_max.max(1))
                        .cloned()
                        .collect(),
                );
            }
            alternatives.push(to_target);
        }
        let hosts = network.hosts().len();
        Ok(Self {
            network,
            alternatives,
            chosen: vec![None; hosts * hosts],
            loads: vec![0; network.channels().len()],
        })
    }

    /// The alternatives of a pair of hosts; none at one switch.
    fn of_pair(&self, source: usize, destination: usize) -> &[Vec<u32>] {
        let hosts = self.network.hosts();
        let (from, to) = (hosts[source].switch, hosts[destination].switch);
        if from == to {
            return &[];
        }
        &self.alternatives[to][from]
    }

    /// Every pair chooses; whether any has chosen another path than before.
    fn pass(&mut self) -> bool {
        let hosts = self.network.hosts().len();
        let mut has_changed = false;
        for source in 0..hosts {
            for destination in 0..hosts {
                let before = self.chosen[hosts * source + destination];
                self.count(source, destination, false);
                let busiest = |path: &Vec<u32>| {
                    let loads = path.iter().map(|&channel| self.loads[usize_of(channel)]);
                    loads.max().unwrap_or(0)
                };
                let paths = self.of_pair(source, destination).iter().enumerate();
                let best = paths.min_by_key(|&(place, path)| {
                    (busiest(path), path.len(), before != Some(place), place)
                });
                let best = best.map(|(place, _)| place);
                has_changed |= best != before;
                self.chosen[hosts * source + destination] = best;
                self.count(source, destination, true);
            }
        }
        has_changed
    }

    /// Adds the flow of a pair to the loads of its path, or takes it away.
    fn count(&mut self, source: usize, destination: usize, is_added: bool) {
        let hosts = self.network.hosts();
        let Some(place) = self.chosen[hosts.len() * source + destination] else {
            return;
        };
        let (from, to) = (hosts[source].switch, hosts[destination].switch);
        for &channel in &self.alternatives[to][from][place] {
            let load = &mut self.loads[usize_of(channel)];
            *load = if is_added { *load + 1 } else { *load - 1 };
        }
    }

    fn routes(&self) -> Routes {
        let hosts = self.network.hosts();
        let mut routes = RoutesBuilder::new(hosts.len());
        for (source, port) in hosts.iter().enumerate() {
            for destination in (0..hosts.len()).filter(|&other| other != source) {
                let chosen = self.chosen[hosts.len() * source + destination];
                let paths = self.of_pair(source, destination);
                let path = chosen.map_or(&[][..], |place| &paths[place]);
                routes.set(port.switch, source, destination, path);
            }
        }
        routes.finish()
    }
}
