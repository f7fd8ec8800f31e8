//! The devices that the manager knows over several sweeps: their names, which were there when the
//! subnet was last up, and the ports behind which nothing answered.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Guid, PortNum};

use crate::SmEvent;
use crate::subnet::Device;

/// Devices as known from earlier sweeps.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Names of the devices that are or should be there.
    names: BTreeMap<Guid, String>,
    /// The devices of the subnet when it was last up.
    present: BTreeSet<Guid>,
    /// Ports with a link behind which nothing answered last time.
    unresponsive_ports: BTreeSet<(Guid, PortNum)>,
    /// Ports behind which there seemed to be a fabric without end last time.
    suspects: BTreeSet<(Guid, PortNum)>,
    /// The ports of managers that did not answer last time.
    silent_managers: BTreeSet<Guid>,
}

impl Inventory {
    /// Names that need not be asked for.
    pub(crate) fn names(&self) -> &BTreeMap<Guid, String> {
        &self.names
    }

    /// Ports with a link behind which nothing answered last time.
    pub(crate) fn unresponsive_ports(&self) -> &BTreeSet<(Guid, PortNum)> {
        &self.unresponsive_ports
    }

    /// A discovery has ended: these ports have a link behind which nothing answers.
    pub(crate) fn set_unresponsive_ports(&mut self, ports: BTreeSet<(Guid, PortNum)>) {
        self.unresponsive_ports = ports;
    }

    /// Ports behind which there seemed to be a fabric without end last time.
    pub(crate) fn suspects(&self) -> &BTreeSet<(Guid, PortNum)> {
        &self.suspects
    }

    /// A discovery has ended: behind these ports there seems to be a fabric without end.
    pub(crate) fn set_suspects(&mut self, ports: BTreeSet<(Guid, PortNum)>) {
        self.suspects = ports;
    }

    /// The ports of managers that did not answer last time.
    pub(crate) fn silent_managers(&self) -> &BTreeSet<Guid> {
        &self.silent_managers
    }

    /// A discovery has ended: the managers of these ports have not answered.
    pub(crate) fn set_silent_managers(&mut self, ports: BTreeSet<Guid>) {
        self.silent_managers = ports;
    }

    /// The next discovery asks the device for its name again.
    pub(crate) fn forget_name(&mut self, guid: Guid) {
        self.names.remove(&guid);
    }

    /// The subnet is up with `devices`. Which devices are lost, and which are back; the names of
    /// lost ones that are not `expected` are forgotten.
    pub(crate) fn update(
        &mut self,
        devices: &[Device],
        expected: impl Fn(Guid) -> bool,
    ) -> Vec<SmEvent> {
        let mut events = Vec::new();
        let present: BTreeSet<Guid> = devices.iter().map(Device::guid).collect();
        for &guid in self.present.difference(&present) {
            let name = self.names.get(&guid).cloned().unwrap_or_default();
            events.push(SmEvent::DeviceLost { name, guid });
        }
        for device in devices {
            let (name, guid) = (device.name.clone(), device.guid());
            if self.names.contains_key(&guid) && !self.present.contains(&guid) {
                events.push(SmEvent::DeviceBack { name, guid });
            }
        }
        self.names
            .retain(|&guid, _| present.contains(&guid) || expected(guid));
        for device in devices {
            self.names.insert(device.guid(), device.name.clone());
        }
        self.present = present;
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topologies::NodeKind;
    use wire::attr::{NodeInfo, NodeType};

    fn device(guid: u64) -> Device {
        let info = NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: NodeType::ChannelAdapter,
            num_ports: 1,
            system_image_guid: Guid(guid),
            node_guid: Guid(guid),
            port_guid: Guid(guid + 1),
            partition_cap: 1,
            device_id: 0,
            revision: 0,
            local_port_num: PortNum::new(1),
            vendor_id: 0,
        };
        let mut device = Device::new(info, NodeKind::Host, Vec::new());
        device.name = format!("h{guid}");
        device
    }

    #[test]
    fn a_device_is_reported_lost_and_back_but_not_when_it_is_new() {
        let mut inventory = Inventory::default();
        let both = [device(1), device(2)];
        assert_eq!(inventory.update(&both, |_| true), []);
        let lost = SmEvent::DeviceLost {
            name: "h2".into(),
            guid: Guid(2),
        };
        assert_eq!(inventory.update(&both[..1], |_| true), [lost]);
        assert_eq!(inventory.update(&both[..1], |_| true), []);
        let back = SmEvent::DeviceBack {
            name: "h2".into(),
            guid: Guid(2),
        };
        assert_eq!(inventory.update(&both, |_| true), [back]);
    }

    #[test]
    fn names_are_kept_of_present_and_expected_devices_only() {
        let mut inventory = Inventory::default();
        let all = [device(1), device(2), device(3)];
        inventory.update(&all, |_| false);
        inventory.update(&all[..1], |guid| guid == Guid(2));
        let known: Vec<u64> = inventory.names().keys().map(|guid| guid.0).collect();
        assert_eq!(known, [1, 2]);
        inventory.forget_name(Guid(1));
        assert!(!inventory.names().contains_key(&Guid(1)));
    }
}
