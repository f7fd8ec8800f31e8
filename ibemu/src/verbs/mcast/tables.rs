//! Multicast forwarding tables, read from the live switches.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use wire::PortNum;
use wire::attr::{MulticastForwardingTable, SwitchInfo};

use super::Format;
use crate::dir::FabricDir;
use crate::lids;
use crate::mads::MadClient;
use crate::output::{self, Align, Table};
use crate::routes;
use crate::state::FabricState;

/// Multicast LIDs of a block.
const ROWS: u16 = 32;
/// Ports of a position.
const PORTS: u8 = 16;
/// The first multicast LID.
const FIRST: u16 = 0xc000;

/// By switch, by multicast LID: ports.
pub(crate) type Tables = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

pub(super) async fn run(dir: &FabricDir, state: &FabricState, options: &Format) -> Result<()> {
    let tables = read(dir, state).await?;
    if options.json {
        return output::json(&tables);
    }
    let mut listing = Table::new(&[
        ("SWITCH", Align::Left),
        ("MLID", Align::Right),
        ("PORTS", Align::Left),
    ]);
    for (switch, rows) in &tables {
        for (mlid, ports) in rows {
            let ports: Vec<String> = ports.iter().map(u8::to_string).collect();
            listing.row([switch.clone(), mlid.clone(), ports.join(" ")]);
        }
    }
    output::line(listing)
}

/// Reads each switch's blocks up to its MulticastFDBTop, or all that it has if none is set.
///
/// # Errors
/// If a switch does not answer.
pub(crate) async fn read(dir: &FabricDir, state: &FabricState) -> Result<Tables> {
    let host = lids::of_any(dir, state).await?.node;
    let routes = routes::shortest(state, host);
    let mut client = MadClient::connect(dir, &state.nodes[host]).await?;
    let mut tables = Tables::new();
    for switch in state.switches() {
        let node = &state.nodes[switch];
        let route = routes
            .get(&switch)
            .with_context(|| format!("no cable leads to {}", node.name))?;
        let asked = || format!("{} was asked", node.name);
        let info = client.smp(0, route).await.with_context(asked)?;
        let rows = of_switch(&mut client, route, node.ports, &info).await;
        tables.insert(node.name.clone(), rows.with_context(asked)?);
    }
    Ok(tables)
}

/// The table of the switch at the end of a route.
///
/// # Errors
/// If it does not answer.
pub(crate) async fn of_switch(
    client: &mut MadClient,
    route: &[PortNum],
    ports: u8,
    info: &SwitchInfo,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut rows = BTreeMap::new();
    for block in 0..blocks(info) {
        for position in 0..=ports / PORTS {
            let modifier = MulticastForwardingTable::modifier(position, block);
            let table: MulticastForwardingTable = client.smp(modifier, route).await?;
            note(&mut rows, block, position, &table);
        }
    }
    Ok(rows)
}

/// How many blocks of a switch's table are in use.
fn blocks(info: &SwitchInfo) -> u16 {
    let all = info.multicast_fdb_cap / ROWS;
    match info.multicast_fdb_top.get() {
        0 => all,
        top => all.min(top.saturating_sub(FIRST - 1).div_ceil(ROWS)),
    }
}

/// Adds the entries of a block.
fn note(
    rows: &mut BTreeMap<String, Vec<u8>>,
    block: u16,
    position: u8,
    table: &MulticastForwardingTable,
) {
    for (row, mask) in (FIRST + block * ROWS..).zip(table.0) {
        let ports = (0..PORTS).filter(|port| mask >> port & 1 == 1);
        let ports: Vec<u8> = ports.map(|port| position * PORTS + port).collect();
        if !ports.is_empty() {
            rows.entry(format!("{row:#06x}")).or_default().extend(ports);
        }
    }
}
