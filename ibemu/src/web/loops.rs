//! Credit loops of a live fabric: buffers that wait for each other in a cycle, as soon as they are full.
//!
//! What is judged is what the switches do, whoever programmed them: forwarding and SL-to-VL tables are read from each of
//! them, the service levels of hosts' packets from subnet administration, and the routing crate's verifier looks for a cycle
//! among the virtual lanes that packets hold and need next. Cables that are not Active carry nothing and are left out.
//!
//! A host's packets to all LIDs of another are taken to have the service level that its path record names. Packets from and
//! to switches' own ports are left out: no table says which service level their senders take.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use routing::dump::{LevelDump, LevelSource, Sl2VlDump, SlDump, SwitchDump};
use routing::{Lft, LoopOf, Options, RoutingEngine, port_guid, verify};
use serde::Serialize;
use topologies::{Endpoint, Graph, NodeKind};
use wire::attr::{SlToVlTable, SwitchInfo};
use wire::{Guid, Lid, PortNum};

use super::map;
use super::site::Live;
use super::tables::Reader;
use crate::lids::{self, HostLids};
use crate::mads::MadClient;
use crate::routes;
use crate::state::{End, FabricState};

/// Devices that are asked at a time.
const AT_ONCE: usize = 8;
/// The state of a cable that packets may cross.
const ACTIVE: u8 = 4;

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Loops {
    /// How many switches' tables were read.
    switches: usize,
    /// The gravest first.
    loops: Vec<CreditLoop>,
}

/// Lanes of cables that wait for each other.
#[derive(Debug, Serialize)]
struct CreditLoop {
    /// Among which packets.
    among: String,
    /// Each waits for the next one, the last for the first.
    channels: Vec<Channel>,
}

/// A virtual lane of one direction of a cable.
#[derive(Debug, Serialize)]
struct Channel {
    /// The switch that sends.
    node: String,
    /// Its port.
    port: u8,
    vl: u8,
}

/// Looks for credit loops; `states` are those of the cables.
///
/// # Errors
/// If no host, not one of the switches or not the subnet administrator can be asked.
pub(super) async fn find(live: &Live, states: &[u8]) -> Result<Loops> {
    let is_active = |cable: usize| states.get(cable) == Some(&ACTIVE);
    let graph = map::graph(&live.state, is_active)?;
    let owners = owners(live, &graph);
    let mut levels = LevelDump {
        sls: service_levels(live, &owners).await?,
        ..LevelDump::default()
    };
    let mut tables = Vec::new();
    for (table, rows) in read_switches(live, &graph).await? {
        tables.push(table);
        levels.sl2vl.extend(rows);
    }
    let switches = tables.len();
    // Whose a LID is may be said of any table.
    if let Some(first) = tables.first_mut() {
        first.owners = owners
            .into_iter()
            .map(|(lid, owner)| (lid, owner.guid))
            .collect();
    }
    let options = Options {
        given: Some(tables),
        given_levels: vec![levels],
        ..Options::default()
    };
    // A large fabric takes a while, and pages wait for samples.
    let judged = tokio::task::spawn_blocking(move || judge(&graph, &options)).await;
    Ok(Loops {
        switches,
        loops: judged.context("the tables could not be judged")??,
    })
}

fn judge(graph: &Graph, options: &Options) -> Result<Vec<CreditLoop>> {
    let tables = RoutingEngine::File.route(graph, options)?;
    let report = verify(graph, &tables, tables.promises);
    let loops = report
        .credit_loops()
        .filter(|(among, _)| *among != LoopOf::Switches);
    let loops = loops.map(|(among, cycle)| CreditLoop {
        among: among.to_string(),
        channels: cycle
            .iter()
            .map(|channel| Channel {
                node: graph.node(channel.switch).name.clone(),
                port: channel.port.get(),
                vl: channel.vl.get(),
            })
            .collect(),
    });
    Ok(loops.collect())
}

/// Whose a LID is.
struct Owner {
    /// The port's GUID as the graph has it.
    guid: Guid,
    /// The first of the port's LIDs, and how many it has.
    base: u16,
    count: u16,
}

/// The owners of LIDs, as subnet administration last told.
fn owners(live: &Live, graph: &Graph) -> BTreeMap<Lid, Owner> {
    let snapshot = live.sampler.current();
    let mut owners = BTreeMap::new();
    for port in snapshot.fabric.ports.iter().filter(|port| port.lid != 0) {
        let owner = snapshot.fabric.nodes.get(port.node);
        let Some(node) = owner.and_then(|owner| graph.find_guid(Guid(owner.guid))) else {
            continue;
        };
        let port_number = match graph.node(node).kind {
            NodeKind::Switch => PortNum::MANAGEMENT,
            NodeKind::Host => PortNum::new(port.number),
        };
        let end = Endpoint {
            node,
            port: port_number,
        };
        let count = 1u16.checked_shl(u32::from(port.lmc)).unwrap_or(1);
        for lid in (port.lid..=u16::MAX).take(count.into()) {
            owners.entry(Lid::new(lid)).or_insert_with(|| Owner {
                guid: port_guid(graph, end),
                base: port.lid,
                count,
            });
        }
    }
    owners
}

/// The service levels of all hosts' packets.
async fn service_levels(live: &Live, owners: &BTreeMap<Lid, Owner>) -> Result<Vec<SlDump>> {
    let (hosts, _) = lids::reachable(&live.dir, &live.state, live.state.hosts()).await;
    let known = hosts
        .iter()
        .filter(|host| owners.contains_key(&host.identity.lid));
    let asked: Vec<_> = known.map(|host| levels_of(live, host, owners)).collect();
    stream::iter(asked).buffered(AT_ONCE).try_collect().await
}

async fn levels_of(live: &Live, host: &HostLids, owners: &BTreeMap<Lid, Owner>) -> Result<SlDump> {
    let name = &live.state.nodes[host.node].name;
    let asked = || format!("subnet administration was asked for the paths of {name}");
    let mut client = MadClient::connect(&live.dir, &live.state.nodes[host.node]).await?;
    let identity = &host.identity;
    let paths = client.paths_from(identity.sm_lid, identity.port_guid).await;
    let mut sls = Vec::new();
    for path in paths.with_context(asked)? {
        if let Some(owner) = owners.get(&path.dlid) {
            let lids = (owner.base..=u16::MAX).take(owner.count.into());
            sls.extend(lids.map(|lid| (Lid::new(lid), path.sl)));
        }
    }
    Ok(SlDump {
        line: 0,
        source: LevelSource::Lid(identity.lid),
        sls,
    })
}

/// Forwarding and SL-to-VL tables of all switches that cables lead to.
async fn read_switches(live: &Live, graph: &Graph) -> Result<Vec<(SwitchDump, Vec<Sl2VlDump>)>> {
    let (dir, state) = (&live.dir, &live.state);
    let host = lids::of_any(dir, state).await?.node;
    let is_there = |end: End| graph.peer(endpoint(end)).is_some();
    let routes = routes::shortest_over(state, host, is_there);
    let reached = state
        .switches()
        .filter_map(|switch| Some((switch, routes.get(&switch)?)));
    let asked = reached.map(async |(switch, route)| {
        let mut client = MadClient::connect(dir, &state.nodes[host]).await?;
        let mut reader = Reader {
            client: &mut client,
            route,
        };
        let asked = || format!("{} was asked for its tables", state.nodes[switch].name);
        let tables = read_switch(&mut reader, state, graph, switch).await;
        tables.with_context(asked)
    });
    let asked: Vec<_> = asked.collect();
    stream::iter(asked).buffered(AT_ONCE).try_collect().await
}

async fn read_switch(
    reader: &mut Reader<'_>,
    state: &FabricState,
    graph: &Graph,
    switch: usize,
) -> Result<(SwitchDump, Vec<Sl2VlDump>)> {
    let node = &state.nodes[switch];
    let info: SwitchInfo = reader.client.smp(0, reader.route).await?;
    let mut lft = Lft::default();
    for (lid, port) in reader.forwarding(info.linear_fdb_top).await? {
        if port.get() <= node.ports {
            lft.set(Lid::new(lid), port);
        }
    }
    let table = SwitchDump {
        line: 0,
        guid: node.guid(),
        lid: None,
        name: node.name.clone(),
        lft,
        owners: BTreeMap::new(),
        lines: BTreeMap::new(),
    };
    let id = topologies::NodeId::from_index(switch);
    let cabled = || graph.cables(id);
    let mut rows = Vec::new();
    // Hosts' lanes wait for nobody.
    let onward = cabled().filter(|(_, peer)| graph.node(peer.node).kind == NodeKind::Switch);
    for (exit, _) in onward {
        for (entry, _) in cabled() {
            let modifier = u32::from(entry.get()) << 8 | u32::from(exit.get());
            let row: SlToVlTable = reader.client.smp(modifier, reader.route).await?;
            rows.push(Sl2VlDump {
                line: 0,
                guid: node.guid(),
                ports: (entry, exit),
                vls: row.0,
            });
        }
    }
    Ok((table, rows))
}

fn endpoint(end: End) -> Endpoint {
    Endpoint {
        node: topologies::NodeId::from_index(end.node),
        port: PortNum::new(end.port),
    }
}
