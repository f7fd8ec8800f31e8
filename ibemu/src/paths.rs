//! What the subnet administrator names for packets between two hosts: DLID and service level.

use wire::{Lid, Sl};

use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::mads::MadClient;
use crate::state::FabricState;

/// How packets from one host to another are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// One of the destination's LIDs: the routing's choice for this source.
    pub dlid: Lid,
    /// The service level.
    pub sl: Sl,
}

/// The paths from `from` to each of `destinations`, by PathRecord; the base LID and SL 0 where the
/// administrator names none. One that does not answer is not asked again.
pub async fn from_host(
    dir: &FabricDir,
    state: &FabricState,
    from: &HostLids,
    destinations: &[&HostLids],
) -> Vec<Path> {
    let sm = from.identity.sm_lid;
    let mut client = (sm != Lid::ZERO)
        .then(|| MadClient::connect(dir, &state.nodes[from.node]).ok())
        .flatten();
    let mut paths = Vec::with_capacity(destinations.len());
    for to in destinations {
        let mut path = Path {
            dlid: to.identity.lid,
            sl: Sl::default(),
        };
        if let Some(asked) = &mut client {
            let (source, destination) = (from.identity.port_guid, to.identity.port_guid);
            match asked.path(sm, source, destination).await {
                Ok(Some(record)) if record.dlid.belongs_to(to.identity.lid, to.identity.lmc) => {
                    path = Path {
                        dlid: record.dlid,
                        sl: record.sl,
                    };
                }
                Ok(_) => {}
                Err(_) => client = None,
            }
        }
        paths.push(path);
    }
    paths
}
