//! Path selection (Koibuchi, Jouraku, Amano: Parallel Computing 31, 2005): begin with all
//! alternatives and take the worst away until one is left for each pair of hosts.
//!
//! The alternatives of a pair are its legal paths at most one hop longer than the shortest. The
//! weight of a channel is how many alternatives of all pairs cross it: a static estimate of where
//! traffic would meet. Again and again the heaviest channel that still has a pair with a choice
//! crossing it loses one alternative: of the pair with the most left, the longest.
//!
//! [`load_selection`](super::load_selection()) weighs alternatives by the load that results.
//!
//! Pairs of hosts at the same two switches have the same alternatives. Those with the same ones
//! left form a [`Class`], so that the search is among classes, not pairs; within a class pairs
//! take their turn in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wire::convert::{saturate, usize_of};

use super::LidError;
use super::routes::{Routes, RoutesBuilder};
use crate::network::{LegalPaths, Network, PathLimit, UpDown};

/// How many hops longer than the shortest legal path an alternative may be.
const DETOUR: u32 = 1;

/// Routes for every pair of hosts.
///
/// Ties: of channels of equal weight the smallest number; of pairs with equally many alternatives
/// the smallest switch of the destination, then of the source. Cost: the number of all
/// alternatives of all pairs of hosts, times the logarithm of the number of channels.
///
/// # Errors
/// [`LidError::Paths`] if two switches have more alternatives than `paths_max`.
pub fn path_selection(
    network: &Network,
    updown: &UpDown,
    paths_max: usize,
) -> Result<Routes, LidError> {
    let detour = DETOUR;
    path_selection_among(network, updown, PathLimit { detour, paths_max })
}

/// As [`path_selection`], among alternatives of another length. LID07 does not say how long they
/// may be. Among shortest ones only, the heuristics of the paper come to the same on 16 switches,
/// where its table has them far apart.
///
/// # Errors
/// As [`path_selection`].
pub fn path_selection_among(
    network: &Network,
    updown: &UpDown,
    limit: PathLimit,
) -> Result<Routes, LidError> {
    let hosts_at = network.hosts_at();
    let mut routes = RoutesBuilder::new(network.hosts().len());
    let mut selection = Selection::new(network.channels().len());
    for (target, destinations) in hosts_at.iter().enumerate() {
        if destinations.is_empty() {
            continue;
        }
        let paths = LegalPaths::to(network, updown, target, limit)?;
        for (switch, sources) in hosts_at.iter().enumerate() {
            let mut pairs = VecDeque::new();
            for &destination in destinations {
                for &source in sources.iter().filter(|&&source| source != destination) {
                    if switch == target {
                        routes.set(switch, source, destination, &[]);
                    } else {
                        pairs.push_back((source, destination));
                    }
                }
            }
            if !pairs.is_empty() {
                if paths.from(switch).is_empty() {
                    return Err(LidError::NotConnected);
                }
                selection.enter(paths.from(switch), pairs);
            }
        }
    }
    selection.run();
    for class in &selection.classes {
        let alternatives = &selection.alternatives[class.group];
        for &(source, destination) in &class.pairs {
            let switch = network.hosts()[source].switch;
            routes.set(switch, source, destination, &alternatives[class.left[0]]);
        }
    }
    Ok(routes.finish())
}

/// Pairs of hosts at the same two switches with the same alternatives left.
struct Class {
    /// Which two switches: a place in [`Selection::alternatives`].
    group: usize,
    /// The alternatives left, the shortest first.
    left: Vec<usize>,
    pairs: VecDeque<(usize, usize)>,
    /// The class of a pair that loses an alternative, where there is one already.
    after: Vec<(usize, usize)>,
}

/// A class that could lose an alternative over some channel: the one with the most left first,
/// then the first group, then the oldest class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    left: usize,
    group: Reverse<usize>,
    class: Reverse<usize>,
    alternative: usize,
}

struct Selection {
    alternatives: Vec<Vec<Vec<u32>>>,
    classes: Vec<Class>,
    weights: Vec<u32>,
    /// By channel; may hold classes that have become empty.
    candidates: Vec<BinaryHeap<Candidate>>,
}

impl Selection {
    fn new(channels: usize) -> Self {
        Self {
            alternatives: Vec::new(),
            classes: Vec::new(),
            weights: vec![0; channels],
            candidates: vec![BinaryHeap::new(); channels],
        }
    }

    fn enter(&mut self, paths: &[Vec<u32>], pairs: VecDeque<(usize, usize)>) {
        let count = saturate::<u32>(pairs.len());
        for &channel in paths.iter().flatten() {
            self.weights[usize_of(channel)] += count;
        }
        self.alternatives.push(paths.to_vec());
        let class = self.add_class(self.alternatives.len() - 1, (0..paths.len()).collect());
        self.classes[class].pairs = pairs;
        self.offer(class);
    }

    fn add_class(&mut self, group: usize, left: Vec<usize>) -> usize {
        self.classes.push(Class {
            group,
            left,
            pairs: VecDeque::new(),
            after: Vec::new(),
        });
        self.classes.len() - 1
    }

    /// Enters a class that has pairs (again) as a candidate at each channel that it crosses.
    fn offer(&mut self, class: usize) {
        let Class { group, left, .. } = &self.classes[class];
        if left.len() < 2 {
            return;
        }
        // Later alternatives are longer: for each channel the last that crosses it counts.
        let mut crossed: Vec<u32> = Vec::new();
        for &alternative in left.iter().rev() {
            for &channel in &self.alternatives[*group][alternative] {
                if !crossed.contains(&channel) {
                    crossed.push(channel);
                    self.candidates[usize_of(channel)].push(Candidate {
                        left: left.len(),
                        group: Reverse(*group),
                        class: Reverse(class),
                        alternative,
                    });
                }
            }
        }
    }

    fn run(&mut self) {
        let heaviest = usize_of(self.weights.iter().copied().max().unwrap_or(0));
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); heaviest + 1];
        for (channel, &weight) in self.weights.iter().enumerate() {
            waiting[usize_of(weight)].push(channel);
        }
        // Weights only fall, so a channel waits at its weight or above it, never below.
        while let Some(mut channels) = waiting.pop() {
            let weight = waiting.len();
            channels.sort_unstable();
            for channel in channels {
                if usize_of(self.weights[channel]) == weight && !self.relieve(channel) {
                    continue;
                }
                if let Some(bucket) = waiting.get_mut(usize_of(self.weights[channel])) {
                    bucket.push(channel);
                }
            }
        }
    }

    /// Takes one alternative away that crosses `channel`; false if no pair has a choice there.
    fn relieve(&mut self, channel: usize) -> bool {
        while let Some(&candidate) = self.candidates[channel].peek() {
            let class = candidate.class.0;
            let Some(pair) = self.classes[class].pairs.pop_front() else {
                self.candidates[channel].pop();
                continue;
            };
            let lost = candidate.alternative;
            for &crossed in &self.alternatives[candidate.group.0][lost] {
                self.weights[usize_of(crossed)] -= 1;
            }
            let after = self.after(class, lost);
            self.classes[after].pairs.push_back(pair);
            if self.classes[after].pairs.len() == 1 {
                self.offer(after);
            }
            return true;
        }
        false
    }

    fn after(&mut self, class: usize, lost: usize) -> usize {
        let Class {
            group, left, after, ..
        } = &self.classes[class];
        if let Some(&(_, known)) = after.iter().find(|&&(path, _)| path == lost) {
            return known;
        }
        let group = *group;
        let rest: Vec<usize> = left.iter().copied().filter(|&path| path != lost).collect();
        let next = self.add_class(group, rest);
        self.classes[class].after.push((lost, next));
        next
    }
}
