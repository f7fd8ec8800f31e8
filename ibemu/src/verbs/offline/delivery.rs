//! Multicast tables judged by following packets: each member gets one copy, other hosts none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use routing::multicast::{self, DeliveryProblem, Mft, Mgid, Multicast};
use routing::{dump, file};
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Guid, Lid, PortNum};

use crate::usage::{self, UsageError};

/// What is wrong with packets from every member of a group, in words.
pub(super) fn deliveries(graph: &Graph, multicast: &Multicast, group: Mgid) -> Vec<String> {
    let ends: BTreeMap<Guid, Endpoint> = graph
        .hosts()
        .flat_map(|node| {
            let cables = graph.cables(node);
            cables.map(move |(port, _)| Endpoint { node, port })
        })
        .map(|end| (routing::port_guid(graph, end), end))
        .collect();
    let members: BTreeMap<Endpoint, Lid> = multicast
        .members(group)
        .filter_map(|(guid, _)| Some((*ends.get(&guid)?, multicast.dlid(group, guid)?)))
        .collect();
    let receivers: BTreeSet<Endpoint> = members.keys().copied().collect();
    members
        .iter()
        .flat_map(|(&source, &mlid)| {
            from(
                graph,
                |switch| multicast.mft(switch),
                source,
                mlid,
                &receivers,
            )
        })
        .collect()
}

/// Multicast tables in the text of `dump_fts -M`.
///
/// # Errors
/// [`UsageError`] with the line.
pub(super) fn read(graph: &Graph, path: &Path) -> Result<BTreeMap<NodeId, Mft>, UsageError> {
    let name = path.display();
    let dumps = dump::read_mft(&usage::text_of(path, "multicast table")?)
        .map_err(|error| UsageError(format!("{name}, {error}")))?;
    file::multicast_tables(graph, &dumps).map_err(|error| UsageError(format!("{name}, {error}")))
}

/// What is wrong with tables whose groups are not known: the members of a multicast LID are the
/// hosts to which switches send it, and each of them may send.
pub(super) fn of_tables(graph: &Graph, mfts: &BTreeMap<NodeId, Mft>) -> Vec<String> {
    static EMPTY: Mft = Mft::empty();
    let mut receivers: BTreeMap<Lid, BTreeSet<Endpoint>> = BTreeMap::new();
    for (&node, mft) in mfts {
        for (mlid, ports) in mft.rows() {
            let members = receivers.entry(mlid).or_default();
            let behind = |port: PortNum| graph.peer(Endpoint { node, port });
            let hosts = ports.iter().filter_map(behind);
            members.extend(hosts.filter(|end| graph.node(end.node).kind == NodeKind::Host));
        }
    }
    receivers
        .iter()
        .flat_map(|(&mlid, members)| {
            members.iter().flat_map(move |&source| {
                let mft = |switch: NodeId| mfts.get(&switch).unwrap_or(&EMPTY);
                from(graph, mft, source, mlid, members)
            })
        })
        .collect()
}

fn from<'a>(
    graph: &Graph,
    mft: impl Fn(NodeId) -> &'a Mft,
    source: Endpoint,
    mlid: Lid,
    receivers: &BTreeSet<Endpoint>,
) -> Vec<String> {
    let delivery = multicast::deliver(graph, mft, source, mlid);
    let (name, number) = (&graph.node(source.node).name, mlid.get());
    multicast::check(&delivery, source, receivers)
        .iter()
        .map(|problem| {
            let what = in_words(graph, problem);
            format!("multicast to {number:#06x} from {name}: {what}")
        })
        .collect()
}

fn in_words(graph: &Graph, problem: &DeliveryProblem) -> String {
    let port = |end: &Endpoint| format!("{} port {}", graph.node(end.node).name, end.port);
    match problem {
        DeliveryProblem::Loop(ports) => {
            let ports: Vec<String> = ports.iter().map(port).collect();
            format!("copies go round {}", ports.join(" -> "))
        }
        DeliveryProblem::Missed(end) => format!("{} gets no copy", port(end)),
        DeliveryProblem::Repeated(end, copies) => format!("{} gets {copies} copies", port(end)),
        DeliveryProblem::Returned => "it comes back to its source".to_owned(),
        DeliveryProblem::Stray(end) => format!("{} is no member and gets a copy", port(end)),
        DeliveryProblem::Lost(end) => format!("a copy is sent to {}, without a cable", port(end)),
        DeliveryProblem::Doubled(end) => format!("two copies leave by {}", port(end)),
        DeliveryProblem::Wasted(end) => {
            format!(
                "a copy is sent to {}, which has nowhere to send it",
                port(end)
            )
        }
    }
}
