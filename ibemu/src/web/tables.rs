//! Tables of one device, read from it by directed-route MADs.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use wire::PortNum;
use wire::attr::{LinearForwardingTable, PortInfo, SwitchInfo, VlArbTable};

use crate::dir::FabricDir;
use crate::lids;
use crate::mads::MadClient;
use crate::routes;
use crate::state::{FabricState, Kind};

/// Entries of a block of a forwarding table.
const BLOCK: u16 = 64;
/// The last unicast LID.
const LAST_UNICAST: u16 = 0xbfff;

/// What a device was set to.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tables {
    /// Of a switch: where each LID goes.
    forwarding: Vec<Row>,
    /// Of a switch: by multicast LID, the ports.
    multicast: BTreeMap<String, Vec<u8>>,
    /// How each port shares its link among virtual lanes; ports of one kind together.
    arbitration: Vec<Arbitration>,
}

/// A row of a linear forwarding table.
#[derive(Debug, Serialize)]
struct Row {
    lid: u16,
    port: u8,
    /// Whose LID it is.
    name: Option<String>,
}

/// The arbitration tables of ports.
#[derive(Debug, PartialEq, Serialize)]
struct Arbitration {
    ports: Vec<u8>,
    /// How much of high priority passes before low priority has its turn: 4 KiB times this; 255 no limit.
    high_limit: u8,
    /// Lanes of high priority, with their part of the weights.
    high: Vec<Share>,
    /// Lanes of low priority.
    low: Vec<Share>,
}

/// A lane's part.
#[derive(Debug, PartialEq, Serialize)]
struct Share {
    vl: u8,
    weight: u32,
    /// Of all weights of the table, in percent.
    percent: f64,
}

/// Reads the tables of the device at a position.
///
/// # Errors
/// If no host or not the device itself can be asked.
pub(super) async fn read(
    dir: &FabricDir,
    state: &FabricState,
    device: usize,
    names: &BTreeMap<u16, String>,
) -> Result<Tables> {
    let node = &state.nodes[device];
    // A host is asked by itself, a switch by any host.
    let host = match node.kind {
        Kind::Host => device,
        Kind::Switch => lids::of_any(dir, state).await?.node,
    };
    let mut client = MadClient::connect(dir, &state.nodes[host]).await?;
    let route = match node.kind {
        Kind::Host => Vec::new(),
        Kind::Switch => {
            let mut routes = routes::shortest(state, host);
            routes
                .remove(&device)
                .with_context(|| format!("no cable leads to {}", node.name))?
        }
    };
    let mut reader = Reader {
        client: &mut client,
        route: &route,
    };
    let mut tables = Tables::default();
    if node.kind == Kind::Switch {
        let asked = || format!("{} was asked for its tables", node.name);
        let info: SwitchInfo = reader.client.smp(0, &route).await.with_context(asked)?;
        let rows = reader.forwarding(info.linear_fdb_top).await;
        let row = |(lid, port): (u16, PortNum)| Row {
            lid,
            port: port.get(),
            name: names.get(&lid).cloned(),
        };
        tables.forwarding = rows.with_context(asked)?.into_iter().map(row).collect();
        tables.multicast =
            crate::verbs::mcast::tables::of_switch(reader.client, &route, node.ports, &info)
                .await
                .with_context(asked)?;
    }
    let ports = state
        .links
        .iter()
        .flatten()
        .filter(|end| end.node == device);
    let mut ports: Vec<u8> = ports.map(|end| end.port).collect();
    ports.sort_unstable();
    for port in ports {
        let next = reader.arbitration(port).await;
        let next = next.with_context(|| {
            format!("{} was asked for the arbitration of port {port}", node.name)
        })?;
        let same = |other: &&mut Arbitration| {
            (&other.high, &other.low, other.high_limit) == (&next.high, &next.low, next.high_limit)
        };
        match tables.arbitration.iter_mut().find(same) {
            Some(other) => other.ports.push(port),
            None => tables.arbitration.push(next),
        }
    }
    Ok(tables)
}

/// Reads one device.
pub(super) struct Reader<'a> {
    pub(super) client: &'a mut MadClient,
    /// The ports to it, from the host's own on.
    pub(super) route: &'a [PortNum],
}

impl Reader<'_> {
    /// By LID up to `top` the port, where there is one.
    ///
    /// # Errors
    /// If the device does not answer.
    pub(super) async fn forwarding(&mut self, top: u16) -> Result<Vec<(u16, PortNum)>> {
        let mut rows = Vec::new();
        for block in 0..=top.min(LAST_UNICAST) / BLOCK {
            let table: LinearForwardingTable =
                self.client.smp(u32::from(block), self.route).await?;
            for (lid, port) in (block * BLOCK..).zip(table.0) {
                if port != PortNum::NONE && lid != 0 && lid <= top {
                    rows.push((lid, port));
                }
            }
        }
        Ok(rows)
    }

    async fn arbitration(&mut self, port: u8) -> Result<Arbitration> {
        let info: PortInfo = self.client.smp(u32::from(port), self.route).await?;
        let caps = [info.vl_arbitration_high_cap, info.vl_arbitration_low_cap];
        let first = [VlArbTable::HIGH_FIRST, VlArbTable::LOW_FIRST];
        let mut shares = [Vec::new(), Vec::new()];
        for ((cap, first), shares) in caps.into_iter().zip(first).zip(&mut shares) {
            let mut weights = BTreeMap::<u8, u32>::new();
            for block in 0..cap.div_ceil(32).min(2) {
                let modifier = u32::from(first + block) << 16 | u32::from(port);
                let table: VlArbTable = self.client.smp(modifier, self.route).await?;
                for entry in table.0.iter().filter(|entry| entry.weight > 0) {
                    *weights.entry(entry.vl.get()).or_default() += u32::from(entry.weight);
                }
            }
            let total: u32 = weights.values().sum();
            let share = |(vl, weight): (u8, u32)| Share {
                vl,
                weight,
                percent: (f64::from(weight) / f64::from(total.max(1)) * 1000.0).round() / 10.0,
            };
            *shares = weights.into_iter().map(share).collect();
        }
        let [high, low] = shares;
        Ok(Arbitration {
            ports: vec![port],
            high_limit: info.vl_high_limit,
            high,
            low,
        })
    }
}
