//! A channel dependency graph that stays free of cycles while dependencies come and go.
//!
//! Engines that build their paths one after another ask before each step whether it would close a
//! credit loop. The channels are kept in a topological order. A dependency that agrees with the
//! order costs nothing; for one that does not, only the channels between the two ends are searched
//! and put in order anew (PK06: Pearce and Kelly). Dependencies that go away leave the order valid.
//!
//! Cost of an addition: nothing if the dependency is there or the order allows it, else the
//! dependencies among the channels in between. Memory: a number for each dependency that there
//! could be (for each channel, the channels of the switch at its end).

use crate::network::{Channel, Network};

/// Dependencies among channels of a network, counted, and never in a cycle.
pub(crate) struct AcyclicDependencies {
    /// By channel: the number of the first dependency on it. Those on one channel lie together: all paths to a
    /// target take few.
    first: Vec<usize>,
    /// By channel: its place among the channels that end where it ends.
    arrival: Vec<usize>,
    /// By dependency: how many times it was added.
    uses: Vec<u32>,
    /// By channel: what it depends on.
    after: Vec<Vec<usize>>,
    /// By channel: what depends on it.
    before: Vec<Vec<usize>>,
    /// By channel: its place in the order. A channel comes before all that it depends on.
    place: Vec<usize>,
    /// By channel: in which search it was seen last.
    seen: Vec<u64>,
    searches: u64,
}

impl AcyclicDependencies {
    /// No dependencies.
    pub(crate) fn new(network: &Network) -> Self {
        let channels = network.channels();
        let mut first = Vec::with_capacity(channels.len());
        let mut number = 0;
        for channel in channels {
            first.push(number);
            number += network.leaving(channel.from).len();
        }
        let arrival = |channel: &Channel| channel.reverse - network.leaving(channel.to).start;
        Self {
            first,
            arrival: channels.iter().map(arrival).collect(),
            uses: vec![0; number],
            after: vec![Vec::new(); channels.len()],
            before: vec![Vec::new(); channels.len()],
            place: (0..channels.len()).collect(),
            seen: vec![0; channels.len()],
            searches: 0,
        }
    }

    /// The number of the dependency of `held` on `next`, which begins where `held` ends.
    pub(crate) fn number(&self, held: usize, next: usize) -> usize {
        self.first[next] + self.arrival[held]
    }

    /// How many dependencies there could be.
    pub(crate) fn len(&self) -> usize {
        self.uses.len()
    }

    /// Whether that dependency is there.
    pub(crate) fn has(&self, held: usize, next: usize) -> bool {
        self.uses[self.number(held, next)] > 0
    }

    /// Adds a dependency once more; `false`, and nothing is added, if it would close a cycle.
    pub(crate) fn add(&mut self, held: usize, next: usize) -> bool {
        let number = self.number(held, next);
        if self.uses[number] == 0 {
            if self.place[held] > self.place[next] && !self.reorder(held, next) {
                return false;
            }
            self.after[held].push(next);
            self.before[next].push(held);
        }
        self.uses[number] += 1;
        true
    }

    /// Adds all of these, or none if one would close a cycle.
    pub(crate) fn add_all(&mut self, dependencies: &[(usize, usize)]) -> bool {
        for (added, &(held, next)) in dependencies.iter().enumerate() {
            if !self.add(held, next) {
                for &(held, next) in &dependencies[..added] {
                    self.remove(held, next);
                }
                return false;
            }
        }
        true
    }

    /// Takes a dependency away once.
    pub(crate) fn remove(&mut self, held: usize, next: usize) {
        let number = self.number(held, next);
        self.uses[number] -= 1;
        if self.uses[number] == 0 {
            let forget = |list: &mut Vec<usize>, channel: usize| {
                if let Some(at) = list.iter().position(|&other| other == channel) {
                    list.swap_remove(at);
                }
            };
            forget(&mut self.after[held], next);
            forget(&mut self.before[next], held);
        }
    }

    /// Moves `held` and what leads to it before `next` and what that leads to; `false` if `next`
    /// leads to `held`.
    fn reorder(&mut self, held: usize, next: usize) -> bool {
        let (low, high) = (self.place[next], self.place[held]);
        let Some(behind) = self.reached(next, |place| place <= high, true, held) else {
            return false;
        };
        let ahead = self
            .reached(held, |place| place >= low, false, usize::MAX)
            .unwrap_or_default();
        let mut moved = ahead;
        moved.sort_unstable_by_key(|&channel| self.place[channel]);
        let mut behind = behind;
        behind.sort_unstable_by_key(|&channel| self.place[channel]);
        moved.extend(behind);
        let mut places: Vec<usize> = moved.iter().map(|&channel| self.place[channel]).collect();
        places.sort_unstable();
        for (channel, place) in moved.into_iter().zip(places) {
            self.place[channel] = place;
        }
        true
    }

    /// The channels that `start` leads to (or that lead to it) within a part of the order; `None`
    /// as soon as `forbidden` is one.
    fn reached(
        &mut self,
        start: usize,
        within: impl Fn(usize) -> bool,
        forwards: bool,
        forbidden: usize,
    ) -> Option<Vec<usize>> {
        self.searches += 1;
        let mut found = vec![start];
        self.seen[start] = self.searches;
        let mut looked = 0;
        while let Some(&channel) = found.get(looked) {
            looked += 1;
            let linked = if forwards {
                &self.after[channel]
            } else {
                &self.before[channel]
            };
            for &other in linked {
                if other == forbidden {
                    return None;
                }
                if self.seen[other] != self.searches && within(self.place[other]) {
                    self.seen[other] = self.searches;
                    found.push(other);
                }
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependencies::Dependencies;
    use crate::network::tests::graph;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};

    fn channel(network: &Network, from: usize, to: usize) -> usize {
        let mut leaving = network.leaving(from);
        leaving
            .find(|&channel| network.channels()[channel].to == to)
            .unwrap()
    }

    #[test]
    fn the_last_dependency_of_a_ring_is_refused_until_another_goes() {
        let network = Network::new(&graph("ring-5-1"));
        // Switches in the order of the ring.
        let mut round = vec![0];
        while round.len() < 5 {
            let at = round[round.len() - 1];
            let next = network
                .leaving(at)
                .map(|channel| network.channels()[channel].to);
            let next = next.filter(|other| !round.contains(other)).min().unwrap();
            round.push(next);
        }
        let channels: Vec<usize> = (0..5)
            .map(|place| channel(&network, round[place], round[(place + 1) % 5]))
            .collect();
        let mut graph = AcyclicDependencies::new(&network);
        for place in 0..4 {
            assert!(graph.add(channels[place], channels[place + 1]));
        }
        assert!(!graph.add(channels[4], channels[0]));
        assert!(!graph.has(channels[4], channels[0]));
        graph.remove(channels[1], channels[2]);
        assert!(graph.add_all(&[(channels[4], channels[0]), (channels[4], channels[0])]));
        assert!(!graph.add_all(&[(channels[3], channels[4]), (channels[1], channels[2])]));
        graph.remove(channels[4], channels[0]);
        assert!(graph.has(channels[4], channels[0]), "it was added twice");
        graph.remove(channels[4], channels[0]);
        assert!(graph.add(channels[1], channels[2]));
    }

    #[test]
    fn what_it_refuses_is_what_a_search_of_the_whole_graph_finds() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        for name in ["torus-3x3-1", "hypercube-3-1", "irregular-8-1-4-2"] {
            let network = Network::new(&graph(name));
            let mut all = Vec::new();
            for (held, ends) in network.channels().iter().enumerate() {
                all.extend(network.leaving(ends.to).map(|next| (held, next)));
            }
            all.shuffle(&mut random);
            let mut graph = AcyclicDependencies::new(&network);
            let mut kept: Vec<(usize, usize)> = Vec::new();
            for (held, next) in all {
                let mut search = Dependencies::new(&network);
                for &(a, b) in kept.iter().chain([&(held, next)]) {
                    search.add(a, b);
                }
                assert_eq!(graph.add(held, next), search.cycle().is_none());
                if graph.has(held, next) {
                    kept.push((held, next));
                }
                if kept.len() > 5 && random.random_bool(0.2) {
                    let (a, b) = kept.swap_remove(random.random_range(0..kept.len()));
                    graph.remove(a, b);
                }
            }
        }
    }
}
