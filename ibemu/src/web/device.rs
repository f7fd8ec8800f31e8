//! One device: what the drawer shows.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use monitor::model::{Counters, Fabric, Lane, ProcessFacts, Rates};
use serde::Serialize;
use wire::choice::Choice as _;

use super::map::Map;
use super::site::Live;

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
    counters: Counters,
    rates: Rates,
    /// Its data lanes in order, as the device itself told a few seconds ago at most; none if it did not.
    lanes: Vec<Lane>,
}

/// The device at a position of the map.
///
/// # Errors
/// If it was never seen.
pub(super) fn of(live: &Live, map: &Map, position: usize) -> Result<Device> {
    let snapshot = live.sampler.current();
    let fabric = &snapshot.fabric;
    let name = &map.devices[position].name;
    let place = live.place_of(map, fabric, position);
    let place = place.with_context(|| format!("{name} was not found by the subnet manager yet"))?;
    let node = &fabric.nodes[place];
    let facts = snapshot.devices.get(place);
    let ports = fabric.ports_of(node).map(|(place, port)| {
        let reading = snapshot.reading(place);
        let here = crate::state::End {
            node: position,
            port: port.number,
        };
        let cable = map
            .cables
            .iter()
            .position(|cable| cable.ends().contains(&here));
        let peer = cable.and_then(|cable| {
            let other = map.cables[cable]
                .ends()
                .into_iter()
                .find(|end| *end != here)?;
            Some(format!("{}:{}", map.devices[other.node].name, other.port))
        });
        Port {
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
            is_known: reading.is_known,
            is_stale: reading.is_stale,
            resets: reading.resets,
            counters: reading.counters,
            rates: reading.rates,
            lanes: facts
                .and_then(|facts| facts.lanes.get(&port.number))
                .cloned()
                .unwrap_or_default(),
        }
    });
    Ok(Device {
        name: name.clone(),
        kind: node.kind.name(),
        guid: wire::Guid(node.guid).to_string(),
        system_image_guid: wire::Guid(node.system_image_guid).to_string(),
        vendor_id: node.vendor_id,
        device_id: node.device_id,
        lid: node.lid,
        is_present: node.is_present,
        process: snapshot
            .processes
            .iter()
            .find(|process| process.name == *name)
            .cloned(),
        ports: ports.collect(),
    })
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
