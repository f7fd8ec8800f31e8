//! Compares the tables in the switches with those that the engine computes for what is left of the fabric,
//! and verifies what the engine promises.
//!
//! The engine is asked anew, with the LIDs that ports have and the labels of the whole fabric, as a
//! manager that had just started would ask it. Where it no longer applies (a fat tree's engine on
//! what is no tree any more), the manager repairs the tables from before, and only what they do is
//! checked: every LID is reached from everywhere.

use hostd::control::{Reply, Request};
use routing::network::port_guid;
use routing::{KnownLids, Options, Promises, RoutingEngine, RoutingError, Tables, verify};
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::attr::{Attribute as _, PortInfo};
use wire::{Lid, Lmc, PortNum};

use crate::bed::Bed;
use crate::outcome::{Failure, FailureKind};
use crate::{keys, managers};

/// Entries that differ and are named one by one.
const REPORTED_MAX: usize = 3;

/// What is left of the fabric, and how it is routed.
#[derive(Debug)]
pub(crate) struct Expected {
    /// What is left.
    pub(crate) remaining: Graph,
    /// The tables that the switches hold.
    pub(crate) tables: Tables,
    /// Whether they are free of deadlock, with answers on the service level of their requests.
    pub(crate) is_deadlock_free: bool,
}

/// Compares the switches' tables with the engine's, and verifies them.
pub(crate) fn check(bed: &mut Bed<'_>) -> Result<Expected, Failure> {
    let remaining = bed.twin.remaining();
    same_master(bed, &remaining)?;
    let known = lids(bed, &remaining);
    let schedule = bed.schedule;
    let labels = routing::recognise(&bed.graph).ok();
    let options = Options {
        lmc: schedule.lmc.and_then(|lmc| Lmc::new(lmc).ok()),
        known,
        keep_lids: schedule.engine == RoutingEngine::Auto,
        labels,
        data_vls: Some(schedule.vls),
        ..Options::default()
    };
    let engine = match taken(bed, &options) {
        Ok(engine) => engine,
        Err(error) => return bed.fail(FailureKind::Routes, error.to_string()),
    };
    let computed = engine.route(&remaining, &options);
    let is_whole = remaining.links().count() == bed.graph.links().count();
    // A manager that has never seen the whole fabric takes what it has seen for that, and what `auto`
    // takes depends on how the fabric has come up.
    let is_chosen = schedule.engine == RoutingEngine::Auto && options.labels.is_none();
    let is_known = !schedule.from_start || (is_whole && !is_chosen);
    // Ports keep their LIDs: a Clos fabric without some of its spines is one, too, for example.
    let would_move = !is_whole
        && computed
            .as_ref()
            .is_ok_and(|tables| moves_lids(tables, &options.known));
    let is_computed = is_known && computed.is_ok() && !would_move;
    let mut tables = match computed {
        Ok(tables) if !would_move => tables,
        _ => {
            // Every port has the LIDs that it has, under the schemes of LID07 some more than others.
            let lmc = options.known.values().map(|&(_, lmc)| lmc).max();
            let options = Options {
                lmc,
                keep_lids: true,
                ..options.clone()
            };
            match RoutingEngine::Updn.route(&remaining, &options) {
                Ok(tables) => tables,
                Err(error) => return bed.fail(FailureKind::Routes, error.to_string()),
            }
        }
    };
    if is_computed {
        same_lids(bed, &remaining, &tables, &options.known)?;
        same_entries(bed, &remaining, &tables)?;
    }
    take_over(bed, &remaining, &mut tables);
    let promises = match is_computed {
        true => tables.promises,
        false => Promises {
            from_hosts_only: tables.promises.from_hosts_only,
            ..Promises::default()
        },
    };
    let report = verify(&remaining, &tables, promises);
    if let Some(problem) = report.problems.first() {
        let what = report.describe_problem(&remaining, problem);
        return bed.fail(FailureKind::Routes, what);
    }
    let is_deadlock_free = report.cycle.is_none() && report.answer_cycle.is_none();
    Ok(Expected {
        remaining,
        tables,
        is_deadlock_free,
    })
}

/// The engine that the manager has: for `auto` what that takes for the whole fabric.
fn taken(bed: &Bed<'_>, options: &Options) -> Result<RoutingEngine, RoutingError> {
    let engine = bed.schedule.engine;
    if engine != RoutingEngine::Auto {
        return Ok(engine);
    }
    let at_first = Options {
        known: KnownLids::new(),
        ..options.clone()
    };
    engine
        .route(&bed.graph, &at_first)
        .map(|tables| tables.engine)
}

/// Whether tables change LIDs of ports.
fn moves_lids(tables: &Tables, known: &KnownLids) -> bool {
    let moved = |range: &routing::LidRange| {
        let has = known.get(&range.guid);
        has.is_some_and(|&has| has != (range.base, range.lmc))
    };
    tables.lids.iter().any(moved)
}

/// The LIDs that ports have, by port GUID.
fn lids(bed: &mut Bed<'_>, remaining: &Graph) -> KnownLids {
    let mut known = KnownLids::new();
    for id in remaining.ids() {
        let node = remaining.node(id);
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

/// Every port has the LID of the master as its master SM LID.
fn same_master(bed: &mut Bed<'_>, remaining: &Graph) -> Result<(), Failure> {
    let host = managers::master_host(bed).map(|id| bed.graph.node(id).name.clone());
    let lid = host.and_then(|name| Some(bed.twin.host(&name)?.lid()));
    let lid = lid.unwrap_or_default();
    for left in remaining.ids() {
        let node = remaining.node(left);
        let Some(id) = bed.graph.find(&node.name) else {
            continue;
        };
        let port = u32::from(node.kind == NodeKind::Host);
        let info: Option<PortInfo> = keys::read(bed, id, PortInfo::ID, port).smp_attribute().ok();
        let has = info.map(|info| info.master_sm_lid).unwrap_or_default();
        if has != lid {
            let what = format!("{} takes LID {has} for its manager's, not {lid}", node.name);
            return bed.fail(FailureKind::Managers, what);
        }
    }
    Ok(())
}

fn same_lids(
    bed: &Bed<'_>,
    remaining: &Graph,
    tables: &Tables,
    known: &KnownLids,
) -> Result<(), Failure> {
    for range in tables.lids.iter() {
        let Some(end) = range.end else { continue };
        let has = known.get(&port_guid(remaining, end)).copied();
        if has != Some((range.base, range.lmc)) {
            let name = &remaining.node(end.node).name;
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

fn same_entries(bed: &Bed<'_>, remaining: &Graph, tables: &Tables) -> Result<(), Failure> {
    let mut different = Vec::new();
    for id in remaining.switches() {
        let name = &remaining.node(id).name;
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
        different.extend(different_vls(bed, remaining, tables, id));
    }
    if different.is_empty() {
        return Ok(());
    }
    let count = different.len();
    different.truncate(REPORTED_MAX);
    let what = format!("{count} entries differ: {}", different.join("; "));
    bed.fail(FailureKind::Tables, what)
}

/// SL-to-VL tables that are not the engine's, where it has some.
fn different_vls(bed: &Bed<'_>, remaining: &Graph, tables: &Tables, id: NodeId) -> Vec<String> {
    let name = &remaining.node(id).name;
    let (Some(assignment), Some(switch)) = (&tables.vl_assignment, bed.twin.switch(name)) else {
        return Vec::new();
    };
    if bed.schedule.vls == 1 {
        return Vec::new();
    }
    let ports: Vec<PortNum> = remaining.cables(id).map(|(port, _)| port).collect();
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

/// Replaces the computed entries by those that the switches hold.
fn take_over(bed: &Bed<'_>, remaining: &Graph, tables: &mut Tables) {
    let lids = owned(tables);
    for id in remaining.switches() {
        let name = remaining.node(id).name.clone();
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
            assignment.sl_from(&self.remaining, source, dlid)
        })
    }
}
