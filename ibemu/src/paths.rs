//! Path records: DLID and service level of packets between two hosts.

use std::collections::BTreeMap;

use wire::sa::PathRecord;
use wire::{Guid, Lid, Sl};

use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::mads::MadClient;
use crate::state::FabricState;

/// Addressing of packets from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// One of the destination's LIDs: the routing's choice for this source.
    pub dlid: Lid,
    /// The service level.
    pub sl: Sl,
    /// The partition, by one of its keys; 0 where the administrator names none.
    pub pkey: u16,
    /// Whether the two hosts have no partition in common.
    pub is_apart: bool,
}

/// From this many destinations on, all paths of a source are requested at once.
const TABLE_FROM: usize = 8;

/// The paths from `from` to each of `destinations`, by PathRecord; the base LID and SL 0 where the
/// administrator names none. One that does not answer is not asked again. Where the fabric has partitions, an
/// administrator that names no path says that the hosts have none in common.
pub async fn from_host(
    dir: &FabricDir,
    state: &FabricState,
    from: &HostLids,
    destinations: &[&HostLids],
) -> Vec<Path> {
    let (known, is_answered) = ask(dir, state, from, destinations).await;
    let is_partitioned = state.options.partitions.is_some() && is_answered;
    let path = |to: &&HostLids| {
        let guid = to.identity.port_guid;
        let record = known.get(&guid).filter(|record| {
            let identity = &to.identity;
            record.dlid.belongs_to(identity.lid, identity.lmc)
        });
        record.map_or(
            Path {
                dlid: to.identity.lid,
                sl: Sl::default(),
                pkey: 0,
                is_apart: is_partitioned,
            },
            |record| Path {
                dlid: record.dlid,
                sl: record.sl,
                pkey: record.pkey,
                is_apart: false,
            },
        )
    };
    destinations.iter().map(path).collect()
}

/// What the administrator names, by port GUID of the destination (the first where it names several), and
/// whether it has answered.
async fn ask(
    dir: &FabricDir,
    state: &FabricState,
    from: &HostLids,
    destinations: &[&HostLids],
) -> (BTreeMap<Guid, PathRecord>, bool) {
    let mut known = BTreeMap::new();
    let (sm, source) = (from.identity.sm_lid, from.identity.port_guid);
    let client = MadClient::connect(dir, &state.nodes[from.node]).await;
    let (true, Ok(mut client)) = (sm != Lid::ZERO, client) else {
        return (known, false);
    };
    if destinations.len() >= TABLE_FROM
        && let Ok(records) = client.paths_from(sm, source).await
    {
        for record in records {
            known.entry(record.dgid.guid()).or_insert(record);
        }
        return (known, true);
    }
    for to in destinations {
        let destination = to.identity.port_guid;
        match client.path(sm, source, destination).await {
            Ok(record) => known.extend(record.map(|record| (destination, record))),
            Err(_) => return (known, false),
        }
    }
    (known, true)
}
