//! Requests one after the other, and what comes of them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use routing::clos::{ControlError, Controller, Mode, Paull, Reason, Window};

use crate::requests::plan::{Policy, Size};
use sim::index;

/// Draws of an idle pair before it is given up.
const ATTEMPTS: u32 = 100;
/// Wishes that a host has at a time, in windows.
const WISHES: usize = 2;
/// Windows for which a connection goes on once it stands, on the average.
const WINDOWS_MEAN: u32 = 2;

/// What came of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Requests; but for windows, all between leaves.
    pub(super) requests: u64,
    /// Those that found no tree.
    pub(super) blocked: u64,
    /// Those for which others were moved.
    pub(super) moving: u64,
    /// Connections moved.
    pub(super) moves: u64,
    /// The most for one request; of windows, in one window.
    pub(super) moves_max: u64,
    /// Of windows: how often a request was put off because of its source, its destination.
    pub(super) source_busy: u64,
    /// See [`Outcome::source_busy`].
    pub(super) destination_busy: u64,
    /// Of windows: how many there were.
    pub(super) windows: u64,
    /// Of windows: connections, each window's counted anew.
    pub(super) connections: u64,
}

/// The matrix, and who is idle. Hosts are numbered leaf by leaf.
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

    /// Asks for a connection between leaves; whether it stands.
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

/// Requests one by one between leaves, from idle hosts to idle hosts. Where so many stand that the
/// occupancy is reached, two connections end first, drawn like everything else: with one, the only
/// idle pair could be the one that has ended. A request that is blocked is lost, and a connection
/// ends after it: else the few idle hosts would ask for the same in the same state for ever. One
/// ends as well where only hosts of one leaf are idle.
pub(super) fn random(
    (size, trees, policy): (Size, u32, Policy),
    occupancy_percent: u8,
    requests: u32,
    seed: u64,
) -> Outcome {
    let hosts = index(size.leaves) * index(size.hosts);
    let most = (hosts * usize::from(occupancy_percent)).div_ceil(100);
    let mut standing = Standing {
        network: Network::new(size, trees, policy),
        sources: (0..hosts).collect(),
        destinations: (0..hosts).collect(),
        pairs: Vec::with_capacity(hosts),
        random: ChaCha8Rng::seed_from_u64(seed),
    };
    for _ in 0..requests {
        if standing.pairs.len() >= most.max(1) {
            standing.end_one();
            standing.end_one();
        }
        let pair = standing.draw();
        if !pair.is_some_and(|pair| standing.request(pair)) {
            standing.end_one();
        }
    }
    standing.network.outcome
}

/// Connections, and who is idle.
struct Standing {
    network: Network,
    sources: Vec<usize>,
    destinations: Vec<usize>,
    pairs: Vec<(usize, usize)>,
    random: ChaCha8Rng,
}

impl Standing {
    fn end_one(&mut self) {
        if self.pairs.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.pairs.len());
        let (source, destination) = self.pairs.swap_remove(at);
        self.network.end(source, destination);
        self.sources.push(source);
        self.destinations.push(destination);
    }

    /// Places among the idle of a source and a destination at different leaves.
    fn draw(&mut self) -> Option<(usize, usize)> {
        if self.sources.is_empty() || self.destinations.is_empty() {
            return None;
        }
        for _ in 0..ATTEMPTS {
            let from = self.random.random_range(0..self.sources.len());
            let to = self.random.random_range(0..self.destinations.len());
            let leaf = |host| self.network.leaf(host);
            if leaf(self.sources[from]) != leaf(self.destinations[to]) {
                return Some((from, to));
            }
        }
        None
    }

    /// Whether it stands.
    fn request(&mut self, (from, to): (usize, usize)) -> bool {
        let (source, destination) = (self.sources[from], self.destinations[to]);
        let stands = self.network.request(source, destination);
        if stands {
            self.sources.swap_remove(from);
            self.destinations.swap_remove(to);
            self.pairs.push((source, destination));
        }
        stands
    }
}

/// The sequence that leaves the last request no tree if there are only 2n - 2 and the first free
/// one is always taken: n - 1 connections of its leaf hold the first n - 1 trees, and n - 1 to its
/// destination's leaf, from leaves whose other connections hold the first n - 1, all others.
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

/// Windows of the controller. A host has two wishes at most; each stays until it has been granted,
/// and for some windows more. Wishes are to any other host.
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
    let mut wishes: Vec<(usize, [Option<usize>; WISHES])> =
        (0..hosts).map(|host| (host, [None; WISHES])).collect();
    // A window without a new request is rare; so many end in any case.
    while outcome.requests < requests.into() && outcome.windows < requests.into() {
        let mut asked = Vec::with_capacity(WISHES * hosts);
        for (host, wishes) in &mut wishes {
            for wish in wishes.iter_mut() {
                if wish.is_none() && random.random_range(0..100u8) < occupancy_percent {
                    let drawn = random.random_range(0..hosts - 1);
                    *wish = Some(drawn + usize::from(drawn >= *host));
                    outcome.requests += 1;
                }
                asked.extend(wish.map(|to| (*host, to)));
            }
        }
        let window = controller.window(&asked)?;
        outcome.count(&window);
        for granted in &window.admitted {
            let own = &mut wishes[granted.source].1;
            let mut served = own.iter_mut();
            let served = served.find(|wish| **wish == Some(granted.destination));
            if let Some(served) = served
                && random.random_range(0..WINDOWS_MEAN) == 0
            {
                *served = None;
            }
        }
    }
    Ok(outcome)
}

impl Outcome {
    fn count(&mut self, window: &Window) {
        let number = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let moved = number(window.moved.len());
        self.windows += 1;
        self.connections += number(window.admitted.len());
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
