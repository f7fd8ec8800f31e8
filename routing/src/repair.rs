//! Repairing tables: what becomes of tables that were computed for a fabric when the fabric changes
//! and their engine no longer applies: a mesh with a cable missing, more layers needed than there
//! are VLs.
//!
//! **LIDs** stay as they were, each port with its own LMC; ports that the tables do not have get those that
//! they are known to have had, and new ones get one LID.
//!
//! **Entries** stay as they were wherever packets still arrive. The rest is rerouted, as little as
//! will do. Old and new paths together can form a credit loop though neither do alone, so that,
//! where the tables promised freedom from deadlock, each attempt is verified, and the next one made if there
//! is a credit loop among packets ([`LoopOf`]) that had none before:
//!
//! 1. Switches from which packets for a LID do not arrive send them to a neighbour from which they
//!    do, or that is nearer to one, LID by LID in turn among several.
//! 2. LIDs that do not arrive from everywhere get the entries in all switches that `updn` has for
//!    the port.
//! 3. All LIDs do, on one VL.
//!
//! Cost: switches times LIDs and `updn` once, as for up to four verifications.

use std::collections::BTreeMap;

use topologies::{Graph, NodeId};
use wire::{Lid, Lmc, PortNum};

use crate::engine::{Engine as _, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::{KnownLids, Lids, assign_known};
use crate::network::Network;
use crate::tables::{Lft, Promises, Tables};
use crate::updn::Updn;
use crate::verify::{LoopOf, verify};

/// Repaired tables.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The tables. [`Tables::engine`] is `updn` if all LIDs are routed by that.
    pub tables: Tables,
    /// How many LIDs of ports that are here have other entries than before.
    pub rerouted: usize,
    /// How many LIDs the ports that are here have.
    pub lids: usize,
}

/// Repairs tables for a fabric that has changed since they were computed for `before`. `known`: the LIDs of
/// ports that were away then; those that the tables give to others that are here do not count.
///
/// # Errors
/// [`RoutingError::LidSpaceExhausted`] if there are no LIDs left for new ports.
pub fn repair(
    graph: &Graph,
    before: &Graph,
    old: &Tables,
    known: &KnownLids,
) -> Result<Repair, RoutingError> {
    let network = Network::new(graph);
    let (lids, changed) = assign_known(&network, &old.lids.known(), known)?;
    let mut tables = moved(graph, before, old, lids);
    tables.warnings.extend(Warning::lids_changed(changed));
    let broken = broken(&network, &tables, old.promises.from_hosts_only);
    let here = tables.lids.iter().filter(|range| range.end.is_some());
    let lids = here.map(|range| range.lids().len()).sum();
    let mut repair = Repair {
        tables,
        rerouted: broken.len(),
        lids,
    };
    if broken.is_empty() {
        return Ok(repair);
    }
    let promises = repair.tables.promises;
    let loops_before = loops(before, old);
    let can_deadlock = |tables: &Tables| {
        let is_new = |packets: &LoopOf| !loops_before.contains(packets);
        promises.deadlock_free && loops(graph, tables).iter().any(is_new)
    };
    let untouched = repair.tables.lfts.clone();
    for (&lid, one) in &broken {
        reroute(&network, &mut repair.tables, lid, one);
    }
    if can_deadlock(&repair.tables) {
        let detour = updn_tables(graph, &network, &repair.tables.lids)?;
        repair.tables.lfts = untouched;
        replace(&network, &mut repair.tables, &detour, |lid| {
            broken.contains_key(&lid)
        });
        if can_deadlock(&repair.tables) {
            replace(&network, &mut repair.tables, &detour, |_| true);
            repair.tables.vl_assignment = None;
            repair.tables.engine = detour.engine;
            repair.rerouted = repair.lids;
        }
    }
    Ok(repair)
}

/// The packets among which tables have credit loops.
fn loops(graph: &Graph, tables: &Tables) -> Vec<LoopOf> {
    let report = verify(graph, tables, tables.promises);
    report.credit_loops().map(|(packets, _)| packets).collect()
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
        vl_assignment: old
            .vl_assignment
            .as_ref()
            .map(|assignment| assignment.moved(graph, now)),
        lfts,
        order: None,
        ..old.clone()
    }
}

/// A LID whose packets do not arrive from everywhere.
struct Broken {
    /// The switch that has the port, or to which its cable leads.
    last_switch: usize,
    /// The port by which that switch delivers.
    last_port: PortNum,
    /// By switch whether they arrive; `None` where they need not.
    arrives: Vec<Option<bool>>,
}

/// The LIDs that do not reach their owner from everywhere that cables join to it. With `bases_only`
/// switches without hosts need not reach any but base LIDs.
fn broken(network: &Network, tables: &Tables, bases_only: bool) -> BTreeMap<Lid, Broken> {
    let mut broken = BTreeMap::new();
    for range in tables.lids.iter() {
        let last_hop = range.end.and_then(|end| network.last_hop(end));
        let Some((last_switch, last_port)) = last_hop else {
            continue;
        };
        let component = network.component(last_switch);
        for lid in range.lids() {
            let mut walk = Walk {
                network,
                tables,
                lid,
                known: vec![None; network.switches().len()],
            };
            walk.known[last_switch] = Some(walk.exit(last_switch) == last_port);
            let may_fail =
                |switch: usize| bases_only && lid != range.base && !network.has_hosts(switch);
            let joined = (0..network.switches().len())
                .filter(|&switch| network.component(switch) == component && !may_fail(switch));
            let mut all = true;
            for switch in joined {
                all &= walk.arrives(switch);
            }
            if !all {
                let arrives = walk.known;
                broken.insert(
                    lid,
                    Broken {
                        last_switch,
                        last_port,
                        arrives,
                    },
                );
            }
        }
    }
    broken
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
            // A packet that comes here again is in a loop.
            self.known[at] = Some(false);
            trail.push(at);
            match self.network.channel_by_port(at, self.exit(at)) {
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
fn reroute(network: &Network, tables: &mut Tables, lid: Lid, broken: &Broken) {
    let count = broken.arrives.len();
    let arrives =
        |switch: &usize| *switch == broken.last_switch || broken.arrives[*switch] == Some(true);
    let arriving: Vec<usize> = (0..count).filter(arrives).collect();
    let hops = network.hops_from_any(&arriving);
    let mut set = |switch: usize, port| {
        let node = network.switches()[switch];
        tables.lfts[node.index()].set(lid, port);
    };
    set(broken.last_switch, broken.last_port);
    for (switch, hops_here) in hops.iter().enumerate() {
        let Some(nearer) = hops_here.and_then(|hops| hops.checked_sub(1)) else {
            continue;
        };
        let channels: Vec<usize> = network
            .leaving(switch)
            .filter(|&channel| hops[network.channels()[channel].to] == Some(nearer))
            .collect();
        if let Some(&channel) = channels.get(lid.index() % channels.len().max(1)) {
            set(switch, network.channels()[channel].port);
        }
    }
}

/// Tables of `updn`, with as many LIDs a port as any port has, if there are that many.
fn updn_tables(graph: &Graph, network: &Network, lids: &Lids) -> Result<Tables, RoutingError> {
    let lmc = lids.iter().map(|range| range.lmc).max();
    let with = |lmc: Option<Lmc>| {
        let options = Options {
            lmc,
            ..Options::default()
        };
        Updn.route(graph, network, &options)
    };
    with(lmc).or_else(|_| with(None))
}

/// Gives LIDs the entries that `detour` has for the same ports.
fn replace(network: &Network, tables: &mut Tables, detour: &Tables, which: impl Fn(Lid) -> bool) {
    for range in tables.lids.iter() {
        let Some(other) = range.end.and_then(|end| detour.lids.of(end)) else {
            continue;
        };
        for (offset, lid) in (0..).zip(range.lids()).filter(|&(_, lid)| which(lid)) {
            let stand_in = other.at_offset(offset);
            for &switch in network.switches() {
                let port = detour.lft(switch).get(stand_in);
                tables.lfts[switch.index()].set(lid, port);
            }
        }
    }
}
