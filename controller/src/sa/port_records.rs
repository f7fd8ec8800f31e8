//! Records of ports' tables as the manager has read or written them, and paths between several ports (IBA
//! 15.2.5).

use topologies::NodeKind;
use wire::attr::VlArbTable;
use wire::sa::{
    GuidInfoRecord, MultiPathRecord, PathRecord, SlToVlTableRecord, VlArbTableRecord,
    multi_path_component, path_component,
};
use wire::{MadStatus, PortNum};

use super::aliases::end_port;
use super::{Query, View};
use crate::aliases::BLOCK;
use crate::port_settings::ALL_INPUTS;
use crate::subnet::{Device, Index};

/// The first component of the records that are found by LID.
const LID: u64 = 1 << 0;

/// The ports that have tables: all of a switch, with a cable or without, and the one by which an adapter is known.
pub(super) fn outputs(device: &Device) -> impl Iterator<Item = PortNum> + '_ {
    let (first, last) = match device.kind {
        NodeKind::Switch => (0, device.info.num_ports),
        NodeKind::Host => (device.end_port().get(), device.end_port().get()),
    };
    (first..=last).map(PortNum::new)
}

impl View<'_> {
    /// The blocks of the ports' GUIDs: their own and aliases.
    pub(super) fn guid_infos(&self, query: &Query<'_>) -> Result<Vec<GuidInfoRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1)?;
        let mut records = Vec::new();
        for (_, device, lid) in self.by_lid(query) {
            let cap = device.end_port_info().map_or(0, |info| info.guid_cap);
            for block in 0..cap.div_ceil(BLOCK).max(1) {
                if !query.asks(1 << 1) || query.data[2] == block {
                    let guids = self.aliases.block(device.end_port_guid(), block);
                    records.push(GuidInfoRecord { lid, block, guids });
                }
            }
        }
        Ok(records)
    }

    /// The SL-to-VL tables of the ports, as the manager has read or written them; that of a port without a cable, and
    /// of one with one data VL, which has none to choose from, names VL 0 for every service level. One for all inputs is
    /// told for each. To a switch's port 0 no packet goes by a VL: its table is told so, too.
    pub(super) fn sl_to_vl_tables(
        &self,
        query: &Query<'_>,
    ) -> Result<Vec<SlToVlTableRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1 | 1 << 2)?;
        let mut records = Vec::new();
        for (_, device, lid) in self.by_lid(query) {
            let held = self.mirrors.get(&device.guid());
            let held = held.map(|mirror| &mirror.sl2vl);
            // Ports in records of an adapter say nothing (IBA 15.2.5.9, 15.2.5.10).
            let is_host = device.kind == NodeKind::Host;
            let asked = |bit: u64, at: usize| {
                let port = query.port_at(at);
                (!is_host && query.asks(bit)).then_some(port)
            };
            let (asked_input, asked_output) = (asked(1 << 1, 2), asked(1 << 2, 3));
            let inputs = match is_host {
                true => 0..=0,
                false => 0..=device.info.num_ports,
            };
            for output in outputs(device).filter(|port| asked_output.is_none_or(|one| one == *port))
            {
                for input in inputs.clone().map(PortNum::new) {
                    if asked_input.is_some_and(|one| one != input) {
                        continue;
                    }
                    let table = held.and_then(|held| {
                        let one = held.get(&(input, output));
                        one.or_else(|| held.get(&(ALL_INPUTS, output)))
                    });
                    records.push(SlToVlTableRecord {
                        lid,
                        input,
                        output,
                        table: table.copied().unwrap_or_default(),
                    });
                }
            }
        }
        Ok(records)
    }

    /// The four blocks of VL arbitration of the ports, as the manager has read or written them. A block for which a
    /// port has no entries is told without any, and so are those of a switch's port 0 and of ports without a cable.
    pub(super) fn vl_arbitration_tables(
        &self,
        query: &Query<'_>,
    ) -> Result<Vec<VlArbTableRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1 | 1 << 2)?;
        let mut records = Vec::new();
        for (_, device, lid) in self.by_lid(query) {
            let held = self.mirrors.get(&device.guid());
            let is_host = device.kind == NodeKind::Host;
            for port in outputs(device) {
                if query.asks(1 << 1) && !is_host && query.port_at(2) != port {
                    continue;
                }
                for block in VlArbTable::LOW_FIRST..=VlArbTable::HIGH_SECOND {
                    if query.asks(1 << 2) && query.data[3] != block {
                        continue;
                    }
                    let table = held.and_then(|mirror| mirror.arbitration.get(&(port, block)));
                    records.push(VlArbTableRecord {
                        lid,
                        port,
                        block,
                        table: table.copied().unwrap_or_default(),
                    });
                }
            }
        }
        Ok(records)
    }

    /// Paths from each of some ports to each of others, at most as many of each pair as asked for.
    pub(super) fn multi_paths(
        &self,
        query: &MultiPathRecord,
        mask: u64,
        asker: Option<Index>,
    ) -> Result<Vec<PathRecord>, MadStatus> {
        let asks = |bit: u64| mask & bit != 0;
        if !asks(multi_path_component::SGID_COUNT) || !asks(multi_path_component::DGID_COUNT) {
            return Err(MadStatus::SA_INSUFFICIENT_COMPONENTS);
        }
        let (sources, destinations) = query.ends().ok_or(MadStatus::SA_REQUEST_INVALID)?;
        let is_known = |gid: &wire::Gid| end_port(self.fabric, self.aliases, *gid).is_some();
        let mut ends = sources.iter().chain(destinations);
        if !ends.all(is_known) {
            return Err(MadStatus::SA_INVALID_GID);
        }
        let mut path_mask = path_component::SGID | path_component::DGID;
        if asks(multi_path_component::PKEY) {
            path_mask |= path_component::PKEY;
        }
        if asks(multi_path_component::SL) {
            path_mask |= path_component::SL;
        }
        let most = match asks(multi_path_component::PATHS) {
            true => usize::from(query.paths),
            false => usize::MAX,
        };
        let mut paths = Vec::new();
        for &sgid in sources {
            for &dgid in destinations {
                let asked = PathRecord {
                    sgid,
                    dgid,
                    pkey: query.pkey,
                    sl: query.sl,
                    ..PathRecord::default()
                };
                let found = self.paths(&asked, path_mask, true, asker)?;
                paths.extend(found.into_iter().take(most));
            }
        }
        Ok(paths)
    }
}
