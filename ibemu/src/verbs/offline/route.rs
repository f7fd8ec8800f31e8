//! `ibemu route`: LIDs and tables of a topology, computed and printed.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use routing::quality::usage;
use routing::{RoutingEngine, Tables, dump};
use serde::Serialize;
use topologies::{Graph, NodeKind};
use wire::{Lid, PortNum};

use super::args::{Dump, Route};
use super::extras::{ArbitrationJson, Extra, VlsJson};
use super::tables::{self, Routed};
use crate::output::{self, Align, Table};
use crate::shape;
use crate::usage::UsageError;

/// By name of a switch and LID the port.
type PortsByLid = BTreeMap<u16, u8>;

#[derive(Debug, Serialize)]
struct NodeJson<'a> {
    name: &'a str,
    r#type: &'static str,
    guid: String,
    lid: Option<u16>,
    lmc: u8,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    topology: &'a str,
    routing: RoutingEngine,
    lmc: u8,
    nodes: Vec<NodeJson<'a>>,
    lft: BTreeMap<&'a str, PortsByLid>,
    mft: BTreeMap<&'a str, BTreeMap<u16, Vec<u8>>>,
    sl2vl: Option<VlsJson<'a>>,
    vlarb: BTreeMap<&'a str, BTreeMap<u8, ArbitrationJson>>,
    warnings: Vec<String>,
}

/// Computes tables and prints them, or the way of a packet through them.
///
/// # Errors
/// If there can be no such tables, or the packet does not arrive.
pub fn run(options: &Route) -> Result<()> {
    let routed = Routed::new(
        &options.topology,
        options.routing,
        options.tables.as_deref(),
        &options.scheme,
    )?;
    if let Some(ends) = &options.path {
        return path(&routed, ends, options.json);
    }
    let extra = Extra::new(&routed, &options.extras)?;
    let (graph, tables) = (routed.graph(), &routed.tables);
    match options.dump {
        Some(Dump::Lft) => output::text(&dump::write(graph, tables)),
        Some(Dump::Mft) => {
            output::text(&dump::write_mft(graph, tables, |switch| extra.mft(switch)))
        }
        Some(Dump::Lids) => output::text(&dump::write_lids(tables)),
        Some(Dump::Sl) => output::text(&dump::write_sls(graph, tables)),
        Some(Dump::Sl2vl) => output::text(&dump::write_sl2vl(graph, tables)),
        None if options.json => output::line(serde_json::to_string(&report(&routed, &extra))?),
        None => summary(&routed),
    }
}

fn report<'a>(routed: &'a Routed, extra: &Extra) -> Report<'a> {
    let (graph, tables) = (routed.graph(), &routed.tables);
    let mft = graph.switches().map(|switch| {
        let rows = extra.mft(switch).rows();
        let rows = rows.map(|(mlid, ports)| (mlid.get(), ports.iter().map(PortNum::get).collect()));
        (graph.node(switch).name.as_str(), rows.collect())
    });
    Report {
        topology: &routed.topology.name,
        routing: tables.engine,
        lmc: tables::lmc(tables),
        nodes: nodes(graph, tables),
        lft: graph
            .switches()
            .map(|switch| {
                (
                    graph.node(switch).name.as_str(),
                    ports_by_lid(tables, switch),
                )
            })
            .collect(),
        mft: if extra.has_groups() {
            mft.collect()
        } else {
            BTreeMap::new()
        },
        sl2vl: extra.sl_to_vl(graph, tables),
        vlarb: extra.arbitration(graph),
        warnings: tables.warnings.iter().map(ToString::to_string).collect(),
    }
}

fn nodes<'a>(graph: &'a Graph, tables: &Tables) -> Vec<NodeJson<'a>> {
    let of = |id| {
        let node = graph.node(id);
        let range = tables.lids.of_node(id);
        NodeJson {
            name: &node.name,
            r#type: match node.kind {
                NodeKind::Switch => "switch",
                NodeKind::Host => "host",
            },
            guid: node.guid.to_string(),
            lid: range.map(|range| range.base.get()),
            lmc: range.map_or(0, |range| range.lmc.get()),
        }
    };
    graph.ids().map(of).collect()
}

fn ports_by_lid(tables: &Tables, switch: topologies::NodeId) -> PortsByLid {
    let entries = (0_u16..).zip(tables.lft(switch).entries());
    entries
        .filter(|&(_, &port)| port != PortNum::NONE)
        .map(|(lid, port)| (lid, port.get()))
        .collect()
}

fn summary(routed: &Routed) -> Result<()> {
    let (graph, tables) = (routed.graph(), &routed.tables);
    let because = tables.because.as_deref();
    let because = because.map_or_else(String::new, |because| format!(": {because}"));
    output::line(format!(
        "{}, routing {}{because}",
        routed.topology.name, tables.engine
    ))?;
    for line in shape::lines(graph) {
        output::line(line)?;
    }
    let mut table = Table::new(
        &["HOSTS", "SWITCHES", "LMC", "LIDS", "TOP", "ENTRIES"].map(|name| (name, Align::Right)),
    );
    let usage = usage(graph, tables);
    table.row([
        tables
            .lids
            .iter()
            .len()
            .saturating_sub(usage.switch_lids as usize)
            .to_string(),
        usage.switch_lids.to_string(),
        tables::lmc(tables).to_string(),
        (usage.host_lids + usage.switch_lids).to_string(),
        usage.top.to_string(),
        usage.entries.to_string(),
    ]);
    output::line(table)?;
    for warning in &tables.warnings {
        output::line(format!("warning: {warning}"))?;
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct HopJson<'a> {
    node: &'a str,
    r#in: Option<u8>,
    out: Option<u8>,
}

#[derive(Debug, Serialize)]
struct PathJson<'a> {
    dlid: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    sl: Option<u8>,
    hops: Vec<HopJson<'a>>,
}

fn path(routed: &Routed, ends: &str, json: bool) -> Result<()> {
    let (graph, tables) = (routed.graph(), &routed.tables);
    let (from, to) = ends.split_once(',').ok_or_else(|| {
        UsageError(format!(
            "--path {ends}: wanted are two nodes, SOURCE,DESTINATION"
        ))
    })?;
    let (source, destination) = (tables::node(graph, from)?, tables::node(graph, to)?);
    let Some(dlid) = tables.dlid_between(source, destination) else {
        bail!("{from} or {to} has no LID: it has no cable, or the tables leave it out");
    };
    let Some(start) = tables::end_port(graph, source) else {
        bail!("{from} has no cable");
    };
    let way = tables.path(graph, start, dlid);
    let last = way.hops.len().saturating_sub(1);
    let shown = |port: PortNum, none: bool| (!none).then_some(port.get());
    let hops: Vec<HopJson<'_>> = way
        .hops
        .iter()
        .enumerate()
        .map(|(place, hop)| HopJson {
            node: &graph.node(hop.node).name,
            r#in: shown(hop.entry, place == 0),
            out: shown(
                hop.exit,
                hop.exit == PortNum::NONE || (place == last && way.arrives),
            ),
        })
        .collect();
    let sl = tables.vl_assignment.as_ref();
    let sl = sl.map(|assignment| assignment.sl_from(graph, start, dlid).get());
    if json {
        output::json(&PathJson {
            dlid: dlid.get(),
            sl,
            hops,
        })?;
    } else {
        print(from, to, dlid, sl, &hops)?;
    }
    if !way.arrives {
        let at = way
            .hops
            .last()
            .map_or(from, |hop| &graph.node(hop.node).name);
        bail!("packets for LID {dlid} do not arrive at {to}: they end at {at}");
    }
    Ok(())
}

fn print(from: &str, to: &str, dlid: Lid, sl: Option<u8>, hops: &[HopJson<'_>]) -> Result<()> {
    let sl = sl.map_or_else(String::new, |sl| format!(", SL {sl}"));
    output::line(format!("{from} to {to}, DLID {dlid}{sl}"))?;
    let hops = hops.iter().map(|hop| (hop.node, hop.r#in, hop.out));
    output::line(output::hop_table(hops))
}
