//! Verification by echo packets between pairs of hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::{StreamExt, stream};
use hostd::control::{Latency, PING_TARGETS_MAX, PingRequest, PingResult, Reply, Request};
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use wire::{Lid, Sl};

use crate::ask::{self, DeviceClient};
use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::paths::{self, Path};
use crate::state::FabricState;

/// How many hosts send at a time.
const SOURCES_AT_ONCE: usize = 8;
/// How many hosts each host pings in a sample, besides the next one.
const SAMPLED_PEERS: usize = 3;

/// The message about two hosts without a partition in common.
pub const APART: &str = "they have no partition in common (ibemu up --partitions)";

/// The parameters of all echo requests.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    /// Requests a pair.
    pub count: u32,
    /// Microseconds between two of them.
    pub interval_us: u32,
    /// Packet length, bytes.
    pub size: u16,
    /// Service level; `None` for the one that the path record names.
    pub sl: Option<Sl>,
    /// How long to wait for each answer, milliseconds.
    pub timeout_ms: u32,
    /// Which of the destination's LIDs; `None` for the one that the path record names.
    pub dlid_offset: Option<u16>,
}

/// One ordered pair of hosts, by position in the list of hosts.
pub type Pair = (usize, usize);

/// Every ordered pair of `hosts` hosts.
#[must_use]
pub fn all_pairs(hosts: usize) -> Vec<Pair> {
    (0..hosts)
        .flat_map(|source| (0..hosts).map(move |destination| (source, destination)))
        .filter(|(source, destination)| source != destination)
        .collect()
}

/// Some pairs of `hosts` hosts, the same for the same seed: every host pings the next one (so that
/// all send and all answer) and a few others.
#[must_use]
pub fn sampled_pairs(hosts: usize, seed: u64) -> Vec<Pair> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut pairs = BTreeSet::new();
    for source in 0..hosts {
        pairs.insert((source, (source + 1) % hosts));
        for destination in index::sample(&mut rng, hosts, SAMPLED_PEERS.min(hosts)) {
            pairs.insert((source, destination));
        }
    }
    pairs.retain(|(source, destination)| source != destination);
    pairs.into_iter().collect()
}

/// The result of one pair.
#[derive(Clone, Debug)]
pub struct PairResult {
    /// The pair.
    pub pair: Pair,
    /// The source's result.
    pub ping: PingResult,
    /// The fault; `None` if all requests were answered by the right host.
    pub fault: Option<String>,
    /// Whether the two have no partition in common: then nothing was sent, which is the fault.
    pub is_apart: bool,
}

/// Sends echo requests between `pairs` of `hosts`; `progress` is called with the number done. Pairs
/// that do not answer, and those whose source cannot be asked to send, are results with a fault.
pub async fn ping_pairs(
    dir: &FabricDir,
    state: &FabricState,
    hosts: &[HostLids],
    pairs: &[Pair],
    echo: Echo,
    progress: impl FnMut(usize),
) -> Vec<PairResult> {
    let never = std::future::pending();
    ping_pairs_until(dir, state, (hosts, pairs), echo, progress, never).await
}

/// As [`ping_pairs`], until `leave`: the results of those that have ended by then.
pub async fn ping_pairs_until(
    dir: &FabricDir,
    state: &FabricState,
    (hosts, pairs): (&[HostLids], &[Pair]),
    echo: Echo,
    mut progress: impl FnMut(usize),
    leave: impl Future<Output = ()>,
) -> Vec<PairResult> {
    tokio::pin!(leave);
    let by_source: Vec<&[Pair]> = pairs
        .chunk_by(|a, b| a.0 == b.0)
        .flat_map(|same| same.chunks(PING_TARGETS_MAX))
        .collect();
    let mut results = Vec::with_capacity(pairs.len());
    let mut asked = stream::iter(by_source)
        .map(|pairs| async move {
            let asked = ask_one(dir, state, hosts, pairs, echo).await;
            asked.unwrap_or_else(|error| not_asked(pairs, &error))
        })
        .buffer_unordered(SOURCES_AT_ONCE);
    loop {
        tokio::select! {
            some = asked.next() => match some {
                Some(some) => results.extend(some),
                None => break,
            },
            () = &mut leave => break,
        }
        progress(results.len());
    }
    results.sort_by_key(|result| result.pair);
    results
}

/// The results of pairs whose source cannot be asked.
fn not_asked(pairs: &[Pair], error: &anyhow::Error) -> Vec<PairResult> {
    let result = |&pair: &Pair| PairResult {
        pair,
        ping: nothing_sent(Lid::ZERO),
        fault: Some(format!("{error:#}")),
        is_apart: false,
    };
    pairs.iter().map(result).collect()
}

/// The result of the echo requests to a target that were not sent.
fn nothing_sent(dlid: Lid) -> PingResult {
    PingResult {
        dlid,
        sent: 0,
        received: 0,
        rtt: Latency::default(),
        responder: String::new(),
        responder_lid: Lid::ZERO,
    }
}

/// Echo requests from one source.
async fn ask_one(
    dir: &FabricDir,
    state: &FabricState,
    hosts: &[HostLids],
    pairs: &[Pair],
    echo: Echo,
) -> Result<Vec<PairResult>> {
    let Some(&(source, _)) = pairs.first() else {
        return Ok(Vec::new());
    };
    let to: Vec<&HostLids> = pairs.iter().map(|pair| &hosts[pair.1]).collect();
    let paths = addresses(dir, state, &hosts[source], &to, echo).await?;
    let mut by_level: BTreeMap<(Sl, u16), Vec<(usize, Lid)>> = BTreeMap::new();
    for (place, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_apart) {
        by_level
            .entry((path.sl, path.pkey))
            .or_default()
            .push((place, path.dlid));
    }
    let node = &state.nodes[hosts[source].node];
    let mut results: Vec<Option<PingResult>> = vec![None; pairs.len()];
    for ((sl, pkey), targets) in by_level {
        let request = PingRequest {
            targets: targets.iter().map(|&(_, dlid)| dlid).collect(),
            count: echo.count,
            interval_us: echo.interval_us,
            size: echo.size,
            sl,
            pkey,
            timeout_ms: echo.timeout_ms,
        };
        let mut client = DeviceClient::connect(dir, node, reply_timeout(&request)).await?;
        match client.host(&Request::Ping(request)).await? {
            Reply::Ping(some) if some.len() == targets.len() => {
                for (&(place, _), result) in targets.iter().zip(some) {
                    results[place] = Some(result);
                }
            }
            other => bail!("{}: {}", node.name, ask::unexpected(&other)),
        }
    }
    let results = pairs.iter().zip(&paths).zip(results);
    Ok(results
        .map(|((&pair, path), ping)| match ping {
            Some(ping) => PairResult {
                pair,
                fault: fault(&ping, &hosts[pair.1]),
                ping,
                is_apart: false,
            },
            None => PairResult {
                pair,
                ping: nothing_sent(path.dlid),
                fault: Some(APART.to_owned()),
                is_apart: true,
            },
        })
        .collect())
}

/// How each of `to` is addressed.
async fn addresses(
    dir: &FabricDir,
    state: &FabricState,
    from: &HostLids,
    to: &[&HostLids],
    echo: Echo,
) -> Result<Vec<Path>> {
    let mut addresses = match (echo.sl, echo.dlid_offset) {
        (Some(sl), Some(_)) => to
            .iter()
            .map(|to| Path {
                dlid: to.identity.lid,
                sl,
                pkey: 0,
                is_apart: false,
            })
            .collect(),
        _ => paths::from_host(dir, state, from, to).await,
    };
    for (path, to) in addresses.iter_mut().zip(to) {
        if let Some(offset) = echo.dlid_offset {
            path.dlid = to.with_offset(offset)?;
        }
        path.sl = echo.sl.unwrap_or(path.sl);
    }
    Ok(addresses)
}

/// How long the answer to `request` may take.
#[must_use]
pub fn reply_timeout(request: &PingRequest) -> Duration {
    let sending = Duration::from_micros(u64::from(request.interval_us)) * request.count;
    let last = Duration::from_millis(u64::from(request.timeout_ms));
    sending + last + ask::REQUEST_TIMEOUT
}

/// The fault of a result: `None` if the right host has answered every request.
fn fault(ping: &PingResult, destination: &HostLids) -> Option<String> {
    if ping.received == 0 {
        return Some("no answer".to_owned());
    }
    if ping.responder_lid != destination.identity.lid {
        return Some(format!("{} has answered", ping.responder));
    }
    let lost = ping.sent.saturating_sub(ping.received);
    (lost > 0).then(|| format!("{lost} of {} requests without answer", ping.sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs_are_all_but_a_host_with_itself() {
        assert_eq!(all_pairs(2), [(0, 1), (1, 0)]);
        assert_eq!(all_pairs(16).len(), 240);
        assert_eq!(all_pairs(1), []);
        assert_eq!(all_pairs(0), []);
    }

    #[test]
    fn in_a_sample_every_host_sends_and_answers_and_the_seed_decides() {
        for hosts in [2, 3, 65, 200] {
            let pairs = sampled_pairs(hosts, 7);
            assert_eq!(pairs, sampled_pairs(hosts, 7));
            let sources: BTreeSet<usize> = pairs.iter().map(|pair| pair.0).collect();
            let destinations: BTreeSet<usize> = pairs.iter().map(|pair| pair.1).collect();
            assert_eq!((sources.len(), destinations.len()), (hosts, hosts));
            assert!(pairs.iter().all(|(a, b)| a != b));
            assert!(pairs.len() <= hosts * (1 + SAMPLED_PEERS));
        }
        assert_ne!(sampled_pairs(100, 1), sampled_pairs(100, 2));
        assert_eq!(sampled_pairs(1, 1), []);
    }
}
