//! Generates sequences of requests and counts their outcomes.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use routing::clos::{ControlError, Controller, Mode, Paull, Reason, Window};
use wire::convert::u64_of;

use crate::requests::plan::{Policy, Size};
use sim::index;

/// Attempts at drawing an idle pair with hosts at different leaves.
const ATTEMPTS: u32 = 100;
/// Requests that a host has pending at a time, in windows.
const PENDING_MAX: usize = 2;
/// Mean number of windows for which an established connection stays.
const WINDOWS_MEAN: u32 = 2;

/// Counters of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Requests. Except in windows, all are between leaves.
    pub(super) requests: u64,
    /// Requests for which no tree was free.
    pub(super) blocked: u64,
    /// Requests for which connections were moved.
    pub(super) moving: u64,
    /// Connections moved.
    pub(super) moves: u64,
    /// The most connections moved for one request; with windows, in one window.
    pub(super) moves_max: u64,
    /// Windows: how often a request was deferred because its source was busy.
    pub(super) source_busy: u64,
    /// Windows: how often a request was deferred because its destination was busy.
    pub(super) destination_busy: u64,
    /// Windows: their number.
    pub(super) windows: u64,
    /// Windows: connections, summed over all windows.
    pub(super) connections: u64,
}

/// Paull's matrix and the counters. Hosts are numbered leaf by leaf.
struct Network {
    size: Size,
    trees: usize,
    policy: Policy,
    paull: Paull<usize>,
    outcome: Outcome,
}

impl Network {
    fn new(size: Size, trees: u32, policy: Policy) -> Self {
        Self {
            size,
            trees: index(trees),
            policy,
            paull: Paull::new(index(size.leaves), index(trees)),
            outcome: Outcome::default(),
        }
    }

    fn leaf(&self, host: usize) -> usize {
        host / index(self.size.hosts)
    }

    /// Requests a connection between leaves; returns whether it is established.
    fn request(&mut self, source: usize, destination: usize) -> bool {
        let (row, column) = (self.leaf(source), self.leaf(destination));
        self.outcome.requests += 1;
        let moves = match self.policy {
            Policy::Fixed => self.paull.connect(source, row, column).map(|_| 0),
            Policy::Rearrange => {
                let found = self.paull.rearrange(source, row, column);
                found.map(|(_, moves)| moves.len())
            }
        };
        let Some(moves) = moves.and_then(|moves| u64::try_from(moves).ok()) else {
            self.outcome.blocked += 1;
            return false;
        };
        self.outcome.moving += u64::from(moves > 0);
        self.outcome.moves += moves;
        self.outcome.moves_max = self.outcome.moves_max.max(moves);
        true
    }

    fn end(&mut self, source: usize, destination: usize) {
        let (row, column) = (self.leaf(source), self.leaf(destination));
        let is_own = |&tree: &usize| self.paull.sender(row, tree) == Some(source);
        if let Some(tree) = (0..self.trees).find(is_own) {
            self.paull.remove(row, column, tree);
        }
    }
}

/// Requests one by one between leaves, from idle hosts to idle hosts. Once the occupancy is
/// reached, two random connections end before each request: with only one, the only idle pair could
/// be the one that has just ended. A blocked request is lost, and a random connection ends after
/// it: otherwise the few idle hosts would repeat the same request in the same state. One also ends
/// if all idle hosts are at one leaf.
pub(super) fn random(
    (size, trees, policy): (Size, u32, Policy),
    occupancy_percent: u8,
    requests: u32,
    seed: u64,
) -> Outcome {
    let hosts = index(size.leaves) * index(size.hosts);
    let most = (hosts * usize::from(occupancy_percent)).div_ceil(100);
    let mut connections = Connections {
        network: Network::new(size, trees, policy),
        idle_sources: (0..hosts).collect(),
        idle_destinations: (0..hosts).collect(),
        established: Vec::with_capacity(hosts),
        random: ChaCha8Rng::seed_from_u64(seed),
    };
    for _ in 0..requests {
        if connections.established.len() >= most.max(1) {
            connections.end_one();
            connections.end_one();
        }
        let pair = connections.draw();
        if !pair.is_some_and(|pair| connections.request(pair)) {
            connections.end_one();
        }
    }
    connections.network.outcome
}

/// Established connections, and the hosts that are idle as source or as destination.
struct Connections {
    network: Network,
    idle_sources: Vec<usize>,
    idle_destinations: Vec<usize>,
    established: Vec<(usize, usize)>,
    random: ChaCha8Rng,
}

impl Connections {
    /// Ends a random connection, if there is one.
    fn end_one(&mut self) {
        if self.established.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.established.len());
        let (source, destination) = self.established.swap_remove(at);
        self.network.end(source, destination);
        self.idle_sources.push(source);
        self.idle_destinations.push(destination);
    }

    /// Draws an idle source and an idle destination at different leaves: their positions in the
    /// lists.
    fn draw(&mut self) -> Option<(usize, usize)> {
        if self.idle_sources.is_empty() || self.idle_destinations.is_empty() {
            return None;
        }
        for _ in 0..ATTEMPTS {
            let from = self.random.random_range(0..self.idle_sources.len());
            let to = self.random.random_range(0..self.idle_destinations.len());
            let leaf = |host| self.network.leaf(host);
            if leaf(self.idle_sources[from]) != leaf(self.idle_destinations[to]) {
                return Some((from, to));
            }
        }
        None
    }

    /// Requests the connection between two positions of the lists; returns whether it is
    /// established.
    fn request(&mut self, (from, to): (usize, usize)) -> bool {
        let (source, destination) = (self.idle_sources[from], self.idle_destinations[to]);
        let is_established = self.network.request(source, destination);
        if is_established {
            self.idle_sources.swap_remove(from);
            self.idle_destinations.swap_remove(to);
            self.established.push((source, destination));
        }
        is_established
    }
}

/// The sequence whose last request finds no tree if there are only 2n - 2 and the first free one
/// is always taken. At the leaf of its source, n - 1 connections use the first n - 1 trees. At the
/// leaf of its destination, n - 1 connections use the other n - 1: they come from leaves at which
/// other connections use the first n - 1.
///
/// ```text
///   leaf      0 (a)   1 (b)   2        3 ...      n
///   trees  n-1 to n        n-1 to 0  n-1 to 2   n-1 to n-1
///                          1 to b    1 to b     1 to b        last: a to b
/// ```
pub(super) fn worst((size, trees, policy): (Size, u32, Policy)) -> Outcome {
    let mut network = Network::new(size, trees, policy);
    let n = index(size.hosts);
    let host = |leaf: usize, place: usize| leaf * n + place;
    for leaf in 2..=n {
        let filled = if leaf == 2 { 0 } else { leaf - 1 };
        for place in 0..n - 1 {
            network.request(host(leaf, place), host(filled, place));
        }
        network.request(host(leaf, n - 1), host(1, leaf - 2));
    }
    for place in 0..n - 1 {
        network.request(host(0, place), host(n, place));
    }
    network.request(host(0, n - 1), host(1, n - 1));
    network.outcome
}

/// Windows of the connection controller. A host has at most two pending requests, each to any other
/// host. A request is repeated in every window until it is admitted, and then for a random number of
/// further windows.
pub(super) fn windows(
    (size, trees): (Size, u32),
    occupancy_percent: u8,
    requests: u32,
    seed: u64,
) -> Result<Outcome, ControlError> {
    let hosts = index(size.leaves) * index(size.hosts);
    let leaf_of = (0..hosts).map(|host| host / index(size.hosts)).collect();
    let mut controller = Controller::new(leaf_of, index(trees), Mode::Rearrange)?;
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut outcome = Outcome::default();
    let mut pending: Vec<(usize, [Option<usize>; PENDING_MAX])> =
        (0..hosts).map(|host| (host, [None; PENDING_MAX])).collect();
    // The number of windows is limited too: some windows have no new request.
    while outcome.requests < requests.into() && outcome.windows < requests.into() {
        let mut asked = Vec::with_capacity(PENDING_MAX * hosts);
        for (host, slots) in &mut pending {
            for slot in slots.iter_mut() {
                if slot.is_none() && random.random_range(0..100u8) < occupancy_percent {
                    let drawn = random.random_range(0..hosts - 1);
                    *slot = Some(drawn + usize::from(drawn >= *host));
                    outcome.requests += 1;
                }
                asked.extend(slot.map(|to| (*host, to)));
            }
        }
        let window = controller.window(&asked)?;
        outcome.count(&window);
        for admitted in &window.admitted {
            let mut slots = pending[admitted.source].1.iter_mut();
            let slot = slots.find(|slot| **slot == Some(admitted.destination));
            if let Some(slot) = slot
                && random.random_range(0..WINDOWS_MEAN) == 0
            {
                *slot = None;
            }
        }
    }
    Ok(outcome)
}

impl Outcome {
    fn count(&mut self, window: &Window) {
        let moved = u64_of(window.moved.len());
        self.windows += 1;
        self.connections += u64_of(window.admitted.len());
        self.moves += moved;
        self.moving += u64::from(moved > 0);
        self.moves_max = self.moves_max.max(moved);
        for deferred in &window.deferred {
            match deferred.reason {
                Reason::SourceBusy => self.source_busy += 1,
                Reason::DestinationBusy => self.destination_busy += 1,
                Reason::Blocked => self.blocked += 1,
            }
        }
    }
}
