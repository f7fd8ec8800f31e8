//! Which pairs of hosts reach each other, all the time: every host sends echo requests to some others
//! at a steady interval, and what was not answered in time is missed.
//!
//! Time is that of the caller: a request counts as made before it is handed to the host's process, and
//! as answered when the process has reported, so that heal times are never too short by that.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, future};
use hostd::control::{PACKET_BYTES_MIN, PingRequest, Reply, Request};
use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;
use wire::convert::saturate;
use wire::{Lid, Sl};

use crate::ask::DeviceClient;
use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::paths::Path;
use crate::state::FabricState;
use crate::verify::{Pair, all_pairs};

/// An echo that takes longer is missed, milliseconds.
pub(super) const ECHO_TIMEOUT_MS: u32 = 400;
/// The shortest interval between two requests of a host.
const INTERVAL_MIN: Duration = Duration::from_millis(80);
/// What each pair adds to the interval: all pairs together send 2,500 echo requests a second at most.
const INTERVAL_OF_A_PAIR: Duration = Duration::from_micros(400);
/// Requests of a host under way at a time; a host serves eight.
const UNDER_WAY_MAX: usize = 6;
/// Up to so many hosts all pairs are probed, beyond it a sample.
pub(super) const ALL_HOSTS_MAX: usize = 16;
/// Hosts that each host probes in a sample, the next one among them.
const SAMPLED: usize = 2;

/// How hosts are addressed by each other: by source, then by destination, both positions in the list
/// of hosts.
pub(super) type Paths = BTreeMap<Pair, Path>;

/// One request and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub requested: Instant,
    pub replied: Instant,
    /// Hosts that were asked.
    pub asked: usize,
    /// Those that have not answered.
    pub missed: Vec<usize>,
}

/// The requests of one host.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// Those that are over, in the order in which they ended.
    entries: Vec<Entry>,
    /// When those were made that are under way.
    under_way: Vec<Instant>,
}

/// How traffic has fared since a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Healing {
    /// When the first echo request was sent that was missed.
    pub broke: Option<Instant>,
    /// Pairs that have missed one.
    pub missed: BTreeSet<Pair>,
    /// From when on every source has had all its answers; `None` while one has not. The moment itself
    /// if nothing was missed.
    pub healed: Option<Instant>,
    /// Pairs that have missed the latest.
    pub missing: BTreeSet<Pair>,
    /// Until when it is known of all sources what became of their requests.
    pub known: Option<Instant>,
    /// Echo requests that are over.
    pub echoes: usize,
    /// The longest time in which a source has sent none.
    pub gap: Duration,
}

/// Judges what `logs` have since a moment, up to `now`; `sources` are those that send.
pub(super) fn judge(
    logs: &[Log],
    since: Instant,
    now: Instant,
    sources: &BTreeSet<usize>,
) -> Healing {
    let mut healing = Healing {
        healed: Some(since),
        known: Some(now),
        ..Healing::default()
    };
    for &source in sources {
        judge_one(&mut healing, source, &logs[source], since);
    }
    healing
}

fn judge_one(healing: &mut Healing, source: usize, log: &Log, since: Instant) {
    let mut own: Vec<&Entry> = log
        .entries
        .iter()
        .filter(|entry| entry.requested >= since)
        .collect();
    own.sort_by_key(|entry| entry.requested);
    let mut last = since;
    for entry in &own {
        healing.gap = healing.gap.max(entry.requested.duration_since(last));
        healing.echoes += entry.asked;
        last = entry.requested;
    }
    let mut missed = own.iter().filter(|entry| !entry.missed.is_empty());
    if let Some(first) = missed.clone().next() {
        let others = healing.broke.unwrap_or(first.requested);
        healing.broke = Some(others.min(first.requested));
    }
    for entry in missed.clone() {
        let pairs = entry
            .missed
            .iter()
            .map(|&destination| (source, destination));
        healing.missed.extend(pairs);
    }
    let last_missed = missed.next_back();
    let answered = own
        .iter()
        .filter(|entry| last_missed.is_none_or(|missed| entry.requested > missed.requested))
        .map(|entry| entry.replied)
        .min();
    match (answered, last_missed) {
        (Some(_), None) => {}
        (Some(replied), Some(_)) => {
            healing.healed = healing.healed.map(|others| others.max(replied));
        }
        (None, missed) => {
            healing.healed = None;
            let pairs = missed.into_iter().flat_map(|entry| &entry.missed);
            healing.missing.extend(pairs.map(|&to| (source, to)));
        }
    }
    // A request under way may yet be missed.
    let oldest = log
        .under_way
        .iter()
        .filter(|requested| **requested >= since)
        .min();
    healing.known = match oldest {
        Some(&oldest) => healing.known.map(|known| known.min(oldest)),
        None => healing.known,
    };
}

/// The pairs of a round: all of a small fabric, else some, the same for the same seed and round. Every
/// host sends and every host answers.
pub(super) fn pairs(hosts: usize, seed: u64, round: u32) -> Vec<Pair> {
    if hosts <= ALL_HOSTS_MAX {
        return all_pairs(hosts);
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed.rotate_left(32) ^ u64::from(round));
    let mut drawn = BTreeSet::new();
    for source in 0..hosts {
        drawn.insert((source, (source + 1) % hosts));
        let others = index::sample(&mut random, hosts, SAMPLED).into_iter();
        let other = others.filter(|&other| other != source).take(SAMPLED - 1);
        drawn.extend(other.map(|other| (source, other)));
    }
    drawn.into_iter().collect()
}

/// Sends echo requests for as long as [`Prober::run`] is polled.
pub(super) struct Prober<'a> {
    dir: &'a FabricDir,
    state: &'a FabricState,
    hosts: &'a [HostLids],
    paths: &'a Paths,
    /// The pairs of the round, by source.
    plan: RefCell<Vec<Vec<usize>>>,
    interval: RefCell<Duration>,
    /// The part of the fabric that each host is in: hosts of one part are to reach each other.
    parts: RefCell<Vec<Option<usize>>>,
    logs: RefCell<Vec<Log>>,
}

impl<'a> Prober<'a> {
    pub(super) fn new(
        dir: &'a FabricDir,
        state: &'a FabricState,
        hosts: &'a [HostLids],
        paths: &'a Paths,
    ) -> Self {
        Self {
            dir,
            state,
            hosts,
            paths,
            plan: RefCell::new(vec![Vec::new(); hosts.len()]),
            interval: RefCell::new(INTERVAL_MIN),
            parts: RefCell::new(vec![None; hosts.len()]),
            logs: RefCell::new(vec![Log::default(); hosts.len()]),
        }
    }

    /// Probes these pairs from now on, as far as hosts may talk to each other at all.
    pub(super) fn plan(&self, pairs: &[Pair]) {
        let mut plan = vec![Vec::new(); self.hosts.len()];
        let reachable = |pair: &&Pair| self.paths.get(pair).is_some_and(|path| !path.is_apart);
        for &(source, destination) in pairs.iter().filter(reachable) {
            plan[source].push(destination);
        }
        *self.plan.borrow_mut() = plan;
        let pairs = saturate::<u32>(pairs.len());
        *self.interval.borrow_mut() = INTERVAL_MIN.max(INTERVAL_OF_A_PAIR.saturating_mul(pairs));
    }

    /// From now on hosts of one part are to reach each other, and nothing is known of how they do.
    /// `parts` are those of nodes.
    pub(super) fn expect(&self, parts: &[Option<usize>]) -> Instant {
        let part_of = |host: &HostLids| parts.get(host.node).copied().flatten();
        *self.parts.borrow_mut() = self.hosts.iter().map(part_of).collect();
        for log in self.logs.borrow_mut().iter_mut() {
            log.entries.clear();
        }
        Instant::now()
    }

    /// The hosts that `source` is to reach.
    fn targets(&self, source: usize) -> Vec<usize> {
        let parts = self.parts.borrow();
        let plan = self.plan.borrow();
        let is_expected = |&&to: &&usize| parts[source].is_some() && parts[source] == parts[to];
        plan[source].iter().filter(is_expected).copied().collect()
    }

    /// How traffic has fared since a moment after the latest [`Prober::expect`].
    pub(super) fn judge(&self, since: Instant) -> Healing {
        let sends = |source: &usize| !self.targets(*source).is_empty();
        let sources = (0..self.hosts.len()).filter(sends).collect();
        judge(&self.logs.borrow(), since, Instant::now(), &sources)
    }

    /// How many pairs are to reach each other.
    pub(super) fn expected(&self) -> usize {
        (0..self.hosts.len())
            .map(|source| self.targets(source).len())
            .sum()
    }

    /// Sends and counts; never ends.
    pub(super) async fn run(&self) {
        let sources = 0..self.hosts.len();
        future::join_all(sources.map(|source| self.run_one(source))).await;
    }

    async fn run_one(&self, source: usize) {
        // Hosts do not send in step.
        let share = saturate::<u32>(source) + 1;
        let mut next =
            Instant::now() + INTERVAL_MIN * share / saturate::<u32>(self.hosts.len() + 1);
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {
                    let interval = *self.interval.borrow();
                    next = (next + interval).max(Instant::now() + interval / 2);
                    let targets = self.targets(source);
                    if !targets.is_empty() && under_way.len() < UNDER_WAY_MAX {
                        let requested = Instant::now();
                        self.logs.borrow_mut()[source].under_way.push(requested);
                        under_way.push(self.ask(source, requested, targets));
                    }
                }
                Some(entry) = under_way.next(), if !under_way.is_empty() => {
                    let log = &mut self.logs.borrow_mut()[source];
                    log.under_way.retain(|requested| *requested != entry.requested);
                    log.entries.push(entry);
                }
            }
        }
    }

    async fn ask(&self, source: usize, requested: Instant, targets: Vec<usize>) -> Entry {
        let mut by_level: BTreeMap<(Sl, u16), Vec<(usize, Lid)>> = BTreeMap::new();
        for &to in &targets {
            if let Some(path) = self.paths.get(&(source, to)) {
                let level = by_level.entry((path.sl, path.pkey)).or_default();
                level.push((to, path.dlid));
            }
        }
        let asked = by_level
            .iter()
            .map(|(&level, targets)| self.ask_level(source, level, targets));
        let missed = future::join_all(asked)
            .await
            .into_iter()
            .flatten()
            .collect();
        Entry {
            requested,
            replied: Instant::now(),
            asked: targets.len(),
            missed,
        }
    }

    /// The hosts that do not answer on one service level.
    async fn ask_level(
        &self,
        source: usize,
        (sl, pkey): (Sl, u16),
        targets: &[(usize, Lid)],
    ) -> Vec<usize> {
        let request = PingRequest {
            targets: targets.iter().map(|&(_, dlid)| dlid).collect(),
            count: 1,
            interval_us: 0,
            size: PACKET_BYTES_MIN,
            sl,
            pkey,
            timeout_ms: ECHO_TIMEOUT_MS,
        };
        let node = &self.state.nodes[self.hosts[source].node];
        let timeout = Duration::from_millis(u64::from(ECHO_TIMEOUT_MS) * 2);
        let results = match DeviceClient::connect(self.dir, node, timeout).await {
            Ok(mut client) => client.host(&Request::Ping(request)).await,
            Err(error) => Err(error),
        };
        let results = match results {
            Ok(Reply::Ping(results)) => results,
            _ => Vec::new(),
        };
        let answered = |place: usize, to: usize| {
            results.get(place).is_some_and(|result| {
                result.received > 0 && result.responder_lid == self.hosts[to].identity.lid
            })
        };
        let all = targets.iter().enumerate();
        all.filter(|&(place, &(to, _))| !answered(place, to))
            .map(|(_, &(to, _))| to)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bed(Instant, Vec<Log>);

    impl Bed {
        fn new() -> Self {
            Self(Instant::now(), vec![Log::default(); 3])
        }

        fn at(&self, ms: u64) -> Instant {
            self.0 + Duration::from_millis(ms)
        }

        fn add(&mut self, source: usize, requested: u64, replied: u64, missed: &[usize]) {
            let entry = Entry {
                requested: self.at(requested),
                replied: self.at(replied),
                asked: 2,
                missed: missed.to_vec(),
            };
            self.1[source].entries.push(entry);
        }

        fn judge(&self, since: u64, sources: &[usize]) -> Healing {
            let sources = sources.iter().copied().collect();
            judge(&self.1, self.at(since), self.at(1_000), &sources)
        }
    }

    #[test]
    fn traffic_that_never_missed_has_healed_at_once() {
        let mut bed = Bed::new();
        bed.add(0, 90, 95, &[1]);
        bed.add(0, 130, 135, &[]);
        let healing = bed.judge(100, &[0]);
        assert_eq!(
            healing.healed,
            Some(bed.at(100)),
            "what was before does not count"
        );
        assert!(healing.missed.is_empty());
        assert_eq!(
            (healing.echoes, healing.gap),
            (2, Duration::from_millis(30))
        );
    }

    #[test]
    fn a_source_has_healed_with_the_first_complete_reply_after_the_last_miss() {
        let mut bed = Bed::new();
        bed.add(0, 100, 500, &[2]);
        // Answered, and reported before the one that was asked earlier.
        bed.add(0, 400, 410, &[]);
        bed.add(0, 200, 600, &[1, 2]);
        bed.add(0, 300, 310, &[]);
        bed.add(1, 100, 110, &[]);
        let healing = bed.judge(50, &[0, 1]);
        assert_eq!(healing.healed, Some(bed.at(310)));
        assert_eq!(healing.broke, Some(bed.at(100)));
        assert_eq!(healing.missed, [(0, 1), (0, 2)].into());
        assert!(healing.missing.is_empty());
    }

    #[test]
    fn the_slowest_source_counts_and_one_that_has_not_answered_at_all_has_not_healed() {
        let mut bed = Bed::new();
        bed.add(0, 100, 500, &[1]);
        bed.add(0, 200, 205, &[]);
        bed.add(1, 100, 500, &[0]);
        let healing = bed.judge(50, &[0, 1]);
        assert_eq!((healing.healed, &healing.missing), (None, &[(1, 0)].into()));
        bed.add(1, 300, 330, &[]);
        assert_eq!(bed.judge(50, &[0, 1]).healed, Some(bed.at(330)));
        assert_eq!(bed.judge(50, &[0, 1, 2]).healed, None);
    }

    #[test]
    fn nothing_is_known_beyond_a_request_that_is_under_way() {
        let mut bed = Bed::new();
        bed.add(0, 100, 110, &[]);
        assert_eq!(bed.judge(50, &[0]).known, Some(bed.at(1_000)));
        let under_way = [bed.at(20), bed.at(300), bed.at(200)];
        bed.1[0].under_way.extend(under_way);
        assert_eq!(bed.judge(50, &[0]).known, Some(bed.at(200)));
    }

    #[test]
    fn in_a_sample_every_host_sends_and_answers() {
        assert_eq!(pairs(16, 1, 1), all_pairs(16));
        for hosts in [17, 128] {
            let drawn = pairs(hosts, 5, 2);
            assert_eq!(drawn, pairs(hosts, 5, 2));
            assert_ne!(drawn, pairs(hosts, 5, 3));
            let sources: BTreeSet<usize> = drawn.iter().map(|pair| pair.0).collect();
            let destinations: BTreeSet<usize> = drawn.iter().map(|pair| pair.1).collect();
            assert_eq!((sources.len(), destinations.len()), (hosts, hosts));
            assert!(drawn.len() <= hosts * SAMPLED && drawn.iter().all(|(a, b)| a != b));
        }
    }
}
