//! Shortest widest paths: of the shortest legal ones, the one whose busiest channel is idlest.

use wire::convert::usize_of;

use super::LidError;
use super::routes::{Routes, RoutesBuilder};
use crate::network::{LegalPaths, Network, PathLimit, UpDown};

/// Routes for every pair of hosts in turn: for each source all destinations, both in order. (By
/// destination instead, the loads change little from one path to the next, the paths to a
/// destination come out more alike, and a quarter fewer LIDs are needed than LID07 reports.)
///
/// Among the shortest legal (up*/down*) paths a pair takes the one with the least load on its
/// busiest channel, then with the least sum of loads, then with the smallest channel numbers; it
/// then adds one to the load of each channel. Cost: hosts squared times the number of shortest
/// legal paths of a pair.
///
/// # Errors
/// [`LidError::Paths`] if two switches have more shortest legal paths than `paths_max`,
/// [`LidError::NotConnected`].
pub fn shortest_widest(
    network: &Network,
    updown: &UpDown,
    paths_max: usize,
) -> Result<Routes, LidError> {
    let limit = PathLimit {
        detour: 0,
        paths_max,
    };
    let listed = (0..network.switches().len())
        .map(|target| LegalPaths::to(network, updown, target, limit))
        .collect::<Result<Vec<_>, _>>()?;
    let hosts = network.hosts().len();
    let mut routes = RoutesBuilder::new(hosts);
    let mut loads = vec![0u32; network.channels().len()];
    for (source, from) in network.hosts().iter().enumerate() {
        for (destination, to) in network.hosts().iter().enumerate() {
            if source == destination {
                continue;
            }
            let widest = listed[to.switch]
                .from(from.switch)
                .iter()
                .min_by_key(|path| {
                    let load = |&channel: &u32| loads[usize_of(channel)];
                    (
                        path.iter().map(load).max(),
                        path.iter().map(load).sum::<u32>(),
                    )
                })
                .ok_or(LidError::NotConnected)?;
            for &channel in widest {
                loads[usize_of(channel)] += 1;
            }
            routes.set(from.switch, source, destination, widest);
        }
    }
    Ok(routes.finish())
}
