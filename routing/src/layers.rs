//! Dividing pairs of switches into layers whose channel dependency graphs have no cycle.
//!
//! The paths from one switch to another and the paths back make a pair, and a pair is in one layer. Its
//! layer is the SL of its packets both ways, so that answers and acknowledgements, which take the SL of
//! what they answer (IBA 13.5.4), are in the layer of their path. SL `i` is VL `i` at every port.
//!
//! ```text
//!  ring of five: 0 > 1 > 2, 1 > 2 > 3, 2 > 3 > 4, 3 > 4 > 0 and their ways back are in layer 0;
//!  4 > 0 > 1 would close both rings, so 4 and 1 are in layer 1
//! ```
//!
//! **Method** (SLT02, section 3). Pairs go one after another into the first layer where they close no
//! cycle, or else begin a new one: first in order of their switches; if that takes several layers, once
//! more with the pairs that have the most dependencies first, which are the hardest to place. What takes
//! fewer layers is taken. Last, pairs move from the fullest layer to the emptiest as long as that closes
//! no cycle.
//!
//! **Switches.** Pairs of switches with hosts come first and must all have a layer. Then come those of a
//! switch with hosts and one without (management), and those of two switches without hosts: they take a
//! layer that is there or a further one if there are VLs for it, and layer 0 otherwise. Where hosts take one layer
//! and switches would not have enough, or are to have none, there is one for all, and the engine finds
//! other ways for switches ([`crate::switch_paths`]).
//!
//! Cost: for each of the `S (S - 1) / 2` pairs of `S` switches its hops in each layer tried, with a part of
//! the layer's dependencies where they do not agree with the order it is kept in ([`crate::acyclic`]), twice.
//! Memory: `S S`, and the dependencies that there could be for each layer.

use core::cmp::Reverse;

use topologies::Graph;
use wire::Sl;
use wire::convert::saturate;

use crate::acyclic::AcyclicDependencies;
use crate::network::Network;
use crate::tables::Lft;
use crate::targets::{Target, by_switch, path};
use crate::vl_assignment::VlAssignment;

/// Layers are counted up to here, to report how many data VLs would do; a port has 15 at most.
const LAYERS_MAX: usize = 64;

/// Paths between switches, as what depends on what along them.
pub(crate) trait PairPaths {
    /// Adds to a list the dependencies of the paths from one switch to another.
    fn dependencies(&self, from: usize, to: usize, list: &mut Vec<(usize, usize)>);
}

/// The paths of tables to all LIDs that a switch delivers to.
pub(crate) struct TablePaths<'a> {
    network: &'a Network,
    rows: &'a [Lft],
    /// By switch: the LIDs that it delivers to.
    targets: Vec<Vec<Target>>,
}

impl<'a> TablePaths<'a> {
    pub(crate) fn new(network: &'a Network, rows: &'a [Lft], targets: &[Target]) -> Self {
        Self {
            network,
            rows,
            targets: by_switch(network, targets.iter().copied()),
        }
    }
}

impl PairPaths for TablePaths<'_> {
    fn dependencies(&self, from: usize, to: usize, list: &mut Vec<(usize, usize)>) {
        for target in &self.targets[to] {
            let mut held = None;
            for channel in path(self.network, self.rows, from, target.lid) {
                if let Some(held) = held.replace(channel) {
                    list.push((held, channel));
                }
            }
        }
    }
}

/// How many layers there may be, and whether switches without hosts have layers of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerLimits {
    /// How many VLs there are for layers.
    pub(crate) have: usize,
    /// Whether pairs of two switches without hosts may begin a layer.
    pub(crate) for_switches: bool,
}

/// Which pair of switches is in which layer.
pub(crate) struct Layers {
    /// How many layers there are.
    pub(crate) count: usize,
    /// `of[a][b]` for `a < b`.
    of: Vec<Vec<u8>>,
}

impl Layers {
    /// Layers for all pairs.
    ///
    /// # Errors
    /// How many layers would do, if there are not as many VLs; [`LAYERS_MAX`] if there
    /// are more.
    pub(crate) fn new(
        network: &Network,
        paths: &impl PairPaths,
        limits: LayerLimits,
    ) -> Result<Self, usize> {
        let with_hosts = &pairs(network)[0];
        let mut filling = Filling::new(network, paths);
        let mut needed = filling.put_all(with_hosts, LAYERS_MAX);
        if needed != Some(1) {
            let mut other = Filling::new(network, paths);
            let fewer = other.put_all(&filling.hardest_first(with_hosts), LAYERS_MAX);
            if fewer.is_some_and(|fewer| needed.is_none_or(|needed| fewer < needed)) {
                (filling, needed) = (other, fewer);
            }
        }
        let needed = needed.unwrap_or(LAYERS_MAX);
        if needed > limits.have {
            return Err(needed);
        }
        if needed == 1 && (limits.have == 1 || !limits.for_switches) {
            return Ok(Self::single(network));
        }
        let (layers, are_all_in) = filling.with_the_others(limits);
        Ok(match needed {
            1 if !are_all_in => Self::single(network),
            _ => layers,
        })
    }

    /// Whether so many layers take all pairs of switches with hosts, as [`Self::new`] would find.
    pub(crate) fn fit(network: &Network, paths: &impl PairPaths, have: usize) -> bool {
        let with_hosts = &pairs(network)[0];
        let mut filling = Filling::new(network, paths);
        if filling.put_all(with_hosts, have).is_some() {
            return true;
        }
        let hardest_first = filling.hardest_first(with_hosts);
        let mut other = Filling::new(network, paths);
        other.put_all(&hardest_first, have).is_some()
    }

    /// One layer for all.
    fn single(network: &Network) -> Self {
        let count = network.switches().len();
        Self {
            count: 1,
            of: (0..count).map(|_| vec![0; count]).collect(),
        }
    }

    /// Layers for all pairs, where those of two switches with hosts are given.
    pub(crate) fn given(
        network: &Network,
        paths: &impl PairPaths,
        limits: LayerLimits,
        given: impl Fn(usize, usize) -> usize,
    ) -> Self {
        let mut filling = Filling::new(network, paths);
        for &(a, b) in &pairs(network)[0] {
            filling.put_into((a, b), given(a, b));
        }
        filling.with_the_others(limits).0
    }

    /// The layer of packets between two switches, either way.
    pub(crate) fn of(&self, a: usize, b: usize) -> u8 {
        if a == b {
            0
        } else {
            self.of[a.min(b)][a.max(b)]
        }
    }

    /// The service levels that say so; `None` if there is one layer.
    pub(crate) fn vl_assignment(
        &self,
        graph: &Graph,
        network: &Network,
        targets: &[Target],
    ) -> Option<VlAssignment> {
        if self.count < 2 {
            return None;
        }
        let mut assignment = VlAssignment::identity(graph, saturate::<u8>(self.count));
        for target in targets {
            for (switch, &node) in network.switches().iter().enumerate() {
                let layer = self.of(switch, target.switch);
                if layer > 0 {
                    assignment.set_sl(node, target.lid, Sl::constant(layer));
                }
            }
        }
        Some(assignment)
    }
}

/// The pairs of switches that cables join, by how many of the two have hosts: both, one, none.
fn pairs(network: &Network) -> [Vec<(usize, usize)>; 3] {
    let count = network.switches().len();
    let mut pairs = [Vec::new(), Vec::new(), Vec::new()];
    for a in 0..count {
        for b in a + 1..count {
            if network.component(a) == network.component(b) {
                let with_hosts = [a, b].map(|end| usize::from(network.has_hosts(end)));
                pairs[2 - with_hosts.iter().sum::<usize>()].push((a, b));
            }
        }
    }
    pairs
}

struct Filling<'a, P> {
    network: &'a Network,
    paths: &'a P,
    /// By layer.
    graphs: Vec<AcyclicDependencies>,
    /// By layer: its pairs.
    members: Vec<Vec<(usize, usize)>>,
}

impl<'a, P: PairPaths> Filling<'a, P> {
    fn new(network: &'a Network, paths: &'a P) -> Self {
        Self {
            network,
            paths,
            graphs: vec![AcyclicDependencies::new(network)],
            members: vec![Vec::new()],
        }
    }

    /// Puts pairs into layers that are there or into new ones. How many layers there are then; `None` if so many
    /// do not take all.
    fn put_all(&mut self, pairs: &[(usize, usize)], layers_max: usize) -> Option<usize> {
        for &pair in pairs {
            self.put(pair, layers_max)?;
        }
        Some(self.graphs.len())
    }

    /// The pairs with the most dependencies first.
    fn hardest_first(&self, pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut sorted = pairs.to_vec();
        sorted.sort_by_cached_key(|&pair| Reverse(self.dependencies(pair).len()));
        sorted
    }

    /// Puts a pair into a layer in which it closes no cycle.
    fn put_into(&mut self, pair: (usize, usize), layer: usize) {
        while self.graphs.len() <= layer {
            self.graphs.push(AcyclicDependencies::new(self.network));
            self.members.push(Vec::new());
        }
        let both = self.dependencies(pair);
        let added = self.graphs[layer].add_all(&both);
        debug_assert!(added, "a pair closes a cycle in its layer");
        self.members[layer].push(pair);
    }

    /// Puts the pairs with switches without hosts into layers, too. Also whether there are layers for all.
    fn with_the_others(mut self, limits: LayerLimits) -> (Layers, bool) {
        let [_, with_one, without] = pairs(self.network);
        let mut are_all_in = true;
        for &pair in &with_one {
            are_all_in &= self.put(pair, limits.have).is_some();
        }
        self.balance();
        let most = if limits.for_switches {
            limits.have
        } else {
            self.graphs.len()
        };
        for &pair in &without {
            are_all_in &= self.put(pair, most).is_some();
        }
        let mut layers = Layers {
            count: self.graphs.len(),
            ..Layers::single(self.network)
        };
        for (number, members) in self.members.iter().enumerate() {
            for &(a, b) in members {
                layers.of[a][b] = saturate::<u8>(number);
            }
        }
        (layers, are_all_in)
    }

    /// Those of the paths of a pair, both ways.
    fn dependencies(&self, (a, b): (usize, usize)) -> Vec<(usize, usize)> {
        let mut both = Vec::new();
        self.paths.dependencies(a, b, &mut both);
        self.paths.dependencies(b, a, &mut both);
        both.sort_unstable();
        both.dedup();
        both
    }

    /// Puts a pair into the first layer that takes it; `None` if none of so many does.
    fn put(&mut self, pair: (usize, usize), layers_max: usize) -> Option<()> {
        let both = self.dependencies(pair);
        let found = self
            .graphs
            .iter_mut()
            .position(|graph| graph.add_all(&both));
        let layer = match found {
            Some(layer) => layer,
            None if self.graphs.len() < layers_max => {
                let mut graph = AcyclicDependencies::new(self.network);
                // Paths to several LIDs of the same two switches may have a cycle by themselves.
                if !graph.add_all(&both) {
                    return None;
                }
                self.graphs.push(graph);
                self.members.push(Vec::new());
                self.graphs.len() - 1
            }
            None => return None,
        };
        self.members[layer].push(pair);
        Some(())
    }

    /// Moves pairs, the last first, from the fullest layer to the emptiest until they are equal or
    /// all have been tried.
    fn balance(&mut self) {
        for _ in 1..self.graphs.len() {
            let layers = 0..self.members.len();
            let by_size = |&layer: &usize| self.members[layer].len();
            let Some(full) = layers.clone().rev().max_by_key(by_size) else {
                return;
            };
            let Some(empty) = layers.min_by_key(by_size) else {
                return;
            };
            if full == empty {
                return;
            }
            let mut stay = Vec::new();
            let mut pairs = core::mem::take(&mut self.members[full]);
            while let Some(pair) = pairs.pop() {
                let both = self.dependencies(pair);
                let is_fuller = pairs.len() + stay.len() > self.members[empty].len();
                if is_fuller && self.graphs[empty].add_all(&both) {
                    for (held, next) in both {
                        self.graphs[full].remove(held, next);
                    }
                    self.members[empty].push(pair);
                } else {
                    stay.push(pair);
                }
            }
            stay.reverse();
            self.members[full] = stay;
        }
    }
}
