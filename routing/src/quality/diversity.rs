//! How many different paths a destination's LIDs offer.

use topologies::Graph;

use wire::convert::{real, saturate};

use super::walk::Walker;
use crate::tables::Tables;

/// Different paths from a switch with hosts to a host at another, over all LIDs of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Diversity {
    /// (switch, host) pairs looked at.
    pub pairs: u64,
    /// The fewest different paths of a pair.
    pub min: u32,
    /// The most.
    pub max: u32,
    /// The mean.
    pub mean: f64,
}

/// Counts them. Cost: switches with hosts, times LIDs, times hops.
#[must_use]
pub fn path_diversity(graph: &Graph, tables: &Tables) -> Diversity {
    diversity(&Walker::new(graph, tables))
}

/// The same for tables that are being walked already.
pub(super) fn diversity(walker: &Walker<'_>) -> Diversity {
    let mut paths: Vec<Vec<usize>> = Vec::new();
    let hosts_at = walker.network.hosts_at();
    let (mut sum, mut result) = (0u64, Diversity::default());
    result.min = u32::MAX;
    for (host, port) in walker.network.hosts().iter().enumerate() {
        let Some(range) = walker.range(host) else {
            continue;
        };
        for (from, hosts) in hosts_at.iter().enumerate() {
            if hosts.is_empty() || from == port.switch {
                continue;
            }
            let mut arrived = 0;
            for lid in range.lids() {
                if arrived == paths.len() {
                    paths.push(Vec::new());
                }
                let path = &mut paths[arrived];
                path.clear();
                arrived += usize::from(walker.walk(from, host, lid, |channel| path.push(channel)));
            }
            let found = &mut paths[..arrived];
            found.sort_unstable();
            let different = found.chunk_by(|a, b| a == b).count();
            let count = saturate::<u32>(different);
            result.pairs += 1;
            result.min = result.min.min(count);
            result.max = result.max.max(count);
            sum += u64::from(count);
        }
    }
    if result.pairs == 0 {
        result.min = 0;
    } else {
        result.mean = real(sum) / real(result.pairs);
    }
    result
}
