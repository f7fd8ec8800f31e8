//! Are the tables in the switches those that the engine computes for what is left of the fabric, and
//! do they do what it promises?
//!
//! The engine is asked anew, with the LIDs that ports have and the labels of the whole fabric, as a
//! manager that had just started would ask it. Where it no longer applies (a fat tree's engine on
//! what is no tree any more), the manager repairs the tables from before, and only what they do is
//! checked: every LID is reached from everywhere.

use hostd::control::{Reply, Request};
use routing::network::port_guid;
use routing::{KnownLids, Options, Promises, RoutingEngine, Tables, verify};
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Lid, Lmc, PortNum};

use crate::bed::Bed;
use crate::outcome::{Failure, FailureKind};

/// Entries that differ and are told one by one.
const TOLD_MAX: usize = 3;

/// What is left of the fabric, and how it is routed.
#[derive(Debug)]
pub(crate) struct Expected {
    /// What is left.
    pub(crate) surviving: Graph,
    /// The tables that the switches hold.
    pub(crate) tables: Tables,
    /// Whether nothing deadlocks by them, answers among it: those take the service level of what they
    /// answer, which is that of their own path only where all have the same.
    pub(crate) is_deadlock_free: bool,
}

/// Compares the switches' tables with the engine's, and verifies them.
pub(crate) fn check(bed: &mut Bed<'_>) -> Result<Expected, Failure> {
    let surviving = bed.twin.surviving();
    let known = lids(bed, &surviving);
    let schedule = bed.schedule;
    let labels = routing::recognise(&bed.graph).ok();
    let options = Options {
        lmc: schedule.lmc.and_then(|lmc| Lmc::new(lmc).ok()),
        known,
        labels,
        data_vls: Some(schedule.vls),
        ..Options::default()
    };
    // What is no fat tree when it is whole is never routed as one.
    let engine = match (schedule.engine, &options.labels) {
        (RoutingEngine::Auto, None) => RoutingEngine::Updn,
        (engine, _) => engine,
    };
    let computed = engine.route(&surviving, &options);
    // A manager that has never seen the whole fabric takes what it has seen for that.
    let is_known = !schedule.from_start || surviving.links().count() == bed.graph.links().count();
    // A Clos fabric without some of its spines is one, too, but its ports keep their LIDs.
    let is_smaller_clos = engine == RoutingEngine::Clos
        && computed
            .as_ref()
            .is_ok_and(|tables| moves_lids(tables, &options.known));
    let is_computed = is_known && computed.is_ok() && !is_smaller_clos;
    let mut tables = match computed {
        Ok(tables) if !is_smaller_clos => tables,
        _ => {
            let lmc = options.known.values().map(|&(_, lmc)| lmc).max();
            let options = Options {
                lmc,
                ..options.clone()
            };
            match RoutingEngine::Updn.route(&surviving, &options) {
                Ok(tables) => tables,
                Err(error) => return bed.fail(FailureKind::Routes, error.to_string()),
            }
        }
    };
    if is_computed {
        same_lids(bed, &surviving, &tables, &options.known)?;
        same_entries(bed, &surviving, &tables)?;
    }
    take_over(bed, &surviving, &mut tables);
    let promises = match is_computed {
        true => tables.promises,
        false => Promises {
            from_hosts_only: tables.promises.from_hosts_only,
            ..Promises::default()
        },
    };
    let report = verify(&surviving, &tables, promises);
    if let Some(problem) = report.problems.first() {
        let what = report.describe_problem(&surviving, problem);
        return bed.fail(FailureKind::Routes, what);
    }
    let is_deadlock_free = report.cycle.is_none() && has_one_level(&surviving, &tables);
    Ok(Expected {
        surviving,
        tables,
        is_deadlock_free,
    })
}

/// Whether tables give ports other LIDs than they have.
fn moves_lids(tables: &Tables, known: &KnownLids) -> bool {
    let moved = |range: &routing::LidRange| {
        let has = known.get(&range.guid);
        has.is_some_and(|&has| has != (range.base, range.lmc))
    };
    tables.lids.iter().any(moved)
}

/// Whether all packets between hosts have the same service level.
fn has_one_level(surviving: &Graph, tables: &Tables) -> bool {
    let Some(assignment) = &tables.vl_assignment else {
        return true;
    };
    let lids = owned(tables);
    let mut switches = surviving.switches();
    switches.all(|switch| {
        lids.iter()
            .all(|&lid| assignment.sl(switch, lid) == wire::Sl::default())
    })
}

/// The LIDs that ports have, by port GUID.
fn lids(bed: &mut Bed<'_>, surviving: &Graph) -> KnownLids {
    let mut known = KnownLids::new();
    for id in surviving.ids() {
        let node = surviving.node(id);
        match node.kind {
            NodeKind::Switch => {
                let lid = bed.twin.switch(&node.name).map(switchd::Switch::lid);
                known.extend(lid.map(|lid| (node.guid, (lid, Lmc::default()))));
            }
            NodeKind::Host => {
                let Some(whole) = bed.graph.find(&node.name) else {
                    continue;
                };
                if let Some(Reply::Identity(identity)) = bed.ask(whole, Request::Identity) {
                    known.insert(identity.port_guid, (identity.lid, identity.lmc));
                }
            }
        }
    }
    known
}

fn same_lids(
    bed: &Bed<'_>,
    surviving: &Graph,
    tables: &Tables,
    known: &KnownLids,
) -> Result<(), Failure> {
    for range in tables.lids.iter() {
        let Some(end) = range.end else { continue };
        let has = known.get(&port_guid(surviving, end)).copied();
        if has != Some((range.base, range.lmc)) {
            let name = &surviving.node(end.node).name;
            let what = format!(
                "{name} has LID and LMC {has:?}, and the engine gives {} and {}",
                range.base, range.lmc
            );
            return bed.fail(FailureKind::Tables, what);
        }
    }
    Ok(())
}

/// The entry of a switch for a LID.
fn entry(bed: &Bed<'_>, name: &str, lid: Lid) -> Option<PortNum> {
    let at = usize::from(lid.get());
    let block = u16::try_from(at / routing::BLOCK).ok()?;
    Some(bed.twin.switch(name)?.linear_block(block)[at % routing::BLOCK])
}

/// All LIDs that have an owner.
fn owned(tables: &Tables) -> Vec<Lid> {
    let present = tables.lids.iter().filter(|range| range.end.is_some());
    present.flat_map(|range| range.lids()).collect()
}

fn same_entries(bed: &Bed<'_>, surviving: &Graph, tables: &Tables) -> Result<(), Failure> {
    let mut different = Vec::new();
    for id in surviving.switches() {
        let name = &surviving.node(id).name;
        for lid in owned(tables) {
            let wanted = tables.lft(id).get(lid);
            let has = entry(bed, name, lid);
            if has != Some(wanted) {
                let has = has.unwrap_or(PortNum::NONE);
                different.push(format!(
                    "{name} sends LID {lid} to port {has}, not {wanted}"
                ));
            }
        }
        different.extend(different_vls(bed, surviving, tables, id));
    }
    if different.is_empty() {
        return Ok(());
    }
    let count = different.len();
    different.truncate(TOLD_MAX);
    let what = format!("{count} entries differ: {}", different.join("; "));
    bed.fail(FailureKind::Tables, what)
}

/// SL-to-VL tables that are not the engine's, where it has some.
fn different_vls(bed: &Bed<'_>, surviving: &Graph, tables: &Tables, id: NodeId) -> Vec<String> {
    let name = &surviving.node(id).name;
    let (Some(assignment), Some(switch)) = (&tables.vl_assignment, bed.twin.switch(name)) else {
        return Vec::new();
    };
    if bed.schedule.vls == 1 {
        return Vec::new();
    }
    let ports: Vec<PortNum> = surviving.cables(id).map(|(port, _)| port).collect();
    let mut different = Vec::new();
    for &input in &ports {
        for &output in ports.iter().filter(|&&output| output != input) {
            let wanted = assignment.table(id, input, output);
            let has = switch.sl_to_vl(input, output);
            if has != *wanted {
                different.push(format!(
                    "{name} maps SLs from port {input} to port {output} to {has:?}, not {wanted:?}"
                ));
            }
        }
    }
    different
}

/// Puts into the tables what the switches hold.
fn take_over(bed: &Bed<'_>, surviving: &Graph, tables: &mut Tables) {
    let lids = owned(tables);
    for id in surviving.switches() {
        let name = surviving.node(id).name.clone();
        for &lid in &lids {
            let has = entry(bed, &name, lid).unwrap_or(PortNum::NONE);
            if let Some(lft) = tables.lft_mut(id) {
                lft.set(lid, has);
            }
        }
    }
}

impl Expected {
    /// A host's LIDs.
    pub(crate) fn lids_of(&self, host: NodeId) -> Vec<Lid> {
        let range = self.tables.lids.of_node(host);
        range.map_or_else(Vec::new, |range| range.lids().collect())
    }

    /// The service level from a host to a LID.
    pub(crate) fn sl(&self, host: NodeId, dlid: Lid) -> wire::Sl {
        let source = Endpoint {
            node: host,
            port: PortNum::new(1),
        };
        let assignment = self.tables.vl_assignment.as_ref();
        assignment.map_or_else(wire::Sl::default, |assignment| {
            assignment.sl_from(&self.surviving, source, dlid)
        })
    }
}
