//! The discovered subnet: devices, their ports, and the cables between them.

use std::collections::BTreeMap;

use topologies::{Endpoint, Graph, GraphError, Node, NodeId, NodeKind};
use wire::attr::{NodeInfo, NodeType, PortInfo, PortState, SwitchInfo};
use wire::{Guid, Lid, PortNum};

use crate::Protection;
use crate::protection::given_key;

/// A device by its position in a [`Subnet`].
pub(crate) type Index = usize;

/// A switch, or one port of a channel adapter or router: what has LIDs of its own. The ports of one
/// adapter are devices apart, since nothing passes from one to another.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Its NodeInfo, as read when it was first reached.
    pub(crate) info: NodeInfo,
    /// What it is.
    pub(crate) kind: NodeKind,
    /// Its node description; empty until it is known.
    pub(crate) name: String,
    /// Exit port of each hop from this manager's host.
    pub(crate) route: Vec<PortNum>,
    /// A switch's SwitchInfo, once it has answered.
    pub(crate) switch: Option<SwitchInfo>,
    /// By port number, from 0.
    pub(crate) ports: Vec<Port>,
    /// Why it cannot be managed, if so.
    pub(crate) failure: Option<String>,
}

/// One port of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Port {
    /// Its PortInfo, once it has answered.
    pub(crate) info: Option<PortInfo>,
    /// The other end of its cable.
    pub(crate) peer: Option<(Index, PortNum)>,
    /// Whether what its cable leads to has answered through it.
    pub(crate) heard: bool,
}

impl Device {
    /// A device that was reached by `route`.
    pub(crate) fn new(info: NodeInfo, kind: NodeKind, route: Vec<PortNum>) -> Self {
        Self {
            info,
            kind,
            name: String::new(),
            route,
            switch: None,
            ports: vec![Port::default(); usize::from(info.num_ports) + 1],
            failure: None,
        }
    }

    /// What tells it from all others ([`device_guid`]).
    pub(crate) fn guid(&self) -> Guid {
        device_guid(&self.info)
    }

    /// The port that holds the LIDs: 0 of a switch, the one it was reached by of an adapter.
    pub(crate) fn end_port(&self) -> PortNum {
        match self.kind {
            NodeKind::Switch => PortNum::MANAGEMENT,
            NodeKind::Host => self.info.local_port_num,
        }
    }

    /// GUID of the end port.
    pub(crate) fn end_port_guid(&self) -> Guid {
        match self.kind {
            NodeKind::Switch => self.info.node_guid,
            NodeKind::Host => self.info.port_guid,
        }
    }

    /// PortInfo of a port, if it is known.
    pub(crate) fn port_info(&self, port: PortNum) -> Option<&PortInfo> {
        self.ports.get(port.index())?.info.as_ref()
    }

    /// PortInfo of the end port, if it is known.
    pub(crate) fn end_port_info(&self) -> Option<&PortInfo> {
        self.port_info(self.end_port())
    }

    /// Its external ports with a cable, and what they lead to.
    pub(crate) fn cables(&self) -> impl Iterator<Item = (PortNum, (Index, PortNum))> + '_ {
        (0u8..=u8::MAX)
            .zip(&self.ports)
            .filter_map(|(number, port)| Some((PortNum::new(number), port.peer?)))
    }

    /// Its name in messages: the node description, or the GUID if that is empty.
    pub(crate) fn label(&self) -> String {
        if self.name.is_empty() {
            self.guid().to_string()
        } else {
            self.name.clone()
        }
    }
}

/// The GUID of the device that gave this NodeInfo: the node GUID; of an adapter's ports from 2 on the port
/// GUID.
pub(crate) fn device_guid(info: &NodeInfo) -> Guid {
    match info.node_type {
        NodeType::ChannelAdapter | NodeType::Router if info.local_port_num.get() > 1 => {
            info.port_guid
        }
        _ => info.node_guid,
    }
}

/// The devices of a subnet. In a finished one they are in order of GUID, so that a device's
/// position is its [`NodeId`] in [`Subnet::graph`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Subnet {
    /// All devices.
    pub(crate) devices: Vec<Device>,
    /// The position of this manager's own host.
    pub(crate) own: Index,
    /// How this manager protects the ports, if it does.
    pub(crate) protection: Option<Protection>,
    by_guid: BTreeMap<Guid, Index>,
    by_end_port: BTreeMap<Guid, Index>,
}

impl Subnet {
    /// No devices; this is how the manager protects their ports, if it does.
    pub(crate) fn new(protection: Option<Protection>) -> Self {
        Self {
            protection,
            ..Self::default()
        }
    }

    /// Adds a device that is not there yet.
    pub(crate) fn add(&mut self, device: Device) -> Index {
        let index = self.devices.len();
        self.by_guid.insert(device.guid(), index);
        self.by_end_port.insert(device.end_port_guid(), index);
        self.devices.push(device);
        index
    }

    /// The ports behind which there is a device, and which one.
    pub(crate) fn joined_ports(&self) -> BTreeMap<(Guid, PortNum), Guid> {
        let of = |device: &Device| {
            let guid = device.guid();
            let behind = |(peer, _): (Index, PortNum)| self.devices[peer].guid();
            let cables = device.cables();
            let ports = cables.map(|(port, peer)| ((guid, port), behind(peer)));
            ports.collect::<Vec<_>>()
        };
        self.devices.iter().flat_map(of).collect()
    }

    /// The device of that GUID.
    pub(crate) fn find(&self, guid: Guid) -> Option<Index> {
        self.by_guid.get(&guid).copied()
    }

    /// The device whose end port has that GUID.
    pub(crate) fn find_end_port(&self, guid: Guid) -> Option<Index> {
        self.by_end_port.get(&guid).copied()
    }

    /// The device one of whose LIDs this is.
    pub(crate) fn find_lid(&self, lid: Lid) -> Option<Index> {
        self.devices.iter().position(|device| {
            device
                .end_port_info()
                .is_some_and(|info| lid.belongs_to(info.lid, info.lmc))
        })
    }

    /// The device to which the cables at these ports lead, one after the other, from `index` on.
    pub(crate) fn follow(&self, index: Index, ports: impl Iterator<Item = u8>) -> Option<Index> {
        let mut at = index;
        for port in ports {
            let port = self.devices.get(at)?.ports.get(usize::from(port))?;
            at = port.peer?.0;
        }
        Some(at)
    }

    /// Whether a port is protected by an M_Key that this manager does not have. With protection, who
    /// does not know the key reads it as zero (IBA 14.2.4.1).
    pub(crate) fn is_locked(&self, info: &PortInfo) -> bool {
        let given = given_key(self.protection.as_ref());
        match info.m_key {
            0 => info.m_key_protect_bits != 0,
            key => key != given,
        }
    }

    /// A port, if the device has it.
    pub(crate) fn port_mut(&mut self, (index, port): (Index, PortNum)) -> Option<&mut Port> {
        self.devices.get_mut(index)?.ports.get_mut(port.index())
    }

    /// The other end of the cable of a port.
    pub(crate) fn peer(&self, (index, port): (Index, PortNum)) -> Option<(Index, PortNum)> {
        self.devices.get(index)?.ports.get(port.index())?.peer
    }

    /// Whether what the cable of a port leads to has answered through it.
    pub(crate) fn is_heard(&self, (index, port): (Index, PortNum)) -> bool {
        let device = self.devices.get(index);
        let port = device.and_then(|device| device.ports.get(port.index()));
        port.is_some_and(|port| port.heard)
    }

    /// Joins two ports without cables; nothing happens if one of them is not there.
    pub(crate) fn join(&mut self, a: (Index, PortNum), b: (Index, PortNum)) {
        if self.port_mut(a).is_none() || self.port_mut(b).is_none() {
            return;
        }
        for (end, peer) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(end) {
                port.peer = Some(peer);
            }
        }
    }

    /// Takes the cable of a port away, if it has one.
    pub(crate) fn part(&mut self, end: (Index, PortNum)) {
        let peer = self.port_mut(end).and_then(|port| port.peer.take());
        if let Some(port) = peer.and_then(|peer| self.port_mut(peer)) {
            port.peer = None;
        }
    }

    /// A device has no claim to its GUIDs: it is not managed, and another one can be added by them.
    pub(crate) fn displace(&mut self, index: Index, reason: String) {
        let Some(device) = self.devices.get_mut(index) else {
            return;
        };
        device.failure = Some(reason);
        let (guid, port_guid) = (device.guid(), device.end_port_guid());
        let ends: Vec<PortNum> = device.cables().map(|(port, _)| port).collect();
        for port in ends {
            self.part((index, port));
        }
        if self.find(guid) == Some(index) {
            self.by_guid.remove(&guid);
        }
        if self.find_end_port(port_guid) == Some(index) {
            self.by_end_port.remove(&port_guid);
        }
    }

    /// The same subnet without cables one end of which has no link (any more), and without the
    /// devices that cannot be managed or reached over managed ones, in order of GUID; and
    /// the devices left out.
    pub(crate) fn finish(mut self) -> (Self, Vec<Device>) {
        self.drop_dead_cables();
        let reached = self.reached();
        let mut order: Vec<Index> = (0..self.devices.len()).collect();
        order.sort_by_key(|&index| self.devices[index].guid());
        let mut new_index = vec![None; self.devices.len()];
        let kept = order.iter().filter(|&&index| reached[index]);
        for (new, &old) in kept.enumerate() {
            new_index[old] = Some(new);
        }
        let own = new_index.get(self.own).copied().flatten().unwrap_or(0);
        let mut finished = Self {
            own,
            ..Self::new(self.protection)
        };
        let mut left_out = Vec::new();
        let mut devices: Vec<Option<Device>> = self.devices.into_iter().map(Some).collect();
        for old in order {
            let Some(mut device) = devices[old].take() else {
                continue;
            };
            if new_index[old].is_none() {
                device
                    .failure
                    .get_or_insert_with(|| "is behind devices that cannot be managed".into());
                left_out.push(device);
                continue;
            }
            for port in &mut device.ports {
                port.peer = port
                    .peer
                    .and_then(|(index, number)| Some((new_index[index]?, number)));
            }
            finished.add(device);
        }
        (finished, left_out)
    }

    fn drop_dead_cables(&mut self) {
        let mut dead: Vec<(Index, PortNum)> = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            for (port, peer) in device.cables() {
                if !self.has_link((index, port)) || !self.has_link(peer) {
                    dead.push((index, port));
                }
            }
        }
        for (index, port) in dead {
            self.devices[index].ports[port.index()].peer = None;
        }
    }

    fn has_link(&self, (index, port): (Index, PortNum)) -> bool {
        self.devices[index].port_info(port).is_some_and(has_link)
    }

    fn reached(&self) -> Vec<bool> {
        let mut reached = vec![false; self.devices.len()];
        let mut waiting = Vec::new();
        if self.devices.get(self.own).is_some_and(is_managed) {
            reached[self.own] = true;
            waiting.push(self.own);
        }
        while let Some(index) = waiting.pop() {
            for (_, (peer, _)) in self.devices[index].cables() {
                if !reached[peer] && is_managed(&self.devices[peer]) {
                    reached[peer] = true;
                    waiting.push(peer);
                }
            }
        }
        reached
    }

    /// The fabric as a graph whose node ids are the positions of the devices. A description that
    /// is missing or used twice is made unique by the GUID.
    ///
    /// # Errors
    /// [`GraphError`] if devices contradict each other in a way that no graph holds.
    pub(crate) fn graph(&self) -> Result<Graph, GraphError> {
        let mut uses = BTreeMap::new();
        for device in &self.devices {
            *uses.entry(device.name.as_str()).or_insert(0) += 1;
        }
        let mut graph = Graph::new();
        for device in &self.devices {
            let mut name = match uses.get(device.name.as_str()) {
                Some(1) if !device.name.is_empty() => device.name.clone(),
                _ => format!("{}#{}", device.name, device.guid()),
            };
            // A description may be the very name that another device was given here.
            while graph.find(&name).is_some() {
                name = format!("{name}#{}", device.guid());
            }
            let ports = device.info.num_ports;
            let mut node = Node {
                description: device.name.clone(),
                system_image_guid: device.info.system_image_guid,
                enhanced_port0: device.switch.is_some_and(|info| info.enhanced_port0),
                ..Node::new(name, device.kind, device.guid(), ports)
            };
            let (end_port, guid) = (device.end_port(), device.end_port_guid());
            if node.port_guid(end_port) != guid {
                node.port_guids.insert(end_port.get(), guid);
            }
            graph.add(node)?;
        }
        for (index, device) in self.devices.iter().enumerate() {
            for (port, (peer, peer_port)) in device.cables() {
                if (index, port) < (peer, peer_port) {
                    let end = |index, port| Endpoint {
                        node: NodeId::from_index(index),
                        port,
                    };
                    graph.connect(end(index, port), end(peer, peer_port))?;
                }
            }
        }
        Ok(graph)
    }

    /// How many ports with a cable are Active.
    pub(crate) fn active_ports(&self) -> usize {
        self.devices
            .iter()
            .flat_map(|device| device.cables().map(move |(port, _)| device.port_info(port)))
            .filter(|info| info.is_some_and(|info| info.port_state == PortState::Active))
            .count()
    }

    /// How many cables there are.
    pub(crate) fn cables(&self) -> usize {
        let ends: usize = self
            .devices
            .iter()
            .map(|device| device.cables().count())
            .sum();
        ends / 2
    }
}

/// Whether the port sees a peer.
pub(crate) fn has_link(info: &PortInfo) -> bool {
    matches!(
        info.port_state,
        PortState::Init | PortState::Armed | PortState::Active
    )
}

fn is_managed(device: &Device) -> bool {
    device.failure.is_none()
}
