//! Dividing paths into layers whose channel dependency graphs have no cycle.

use wire::convert::saturate;

use super::{Target, Tree};
use crate::network::Network;

/// Which paths are in which layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    /// How many layers there are, at least 1.
    pub(super) count: usize,
    /// (switch of the source, target, layer) of every path that is not in layer 0.
    pub(super) moved: Vec<(usize, usize, u8)>,
}

/// Layers of the paths from all switches with hosts to all hosts' LIDs. Beyond `layers_max` the
/// rest is left as it is.
pub(super) fn layers(
    network: &Network,
    targets: &[Target],
    trees: &[Tree],
    layers_max: usize,
) -> Layers {
    let mut result = Layers {
        count: 1,
        moved: Vec::new(),
    };
    let mut layer = Dependencies::new(network);
    if !layer.has_cycle(network, targets, trees) {
        return result;
    }
    let paths = Paths::new(network, targets, trees);
    let mut members: Vec<u32> = (0..saturate::<u32>(paths.list.len())).collect();
    loop {
        let next = layer.separate(&paths, &members);
        if next.is_empty() {
            return result;
        }
        let number = saturate::<u8>(result.count);
        for &path in &next {
            // A path that moves on later is entered again, and the later entry counts.
            let (switch, target) = paths.list[path as usize];
            result.moved.push((switch, target, number));
        }
        result.count += 1;
        if result.count > layers_max {
            return result;
        }
        members = next;
    }
}

/// All paths with a dependency.
struct Paths<'a> {
    network: &'a Network,
    trees: &'a [Tree],
    /// (switch of the source, target)
    list: Vec<(usize, usize)>,
}

impl<'a> Paths<'a> {
    fn new(network: &'a Network, targets: &'a [Target], trees: &'a [Tree]) -> Self {
        let mut list = Vec::new();
        for (switch, hosts) in network.hosts_at().iter().enumerate() {
            for (number, target) in targets.iter().enumerate() {
                // A path of one channel waits for nothing.
                let second = trees[number]
                    .next(switch)
                    .map(|channel| network.channels()[channel].to)
                    .filter(|&second| second != target.switch);
                if !hosts.is_empty() && target.host.is_some() && second.is_some() {
                    list.push((switch, number));
                }
            }
        }
        Self {
            network,
            trees,
            list,
        }
    }

    /// The channels of a path, in order.
    fn channels(&self, path: u32) -> impl Iterator<Item = usize> + '_ {
        let (switch, target) = self.list[path as usize];
        let tree = &self.trees[target];
        core::iter::successors(tree.next(switch), |&channel| {
            tree.next(self.network.channels()[channel].to)
        })
    }
}

/// The dependency graph of one layer. A dependency of channel `a` on a channel that leaves the
/// switch at its end is known by number.
struct Dependencies {
    /// By channel: the number of its first dependency.
    first: Vec<usize>,
    /// By channel: the first channel of the switch at its end.
    onward: Vec<usize>,
    /// By dependency: how many paths of the layer make it.
    counts: Vec<u32>,
}

impl Dependencies {
    fn new(network: &Network) -> Self {
        let (mut first, mut onward) = (Vec::new(), Vec::new());
        let mut number = 0;
        for channel in network.channels() {
            let leaving = network.leaving(channel.to);
            first.push(number);
            onward.push(leaving.start);
            number += leaving.len();
        }
        first.push(number);
        Self {
            first,
            onward,
            counts: vec![0; number],
        }
    }

    fn number(&self, held: usize, next: usize) -> usize {
        self.first[held] + next - self.onward[held]
    }

    /// Whether the paths of all hosts together have a cycle: without listing them, from the trees.
    fn has_cycle(&mut self, network: &Network, targets: &[Target], trees: &[Tree]) -> bool {
        let hosts_at = network.hosts_at();
        let mut crossed = vec![usize::MAX; network.switches().len()];
        for (number, (target, tree)) in targets.iter().zip(trees).enumerate() {
            if target.host.is_none() {
                continue;
            }
            for (source, hosts) in hosts_at.iter().enumerate() {
                let mut at = source;
                while !hosts.is_empty() && crossed[at] != number {
                    crossed[at] = number;
                    let Some(held) = tree.next(at) else { break };
                    at = network.channels()[held].to;
                    if let Some(next) = tree.next(at) {
                        let dependency = self.number(held, next);
                        self.counts[dependency] = 1;
                    }
                }
            }
        }
        Search::new(self.onward.len()).cycle(self).is_some()
    }

    /// Breaks all cycles among these paths; returns those that must go, in order.
    fn separate(&mut self, paths: &Paths<'_>, members: &[u32]) -> Vec<u32> {
        self.counts.fill(0);
        let mut makers: Vec<Vec<u32>> = vec![Vec::new(); self.counts.len()];
        for &path in members {
            self.visit(paths, path, |graph, dependency| {
                graph.counts[dependency] += 1;
                makers[dependency].push(path);
            });
        }
        let mut gone = vec![false; paths.list.len()];
        let mut search = Search::new(self.onward.len());
        while let Some(cycle) = search.cycle(self) {
            let Some(&weakest) = cycle
                .iter()
                .min_by_key(|&&number| (self.counts[number], number))
            else {
                break;
            };
            for path in core::mem::take(&mut makers[weakest]) {
                if !core::mem::replace(&mut gone[path as usize], true) {
                    self.visit(paths, path, |graph, dependency| {
                        graph.counts[dependency] -= 1
                    });
                }
            }
        }
        members
            .iter()
            .copied()
            .filter(|&path| gone[path as usize])
            .collect()
    }

    fn visit(&mut self, paths: &Paths<'_>, path: u32, mut act: impl FnMut(&mut Self, usize)) {
        let mut held = None;
        for channel in paths.channels(path) {
            if let Some(held) = held {
                let dependency = self.number(held, channel);
                act(self, dependency);
            }
            held = Some(channel);
        }
    }
}

/// A depth-first search that can be asked for one cycle after another. Dependencies may go
/// meanwhile but none may come, so what was found to lead nowhere stays so.
struct Search {
    done: Vec<bool>,
    open: Vec<bool>,
    start: usize,
}

impl Search {
    fn new(channels: usize) -> Self {
        Self {
            done: vec![false; channels],
            open: vec![false; channels],
            start: 0,
        }
    }

    /// The dependencies of a cycle, by number.
    fn cycle(&mut self, graph: &Dependencies) -> Option<Vec<usize>> {
        while self.start < self.done.len() {
            if self.done[self.start] {
                self.start += 1;
                continue;
            }
            // Dependencies on the path being searched, each with the channel that it leads to.
            let mut path: Vec<(usize, usize)> = vec![(usize::MAX, self.start)];
            let mut places: Vec<usize> = vec![graph.first[self.start]];
            self.open[self.start] = true;
            while let (Some(&(_, channel)), Some(place)) = (path.last(), places.last_mut()) {
                if *place == graph.first[channel + 1] {
                    self.open[channel] = false;
                    self.done[channel] = true;
                    path.pop();
                    places.pop();
                    continue;
                }
                let dependency = *place;
                *place += 1;
                let next = graph.onward[channel] + dependency - graph.first[channel];
                if graph.counts[dependency] == 0 || self.done[next] {
                    continue;
                }
                if self.open[next] {
                    for &(_, channel) in &path {
                        self.open[channel] = false;
                    }
                    let begin = path.iter().position(|&(_, channel)| channel == next)?;
                    let mut cycle: Vec<usize> = path[begin + 1..]
                        .iter()
                        .map(|&(number, _)| number)
                        .collect();
                    cycle.push(dependency);
                    return Some(cycle);
                }
                self.open[next] = true;
                path.push((dependency, next));
                places.push(graph.first[next]);
            }
        }
        None
    }
}
