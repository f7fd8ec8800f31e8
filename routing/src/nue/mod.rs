//! `nue`: balanced paths on any fabric that are free of deadlock with any number of virtual lanes,
//! one included (DHM16: Domke, Hoefler, Matsuoka, Routing on the Dependency Graph,
//! HPDC 2016).
//!
//! **Problem.** Engines that find paths first and then divide them into layers (`dfsssp`, `lash`)
//! fail where there are too few VLs. Here paths are searched for in the channel dependency graph
//! itself, so that they never close a cycle.
//!
//! **Layers.** A pair of switches is in one layer, both ways, because answers take the service level of what
//! they answer ([`crate::layers`]). A layer has a channel dependency graph. Destination switches are
//! divided into as many parts as there are layers ([`partition`]), in one of two ways. A layer may have the
//! packets between its part and that part and all later ones, both ways: each source's path to a target is
//! then in the graph of the layer that the two are in. Or it has the packets to its part from everywhere, as
//! in the paper (section 4.1); such paths are divided into pairs' layers afterwards, if there are VLs enough.
//! In one layer both are the same.
//!
//! **Escape paths** (section 4.2). The switch of the largest betweenness among the
//! shortest paths between destinations is the root of a tree of shortest paths
//! ([`centre`]), for all layers or for each, as the division calls for. The dependencies of the tree's own
//! paths are in a layer's graph from the beginning. They have no cycle, and whatever else comes in never
//! closes one with them, so they can always be fallen back on.
//!
//! **Paths** (sections 4.4 to 4.6, [`paths`], [`backtracking`], [`escape`]). For each LID in turn, Dijkstra's algorithm runs from
//! the destination outwards: fewest hops, then the least sum of loads, then the first channel. A
//! switch takes a channel only if the dependencies of its path close no cycle in its layer. A switch that
//! is left without a path makes a neighbour change its own (local backtracking). Where that fails
//! too, the whole LID falls back on the escape paths, which are then made shorter switch by
//! switch as far as no cycle is closed. Each channel's load then grows by the number of hosts whose
//! path to the LID crosses it.
//!
//! ```text
//!       0        A ring of five on one VL. Root 0: the escape paths leave out the cable 2-3, and have
//!     1   4      all dependencies at 0, 1 and 4. Destination 1 adds 3>2 on 2>1; so destination 2
//!      2-3       cannot add 4>3 on 3>2, and 4 sends by 0 and 1. Destination 3 adds 1>2 on 2>3;
//!                so 2 sends to 4 by 1 and 0. All other paths are shortest ones.
//! ```
//!
//! **How many layers.** 1, 2, 4 and so on up to the number of data VLs are tried, divided for pairs and, from
//! two on, for destinations (with one tree a switch, and for the most layers with one for each LID); and
//! shortest paths balanced in rounds ([`crate::balance`]), with packets kept apart or else without, which are divided
//! afterwards, too. These come first, and the search for others ends as soon as they are seen to be no better. Taken is
//! where the busiest channel carries least when every host sends to every other; of equals, where the
//! fewest paths are longer than the shortest; of equals, the fewest layers.
//!
//! Shapes: `S` switches, `C` channels, `L` LIDs, `D` dependencies that there could be (`C` times the
//! mean number of channels a switch). Cost: for each LID `C log C`, and `D` at worst for each
//! dependency that does not agree with the order that the graph is kept in
//! ([`crate::acyclic`]); `S C` for the centres; all of it about twice for each number of layers tried (`log V`
//! for `V` VLs). Memory: `D` for each layer, and the tables.
//!
//! Differences from the paper: pairs of switches have a layer instead of destinations; a dependency is added
//! when a switch's path is settled and not while it is still a candidate, so that none has to be taken
//! back; cycles are found by an order of the channels instead of by merging coloured subgraphs; a
//! partition of our own instead of METIS; paths after a fall back are shortened; fewer layers than VLs where
//! they do as well.
//!
//! **Switches.** Freedom from deadlock is promised for packets between hosts. The LID of a switch with
//! hosts takes the path of a host's LID. Switches without hosts come last ([`switches`]): hosts reach each in
//! the first layer where that closes no cycle, or if there is none by shortest paths. Where two switches without
//! hosts cannot be joined without closing a cycle, they have a layer of their own as far as there are VLs.

mod backtracking;
mod centre;
mod escape;
mod partition;
mod paths;
mod switches;

use topologies::Graph;
use wire::Lid;
use wire::convert::u64_of;

use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::layers::{self, Layers, TablePaths};
use crate::lids::Lids;
use crate::minhop::every_lid;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::switch_paths;
use crate::tables::{Lft, Promises, Tables};
use crate::targets::{self, NONE, Target, by_switch, loads, targets};
use partition::partition;
use paths::{Division, Paths};

/// The engine.
pub(crate) struct Nue;

impl Engine for Nue {
    fn is_candidate(&self) -> bool {
        true
    }

    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let (lids, changed) = options.assign(network)?;
        let demand = Demand::new(network, &lids);
        let have = usize::from(options.data_vls());
        let mut routed = demand.best(&lids, have);
        demand.route_others(&mut routed);
        let all: Vec<Target> = demand.targets.iter().flatten().copied().collect();
        let layers = demand.layers(&routed, &all, have);
        let layers = layers.map_err(|needed| RoutingError::VlsExhausted {
            engine: RoutingEngine::Nue,
            needed,
            have: options.data_vls(),
        })?;
        if layers.count == 1 && routed.division != Division::Pairs {
            switch_paths::complete(network, &all, &mut routed.rows);
        }
        let promises = Promises {
            up_down: false,
            minimal: routed.detours == 0,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let assignment = layers.vl_assignment(graph, network, &all);
        let mut tables = Tables::generic(RoutingEngine::Nue, network, lids, routed.rows, promises);
        tables.vl_assignment = assignment;
        tables.warnings.extend(Warning::lids_changed(changed));
        Ok(tables)
    }
}

/// The LIDs that need paths.
struct Demand<'a> {
    network: &'a Network,
    /// The last LID.
    top: Lid,
    /// By switch: its hosts' LIDs and then its own.
    targets: Vec<Vec<Target>>,
    /// By switch: how many LIDs of hosts.
    sizes: Vec<u64>,
    /// By switch: how many hosts.
    sources: Vec<u64>,
    /// The switches with hosts.
    with_hosts: Vec<usize>,
}

/// How many layers are tried, how destinations are divided, and how many kinds of paths lead to each switch at most.
fn attempts(most: usize) -> impl Iterator<Item = (usize, Division, usize)> {
    let fewer = core::iter::successors(Some(1), |&layers| Some(2 * layers));
    let counts = fewer.take_while(move |&layers| layers < most);
    counts.chain([most]).flat_map(move |layers| {
        let mut divisions = vec![(layers, Division::Pairs, usize::MAX)];
        // Paths that are not made for pairs mostly need more layers; less so with one tree a switch.
        divisions.extend((layers > 1).then_some((layers, Division::Destinations, 1)));
        let is_most = layers > 1 && layers == most;
        divisions.extend(is_most.then_some((layers, Division::Destinations, usize::MAX)));
        divisions
    })
}

/// Paths to all LIDs.
#[derive(Default)]
struct Routed<'a> {
    rows: Vec<Lft>,
    paths: Option<Paths<'a>>,
    /// In how many layers.
    layers: usize,
    division: Division,
    /// How many paths from switches with hosts to hosts' LIDs are longer than the shortest.
    detours: usize,
    /// By channel: how many hosts' packets to how many LIDs cross it.
    loads: Vec<u64>,
    /// The largest of them.
    load_max: u64,
}

impl Routed<'_> {
    /// Whether it serves better than another one. It only gets worse with every path.
    fn is_better(&self, other: Option<&Self>) -> bool {
        let rank = |routed: &Self| {
            let Self {
                load_max,
                detours,
                layers,
                division,
                ..
            } = *routed;
            (load_max, detours, layers, division)
        };
        other.is_none_or(|other| rank(self) < rank(other))
    }
}

impl<'a> Demand<'a> {
    fn new(network: &'a Network, lids: &Lids) -> Self {
        let count = network.switches().len();
        let targets = by_switch(network, targets(network, lids));
        let of_hosts = |own: &Vec<Target>| own.iter().filter(|one| one.host.is_some()).count();
        let hosts = network.hosts_at().iter().map(|hosts| u64_of(hosts.len()));
        Self {
            network,
            top: lids.top(),
            sizes: targets.iter().map(|own| u64_of(of_hosts(own))).collect(),
            targets,
            sources: hosts.collect(),
            with_hosts: (0..count).filter(|&at| network.has_hosts(at)).collect(),
        }
    }

    /// The paths to the hosts' switches that serve best, in so many layers at most.
    ///
    /// Shortest paths come first: they mostly serve best, and what is seen to be worse is given up.
    fn best(&self, lids: &Lids, have: usize) -> Routed<'a> {
        let most = have.min(self.with_hosts.len()).max(1);
        let of_hosts = |target: &&Target| target.host.is_some();
        let targets = self.targets.iter().flatten().filter(of_hosts);
        let targets: Vec<Target> = targets.copied().collect();
        let fits = |routed: &Routed<'_>| {
            let paths = TablePaths::new(self.network, &routed.rows, &targets);
            routed.division == Division::Pairs || Layers::fit(self.network, &paths, have)
        };
        // Keeping packets apart leaves the busiest channel what it carries, or less.
        let kinds = [true, false].into_iter().filter(|_| most > 1);
        let mut best = kinds
            .map(|keeps_apart| self.shortest(lids, keeps_apart))
            .find(fits);
        for (layers, division, trees) in attempts(most) {
            let routed = self.routed(layers, division, trees, best.as_ref());
            best = routed.filter(fits).or(best);
        }
        best.unwrap_or_default()
    }

    /// Balanced shortest paths to all LIDs, whatever cycles they close in one layer.
    fn shortest(&self, lids: &Lids, keeps_apart: bool) -> Routed<'a> {
        let network = self.network;
        let targets: Vec<Target> = self.targets.iter().flatten().copied().collect();
        let rows = every_lid(network, lids, &targets, keeps_apart);
        let loads = loads(network, &rows, &targets);
        Routed {
            rows,
            paths: None,
            layers: 1,
            division: Division::Afterwards,
            detours: 0,
            load_max: loads.iter().copied().max().unwrap_or(0),
            loads,
        }
    }

    /// The layers of the pairs of switches.
    ///
    /// # Errors
    /// How many it takes, if there are fewer.
    fn layers(
        &self,
        routed: &Routed<'_>,
        targets: &[Target],
        have: usize,
    ) -> Result<Layers, usize> {
        let paths = TablePaths::new(self.network, &routed.rows, targets);
        let limits = layers::LayerLimits {
            have,
            for_switches: true,
        };
        match (&routed.paths, routed.division) {
            (Some(found), Division::Pairs) => {
                let layer = |a, b| found.layer(a, b);
                Ok(Layers::given(self.network, &paths, limits, layer))
            }
            _ => Layers::new(self.network, &paths, limits),
        }
    }

    /// Paths to the hosts' switches in so many layers, of so many kinds at most to each; `None` if they are not better
    /// than others.
    fn routed(
        &self,
        layers: usize,
        division: Division,
        trees: usize,
        others: Option<&Routed<'_>>,
    ) -> Option<Routed<'a>> {
        let network = self.network;
        let count = network.switches().len();
        let mut routed = Routed {
            rows: vec![Lft::new(self.top); count],
            paths: None,
            layers,
            division,
            detours: 0,
            loads: vec![0; network.channels().len()],
            load_max: self.load_min(),
        };
        if !routed.is_better(others) {
            return None;
        }
        let parts = partition(network, &self.with_hosts, &self.sizes, layers, division);
        let mut paths = Paths::new(network, &parts, &self.sizes, division);
        for &switch in parts.iter().flatten() {
            self.route_hosts(switch, trees, &mut paths, &mut routed);
            if !routed.is_better(others) {
                return None;
            }
        }
        routed.paths = Some(paths);
        Some(routed)
    }

    /// What the busiest channel carries at least, whatever the paths: the packets of a switch's hosts leave it by its
    /// channels, and those to them come by the channels' reverses.
    fn load_min(&self) -> u64 {
        let mut all = vec![(0, 0); self.targets.len()];
        for &switch in &self.with_hosts {
            let all: &mut (u64, u64) = &mut all[self.network.component(switch)];
            all.0 += self.sources[switch];
            all.1 += self.sizes[switch];
        }
        let least = self.with_hosts.iter().map(|&switch| {
            let all = all[self.network.component(switch)];
            let (sources, lids) = (self.sources[switch], self.sizes[switch]);
            let out = sources * (all.1 - lids);
            let back = (all.0 - sources) * lids;
            let channels = self.network.leaving(switch).len().max(1);
            out.max(back).div_ceil(u64_of(channels))
        });
        least.max().unwrap_or(0)
    }

    /// Paths to the switches without hosts, and from them.
    fn route_others(&self, routed: &mut Routed<'a>) {
        let Routed {
            paths: Some(paths),
            loads,
            rows,
            ..
        } = routed
        else {
            return;
        };
        let without = switch_paths::without_hosts(self.network);
        if without.is_empty() {
            return;
        }
        paths.add_turns_for_switches(loads);
        for switch in without {
            paths.route_other(switch, loads);
            for target in &self.targets[switch] {
                self.enter(target, paths.next(), rows);
            }
        }
        for target in self
            .with_hosts
            .iter()
            .flat_map(|&switch| &self.targets[switch])
        {
            let next = (rows.iter().enumerate()).map(|(from, row)| {
                let channel = self.network.channel_by_port(from, row.get(target.lid));
                channel.unwrap_or(NONE)
            });
            let next: Vec<usize> = next.collect();
            paths.complete(target.switch, &next, loads);
            self.enter(target, paths.next(), rows);
        }
    }

    /// Paths to the LIDs of a switch's hosts and its own.
    fn route_hosts(
        &self,
        switch: usize,
        trees: usize,
        paths: &mut Paths<'_>,
        routed: &mut Routed<'_>,
    ) {
        let shortest = self.network.hops_to(switch);
        for (number, target) in self.targets[switch].iter().enumerate() {
            if target.host.is_some() {
                if number < trees {
                    paths.route(switch, &routed.loads);
                }
                let is_longer =
                    |&&from: &&usize| shortest[from].is_some_and(|own| own < paths.hops()[from]);
                routed.detours += self.with_hosts.iter().filter(is_longer).count();
                self.add_load(paths, routed);
            }
            self.enter(target, paths.next(), &mut routed.rows);
        }
    }

    fn enter(&self, target: &Target, next: &[usize], rows: &mut [Lft]) {
        targets::enter(self.network, target, next, rows);
        rows[target.switch].set(target.lid, target.port);
    }

    /// Adds to each channel the hosts whose packets cross it.
    fn add_load(&self, paths: &Paths<'_>, routed: &mut Routed<'_>) {
        let mut behind = self.sources.clone();
        let mut farthest: Vec<usize> = (0..behind.len())
            .filter(|&switch| paths.next()[switch] != NONE)
            .collect();
        farthest.sort_by_key(|&switch| core::cmp::Reverse(paths.hops()[switch]));
        for switch in farthest {
            let channel = paths.next()[switch];
            routed.loads[channel] += behind[switch];
            routed.load_max = routed.load_max.max(routed.loads[channel]);
            behind[self.network.channels()[channel].to] += behind[switch];
        }
    }
}
