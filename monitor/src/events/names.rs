//! Who a LID or a GUID of a notice is.

use std::collections::BTreeMap;

use wire::{Gid, Guid, Lid};

use crate::model::{Fabric, NodeKind};

/// A device by name, and of a channel adapter its port.
pub(super) type Place = (String, Option<u8>);

/// Names of LIDs and GUIDs. Of what has left the fabric the last ones stay, until others have them.
#[derive(Debug, Default)]
pub(super) struct Names {
    generation: Option<u64>,
    /// By base LID: how many LIDs there are from it on, and whose.
    lids: BTreeMap<u16, (u32, Place)>,
    guids: BTreeMap<u64, Place>,
}

impl Names {
    /// Learns the names of a fabric.
    pub(super) fn learn(&mut self, fabric: &Fabric) {
        if self.generation.replace(fabric.generation) == Some(fabric.generation) {
            return;
        }
        for node in &fabric.nodes {
            for (_, port) in fabric.ports_of(node) {
                let is_switch = node.kind == NodeKind::Switch;
                let place = (node.name.clone(), (!is_switch).then_some(port.number));
                if port.lid != 0 && (!is_switch || port.number == 0) {
                    let lids = 1 << port.lmc.min(7);
                    self.lids.insert(port.lid, (lids, place.clone()));
                }
                if port.guid != 0 {
                    self.guids.insert(port.guid, place);
                }
            }
        }
    }

    /// Who has this LID.
    pub(super) fn of_lid(&self, lid: Lid) -> Option<&Place> {
        let (first, (lids, place)) = self.lids.range(..=lid.get()).next_back()?;
        (u32::from(lid.get() - first) < *lids).then_some(place)
    }

    /// Whose port this is.
    pub(super) fn of_guid(&self, guid: Guid) -> Option<&Place> {
        self.guids.get(&guid.0)
    }

    /// How people are told of a LID.
    pub(super) fn lid(&self, lid: Lid) -> String {
        let known = self.of_lid(lid).map(|(name, _)| name.clone());
        known.unwrap_or_else(|| format!("LID {lid}"))
    }

    /// How people are told of a port's GID.
    pub(super) fn gid(&self, gid: Gid) -> String {
        let known = self.of_guid(gid.guid()).map(|(name, _)| name.clone());
        known.unwrap_or_else(|| format!("GID {gid}"))
    }
}
