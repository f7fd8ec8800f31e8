//! From tables of subnet administration to the fabric: nodes, ports and cables, each at the place that it had.

use std::collections::BTreeMap;

use wire::attr::{NodeType, VlCount};
use wire::sa::{LinkRecord, NodeRecord, PortInfoRecord};
use wire::{Lid, Mtu};

use crate::model::{Fabric, Node, NodeKind, PhysicalState, Port, PortState};

/// The most ports that are followed; those of further nodes are left out.
const PORTS_MAX: usize = 1 << 18;

/// The tables of one discovery.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) nodes: Vec<NodeRecord>,
    pub(super) ports: Vec<PortInfoRecord>,
    pub(super) links: Vec<LinkRecord>,
}

/// Where a LID leads: a node and, of a channel adapter, its port.
type Ends = BTreeMap<Lid, (usize, Option<u8>)>;

/// Brings `fabric` up to date. Whether that has changed it.
pub(super) fn update(fabric: &mut Fabric, tables: &Tables) -> bool {
    let before = fabric.clone();
    forget_states(fabric);
    let mut records: Vec<&NodeRecord> = tables.nodes.iter().collect();
    records.sort_by_key(|record| (record.node_info.node_guid, record.lid));
    let mut places: BTreeMap<u64, usize> = (fabric.nodes.iter().enumerate())
        .map(|(place, node)| (node.guid, place))
        .collect();
    let mut ends = Ends::new();
    for record in records {
        let guid = record.node_info.node_guid.0;
        let known = places.get(&guid).copied();
        let Some(place) = known.or_else(|| add_node(fabric, record)) else {
            continue;
        };
        places.insert(guid, place);
        describe(fabric, place, record);
        let port = (record.node_info.node_type != NodeType::Switch)
            .then_some(record.node_info.local_port_num.get());
        ends.insert(record.lid, (place, port));
    }
    for record in &tables.ports {
        set_port(fabric, &ends, record);
    }
    for link in &tables.links {
        let from = end(fabric, &ends, link.from_lid, link.from_port.get());
        let to = end(fabric, &ends, link.to_lid, link.to_port.get());
        if let (Some(from), Some(to)) = (from, to) {
            fabric.ports[from].peer = Some(to);
            fabric.ports[to].peer = Some(from);
        }
    }
    fabric.generation = before.generation;
    let changed = *fabric != before;
    fabric.generation += u64::from(changed);
    changed
}

/// What is not told anew does not hold any more.
fn forget_states(fabric: &mut Fabric) {
    for node in &mut fabric.nodes {
        node.is_present = false;
        node.lid = 0;
    }
    for port in &mut fabric.ports {
        port.state = PortState::Down;
        port.physical_state = PhysicalState::Unknown;
        port.lid = 0;
        port.peer = None;
    }
}

/// A node that is not known yet; `None` if there is no room.
fn add_node(fabric: &mut Fabric, record: &NodeRecord) -> Option<usize> {
    let info = &record.node_info;
    let is_switch = info.node_type == NodeType::Switch;
    let numbers = u8::from(!is_switch)..=info.num_ports.min(254);
    let port_count = numbers.clone().count();
    if fabric.ports.len() + port_count > PORTS_MAX {
        return None;
    }
    let place = fabric.nodes.len();
    fabric.nodes.push(Node {
        guid: info.node_guid.0,
        system_image_guid: info.system_image_guid.0,
        name: String::new(),
        kind: match info.node_type {
            NodeType::Switch => NodeKind::Switch,
            NodeType::ChannelAdapter => NodeKind::Host,
            NodeType::Router => NodeKind::Router,
        },
        vendor_id: info.vendor_id,
        device_id: info.device_id,
        revision: info.revision,
        lid: 0,
        is_present: true,
        first_port: fabric.ports.len(),
        port_count,
    });
    fabric.ports.extend(numbers.map(|number| Port {
        node: place,
        number,
        guid: if is_switch { info.node_guid.0 } else { 0 },
        lid: 0,
        lmc: 0,
        state: PortState::Down,
        physical_state: PhysicalState::Unknown,
        width: None,
        speed: None,
        mtu: 0,
        vls: 0,
        peer: None,
    }));
    Some(place)
}

/// What a record says of a node that is known.
fn describe(fabric: &mut Fabric, place: usize, record: &NodeRecord) {
    let info = &record.node_info;
    let node = &mut fabric.nodes[place];
    let name = record.description.as_str();
    if node.name != name {
        name.clone_into(&mut node.name);
    }
    node.is_present = true;
    if node.lid == 0 {
        node.lid = record.lid.get();
    }
    let ports = fabric.ports.get_mut(node.places()).unwrap_or_default();
    for port in ports {
        if node.kind == NodeKind::Switch {
            port.lid = record.lid.get();
        } else if port.number == info.local_port_num.get() {
            port.lid = record.lid.get();
            port.guid = info.port_guid.0;
        }
    }
}

/// The place of the port that a LID and a number name; of a channel adapter the LID does.
fn end(fabric: &Fabric, ends: &Ends, lid: Lid, number: u8) -> Option<usize> {
    let &(place, port) = ends.get(&lid)?;
    fabric.port(place, port.unwrap_or(number))
}

fn set_port(fabric: &mut Fabric, ends: &Ends, record: &PortInfoRecord) {
    let Some(place) = end(fabric, ends, record.lid, record.port.get()) else {
        return;
    };
    let info = &record.port_info;
    let port = &mut fabric.ports[place];
    port.lmc = info.lmc.get();
    port.state = info.port_state.into();
    port.physical_state = info.port_phys_state.into();
    port.width = info.width();
    port.speed = info.speed();
    port.mtu = info.neighbor_mtu.map_or(0, Mtu::bytes);
    port.vls = info.operational_vls.map_or(0, VlCount::vls);
}
