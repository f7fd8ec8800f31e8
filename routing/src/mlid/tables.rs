//! Forwarding tables from labels: equations (1) and (2) of MLID04 where the tree is whole, and the
//! nearest thing to them where it is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use topologies::{FatTree, Graph, SwitchLabel};
use wire::convert::usize_of;
use wire::{Guid, PortNum};

use super::layout::{Layout, Scheme};
use super::wiring::{Reach, Wiring};
use crate::engine::Options;
use crate::error::{RoutingError, Warning};
use crate::fat_tree::{FatTreeLabels, path_rank};
use crate::lids::Lids;
use crate::tables::{Lft, PathSelection, Promises, Tables};

/// Tables of a fabric that has nothing that the labels do not have.
pub(super) fn build(
    graph: &Graph,
    labels: &FatTreeLabels,
    options: &Options,
    scheme: Scheme,
) -> Result<Tables, RoutingError> {
    let tree = labels.tree();
    let (layout, capped) = Layout::choose(tree, scheme, options)?;
    let lids = layout.lids(graph, labels);
    let mut builder = Builder::new(graph, labels, layout, &lids);
    builder.fill();
    let Builder {
        wiring, rows, cut, ..
    } = builder;
    let mut lfts = vec![Lft::default(); graph.len()];
    let mut order = vec![u32::MAX; graph.len()];
    for ((ordinal, node), row) in (0..).zip(&wiring.nodes).zip(rows) {
        if let Some(node) = node {
            lfts[node.index()] = row;
            order[node.index()] = ordinal;
        }
    }
    let mut warnings: Vec<Warning> = capped.into_iter().collect();
    warnings.extend(degraded(&wiring, &lids));
    warnings.extend(Warning::detours(cut.detours));
    warnings.extend((cut.no_path > 0).then_some(Warning::NoPath { pairs: cut.no_path }));
    let between_hosts = cut.detours == 0;
    let pids = (0..)
        .zip(labels.hosts())
        .map(|(pid, host)| {
            let guid = host.guid.0.wrapping_add(u64::from(host.port.get()));
            (Guid(guid), pid)
        })
        .collect();
    Ok(Tables {
        engine: scheme.engine(),
        because: None,
        lids,
        promises: Promises {
            up_down: between_hosts,
            minimal: between_hosts,
            deadlock_free: true,
            from_hosts_only: false,
        },
        labels: Some(labels.clone()),
        vl_assignment: None,
        warnings,
        lfts,
        order: Some(order),
        selection: Arc::new(ByRank {
            tree: tree.clone(),
            pids,
        }),
    })
}

/// MLID04 section 4.2: by rank; PIDs by port GUID.
#[derive(Debug)]
struct ByRank {
    tree: FatTree,
    pids: BTreeMap<Guid, u32>,
}

impl PathSelection for ByRank {
    fn offset(&self, source: Guid, destination: Guid) -> u32 {
        match (self.pids.get(&source), self.pids.get(&destination)) {
            (Some(&from), Some(&to)) => path_rank(&self.tree, from, to),
            _ => 0,
        }
    }
}

/// What is missing, if anything is.
fn degraded(wiring: &Wiring<'_>, lids: &Lids) -> Option<Warning> {
    let tree = wiring.labels.tree();
    let switches = wiring.nodes.iter().filter(|node| node.is_none()).count();
    let ports_missing = |ordinal: u32, range: core::ops::Range<u32>| {
        range.filter(|&k| !wiring.is_alive(ordinal, k)).count()
    };
    let (mut hosts, mut cables) = (0, 0);
    for ordinal in 0..wiring.len() {
        let label = wiring.switches[usize_of(ordinal)];
        let down = tree.down_ports(label.level);
        if tree.is_leaf(label.level) {
            hosts += ports_missing(ordinal, 0..down);
        }
        if wiring.nodes[usize_of(ordinal)].is_some() {
            cables += (down..u32::from(tree.ports()))
                .filter(|&k| !wiring.is_alive(ordinal, k))
                .filter(|&k| {
                    lids.of_guid(wiring.labels.far(label, k).guid)
                        .is_some_and(|r| r.end.is_some())
                })
                .count();
        }
    }
    (switches + hosts + cables > 0).then_some(Warning::Degraded {
        switches,
        hosts,
        cables,
    })
}

/// Pairs (switch, destination switch) of those that are there without an up*/down* path.
#[derive(Default)]
struct Cut {
    /// Such pairs of leaf switches that have a detour.
    detours: usize,
    /// Such pairs of any switches that have no path at all.
    no_path: usize,
}

struct Builder<'a> {
    tree: &'a FatTree,
    wiring: Wiring<'a>,
    whole: Option<Wiring<'a>>,
    layout: Layout,
    /// By ordinal; empty where the switch is missing.
    rows: Vec<Lft>,
    /// By ordinal: equation (2) for every path, as real ports; empty for roots.
    upwards: Vec<Vec<PortNum>>,
    /// Parents that lead on, a buffer.
    good: Vec<u32>,
    cut: Cut,
}

impl<'a> Builder<'a> {
    fn new(graph: &Graph, labels: &'a FatTreeLabels, layout: Layout, lids: &Lids) -> Self {
        let tree = labels.tree();
        let wiring = Wiring::new(graph, labels);
        let rows = wiring
            .nodes
            .iter()
            .map(|node| node.map_or_else(Lft::default, |_| Lft::new(lids.top())))
            .collect();
        let upwards = (0..wiring.len())
            .map(|ordinal| upwards(tree, &wiring, ordinal))
            .collect();
        Self {
            tree,
            wiring,
            whole: None,
            layout,
            rows,
            upwards,
            good: Vec::new(),
            cut: Cut::default(),
        }
    }

    fn fill(&mut self) {
        let turn = self.turning_leaf();
        let mut reach = Vec::new();
        // The detours need the paths to the turning leaf, so that comes first.
        let first = turn.into_iter();
        for destination in first.chain((0..self.wiring.len()).filter(|&o| Some(o) != turn)) {
            self.wiring.reach(destination, &mut reach);
            for ordinal in 0..self.wiring.len() {
                if self.wiring.nodes[usize_of(ordinal)].is_none() {
                    continue;
                }
                match reach[usize_of(ordinal)] {
                    Reach::Down => self.fill_down(ordinal, destination),
                    Reach::Up => self.fill_up(ordinal, destination, &reach),
                    Reach::Never => {}
                }
            }
            if reach.contains(&Reach::Never) {
                self.fill_rest(destination, turn, &reach);
            }
        }
    }

    /// The leaf switch below which packets may turn upwards: the first that the most switches
    /// reach.
    fn turning_leaf(&self) -> Option<u32> {
        let mut reach = Vec::new();
        let mut best = None;
        for ordinal in 0..self.wiring.len() {
            let is_leaf = self.tree.is_leaf(self.label(ordinal).level);
            if !is_leaf || self.wiring.nodes[usize_of(ordinal)].is_none() {
                continue;
            }
            self.wiring.reach(ordinal, &mut reach);
            let missed = reach.iter().filter(|&&r| r == Reach::Never).count();
            if best.is_none_or(|(least, _)| missed < least) {
                best = Some((missed, ordinal));
            }
            if missed == 0 {
                break;
            }
        }
        best.map(|(_, ordinal)| ordinal)
    }

    fn label(&self, ordinal: u32) -> SwitchLabel {
        self.wiring.switches[usize_of(ordinal)]
    }

    /// The PIDs of a leaf switch's hosts; none for other switches.
    fn pids(&self, ordinal: u32) -> core::ops::Range<u32> {
        let label = self.label(ordinal);
        if self.tree.is_leaf(label.level) {
            let hosts = self.tree.down_ports(label.level);
            label.index * hosts..(label.index + 1) * hosts
        } else {
            0..0
        }
    }

    fn set_switch(&mut self, ordinal: u32, destination: u32, port: PortNum) {
        self.rows[usize_of(ordinal)].set(self.layout.switch(destination), port);
    }

    /// The entries of a host's LIDs.
    fn host_entries(&mut self, ordinal: u32, pid: u32) -> &mut [PortNum] {
        let first = self.layout.host(pid).index();
        let count = usize::from(self.layout.lmc.lids());
        &mut self.rows[usize_of(ordinal)].entries_mut()[first..first + count]
    }

    /// The entries of the LIDs of all hosts of a leaf switch, which stand side by side.
    fn leaf_entries(&mut self, ordinal: u32, leaf: u32) -> &mut [PortNum] {
        let pids = self.pids(leaf);
        if pids.is_empty() {
            return &mut [];
        }
        let first = self.layout.host(pids.start).index();
        let count = pids.len() * usize::from(self.layout.lmc.lids());
        &mut self.rows[usize_of(ordinal)].entries_mut()[first..first + count]
    }

    /// Equation (1).
    fn fill_down(&mut self, ordinal: u32, destination: u32) {
        if ordinal == destination {
            self.set_switch(ordinal, destination, PortNum::MANAGEMENT);
            for (k, pid) in (0..).zip(self.pids(ordinal)) {
                let port = self.live_port(ordinal, k);
                self.host_entries(ordinal, pid).fill(port);
            }
            return;
        }
        let k = digit_towards(self.tree, self.label(ordinal), self.label(destination));
        let port = self.wiring.port(ordinal, k);
        self.set_switch(ordinal, destination, port);
        self.leaf_entries(ordinal, destination).fill(port);
    }

    fn live_port(&self, ordinal: u32, k: u32) -> PortNum {
        if self.wiring.is_alive(ordinal, k) {
            self.wiring.port(ordinal, k)
        } else {
            PortNum::NONE
        }
    }

    /// Equation (2) where the parent that it names leads to the destination, else another.
    fn fill_up(&mut self, ordinal: u32, destination: u32, reach: &[Reach]) {
        let half = self.tree.half();
        let mut good = core::mem::take(&mut self.good);
        good.clear();
        good.extend((0..half).filter(|&j| self.wiring.leads(ordinal, j, reach)));
        let choose = |preferred: u32, spread: u32| {
            if good.binary_search(&preferred).is_ok() {
                preferred
            } else {
                // A destination that is reached upwards has a parent that leads there.
                good[usize_of(spread) % good.len()]
            }
        };
        let (here, there) = (self.label(ordinal), self.label(destination));
        let j = choose(parent_towards(self.tree, here, there), there.index);
        self.set_switch(ordinal, destination, self.wiring.port(ordinal, half + j));
        if good.len() == usize_of(half) {
            self.copy_upwards(ordinal, destination);
        } else {
            let step = self.tree.power(self.tree.levels() - 1 - here.level);
            for pid in self.pids(destination) {
                let first_path = self.layout.path_of(self.tree, pid);
                for (offset, lid) in (0..).zip(self.layout.host_lids(pid)) {
                    let path = first_path + offset;
                    // What the digit that names the dead parent leaves of the path, and the host,
                    // spread the entries over the parents that are left.
                    let spread = path / step / half + path % step + pid;
                    let j = choose(path / step % half, spread);
                    self.rows[usize_of(ordinal)].set(lid, self.wiring.port(ordinal, half + j));
                }
            }
        }
        self.good = good;
    }

    /// Equation (2) for all hosts of a leaf switch.
    fn copy_upwards(&mut self, ordinal: u32, leaf: u32) {
        let pids = self.pids(leaf);
        if pids.is_empty() {
            return;
        }
        let upwards = core::mem::take(&mut self.upwards[usize_of(ordinal)]);
        let mut path = usize_of(self.layout.path_of(self.tree, pids.start));
        let mut entries = self.leaf_entries(ordinal, leaf);
        while !entries.is_empty() {
            let count = entries.len().min(upwards.len() - path);
            let (now, later) = entries.split_at_mut(count);
            now.copy_from_slice(&upwards[path..path + count]);
            entries = later;
            path = 0;
        }
        self.upwards[usize_of(ordinal)] = upwards;
    }

    /// Entries of switches without an up*/down* path to the destination: the port towards the turning
    /// leaf, above which a path will be found. If that has none either, the destination is cut off,
    /// and entries stay what they are in the whole tree except over dead ports.
    fn fill_rest(&mut self, destination: u32, turn: Option<u32>, reach: &[Reach]) {
        let here = self.wiring.nodes[usize_of(destination)].is_some();
        let turn = turn.filter(|&turn| reach[usize_of(turn)] != Reach::Never);
        let Some(turn) = turn else {
            self.keep_whole(destination, here, reach);
            return;
        };
        let turn_lid = self.layout.switch(turn);
        for ordinal in 0..self.wiring.len() {
            let missing = self.wiring.nodes[usize_of(ordinal)].is_none();
            if missing || reach[usize_of(ordinal)] != Reach::Never {
                continue;
            }
            let port = self.rows[usize_of(ordinal)].get(turn_lid);
            self.set_switch(ordinal, destination, port);
            self.leaf_entries(ordinal, destination).fill(port);
            self.count(ordinal, destination, port != PortNum::NONE);
        }
    }

    fn count(&mut self, ordinal: u32, destination: u32, detour: bool) {
        let is_leaf = |switch| self.tree.is_leaf(self.label(switch).level);
        let leaves = is_leaf(ordinal) && is_leaf(destination);
        self.cut.detours += usize::from(detour && leaves);
        self.cut.no_path += usize::from(!detour);
    }

    fn keep_whole(&mut self, destination: u32, here: bool, reach: &[Reach]) {
        let whole = self.whole.take().unwrap_or_else(|| self.wiring.whole());
        let mut whole_reach = Vec::new();
        whole.reach(destination, &mut whole_reach);
        for ordinal in 0..self.wiring.len() {
            let missing = self.wiring.nodes[usize_of(ordinal)].is_none();
            if missing || reach[usize_of(ordinal)] != Reach::Never {
                continue;
            }
            let (own, other) = (self.label(ordinal), self.label(destination));
            let down = self.tree.half();
            match whole_reach[usize_of(ordinal)] {
                Reach::Down => {
                    let k = digit_towards(self.tree, own, other);
                    let port = self.live_port(ordinal, k);
                    self.set_switch(ordinal, destination, port);
                    self.leaf_entries(ordinal, destination).fill(port);
                }
                Reach::Up => {
                    let j = parent_towards(self.tree, own, other);
                    let port = self.live_port(ordinal, down + j);
                    self.set_switch(ordinal, destination, port);
                    self.copy_upwards(ordinal, destination);
                    let dead: Vec<PortNum> = (0..down)
                        .filter(|&j| !self.wiring.is_alive(ordinal, down + j))
                        .map(|j| self.wiring.port(ordinal, down + j))
                        .collect();
                    for entry in self.leaf_entries(ordinal, destination) {
                        if dead.contains(entry) {
                            *entry = PortNum::NONE;
                        }
                    }
                }
                Reach::Never => {}
            }
            if here {
                self.count(ordinal, destination, false);
            }
        }
        self.whole = Some(whole);
    }
}

/// Equation (2) for every path, `0 .. h^(n-1)`, as real ports of a switch.
fn upwards(tree: &FatTree, wiring: &Wiring<'_>, ordinal: u32) -> Vec<PortNum> {
    let level = wiring.switches[usize_of(ordinal)].level;
    if level == 0 {
        return Vec::new();
    }
    let (half, step) = (tree.half(), tree.power(tree.levels() - 1 - level));
    (0..tree.power(tree.levels() - 1))
        .map(|path| wiring.port(ordinal, half + path / step % half))
        .collect()
}

/// The port, from 0, by which a switch reaches one below it: a digit of the lower one's label.
fn digit_towards(tree: &FatTree, above: SwitchLabel, below: SwitchLabel) -> u32 {
    let shifted = below.index / tree.power(tree.levels() - 2 - above.level);
    if above.level == 0 {
        shifted
    } else {
        shifted % tree.half()
    }
}

/// The parent that a switch takes towards a switch which is not below it. Going up from level `l`
/// appends digit `n - 1 - l` of the suffix; where the destination has such a digit it must be that
/// one, else destinations are spread as equation (2) does, by their number.
fn parent_towards(tree: &FatTree, here: SwitchLabel, there: SwitchLabel) -> u32 {
    let (place, digits) = (
        tree.levels() - 1 - here.level,
        tree.levels() - 1 - there.level,
    );
    let number = if place < digits {
        there.index % tree.power(digits) / tree.power(digits - 1 - place)
    } else {
        there.index / tree.power(place)
    };
    number % tree.half()
}
