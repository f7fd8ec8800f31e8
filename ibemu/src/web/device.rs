//! One device: what the drawer shows.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use monitor::Frame;
use monitor::model::{Counters, Fabric, Lane, Node, PortState, ProcessFacts, Rates};
use serde::Serialize;
use wire::choice::Choice as _;

use super::map::Map;
use super::site::Live;

/// States by the number that a frame has.
const STATES: [PortState; 5] = [
    PortState::Unknown,
    PortState::Down,
    PortState::Init,
    PortState::Armed,
    PortState::Active,
];

/// A device and its ports.
#[derive(Debug, Serialize)]
pub(super) struct Device {
    name: String,
    kind: &'static str,
    guid: String,
    system_image_guid: String,
    vendor_id: u32,
    device_id: u16,
    lid: u16,
    /// Whether the subnet manager knows it now.
    is_present: bool,
    process: Option<ProcessFacts>,
    ports: Vec<Port>,
}

/// A port, and what was read of it last.
#[derive(Debug, Serialize)]
struct Port {
    port: u8,
    guid: String,
    lid: u16,
    lmc: u8,
    state: &'static str,
    physical_state: &'static str,
    width: Option<String>,
    speed: Option<&'static str>,
    mtu: u16,
    vls: u8,
    /// The position of its cable on the map.
    cable: Option<usize>,
    /// What the cable leads to, as `NODE:PORT`.
    peer: Option<String>,
    /// Whether its counters were read.
    is_known: bool,
    /// Whether the last request was not answered.
    is_stale: bool,
    /// How often its counters have begun anew.
    resets: u32,
    /// Of now only: a history keeps rates.
    counters: Option<Counters>,
    rates: Rates,
    /// How full the fullest lane of its input buffer is, in thousandths.
    fill: u16,
    /// Its data lanes in order, as the device itself told a few seconds ago at most; none if it did not, or of the past.
    lanes: Vec<Lane>,
}

impl Port {
    /// What does not change from sample to sample.
    fn of(map: &Map, position: usize, port: &monitor::model::Port) -> Self {
        let here = crate::state::End {
            node: position,
            port: port.number,
        };
        let cable = map
            .cables
            .iter()
            .position(|cable| cable.ends().contains(&here));
        let peer = cable.and_then(|cable| {
            let ends = map.cables[cable].ends();
            let other = ends.into_iter().find(|end| *end != here)?;
            Some(format!("{}:{}", map.devices[other.node].name, other.port))
        });
        Self {
            port: port.number,
            guid: wire::Guid(port.guid).to_string(),
            lid: port.lid,
            lmc: port.lmc,
            state: port.state.name(),
            physical_state: port.physical_state.name(),
            width: port.width.map(|width| width.name().to_owned()),
            speed: port.speed.map(|speed| speed.name()),
            mtu: port.mtu,
            vls: port.vls,
            cable,
            peer,
            is_known: false,
            is_stale: false,
            resets: 0,
            counters: None,
            rates: Rates::default(),
            fill: 0,
            lanes: Vec::new(),
        }
    }
}

impl Device {
    fn of(name: &str, node: &Node, ports: Vec<Port>) -> Self {
        Self {
            name: name.to_owned(),
            kind: node.kind.name(),
            guid: wire::Guid(node.guid).to_string(),
            system_image_guid: wire::Guid(node.system_image_guid).to_string(),
            vendor_id: node.vendor_id,
            device_id: node.device_id,
            lid: node.lid,
            is_present: node.is_present,
            process: None,
            ports,
        }
    }
}

/// The device at a position of the map as it is now; of its ports one, or all.
///
/// # Errors
/// If it was never seen.
pub(super) fn of(live: &Live, map: &Map, position: usize, only: Option<u8>) -> Result<Device> {
    let snapshot = live.sampler.current();
    let fabric = &snapshot.fabric;
    let name = &map.devices[position].name;
    let place = live.place_of(map, fabric, position);
    let place = place.with_context(|| format!("{name} was not found by the subnet manager yet"))?;
    let node = &fabric.nodes[place];
    let facts = snapshot.devices.get(place);
    let wanted = fabric.ports_of(node).filter(is_wanted(only));
    let ports = wanted.map(|(place, port)| {
        let reading = snapshot.reading(place);
        let lanes = facts.and_then(|facts| facts.lanes.get(&port.number));
        Port {
            is_known: reading.is_known,
            is_stale: reading.is_stale,
            resets: reading.resets,
            counters: Some(reading.counters),
            rates: reading.rates,
            fill: monitor::fullest(&snapshot, port),
            lanes: lanes.cloned().unwrap_or_default(),
            ..Port::of(map, position, port)
        }
    });
    let process = snapshot.processes.iter().find(|it| it.name == *name);
    Ok(Device {
        process: process.cloned(),
        ..Device::of(name, node, ports.collect())
    })
}

/// The device at a position of the map as a frame has it.
///
/// # Errors
/// If it had not been seen by then.
pub(super) fn past(
    (map, fabric, frame): (&Map, &Fabric, &Frame),
    position: usize,
    only: Option<u8>,
) -> Result<Device> {
    let device = &map.devices[position];
    let is_it = |node: &&Node| wire::Guid(node.guid).to_string() == device.guid;
    let node = fabric.nodes.iter().find(is_it);
    let node = node.with_context(|| format!("{} was not found by then", device.name))?;
    let wanted = fabric.ports_of(node).filter(is_wanted(only));
    let ports = wanted.map(|(place, port)| {
        let point = frame.points.get(place).copied().unwrap_or_default();
        Port {
            state: STATES[usize::from(point.state).min(4)].name(),
            is_known: port.number != 0,
            rates: Rates {
                xmit_bytes_per_s: point.xmit_bytes_per_s.into(),
                rcv_bytes_per_s: point.rcv_bytes_per_s.into(),
                xmit_pkts_per_s: point.xmit_pkts_per_s.into(),
                rcv_pkts_per_s: point.rcv_pkts_per_s.into(),
                xmit_wait_per_s: point.xmit_wait_per_s.into(),
                errors_per_s: point.errors_per_s.into(),
            },
            fill: point.fill,
            ..Port::of(map, position, port)
        }
    });
    Ok(Device::of(&device.name, node, ports.collect()))
}

/// The ports of a device that are asked for: one, or all.
fn is_wanted(only: Option<u8>) -> impl Fn(&(usize, &monitor::model::Port)) -> bool {
    move |(_, port)| only.is_none_or(|only| only == port.number)
}

/// LIDs of one port.
#[derive(Debug, Serialize)]
pub(super) struct Lids {
    /// The first one.
    lid: u16,
    /// How many there are.
    count: u16,
    /// The position of its device on the map.
    device: usize,
}

/// All LIDs that a fabric has.
pub(super) fn lids(map: &Map, fabric: &Fabric) -> Vec<Lids> {
    let by_guid =
        |(position, device): (usize, &super::map::Device)| (device.guid.clone(), position);
    let positions: BTreeMap<String, usize> = map.devices.iter().enumerate().map(by_guid).collect();
    let mut found: BTreeMap<u16, Lids> = BTreeMap::new();
    for port in fabric.ports.iter().filter(|port| port.lid != 0) {
        let guid = wire::Guid(fabric.nodes[port.node].guid).to_string();
        let Some(&device) = positions.get(&guid) else {
            continue;
        };
        let lids = Lids {
            lid: port.lid,
            count: 1u16.checked_shl(u32::from(port.lmc)).unwrap_or(1),
            device,
        };
        found.entry(port.lid).or_insert(lids);
    }
    found.into_values().collect()
}

/// Who owns which LID.
pub(super) fn names_of_lids(fabric: &Fabric) -> BTreeMap<u16, String> {
    let mut names = BTreeMap::new();
    for port in fabric.ports.iter().filter(|port| port.lid != 0) {
        let node = &fabric.nodes[port.node];
        if !node.is_present {
            continue;
        }
        let lids = 1u16.checked_shl(u32::from(port.lmc)).unwrap_or(1);
        for lid in port.lid..port.lid.saturating_add(lids) {
            names.entry(lid).or_insert_with(|| node.name.clone());
        }
    }
    names
}
