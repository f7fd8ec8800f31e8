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
    bisection(&Walker::new(graph, tables), pairings, seed)
}

/// The same for tables that are being walked already.
pub(super) fn bisection(walker: &Walker<'_>, pairings: u32, seed: u64) -> Bisection {
    let mut loads = vec![0u32; walker.network.channels().len()];
    // The channels of all paths, and where each path ends; `None` if it does not arrive.
    let (mut channels, mut ends) = (Vec::new(), Vec::new());
    let mut result = Bisection {
        pairings,
        worst: f64::INFINITY,
        ..Bisection::default()
    };
    for number in 0..pairings {
        let seed = seed.wrapping_add(u64::from(number));
        loads.fill(0);
        channels.clear();
        ends.clear();
        for (source, destination) in (Pattern::Bisection { seed }).pairs(walker.hosts()) {
            let first = channels.len();
            let from = walker.network.hosts()[source].switch;
            let arrives = walker.dlid(source, destination).is_some_and(|(_, lid)| {
                walker.walk(from, destination, lid, |channel| channels.push(channel))
            });
            if arrives {
                for &channel in &channels[first..] {
                    loads[channel] += 1;
                }
            } else {
                channels.truncate(first);
            }
            ends.push((channels.len(), arrives));
        }
        let mean = mean_share(&channels, &ends, &loads);
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

fn mean_share(channels: &[usize], ends: &[(usize, bool)], loads: &[u32]) -> f64 {
    let mut first = 0;
    let mut sum = 0.0;
    for &(end, arrives) in ends {
        if arrives {
            let most = channels[first..end].iter().map(|&channel| loads[channel]);
            // Within one switch nothing is shared.
            sum += 1.0 / f64::from(most.max().unwrap_or(1));
        }
        first = end;
    }
    sum / real(u64_of(ends.len().max(1)))
}
