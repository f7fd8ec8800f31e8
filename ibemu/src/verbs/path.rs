//! `ibemu path`: the ports that a packet takes, queried hop by hop from the live switches.
//!
//! Directed-route datagrams leave through the source host and follow the forwarding tables they
//! read: at each switch the entry of the DLID says where to go next. The result does not depend on
//! which subnet manager runs: it is what the switches will do.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use wire::attr::{LinearForwardingTable, NodeDescription, NodeInfo, NodeType, PortInfo, PortState};
use wire::{Guid, Lid, PortNum};

use crate::cli::PathTo;
use crate::dir::FabricDir;
use crate::lids;
use crate::mads::MadClient;
use crate::names::FabricName;
use crate::output;
use crate::paths;
use crate::state::FabricState;
use crate::verify;

/// Entries of one forwarding-table block.
const BLOCK_LIDS: u16 = 64;

/// One device on the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hop {
    /// Its name.
    pub node: String,
    /// Its node GUID.
    pub guid: String,
    /// The port that the packet comes in on; `None` at the source.
    pub r#in: Option<u8>,
    /// The port that the packet leaves through; `None` at the destination.
    pub out: Option<u8>,
}

/// A path, as far as it was followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// The host that sends.
    pub(crate) source: String,
    /// The host that receives.
    pub(crate) destination: String,
    /// Where the packet is sent.
    pub(crate) dlid: u16,
    /// Its service level.
    pub(crate) sl: u8,
    /// The devices that it passes.
    pub(crate) hops: Vec<Hop>,
}

/// Prints the path between two hosts.
///
/// # Errors
/// If the packet would not arrive: where it ends, and why.
pub async fn run(fabric: &FabricName, options: &PathTo) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let hosts = [&*options.source, &options.destination];
    let (report, verdict) = between(&dir, &state, hosts, options.dlid_offset).await?;
    if options.json {
        output::json(&report)?;
    } else {
        print(&report)?;
    }
    verdict
}

/// The path from the first host to the second one, and whether the packet arrives.
///
/// # Errors
/// If there is no such host, or it cannot be asked.
pub(crate) async fn between(
    dir: &FabricDir,
    state: &FabricState,
    [source, destination]: [&str; 2],
    dlid_offset: Option<u16>,
) -> Result<(Report, Result<()>)> {
    let from = state.find_host(source)?;
    let to = state.find_host(destination)?;
    let (source, destination) = (source.to_owned(), destination.to_owned());
    let from = lids::of_host(dir, state, from).await?;
    let target = lids::of_host(dir, state, to).await?;
    let path = paths::from_host(dir, state, &from, &[&target]).await;
    let path = *path.first().context("a path for each destination")?;
    let dlid = match dlid_offset {
        Some(offset) => target.with_offset(offset)?,
        None => path.dlid,
    };
    let mut walk = Walk::new(dir, state, from.node).await?;
    let verdict = walk.to(dlid).await.and_then(|arrived| {
        if arrived != state.nodes[to].guid() {
            let at = walk.here();
            bail!("LID {dlid} leads to {at}, not to {destination}");
        }
        if path.is_apart {
            bail!(
                "{destination} takes no packets of {source}: {}",
                verify::APART
            );
        }
        Ok(())
    });
    let report = Report {
        dlid: dlid.get(),
        sl: path.sl.get(),
        hops: walk.hops,
        source,
        destination,
    };
    Ok((report, verdict))
}

/// The path from the host at position `source` to `dlid`.
///
/// # Errors
/// If the packet would not arrive.
pub(super) async fn trace(
    dir: &FabricDir,
    state: &FabricState,
    source: usize,
    dlid: Lid,
) -> Result<Vec<Hop>> {
    let mut walk = Walk::new(dir, state, source).await?;
    walk.to(dlid).await?;
    Ok(walk.hops)
}

/// `h0 1 > 1 s0 2 > 1 h1`: names, with the ports around each cable.
pub(super) fn in_one_line(hops: &[Hop]) -> String {
    let mut line = String::new();
    for hop in hops {
        if let Some(port) = hop.r#in {
            line.push_str(&format!(" > {port} "));
        }
        line.push_str(&hop.node);
        if let Some(port) = hop.out {
            line.push_str(&format!(" {port}"));
        }
    }
    line
}

fn print(report: &Report) -> Result<()> {
    let Report {
        source,
        destination,
        dlid,
        sl,
        hops,
    } = report;
    output::line(format!("{source} to {destination}, DLID {dlid}, SL {sl}"))?;
    let hops = hops
        .iter()
        .map(|hop| (hop.node.as_str(), hop.r#in, hop.out));
    output::line(output::hop_table(hops))
}

struct Walk<'a> {
    client: MadClient,
    state: &'a FabricState,
    hops: Vec<Hop>,
    seen: BTreeSet<Guid>,
}

impl<'a> Walk<'a> {
    async fn new(dir: &FabricDir, state: &'a FabricState, source: usize) -> Result<Self> {
        Ok(Self {
            client: MadClient::connect(dir, &state.nodes[source]).await?,
            state,
            hops: Vec::new(),
            seen: BTreeSet::new(),
        })
    }

    /// Walks until a host; returns its GUID.
    async fn to(&mut self, dlid: Lid) -> Result<Guid> {
        let mut route = Vec::new();
        loop {
            let info: NodeInfo = self
                .client
                .smp(0, &route)
                .await
                .with_context(|| self.lost())?;
            let first = route.is_empty();
            let entry = (!first).then_some(info.local_port_num.get());
            let node = self.name(&info, &route).await?;
            self.hops.push(Hop {
                node,
                guid: info.node_guid.to_string(),
                r#in: entry,
                out: None,
            });
            if info.node_type != NodeType::Switch && !first {
                return self.check_arrival(&info, dlid, &route).await;
            }
            if !self.seen.insert(info.node_guid) {
                bail!(
                    "the tables hold a loop: the packet comes back to {}",
                    self.here()
                );
            }
            let out = if info.node_type == NodeType::Switch {
                match self.exit_port(dlid, &route).await? {
                    PortNum::MANAGEMENT => return Ok(info.node_guid),
                    out => out,
                }
            } else {
                info.local_port_num
            };
            if let Some(hop) = self.hops.last_mut() {
                hop.out = Some(out.get());
            }
            self.check_active(out, &route).await?;
            route.push(out);
        }
    }

    /// The port through which the switch at the end of `route` sends the packet.
    async fn exit_port(&mut self, dlid: Lid, route: &[PortNum]) -> Result<PortNum> {
        let block = u32::from(dlid.get() / BLOCK_LIDS);
        let table: LinearForwardingTable = self
            .client
            .smp(block, route)
            .await
            .with_context(|| format!("{} was asked for its forwarding table", self.here()))?;
        let port = table.0[usize::from(dlid.get() % BLOCK_LIDS)];
        if port == PortNum::NONE {
            bail!(
                "{} has no route to LID {dlid}: it drops the packet",
                self.here()
            );
        }
        Ok(port)
    }

    async fn check_active(&mut self, port: PortNum, route: &[PortNum]) -> Result<()> {
        let info: PortInfo = self
            .client
            .smp(u32::from(port.get()), route)
            .await
            .with_context(|| format!("{} was asked for port {port}", self.here()))?;
        if info.port_state != PortState::Active {
            bail!(
                "port {port} of {} is not Active but {:?}: the packet does not leave it",
                self.here(),
                info.port_state
            );
        }
        Ok(())
    }

    async fn check_arrival(
        &mut self,
        info: &NodeInfo,
        dlid: Lid,
        route: &[PortNum],
    ) -> Result<Guid> {
        let port: PortInfo = self
            .client
            .smp(u32::from(info.local_port_num.get()), route)
            .await
            .with_context(|| format!("{} was asked for its LID", self.here()))?;
        if !dlid.belongs_to(port.lid, port.lmc) {
            bail!(
                "the packet ends at {}, whose LID is {}, not {dlid}",
                self.here(),
                port.lid
            );
        }
        Ok(info.node_guid)
    }

    /// The device's name in the topology, else its node description.
    async fn name(&mut self, info: &NodeInfo, route: &[PortNum]) -> Result<String> {
        let known = self
            .state
            .nodes
            .iter()
            .find(|node| node.guid() == info.node_guid);
        if let Some(node) = known {
            return Ok(node.name.clone());
        }
        let description: NodeDescription = self.client.smp(0, route).await?;
        Ok(description.as_str().to_owned())
    }

    fn here(&self) -> &str {
        self.hops
            .last()
            .map_or("the source", |hop| hop.node.as_str())
    }

    fn lost(&self) -> String {
        match self.hops.last() {
            Some(Hop {
                node,
                out: Some(port),
                ..
            }) => {
                format!("no device answers behind port {port} of {node}")
            }
            _ => "the source host does not answer".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_one_line_names_the_ports_around_each_cable() {
        let hop = |node: &str, r#in, out| Hop {
            node: node.into(),
            guid: String::new(),
            r#in,
            out,
        };
        let hops = [
            hop("h0", None, Some(1)),
            hop("s0", Some(1), Some(2)),
            hop("h1", Some(1), None),
        ];
        assert_eq!(in_one_line(&hops), "h0 1 > 1 s0 2 > 1 h1");
    }
}
