//! Multicast groups and connections with promised bandwidth, on top of tables.

use std::collections::BTreeMap;

use anyhow::Result;
use routing::multicast::{self, Mft, Mgid, Multicast, Role};
use routing::qos::{
    self, Admission, Band, Class, FRAME_SLOTS, Fault, LinkState, PortTables, Request, ServiceLevels,
};
use routing::{Tables, VlAssignment};
use serde::Serialize;
use topologies::{Endpoint, Graph, NodeId};
use wire::{Guid, Vl};

use super::args::Extras;
use super::delivery::deliveries;
use super::tables::{self, Routed};
use crate::quantity::Rate;
use crate::usage::UsageError;

/// Data VLs of the connections' tables: VLARB01's ten classes apart.
const DATA_VLS: u8 = 15;

/// SL-to-VL mapping tables.
#[derive(Debug, Serialize)]
pub(super) struct VlsJson<'a> {
    /// By service level the VL, for every pair of ports that is not listed.
    all: Vec<u8>,
    ports: Vec<PortsVlsJson<'a>>,
    /// By switch and LID: the service level from its hosts, where it is not 0.
    sl: BTreeMap<&'a str, BTreeMap<u16, u8>>,
}

#[derive(Debug, Serialize)]
struct PortsVlsJson<'a> {
    node: &'a str,
    r#in: u8,
    out: u8,
    vl: Vec<u8>,
}

/// The two arbitration tables of a port: `[VL, weight]` up to the last entry that is used.
#[derive(Debug, Serialize)]
pub(super) struct ArbitrationJson {
    high: Vec<[u8; 2]>,
    low: Vec<[u8; 2]>,
    high_limit: u8,
}

/// Groups and connections that stand.
pub(super) struct Extra {
    multicast: Option<Multicast>,
    admission: Option<Admission>,
}

impl Extra {
    /// Makes the groups and admits the connections.
    ///
    /// # Errors
    /// [`UsageError`] if one of them cannot be.
    pub(super) fn new(routed: &Routed, options: &Extras) -> Result<Self> {
        Ok(Self {
            multicast: groups(routed, options)?,
            admission: connections(routed, options)?,
        })
    }

    pub(super) fn has_groups(&self) -> bool {
        self.multicast.is_some()
    }

    /// The multicast table of a switch.
    pub(super) fn mft(&self, switch: NodeId) -> &Mft {
        static EMPTY: Mft = Mft::empty();
        self.multicast
            .as_ref()
            .map_or(&EMPTY, |multicast| multicast.mft(switch))
    }

    /// SL-to-VL tables, of the engine or of the connections.
    pub(super) fn sl_to_vl<'a>(&self, graph: &'a Graph, tables: &Tables) -> Option<VlsJson<'a>> {
        let plain = |vls: &[Vl]| vls.iter().map(|vl| vl.get()).collect();
        if self.admission.is_some() {
            return Some(VlsJson {
                all: plain(&ServiceLevels::Paper.sl2vl(DATA_VLS)),
                ports: Vec::new(),
                sl: BTreeMap::new(),
            });
        }
        let assignment = tables.vl_assignment.as_ref()?;
        let name = |node| graph.node(node).name.as_str();
        Some(VlsJson {
            all: plain(&assignment.sl2vl),
            ports: assignment
                .by_ports
                .iter()
                .map(|(&(node, entry, exit), table)| PortsVlsJson {
                    node: name(node),
                    r#in: entry.get(),
                    out: exit.get(),
                    vl: plain(table),
                })
                .collect(),
            sl: graph
                .switches()
                .map(|switch| (name(switch), service_levels(tables, assignment, switch)))
                .filter(|(_, sls)| !sls.is_empty())
                .collect(),
        })
    }

    /// By node and port the arbitration tables, if there are connections.
    pub(super) fn arbitration<'a>(
        &self,
        graph: &'a Graph,
    ) -> BTreeMap<&'a str, BTreeMap<u8, ArbitrationJson>> {
        let mut by_node: BTreeMap<&str, BTreeMap<u8, ArbitrationJson>> = BTreeMap::new();
        let links = self.admission.iter().flat_map(Admission::links);
        for (end, link) in links {
            let ports = by_node.entry(&graph.node(end.node).name).or_default();
            ports.insert(end.port.get(), arbitration(link));
        }
        by_node
    }

    /// What is wrong with groups and connections, in words.
    pub(super) fn problems(&self, graph: &Graph) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(multicast) = &self.multicast {
            for group in multicast.groups() {
                problems.extend(deliveries(graph, multicast, group));
            }
        }
        problems.extend(
            self.admission
                .iter()
                .flat_map(|admission| audited(graph, admission)),
        );
        problems
    }
}

fn service_levels(tables: &Tables, assignment: &VlAssignment, switch: NodeId) -> BTreeMap<u16, u8> {
    let lids = tables.lids.iter().flat_map(|range| range.lids());
    lids.map(|lid| (lid.get(), assignment.sl(switch, lid).get()))
        .filter(|&(_, sl)| sl != 0)
        .collect()
}

/// Arbitration tables that are not what their connections add up to, or promise more than a frame.
pub(super) fn audited(graph: &Graph, admission: &Admission) -> Vec<String> {
    let ports: Vec<PortTables> = admission
        .links()
        .map(|(end, link)| PortTables::of(end, link))
        .collect();
    let connections = admission.connections().map(|(_, connection)| connection);
    let port = |end: &Endpoint| format!("port {} of {}", end.port, graph.node(end.node).name);
    let words = |fault: &Fault| match fault {
        Fault::Weights {
            at, vl, have, want, ..
        } => format!(
            "{} gives VL {vl} {have} slots of a frame, not {want}",
            port(at)
        ),
        Fault::Overbooked { at, have } => {
            format!(
                "{} has promised {have} slots of a frame of {FRAME_SLOTS}",
                port(at)
            )
        }
        Fault::NoTables { at } => format!("{} has no arbitration tables", port(at)),
    };
    qos::audit(&admission.options(), connections, &ports)
        .iter()
        .map(words)
        .collect()
}

fn arbitration(link: &LinkState) -> ArbitrationJson {
    let used = |table: &qos::Table| {
        let entries = table.entries();
        let used = entries.iter().rposition(|entry| entry.weight > 0);
        let used = &entries[..used.map_or(0, |last| last + 1)];
        used.iter()
            .map(|entry| [entry.vl.get(), entry.weight])
            .collect()
    };
    ArbitrationJson {
        high: used(link.high()),
        low: used(link.low()),
        high_limit: link.high_limit(),
    }
}

fn groups(routed: &Routed, options: &Extras) -> Result<Option<Multicast>> {
    if options.groups.is_empty() {
        return Ok(None);
    }
    let (graph, tables) = (routed.graph(), &routed.tables);
    let group_options = multicast::Options {
        scheme: options.multicast,
        labels: tables.labels.clone(),
        ..multicast::Options::default()
    };
    let usage = |error: multicast::MulticastError| UsageError(format!("--group: {error}"));
    let mut multicast = Multicast::new(graph, &group_options).map_err(usage)?;
    for (number, members) in (1..).zip(&options.groups) {
        let members: Vec<NodeId> = match members.as_str() {
            "all" => tables::hosts(graph),
            names => names
                .split(',')
                .map(|name| tables::node(graph, name))
                .collect::<Result<_>>()?,
        };
        for member in members {
            let guid = host_port(graph, tables, member)?;
            multicast
                .join(Mgid(number), guid, Role::Receives)
                .map_err(usage)?;
        }
    }
    Ok(Some(multicast))
}

fn host_port(graph: &Graph, tables: &Tables, node: NodeId) -> Result<Guid> {
    let range = tables.lids.of_node(node).ok_or_else(|| {
        let name = &graph.node(node).name;
        UsageError(format!(
            "--group: {name} has no cable and cannot be a member"
        ))
    })?;
    Ok(range.guid)
}

fn connections(routed: &Routed, options: &Extras) -> Result<Option<Admission>> {
    if options.connections.is_empty() {
        return Ok(None);
    }
    let (graph, tables) = (routed.graph(), &routed.tables);
    if tables.vl_assignment.is_some() {
        return Err(UsageError(format!(
            "--connection: {} needs the VLs for itself; choose an engine that does not",
            tables.engine
        ))
        .into());
    }
    let qos_options = qos::Options {
        data_vls: DATA_VLS,
        ..qos::Options::default()
    };
    let mut admission = Admission::new(graph, qos_options, |_| options.rate.bps())
        .map_err(|error| UsageError(error.to_string()))?;
    for text in &options.connections {
        let wrong = |why: String| UsageError(format!("--connection {text}: {why}"));
        let (from, to, rate_bps, class) = connection(text).map_err(wrong)?;
        let ends = [tables::node(graph, from)?, tables::node(graph, to)?];
        let request = Request {
            class,
            rate_bps,
            path: &tables::outputs(graph, tables, ends[0], ends[1]),
        };
        admission
            .request(&request)
            .map_err(|error| wrong(refusal(graph, &error)))?;
    }
    Ok(Some(admission))
}

fn connection(text: &str) -> Result<(&str, &str, u64, Class), String> {
    let words: Vec<&str> = text.split(',').collect();
    let (from, to, rate, sensitive) = match words[..] {
        [from, to, rate] => (from, to, rate, false),
        [from, to, rate, "dbts"] => (from, to, rate, true),
        _ => {
            return Err("give SOURCE,DESTINATION,RATE or SOURCE,DESTINATION,RATE,dbts".into());
        }
    };
    let Rate(bps) = rate
        .parse()
        .map_err(|error: crate::quantity::BadQuantity| error.to_string())?;
    let band = Band::of(bps);
    let class = match sensitive {
        true => Class::TimeSensitive(band),
        false => Class::Dedicated(band),
    };
    Ok((from, to, bps, class))
}

/// A refusal with the link's name.
pub(super) fn refusal(graph: &Graph, error: &qos::QosError) -> String {
    match error {
        qos::QosError::Refused { at, cause } => {
            let name = &graph.node(at.node).name;
            format!("at port {} of {name}: {cause}", at.port)
        }
        qos::QosError::EmptyPath => "the tables have no path between the two".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_two_nodes_a_rate_and_perhaps_dbts() {
        assert_eq!(
            connection("a,b,64k"),
            Ok(("a", "b", 64_000, Class::Dedicated(Band::VeryLow)))
        );
        assert_eq!(
            connection("a,b,2M,dbts"),
            Ok(("a", "b", 2_000_000, Class::TimeSensitive(Band::High)))
        );
        for bad in ["", "a,b", "a,b,x", "a,b,1M,soon"] {
            assert!(connection(bad).is_err(), "{bad}");
        }
    }
}
