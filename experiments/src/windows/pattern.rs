//! Traffic pattern and packet times of each window, the same for all schemes.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::Lid;
use wire::convert::usize_of;

use sim::{AddressVector, SendRequest, TrafficSource};
use sim::{index, number};
use sim::{permutation, split_mix};

/// The destination of each source: a permutation in which no host sends to itself. All hosts send
/// and receive as much as a link carries, which is the heaviest admissible traffic.
pub(super) type Pattern = Vec<u32>;

/// Attempts at drawing a permutation without fixed points.
const ATTEMPTS: u32 = 1000;

/// The random numbers for one purpose in one window.
pub(super) fn window_rng(seed: u64, window: u32) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(split_mix(seed, u64::from(window)))
}

/// The pattern of each window. Each connection continues in the next window with the given
/// probability; the others exchange destinations at random.
pub(super) fn patterns(hosts: u32, windows: u32, keep_percent: u8, seed: u64) -> Vec<Pattern> {
    let mut pattern = permutation(hosts, seed);
    let mut patterns = Vec::with_capacity(index(windows));
    for window in 0..windows {
        if window > 0 {
            let random = &mut window_rng(split_mix(seed, 1), window);
            change(&mut pattern, keep_percent, random);
        }
        patterns.push(pattern.clone());
    }
    patterns
}

fn change(pattern: &mut Pattern, keep_percent: u8, random: &mut ChaCha8Rng) {
    let ends = |_: &usize| random.random_range(0..100u8) >= keep_percent;
    let sources: Vec<usize> = (0..pattern.len()).filter(ends).collect();
    let mut free: Vec<u32> = sources.iter().map(|&source| pattern[source]).collect();
    for _ in 0..ATTEMPTS {
        free.shuffle(random);
        let pairs = || sources.iter().zip(&free);
        if pairs().all(|(&source, &to)| number(source) != to) {
            for (&source, &to) in pairs() {
                pattern[source] = to;
            }
            return;
        }
    }
}

/// When connections send within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowTiming {
    /// Length of a window, nanoseconds.
    pub(super) window_ns: u64,
    /// Guard time: nothing is sent so long before the end of a window, nanoseconds.
    pub(super) guard_ns: u64,
    /// From packet to packet of a connection, picoseconds.
    pub(super) interval_ps: u64,
}

impl WindowTiming {
    /// An upper limit of the packets of a connection in so many windows.
    pub(super) fn packets_max(&self, windows: u32) -> usize {
        let a_window = self.window_ns * 1000 / self.interval_ps.max(1) + 1;
        usize_of(u64::from(windows) * a_window)
    }
}

/// The paths of the connections of one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WindowPaths {
    /// By source: the DLIDs from which each packet takes a random one.
    pub(super) dlids: Vec<Vec<Lid>>,
    /// Connections that continued from the window before and were moved to another tree.
    pub(super) moved: u64,
}

/// The packets of all hosts in all windows: at a constant rate, the first one at a random time
/// of the first interval of each connection and window. Packets to a host of the same leaf
/// (`is_within`) count for flow 0, others for flow 1.
pub(super) fn traffic_sources(
    patterns: &[Pattern],
    window_paths: &[WindowPaths],
    timing: WindowTiming,
    bytes: u16,
    seed: u64,
    is_within: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<TrafficSource>> {
    let hosts = patterns.first().map_or(0, Vec::len);
    let mut requests: Vec<Vec<SendRequest>> = vec![Vec::new(); hosts];
    let window_ps = timing.window_ns * 1000;
    let sending_ps = window_ps - timing.guard_ns * 1000;
    for (window, (pattern, window_paths)) in (0u32..).zip(patterns.iter().zip(window_paths)) {
        let phases = &mut window_rng(split_mix(seed, 2), window);
        let trees = &mut window_rng(split_mix(seed, 3), window);
        for (source, &to) in pattern.iter().enumerate() {
            let flow = u32::from(!is_within(source, index(to)));
            let from_ps = u64::from(window) * window_ps;
            let mut at_ps = phases.random_range(0..timing.interval_ps.max(1));
            while at_ps < sending_ps {
                let address = AddressVector {
                    dlid: draw(&window_paths.dlids[source], trees),
                    ..AddressVector::to_host(to, flow)
                };
                requests[source].push(SendRequest {
                    at_ps: from_ps + at_ps,
                    address,
                    bytes: bytes.into(),
                });
                at_ps += timing.interval_ps.max(1);
            }
        }
    }
    let traffic_source =
        |requests: Vec<SendRequest>| vec![TrafficSource::Packets(Arc::from(requests))];
    requests.into_iter().map(traffic_source).collect()
}

fn draw(dlids: &[Lid], random: &mut ChaCha8Rng) -> Option<Lid> {
    match dlids {
        [] => None,
        [one] => Some(*one),
        _ => Some(dlids[random.random_range(0..dlids.len())]),
    }
}
