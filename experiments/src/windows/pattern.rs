//! Who sends to whom, window by window, and when: the same for all schemes.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::Lid;

use crate::windows::scheme::Given;
use sim::{AddressVector, SendRequest, TrafficSource};
use sim::{index, number};
use sim::{mix, permutation};

/// By source: the destination. A permutation without a host that sends to itself, so that all
/// hosts send and hear as much as a link carries: the heaviest admissible traffic.
pub(super) type Pattern = Vec<u32>;

/// Attempts at drawing partners of which none is its own.
const ATTEMPTS: u32 = 1000;

/// Random numbers of one purpose and window.
pub(super) fn stream(seed: u64, window: u32) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(mix(seed, u64::from(window)))
}

/// The pattern of each window. Each connection goes on into the next window with the given
/// probability; the others exchange destinations at random.
pub(super) fn patterns(hosts: u32, windows: u32, keep_percent: u8, seed: u64) -> Vec<Pattern> {
    let mut pattern = permutation(hosts, seed);
    let mut patterns = Vec::with_capacity(index(windows));
    for window in 0..windows {
        if window > 0 {
            let random = &mut stream(mix(seed, 1), window);
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

/// When connections send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// Length of a window, nanoseconds.
    pub(super) window_ns: u64,
    /// How long before its end nothing is sent any more, nanoseconds.
    pub(super) guard_ns: u64,
    /// From packet to packet of a connection, picoseconds.
    pub(super) interval_ps: u64,
}

impl Clock {
    /// No connection sends more packets in so many windows.
    pub(super) fn packets_max(&self, windows: u32) -> usize {
        let a_window = self.window_ns * 1000 / self.interval_ps.max(1) + 1;
        usize::try_from(u64::from(windows) * a_window).unwrap_or(usize::MAX)
    }
}

/// The packets of all hosts in all windows: at a constant rate, the first one at a moment of the
/// first interval that each connection draws for each window. Packets to a host of the leaf
/// (`is_within`) count for flow 0, others for flow 1.
pub(super) fn programmes(
    patterns: &[Pattern],
    given: &[Given],
    clock: Clock,
    bytes: u16,
    seed: u64,
    is_within: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<TrafficSource>> {
    let hosts = patterns.first().map_or(0, Vec::len);
    let mut births: Vec<Vec<SendRequest>> = vec![Vec::new(); hosts];
    let window_ps = clock.window_ns * 1000;
    let sending_ps = window_ps - clock.guard_ns * 1000;
    for (window, (pattern, given)) in (0u32..).zip(patterns.iter().zip(given)) {
        let phases = &mut stream(mix(seed, 2), window);
        let trees = &mut stream(mix(seed, 3), window);
        for (source, &to) in pattern.iter().enumerate() {
            let flow = u32::from(!is_within(source, index(to)));
            let from_ps = u64::from(window) * window_ps;
            let mut at_ps = phases.random_range(0..clock.interval_ps.max(1));
            while at_ps < sending_ps {
                let address = AddressVector {
                    dlid: draw(&given.dlids[source], trees),
                    ..AddressVector::to_host(to, flow)
                };
                births[source].push(SendRequest {
                    at_ps: from_ps + at_ps,
                    address,
                    bytes: bytes.into(),
                });
                at_ps += clock.interval_ps.max(1);
            }
        }
    }
    let programme = |births: Vec<SendRequest>| vec![TrafficSource::Packets(Arc::from(births))];
    births.into_iter().map(programme).collect()
}

fn draw(dlids: &[Lid], random: &mut ChaCha8Rng) -> Option<Lid> {
    match dlids {
        [] => None,
        [one] => Some(*one),
        _ => Some(dlids[random.random_range(0..dlids.len())]),
    }
}
