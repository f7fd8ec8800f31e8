//! Service levels and SL-to-VL tables computed elsewhere, put onto tables.

use std::collections::BTreeMap;

use thiserror::Error;
use topologies::{Endpoint, Graph, NodeKind};
use wire::{Guid, Lid, PortNum, Sl, Vl};

use crate::dump::{LevelDump, LevelSource, SlDump};
use crate::error::Warning;
use crate::network::ports_by_guid;
use crate::tables::Tables;
use crate::vl_assignment::VlAssignment;

/// Why service levels that were given do not fit the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LevelError {
    /// Service levels of a port that the fabric does not have.
    #[error("line {line}: the fabric has no port {guid}")]
    NoSuchGuid {
        /// The line, from 1.
        line: usize,
        /// The port.
        guid: Guid,
    },
    /// Service levels of a LID that no port has.
    #[error("line {line}: no port has LID {lid}")]
    NoSuchLid {
        /// The line, from 1.
        line: usize,
        /// The LID.
        lid: Lid,
    },
    /// SL-to-VL tables of a switch or port that the fabric does not have.
    #[error("line {line}: the fabric has no switch {guid} with port {port}")]
    NoSuchPort {
        /// The line, from 1.
        line: usize,
        /// The switch.
        guid: Guid,
        /// Its port.
        port: PortNum,
    },
    /// More service levels than there are VLs for, and no SL-to-VL tables.
    #[error(
        "SL {sl} is in use, and ports have {data_vls} data VLs: give more with --vls, or SL-to-VL tables \
         (opensm-sl2vl.dump), without which SL n travels on VL n"
    )]
    TooManyLevels {
        /// The largest in use.
        sl: Sl,
        /// What ports have.
        data_vls: u8,
    },
}

/// Puts service levels onto tables: packets between ports of which nothing is said have SL 0, and switches of
/// whose SL-to-VL tables nothing is said send SL n on VL n. `data_vls` is what ports have. What is said of ports and
/// switches that have LIDs in these tables and are not in the fabric (any more) is left out.
///
/// # Errors
/// [`LevelError`].
pub fn give_levels(
    graph: &Graph,
    tables: &mut Tables,
    dumps: &[LevelDump],
    data_vls: u8,
) -> Result<(), LevelError> {
    let ends = ports_by_guid(graph);
    let levels = dumps.iter().flat_map(|dump| &dump.sls);
    let sl_max = levels
        .clone()
        .flat_map(|dump| dump.sls.iter().map(|&(_, sl)| sl))
        .max()
        .unwrap_or_default();
    let rows = || dumps.iter().flat_map(|dump| &dump.sl2vl);
    if rows().next().is_none() && sl_max.get() >= data_vls {
        return Err(LevelError::TooManyLevels {
            sl: sl_max,
            data_vls,
        });
    }
    let mut assignment = VlAssignment::identity(graph, sl_max.get().saturating_add(1).min(15));
    let mut said = 0;
    for dump in levels {
        let Some(source) = source(&ends, tables, dump)? else {
            continue;
        };
        for &(lid, sl) in &dump.sls {
            said += u64::from(set(graph, tables, &mut assignment, source, lid, sl));
        }
    }
    let mut vl_max = Vl::default();
    for row in rows() {
        let error = |port| LevelError::NoSuchPort {
            line: row.line,
            guid: row.guid,
            port,
        };
        let (entry, exit) = row.ports;
        let switch = graph.find_guid(row.guid).map(|id| (id, graph.node(id)));
        if switch.is_none() && is_away(tables, row.guid) {
            continue;
        }
        let switch = switch.filter(|(_, node)| node.kind == NodeKind::Switch);
        let (switch, node) = switch.ok_or_else(|| error(exit))?;
        for port in [entry, exit] {
            if port.get() > node.ports {
                return Err(error(port));
            }
        }
        let used = usize::from(sl_max.get()) + 1;
        let data = row.vls[..used].iter().filter(|&&vl| vl != Vl::MANAGEMENT);
        vl_max = vl_max.max(data.max().copied().unwrap_or_default());
        // Most tables are what is taken without any.
        if row.vls[..used] != assignment.sl2vl[..used] {
            assignment.by_ports.insert((switch, entry, exit), row.vls);
        }
    }
    if rows().next().is_some() {
        assignment.data_vls = vl_max.get().saturating_add(1);
    }
    tables.warnings.extend(warnings(
        tables,
        said,
        rows().next().is_none() && sl_max.get() > 0,
    ));
    tables.vl_assignment = Some(assignment);
    Ok(())
}

/// Whether a port with that GUID has LIDs and is not in the fabric.
fn is_away(tables: &Tables, guid: Guid) -> bool {
    let mut ranges = tables.lids.iter();
    ranges.any(|range| range.guid == guid && range.end.is_none())
}

/// The port whose levels are said; `None` if it is not in the fabric but has LIDs.
fn source(
    ends: &BTreeMap<Guid, Endpoint>,
    tables: &Tables,
    dump: &SlDump,
) -> Result<Option<Endpoint>, LevelError> {
    let line = dump.line;
    match dump.source {
        LevelSource::Guid(guid) => match ends.get(&guid) {
            Some(&end) => Ok(Some(end)),
            None if is_away(tables, guid) => Ok(None),
            None => Err(LevelError::NoSuchGuid { line, guid }),
        },
        LevelSource::Lid(lid) => {
            let range = tables.lids.owner(lid);
            range
                .map(|range| range.end)
                .ok_or(LevelError::NoSuchLid { line, lid })
        }
    }
}

/// Whether this is the level of packets between two hosts.
fn set(
    graph: &Graph,
    tables: &Tables,
    assignment: &mut VlAssignment,
    source: Endpoint,
    lid: Lid,
    sl: Sl,
) -> bool {
    if graph.node(source.node).kind == NodeKind::Switch {
        assignment.set_sl(source.node, lid, sl);
        return false;
    }
    if let Some(at) = graph.peer(source) {
        assignment.set_sl_of_host(at, lid, sl);
    }
    let owner = tables.lids.owner(lid).and_then(|range| range.end);
    owner.is_some_and(|owner| owner.port != PortNum::MANAGEMENT && owner != source)
}

/// `said`: how many levels of packets between hosts were given.
fn warnings(tables: &Tables, said: u64, is_identity: bool) -> Vec<Warning> {
    let hosts = tables
        .lids
        .iter()
        .filter(|range| range.end.is_some_and(|end| end.port != PortNum::MANAGEMENT));
    let (mut ports, mut lids, mut own) = (0, 0, 0);
    for range in hosts {
        let count = u64::from(range.lmc.lids());
        (ports, lids, own) = (ports + 1, lids + count, own + count);
    }
    let pairs = (ports * lids).saturating_sub(own).saturating_sub(said);
    [
        (pairs > 0).then_some(Warning::NoLevel { pairs }),
        is_identity.then_some(Warning::NoSl2Vl),
    ]
    .into_iter()
    .flatten()
    .collect()
}
