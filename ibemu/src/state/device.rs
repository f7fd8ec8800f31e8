//! The devices of a fabric as they will run: switches, and the ports of hosts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::convert::saturate;
use wire::{Guid, LinkSpeed, LinkWidth, PortNum};

use crate::adapters::{Adapter, AdapterNames};
use crate::names;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A process `switchd`.
    Switch,
    /// A process `hostd`.
    Host,
}

impl Kind {
    /// The name of its process.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Switch => "switchd",
            Self::Host => "hostd",
        }
    }

    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Host => "host",
        }
    }
}

/// A switch, or one port of a host. A host with several cables is in the list once a cable: first the device
/// itself, whose port is the first with a cable, and behind all devices its further ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name in the topology; of a further port `HOST:PORT`.
    pub name: String,
    /// The device's name in files, namespaces and arguments.
    pub handle: String,
    /// Its kind.
    pub kind: Kind,
    /// Node GUID.
    pub guid: u64,
    /// How many external ports the device has.
    pub ports: u8,
    /// The port that has its LIDs: 0 of a switch.
    pub port: u8,
    /// The position of the device whose further port this is; `None` of a device.
    pub device: Option<usize>,
    /// The number of this adapter among those of its host, from 0.
    pub adapter: u8,
    /// The host in whose box it is and what it is called there, if its description tells.
    #[serde(default)]
    pub in_host: Option<Adapter>,
    /// Whether a cable is in [`Self::port`]; of a switch, whether it has any.
    pub cabled: bool,
    /// Its identity and attributes.
    pub hardware: HardwareState,
}

/// What a device says of itself, and at which rates its links run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareState {
    /// Node description.
    pub description: String,
    /// System image GUID.
    pub system_image_guid: u64,
    /// Vendor, 24 bits.
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// Whether a host is a router.
    pub is_router: bool,
    /// Whether a switch has an enhanced port 0.
    pub enhanced_port0: bool,
    /// GUIDs of a host's ports other than node GUID + port number, by port.
    pub port_guids: BTreeMap<u8, u64>,
    /// Width and speed of links of which the topology says them, by port.
    pub rates: BTreeMap<u8, (LinkWidth, LinkSpeed)>,
    /// Ports without a cable that are switched off.
    #[serde(default)]
    pub disabled_ports: BTreeSet<u8>,
}

impl HardwareState {
    fn of(graph: &Graph, id: NodeId) -> Self {
        let node = graph.node(id);
        let cables = graph.cables(id);
        let rates = cables.filter_map(|(port, _)| {
            let rate = graph.rate(Endpoint { node: id, port })?;
            Some((port.get(), (rate.width, rate.speed)))
        });
        let port_guids = node.port_guids.iter().map(|(&port, guid)| (port, guid.0));
        Self {
            description: node.description.clone(),
            system_image_guid: node.system_image_guid.0,
            vendor_id: node.vendor_id,
            device_id: node.device_id,
            is_router: node.is_router,
            enhanced_port0: node.enhanced_port0,
            port_guids: port_guids.collect(),
            rates: rates.collect(),
            disabled_ports: node.disabled_ports.clone(),
        }
    }
}

/// What the switches' own aggregation nodes are called: no program runs beside them.
const AGGREGATION_NODE: &str = "Aggregation Node";

impl NodeState {
    /// Node GUID.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        Guid(self.guid)
    }

    /// GUID of [`Self::port`]: of a switch the node's own.
    #[must_use]
    pub fn port_guid(&self) -> Guid {
        let known = self.hardware.port_guids.get(&self.port).copied();
        Guid(known.unwrap_or(self.guid.wrapping_add(u64::from(self.port))))
    }

    /// The port that has its LIDs.
    #[must_use]
    pub const fn port(&self) -> PortNum {
        PortNum::new(self.port)
    }

    /// Whether programs run beside it: a host with a cable that is no router and no aggregation node of a
    /// switch.
    #[must_use]
    pub fn is_real_host(&self) -> bool {
        let hardware = &self.hardware;
        self.kind == Kind::Host
            && self.cabled
            && !hardware.is_router
            && !hardware.description.contains(AGGREGATION_NODE)
    }
}

/// A device as it will run.
pub(super) fn device(
    graph: &Graph,
    id: NodeId,
    handle: String,
    adapters: AdapterNames<'_>,
) -> NodeState {
    let node = graph.node(id);
    let first = graph.cables(id).next().map(|(port, _)| port.get());
    let kind = match node.kind {
        NodeKind::Switch => Kind::Switch,
        NodeKind::Host => Kind::Host,
    };
    NodeState {
        name: node.name.clone(),
        handle,
        kind,
        guid: node.guid.0,
        ports: node.ports,
        port: match kind {
            Kind::Switch => 0,
            Kind::Host => first.unwrap_or(1),
        },
        device: None,
        adapter: 0,
        in_host: adapters
            .adapter(&node.description)
            .filter(|_| kind == Kind::Host),
        cabled: first.is_some(),
        hardware: HardwareState::of(graph, id),
    }
}

/// Numbers the adapters of each host. What each device's namespace is called: a host with several adapters has
/// one for all, under its own name or that of its first adapter.
pub(super) fn number_adapters(devices: &mut [NodeState]) -> Vec<String> {
    let mut of_host: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (position, device) in devices.iter().enumerate() {
        if let Some(Adapter { host, .. }) = &device.in_host {
            of_host.entry(host.clone()).or_default().push(position);
        }
    }
    let mut called: Vec<String> = devices.iter().map(|device| device.handle.clone()).collect();
    for (host, mut adapters) in of_host {
        if adapters.len() < 2 {
            continue;
        }
        adapters.sort_by(|&a, &b| devices[a].name.cmp(&devices[b].name).then(a.cmp(&b)));
        let first = devices[adapters[0]].handle.clone();
        let name = names::host_handle(&host, called.iter().map(String::as_str)).unwrap_or(first);
        for (number, &adapter) in adapters.iter().enumerate() {
            devices[adapter].adapter = saturate::<u8>(number);
            called[adapter].clone_from(&name);
        }
    }
    called
}

/// The ports of hosts with a cable beyond the first.
pub(super) fn further_ports(graph: &Graph, devices: &[NodeState]) -> Vec<NodeState> {
    let hosts = graph.hosts();
    let ports = hosts.flat_map(|id| {
        let further = graph.cables(id).skip(1);
        further.map(move |(port, _)| {
            let device = &devices[id.index()];
            NodeState {
                name: format!("{}:{port}", device.name),
                port: port.get(),
                device: Some(id.index()),
                ..device.clone()
            }
        })
    });
    ports.collect()
}
