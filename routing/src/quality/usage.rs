//! Resources that tables use.

use topologies::Graph;
use wire::convert::saturate;
use wire::{Lid, PortNum};

use crate::tables::Tables;

/// LIDs and entries in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// LIDs of hosts.
    pub host_lids: u32,
    /// LIDs of switches.
    pub switch_lids: u32,
    /// The last LID in use.
    pub top: Lid,
    /// Entries with a port, over all switches.
    pub entries: u64,
    /// The most of one switch.
    pub entries_max: u32,
    /// Data VLs in use.
    pub data_vls: u8,
}

/// Counts them.
#[must_use]
pub fn usage(graph: &Graph, tables: &Tables) -> Usage {
    let mut usage = Usage {
        top: tables.top(),
        data_vls: tables.vl_assignment.as_ref().map_or(1, |one| one.data_vls),
        ..Usage::default()
    };
    for range in tables.lids.iter() {
        let count = u32::from(range.lmc.lids());
        if range.end.is_some_and(|end| end.port == PortNum::MANAGEMENT) {
            usage.switch_lids += count;
        } else {
            usage.host_lids += count;
        }
    }
    for id in graph.switches() {
        let lft = tables.lft(id);
        let set = lft.entries().iter().filter(|&&port| port != PortNum::NONE);
        let count = saturate::<u32>(set.count());
        usage.entries += u64::from(count);
        usage.entries_max = usage.entries_max.max(count);
    }
    usage
}
