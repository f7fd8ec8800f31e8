//! Effective bisection bandwidth (Schneider, Hoefler, Lumsdaine: ORCS, an oblivious routing
//! congestion simulator, 2009).
//!
//! Hosts are halved at random and each host of one half sends to a partner in the other. A pair
//! gets one over the most flows on any link of its path, as a share of the link's rate; the mean of
//! that over all pairs and many such pairings is the measure. 1 is a crossbar.

use topologies::Graph;

use wire::convert::{real, u64_of};

use super::pattern::Pattern;
use super::walk::Walker;
use crate::tables::Tables;

/// The result of the pairings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bisection {
    /// Pairings drawn.
    pub pairings: u32,
    /// The mean share of the link rate that a pair gets; pairs without a path get nothing.
    pub mean: f64,
    /// The mean share of the worst pairing.
    pub worst: f64,
    /// The mean share of the best pairing.
    pub best: f64,
}

/// The effective bisection bandwidth over `pairings` random pairings. Pairing `i` is
/// [`Pattern::Bisection`] with seed `seed + i`.
#[must_use]
pub fn effective_bisection_bandwidth(
    graph: &Graph,
    tables: &Tables,
    pairings: u32,
    seed: u64,
) -> Bisection {
    let walker = Walker::new(graph, tables);
    let mut loads = vec![0u32; walker.network.channels().len()];
    let mut result = Bisection {
        pairings,
        worst: f64::INFINITY,
        ..Bisection::default()
    };
    for number in 0..pairings {
        let seed = seed.wrapping_add(u64::from(number));
        loads.fill(0);
        let mut paths: Vec<Option<Vec<usize>>> = Vec::new();
        for (source, destination) in (Pattern::Bisection { seed }).pairs(walker.hosts()) {
            let mut path = Vec::new();
            let from = walker.network.hosts()[source].switch;
            let arrives = walker.dlid(source, destination).is_some_and(|lid| {
                walker.walk(from, destination, lid, |channel| path.push(channel))
            });
            if arrives {
                for &channel in &path {
                    loads[channel] += 1;
                }
            }
            paths.push(arrives.then_some(path));
        }
        let share = |path: &Option<Vec<usize>>| match path {
            None => 0.0,
            // Within one switch nothing is shared.
            Some(path) => {
                let most = path.iter().map(|&channel| loads[channel]).max();
                1.0 / f64::from(most.unwrap_or(1))
            }
        };
        let count = real(u64_of(paths.len().max(1)));
        let mean = paths.iter().map(share).sum::<f64>() / count;
        result.mean += mean;
        result.worst = result.worst.min(mean);
        result.best = result.best.max(mean);
    }
    if pairings == 0 {
        result.worst = 0.0;
    } else {
        result.mean /= f64::from(pairings);
    }
    result
}
