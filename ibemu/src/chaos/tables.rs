//! The forwarding tables of the live switches, read by management packets, followed along the cables.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use wire::attr::{LinearForwardingTable, SwitchInfo};
use wire::{Lid, PortNum};

use super::probe::Paths;
use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::mads::MadClient;
use crate::routes;
use crate::state::{End, FabricState};
use crate::verify::Pair;

/// Entries of one block.
const BLOCK_LIDS: u16 = 64;
/// Hosts through which switches are read at a time: few, so that traffic is not starved by it.
const READERS_MAX: usize = 4;

/// The linear forwarding tables, by position of the switch: one port a LID.
pub(super) type Tables = BTreeMap<usize, Vec<PortNum>>;

/// Reads the tables of all switches, each on a shortest route from some host.
///
/// # Errors
/// Which switch does not answer.
pub(super) async fn read(dir: &FabricDir, state: &FabricState) -> Result<Tables> {
    let hosts: Vec<usize> = state.hosts().collect();
    let step = hosts.len().div_ceil(READERS_MAX).max(1);
    let readers: Vec<usize> = hosts.into_iter().step_by(step).collect();
    let mut shares = vec![Vec::new(); readers.len()];
    for (count, switch) in state.switches().enumerate() {
        shares[count % readers.len().max(1)].push(switch);
    }
    let shares: Vec<Vec<(usize, Vec<PortNum>)>> = stream::iter(readers.into_iter().zip(shares))
        .map(|(reader, switches)| read_from(dir, state, reader, switches))
        .buffer_unordered(READERS_MAX)
        .try_collect()
        .await?;
    Ok(shares.into_iter().flatten().collect())
}

/// Reads the tables of some switches through one host.
async fn read_from(
    dir: &FabricDir,
    state: &FabricState,
    reader: usize,
    switches: Vec<usize>,
) -> Result<Vec<(usize, Vec<PortNum>)>> {
    let mut client = MadClient::connect(dir, &state.nodes[reader]).await?;
    let routes = routes::shortest(state, reader);
    let mut tables = Vec::with_capacity(switches.len());
    for switch in switches {
        let name = || format!("{} was asked for its tables", state.nodes[switch].name);
        let route = routes.get(&switch).with_context(name)?;
        let info: SwitchInfo = client.smp(0, route).await.with_context(name)?;
        let mut table = Vec::new();
        for block in 0..=info.linear_fdb_top / BLOCK_LIDS {
            let read: LinearForwardingTable = client
                .smp(u32::from(block), route)
                .await
                .with_context(name)?;
            table.extend(read.0);
        }
        table.truncate(usize::from(info.linear_fdb_top) + 1);
        tables.push((switch, table));
    }
    Ok(tables)
}

/// Follows the packets of every pair through the tables, along the cables.
///
/// # Errors
/// Which packet does not arrive, and where it ends.
pub(super) fn follow_all(
    state: &FabricState,
    tables: &Tables,
    hosts: &[HostLids],
    paths: &Paths,
) -> Result<()> {
    let peers = state.peers();
    for (&(source, destination), path) in paths.iter().filter(|(_, path)| !path.is_apart) {
        let (from, to) = (hosts[source].node, hosts[destination].node);
        let end = follow(state, tables, &peers, (from, to), path.dlid);
        end.with_context(|| {
            let pair: Pair = (from, to);
            let names = [pair.0, pair.1].map(|node| state.nodes[node].name.as_str());
            format!(
                "the tables lead from {} to {} (LID {})",
                names[0], names[1], path.dlid
            )
        })?;
    }
    Ok(())
}

/// Follows one packet between two host ports.
fn follow(
    state: &FabricState,
    tables: &Tables,
    peers: &BTreeMap<End, End>,
    (from, to): Pair,
    dlid: Lid,
) -> Result<()> {
    let destination = state.host_end(to);
    let mut at = state.host_end(from);
    for _ in 0..=state.nodes.len() {
        let peer = peers
            .get(&at)
            .with_context(|| format!("into port {}, which has no cable", state.end_name(at)))?;
        if *peer == destination {
            return Ok(());
        }
        let table = tables
            .get(&peer.node)
            .with_context(|| format!("to {}, another host", state.nodes[peer.node].name))?;
        let exit = table.get(usize::from(dlid.get())).copied();
        match exit.unwrap_or(PortNum::NONE) {
            PortNum::NONE => bail!("to {}, which has no route", state.nodes[peer.node].name),
            port => {
                at = End {
                    node: peer.node,
                    port: port.get(),
                };
            }
        }
    }
    bail!(
        "in a forwarding loop, through {}",
        state.nodes[at.node].name
    )
}

/// How many entries differ, and the first that does, as text; `None` if none does.
pub(super) fn difference(state: &FabricState, before: &Tables, now: &Tables) -> Option<String> {
    let mut first = None;
    let mut count = 0usize;
    for (switch, table) in before {
        let other = now.get(switch).map_or(&[][..], Vec::as_slice);
        for lid in 0..table.len().max(other.len()) {
            let at = |table: &[PortNum]| table.get(lid).copied().unwrap_or(PortNum::NONE);
            let (was, is) = (at(table), at(other));
            if was != is {
                count += 1;
                let name = &state.nodes[*switch].name;
                first.get_or_insert_with(|| format!("{name}, LID {lid}: port {was}, now {is}"));
            }
        }
    }
    first.map(|first| format!("{count} entries differ from before; {first}"))
}
