//! Records of ports' tables as the manager has read or written them, and paths between several ports (IBA
//! 15.2.5).

use topologies::NodeKind;
use wire::attr::GuidInfo;
use wire::sa::{
    GuidInfoRecord, MultiPathRecord, PathRecord, SlToVlTableRecord, VlArbTableRecord,
    multi_path_component, path_component,
};
use wire::{Guid, MadStatus, PortNum};

use super::{Query, View};
use crate::port_settings::ALL_INPUTS;
use crate::subnet::Index;

/// The first component of the records that are found by LID.
const LID: u64 = 1 << 0;

impl View<'_> {
    /// The ports' own GUIDs; aliases are not assigned.
    pub(super) fn guid_infos(&self, query: &Query<'_>) -> Result<Vec<GuidInfoRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1)?;
        if query.asks(1 << 1) && query.data[2] != 0 {
            return Ok(Vec::new());
        }
        let record = |(_, device, lid): (Index, &crate::subnet::Device, _)| {
            let mut guids = [Guid::default(); 8];
            guids[0] = device.end_port_guid();
            GuidInfoRecord {
                lid,
                block: 0,
                guids: GuidInfo(guids),
            }
        };
        Ok(self.by_lid(query).map(record).collect())
    }

    /// The SL-to-VL tables that the manager has read or written. One for all inputs is told for each.
    pub(super) fn sl_to_vl_tables(
        &self,
        query: &Query<'_>,
    ) -> Result<Vec<SlToVlTableRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1 | 1 << 2)?;
        let mut records = Vec::new();
        for (_, device, lid) in self.by_lid(query) {
            let Some(mirror) = self.mirrors.get(&device.guid()) else {
                continue;
            };
            // Ports in records of an adapter say nothing (IBA 15.2.5.9, 15.2.5.10).
            let is_host = device.kind == NodeKind::Host;
            for (&(input, output), &table) in &mirror.sl2vl {
                let inputs = match input {
                    ALL_INPUTS => 0..=device.info.num_ports,
                    input => input.get()..=input.get(),
                };
                for input in inputs.map(PortNum::new) {
                    let matches = is_host
                        || (!query.asks(1 << 1) || query.port_at(2) == input)
                            && (!query.asks(1 << 2) || query.port_at(3) == output);
                    if matches {
                        records.push(SlToVlTableRecord {
                            lid,
                            input,
                            output,
                            table,
                        });
                    }
                }
            }
        }
        Ok(records)
    }

    /// The blocks of VL arbitration that the manager has read or written.
    pub(super) fn vl_arbitration_tables(
        &self,
        query: &Query<'_>,
    ) -> Result<Vec<VlArbTableRecord>, MadStatus> {
        query.refuse_beyond(LID | 1 << 1 | 1 << 2)?;
        let mut records = Vec::new();
        for (_, device, lid) in self.by_lid(query) {
            let Some(mirror) = self.mirrors.get(&device.guid()) else {
                continue;
            };
            for (&(port, block), &table) in &mirror.arbitration {
                let is_port = device.kind == NodeKind::Host || query.port_at(2) == port;
                let matches = (!query.asks(1 << 1) || is_port)
                    && (!query.asks(1 << 2) || query.data[3] == block);
                if matches {
                    records.push(VlArbTableRecord {
                        lid,
                        port,
                        block,
                        table,
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
        let subnet = &self.fabric.subnet;
        let mut ends = sources.iter().chain(destinations);
        if !ends.all(|gid| subnet.find_end_port(gid.guid()).is_some()) {
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
