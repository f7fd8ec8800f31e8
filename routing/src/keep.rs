//! Tables that were computed for a fabric, kept for what the fabric has become, where their engine
//! no longer applies: a mesh with a cable missing, more layers wanted than there are lanes.
//!
//! **LIDs** stay as they were, each port with its own LMC; ports that are new get one LID.
//!
//! **Entries** stay as they were wherever packets still arrive. The rest is mended, as little as
//! will do; two engines' ways together can make channels wait in a circle though neither's do, so
//! that, where the tables were free of that before, each attempt is verified and the next one made:
//!
//! 1. Switches from which packets for a LID do not arrive send them to a neighbour from which they
//!    do, or that is nearer to one, LID by LID in turn among several.
//! 2. LIDs that do not arrive from everywhere get the entries in all switches that `updn` has for
//!    the port.
//! 3. All LIDs do, on one lane.
//!
//! Cost: switches times LIDs and `updn` once, as for up to three verifications.

use std::collections::{BTreeMap, VecDeque};

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Lid, Lmc, PortNum};

use crate::engines::{Engine as _, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::{Lids, keep as keep_lids};
use crate::net::Net;
use crate::network::Network;
use crate::tables::{Lft, Promises, Tables};
use crate::updn::Updn;
use crate::verify::verify;

/// What became of tables that were to be kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The tables. [`Tables::engine`] is `updn` if all LIDs are routed by that.
    pub tables: Tables,
    /// How many LIDs of ports that are here have other entries than before.
    pub rerouted: usize,
    /// How many LIDs the ports that are here have.
    pub lids: usize,
}

/// Keeps tables for a fabric that has changed since they were computed for `before`.
///
/// # Errors
/// [`RoutingError::LidSpaceExhausted`] if there are no LIDs left for new ports.
pub fn keep(graph: &Graph, before: &Graph, old: &Tables) -> Result<Kept, RoutingError> {
    let net = Net::new(graph);
    let (lids, changed) = keep_lids(&net, &old.lids.known())?;
    let mut tables = moved(graph, before, old, lids);
    tables
        .warnings
        .extend((changed > 0).then_some(Warning::LidsChanged { ports: changed }));
    let network = Network::new(graph);
    let broken = broken(graph, &network, &tables, old.promises.from_hosts_only);
    let here = tables.lids.iter().filter(|range| range.end.is_some());
    let lids = here.map(|range| range.lids().len()).sum();
    let mut kept = Kept {
        tables,
        rerouted: broken.len(),
        lids,
    };
    if broken.is_empty() {
        return Ok(kept);
    }
    let promises = kept.tables.promises;
    let waits =
        |tables: &Tables| promises.deadlock_free && verify(graph, tables, promises).cycle.is_some();
    let untouched = kept.tables.lfts.clone();
    for (&lid, one) in &broken {
        mend(&network, &mut kept.tables, lid, one);
    }
    if waits(&kept.tables) {
        let detour = around(graph, &kept.tables.lids)?;
        kept.tables.lfts = untouched;
        replace(graph, &mut kept.tables, &detour, |lid| {
            broken.contains_key(&lid)
        });
        if waits(&kept.tables) {
            replace(graph, &mut kept.tables, &detour, |_| true);
            kept.tables.lanes = None;
            kept.tables.engine = detour.engine;
            kept.rerouted = kept.lids;
        }
    }
    Ok(kept)
}

/// The old tables with the nodes of the new graph.
fn moved(graph: &Graph, before: &Graph, old: &Tables, lids: Lids) -> Tables {
    let now = |node: NodeId| {
        let was = before.node(node);
        let found = graph.find_guid(was.guid)?;
        (graph.node(found).kind == was.kind).then_some(found)
    };
    let mut lfts = vec![Lft::default(); graph.len()];
    for switch in before.switches() {
        if let Some(node) = now(switch) {
            lfts[node.index()] = old.lft(switch).clone();
        }
    }
    Tables {
        lids,
        promises: Promises {
            deadlock_free: old.promises.deadlock_free,
            ..Promises::default()
        },
        because: None,
        labels: None,
        warnings: Vec::new(),
        lanes: old.lanes.as_ref().map(|lanes| lanes.moved(graph, now)),
        lfts,
        order: None,
        ..old.clone()
    }
}

/// A LID whose packets do not arrive from everywhere.
struct Broken {
    /// The switch that has the port, or to which its cable leads.
    home: usize,
    /// What that switch is to do with them.
    last: PortNum,
    /// By switch whether they arrive; `None` where they need not.
    arrives: Vec<Option<bool>>,
}

/// The LIDs that do not reach their owner from everywhere that cables join to it. With `bases_only`
/// switches without hosts need not reach any but base LIDs.
fn broken(
    graph: &Graph,
    network: &Network,
    tables: &Tables,
    bases_only: bool,
) -> BTreeMap<Lid, Broken> {
    let hosts_at = network.hosts_at();
    let mut broken = BTreeMap::new();
    for range in tables.lids.iter() {
        let Some((home, last)) = range.end.and_then(|end| home(graph, network, end)) else {
            continue;
        };
        let hops = network.hops_to(home);
        for lid in range.lids() {
            let mut walk = Walk {
                network,
                tables,
                lid,
                known: vec![None; hops.len()],
            };
            walk.known[home] = Some(walk.exit(home) == last);
            let may_fail =
                |switch: usize| bases_only && lid != range.base && hosts_at[switch].is_empty();
            let joined =
                (0..hops.len()).filter(|&switch| hops[switch].is_some() && !may_fail(switch));
            let mut all = true;
            for switch in joined {
                all &= walk.arrives(switch);
            }
            if !all {
                let arrives = walk.known;
                broken.insert(
                    lid,
                    Broken {
                        home,
                        last,
                        arrives,
                    },
                );
            }
        }
    }
    broken
}

/// The switch that has a port, or to which its cable leads, and what that switch does with packets
/// for it.
fn home(graph: &Graph, network: &Network, end: Endpoint) -> Option<(usize, PortNum)> {
    match graph.node(end.node).kind {
        NodeKind::Switch => Some((network.switch(end.node)?, PortNum::MANAGEMENT)),
        NodeKind::Host => {
            let peer = graph.peer(end)?;
            Some((network.switch(peer.node)?, peer.port))
        }
    }
}

/// From which switches packets for one LID arrive.
struct Walk<'a> {
    network: &'a Network,
    tables: &'a Tables,
    lid: Lid,
    /// By switch.
    known: Vec<Option<bool>>,
}

impl Walk<'_> {
    fn exit(&self, switch: usize) -> PortNum {
        let node = self.network.switches()[switch];
        self.tables.lft(node).get(self.lid)
    }

    fn arrives(&mut self, from: usize) -> bool {
        let mut trail = Vec::new();
        let mut at = from;
        let arrives = loop {
            if let Some(known) = self.known[at] {
                break known;
            }
            // Whoever comes here again has gone round.
            self.known[at] = Some(false);
            trail.push(at);
            let node = self.network.switches()[at];
            let port = self.exit(at);
            match self.network.channel_at(Endpoint { node, port }) {
                Some(channel) => at = self.network.channels()[channel].to,
                None => break false,
            }
        };
        for switch in trail {
            self.known[switch] = Some(arrives);
        }
        arrives
    }
}

/// Leads packets for a LID to where they arrive, by as few hops as it takes.
fn mend(network: &Network, tables: &mut Tables, lid: Lid, broken: &Broken) {
    let count = broken.arrives.len();
    let arrives = |switch: &usize| *switch == broken.home || broken.arrives[*switch] == Some(true);
    let mut open: VecDeque<usize> = (0..count).filter(arrives).collect();
    let mut hops: Vec<Option<u32>> = (0..count).map(|s| arrives(&s).then_some(0)).collect();
    while let Some(at) = open.pop_front() {
        for channel in network.leaving(at) {
            let next = network.channels()[channel].to;
            if hops[next].is_none() {
                hops[next] = hops[at].map(|hops| hops + 1);
                open.push_back(next);
            }
        }
    }
    let mut set = |switch: usize, port| {
        let node = network.switches()[switch];
        tables.lfts[node.index()].set(lid, port);
    };
    set(broken.home, broken.last);
    for switch in 0..count {
        let Some(nearer) = hops[switch].and_then(|hops| hops.checked_sub(1)) else {
            continue;
        };
        let channels = network.leaving(switch);
        let ways: Vec<usize> = channels
            .filter(|&channel| hops[network.channels()[channel].to] == Some(nearer))
            .collect();
        if let Some(&channel) = ways.get(lid.index() % ways.len().max(1)) {
            set(switch, network.channels()[channel].port);
        }
    }
}

/// Tables of `updn`, with as many LIDs a port as any port has, if there are that many.
fn around(graph: &Graph, lids: &Lids) -> Result<Tables, RoutingError> {
    let lmc = lids.iter().map(|range| range.lmc).max();
    let with = |lmc: Option<Lmc>| {
        let options = Options {
            lmc,
            ..Options::default()
        };
        Updn.route(graph, &options)
    };
    with(lmc).or_else(|_| with(None))
}

/// Gives LIDs the entries that `detour` has for the same ports.
fn replace(graph: &Graph, tables: &mut Tables, detour: &Tables, which: impl Fn(Lid) -> bool) {
    for range in tables.lids.iter() {
        let Some(other) = range.end.and_then(|end| detour.lids.of(end)) else {
            continue;
        };
        for (offset, lid) in (0..).zip(range.lids()).filter(|&(_, lid)| which(lid)) {
            let stand_in = other.at_offset(offset);
            for switch in graph.switches() {
                let port = detour.lft(switch).get(stand_in);
                tables.lfts[switch.index()].set(lid, port);
            }
        }
    }
}
