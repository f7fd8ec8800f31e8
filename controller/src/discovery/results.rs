//! Results of a discovery: what was found, what is left out, and warnings of both.

use std::collections::BTreeSet;

use topologies::NodeKind;
use wire::attr::SmInfo;
use wire::smp::HOPS_MAX;
use wire::{Guid, PortNum};

use super::Discovery;
use crate::control::Unreachable;
use crate::subnet::{Device, Index, Subnet, has_link};

/// Results of a discovery beside the subnet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Discovered {
    /// Ports with a link behind which nothing answered.
    pub(crate) unresponsive_ports: BTreeSet<(Guid, PortNum)>,
    /// Devices that cannot be managed.
    pub(crate) unreachable: Vec<Unreachable>,
    /// Other subnet managers.
    pub(crate) managers: Vec<(Index, SmInfo)>,
    /// The ports of managers that have not answered.
    pub(crate) silent_managers: BTreeSet<Guid>,
    /// Ports behind which there seems to be a fabric without end.
    pub(crate) suspects: BTreeSet<(Guid, PortNum)>,
    /// Switches whose change flag was set: it was cleared, and their ports have been read since.
    pub(crate) changed: BTreeSet<Guid>,
    /// Contradictions and limits that were met.
    pub(crate) warnings: Vec<String>,
    /// The subnet as it was found before: that of the plan in force.
    pub(crate) previous: Subnet,
}

impl Discovery {
    /// The result, once no query is outstanding.
    pub(crate) fn finish(mut self) -> (Subnet, Discovered) {
        let managers: Vec<(Guid, SmInfo)> = self
            .found
            .managers
            .iter()
            .filter(|(index, _)| !self.displaced.contains(index))
            .map(|&(index, manager)| (self.subnet.devices[index].guid(), manager))
            .collect();
        let mut given_up = BTreeSet::new();
        for (index, device) in self.subnet.devices.iter_mut().enumerate() {
            if self.branches.is_given_up(index) {
                device.failure = Some("is behind what is given up".to_owned());
                given_up.insert(device.guid());
            }
        }
        let (subnet, mut left_out) = self.subnet.finish();
        // They are told of by the port that leads to them.
        left_out.retain(|device| !given_up.contains(&device.guid()));
        let limits = beyond_reach(&subnet).into_iter().chain(locked(&subnet));
        self.found.warnings.splice(0..0, limits);
        self.found
            .unreachable
            .extend(left_out.into_iter().map(|device| Unreachable {
                name: device.label(),
                guid: device.guid(),
                reason: device.failure.unwrap_or_default(),
            }));
        self.found.managers = managers
            .into_iter()
            .filter_map(|(guid, manager)| Some((subnet.find(guid)?, manager)))
            .collect();
        // In an order that does not depend on which answer came first.
        let unreachable = &mut self.found.unreachable;
        unreachable
            .sort_by(|one, other| (&one.name, &one.reason).cmp(&(&other.name, &other.reason)));
        unreachable.dedup();
        (subnet, self.found)
    }
}

/// The warning of what is further away than a directed route reaches (IBA 14.2.2), if there is
/// any.
fn beyond_reach(subnet: &Subnet) -> Option<String> {
    let ends = subnet.devices.iter().flat_map(|device| {
        let at_limit =
            device.kind == NodeKind::Switch && device.route.len() >= usize::from(HOPS_MAX);
        let ports = (0u8..=u8::MAX).zip(&device.ports).skip(1);
        ports
            .filter(move |(_, port)| {
                at_limit && port.peer.is_none() && port.info.as_ref().is_some_and(has_link)
            })
            .map(move |(number, _)| (device, number))
    });
    let (count, (device, port)) = (ends.clone().count(), ends.clone().next()?);
    Some(format!(
        "what {count} ports lead to is left out, e.g. behind port {port} of {} ({}): it is more than \
         {HOPS_MAX} hops from this host, and a directed route has no more; run the manager on a host \
         nearer to the middle of the fabric",
        device.label(),
        device.guid(),
    ))
}

/// The warning of devices that are protected by an M_Key, which this manager does not have, if there
/// are any.
fn locked(subnet: &Subnet) -> Option<String> {
    let is_locked = |device: &&Device| {
        let info = device.end_port_info();
        info.is_some_and(|info| subnet.is_locked(info))
    };
    let devices = subnet.devices.iter().filter(is_locked);
    let (count, device) = (devices.clone().count(), devices.clone().next()?);
    Some(format!(
        "{count} devices are protected by an M_Key that this manager does not have, e.g. {} ({}): \
         they ignore what it sets",
        device.label(),
        device.guid(),
    ))
}
