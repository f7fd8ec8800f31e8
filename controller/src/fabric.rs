//! The managed fabric: what the latest sweep found, and the plan for it. The parts of the manager
//! read it; only the sweep replaces it, and only the writer updates the PortInfo in it.

use wire::attr::SmInfo;
use wire::{Guid, Lid};

use crate::plan::Plan;
use crate::subnet::{Device, Index, Subnet};

/// Devices with their plan.
#[derive(Debug, Default)]
pub(crate) struct Fabric {
    /// The subnet as last discovered; its PortInfo follows what has been written.
    pub(crate) subnet: Subnet,
    /// What was last planned for it.
    pub(crate) plan: Plan,
    /// Other managers in it.
    pub(crate) managers: Vec<(Index, SmInfo)>,
}

impl Fabric {
    /// The device that has one of its planned LIDs there.
    pub(crate) fn owner(&self, lid: Lid) -> Option<Index> {
        let tables = self.plan.tables.as_ref()?;
        let end = tables.lids.owner(lid)?.end?;
        Some(end.node.index())
    }

    /// GUID of the end port that has that planned LID.
    pub(crate) fn port_guid(&self, lid: Lid) -> Option<Guid> {
        let device = self.subnet.devices.get(self.owner(lid)?)?;
        Some(device.end_port_guid())
    }

    /// Whether a device is there whose end port has that GUID and, by the plan, that LID.
    pub(crate) fn has_port(&self, guid: Guid, lid: Lid) -> bool {
        let index = self.subnet.find_end_port(guid);
        index
            .and_then(|index| self.plan.lid(index))
            .is_some_and(|(base, lmc)| lid.belongs_to(base, lmc))
    }

    /// Whether the host at `lid` may speak for connections between these ports: it is one of them,
    /// or the manager's own.
    pub(crate) fn may_act_for(&self, lid: Lid, ports: [Guid; 2]) -> bool {
        let own = self.own().map(Device::end_port_guid);
        self.port_guid(lid)
            .is_some_and(|guid| ports.contains(&guid) || own == Some(guid))
    }

    /// This manager's own host, once it has been discovered.
    pub(crate) fn own(&self) -> Option<&Device> {
        self.subnet.devices.get(self.subnet.own)
    }

    /// The planned LID of this manager's port.
    pub(crate) fn sm_lid(&self) -> Lid {
        self.plan.sm_lid(&self.subnet)
    }
}
