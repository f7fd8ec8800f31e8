//! Metrics by the names of treydock/infiniband_exporter.

use std::fmt::Error;

use wire::convert::real;

use super::families::Families;
use crate::model::{Counter, Fabric, Node, NodeKind, Port, Snapshot};

/// The names of counters between `infiniband_switch_port_` or `infiniband_hca_port_` and `_total`.
const COUNTERS: [(&str, Counter); 28] = [
    ("transmit_data_bytes", Counter::XmitData),
    ("receive_data_bytes", Counter::RcvData),
    ("transmit_packets", Counter::XmitPkts),
    ("receive_packets", Counter::RcvPkts),
    ("unicast_transmit_packets", Counter::UnicastXmitPkts),
    ("unicast_receive_packets", Counter::UnicastRcvPkts),
    ("multicast_transmit_packets", Counter::MulticastXmitPkts),
    ("multicast_receive_packets", Counter::MulticastRcvPkts),
    ("symbol_error", Counter::SymbolErrors),
    ("link_error_recovery", Counter::LinkErrorRecoveries),
    ("link_downed", Counter::LinkDowned),
    ("receive_errors", Counter::RcvErrors),
    (
        "receive_remote_physical_errors",
        Counter::RcvRemotePhysicalErrors,
    ),
    ("receive_switch_relay_errors", Counter::RcvSwitchRelayErrors),
    ("transmit_discards", Counter::XmitDiscards),
    ("transmit_constraint_errors", Counter::XmitConstraintErrors),
    ("receive_constraint_errors", Counter::RcvConstraintErrors),
    (
        "local_link_integrity_errors",
        Counter::LocalLinkIntegrityErrors,
    ),
    (
        "excessive_buffer_overrun_errors",
        Counter::ExcessiveBufferOverrunErrors,
    ),
    ("vl15_dropped", Counter::Vl15Dropped),
    ("transmit_wait", Counter::XmitWait),
    ("qp1_dropped", Counter::Qp1Dropped),
    ("local_physical_errors", Counter::LocalPhysicalErrors),
    ("malformed_packet_errors", Counter::MalformedPktErrors),
    ("buffer_overrun_errors", Counter::BufferOverrunErrors),
    ("dli_mapping_errors", Counter::DlidMappingErrors),
    ("vl_mapping_errors", Counter::VlMappingErrors),
    ("looping_errors", Counter::LoopingErrors),
];

/// A kind of nodes with metrics of its own: switches, and everything else.
#[derive(Clone, Copy)]
struct Family {
    /// As in names of metrics.
    name: &'static str,
    /// As in help texts.
    title: &'static str,
}

const SWITCH: Family = Family {
    name: "switch",
    title: "switch",
};
const HCA: Family = Family {
    name: "hca",
    title: "HCA",
};

/// A node that is there, by the texts that labels want.
struct Shown<'a> {
    place: usize,
    node: &'a Node,
    guid: String,
    lid: String,
}

/// A port that has been read.
struct ShownPort<'a> {
    place: usize,
    port: &'a Port,
    guid: &'a str,
    number: String,
}

pub(super) fn encode(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    collection(snapshot, families)?;
    for family in [SWITCH, HCA] {
        let nodes = shown(snapshot, family.name == SWITCH.name);
        nodes_of(snapshot, family, &nodes, families)?;
        let ports = shown_ports(snapshot, &nodes);
        ports_of(snapshot, family, &ports, families)?;
        uplinks(snapshot, family, &nodes, families)?;
    }
    Ok(())
}

fn shown(snapshot: &Snapshot, switches: bool) -> Vec<Shown<'_>> {
    let nodes = snapshot.fabric.nodes.iter().enumerate();
    let wanted = |node: &Node| node.is_present && (node.kind == NodeKind::Switch) == switches;
    let nodes = nodes.filter(|(_, node)| wanted(node));
    nodes
        .map(|(place, node)| Shown {
            place,
            node,
            guid: guid(node.guid),
            lid: node.lid.to_string(),
        })
        .collect()
}

fn shown_ports<'a>(snapshot: &'a Snapshot, nodes: &'a [Shown<'a>]) -> Vec<ShownPort<'a>> {
    let mut ports = Vec::new();
    for shown in nodes {
        let of_node = snapshot.fabric.ports_of(shown.node);
        let known = |place: &usize| snapshot.readings.get(*place).is_some_and(|it| it.is_known);
        let of_node = of_node.filter(|(place, port)| port.number != 0 && known(place));
        ports.extend(of_node.map(|(place, port)| ShownPort {
            place,
            port,
            guid: &shown.guid,
            number: port.number.to_string(),
        }));
    }
    ports
}

fn guid(guid: u64) -> String {
    format!("{guid:#018x}")
}

/// How the sample was collected: treydock's collectors of switches and of HCAs are one here.
fn collection(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    let fabric = &snapshot.fabric;
    let of = |is_it: fn(&crate::model::NodeCollection) -> bool| {
        let mut counts = [(SWITCH.name, 0), (HCA.name, 0)];
        for (node, collection) in fabric.nodes.iter().zip(snapshot.nodes.iter()) {
            let at = usize::from(node.kind != NodeKind::Switch);
            counts[at].1 += u64::from(node.is_present && is_it(collection));
        }
        counts.map(|(collector, count)| ([("collector", collector)], real(count)))
    };
    let both = |value: f64| [SWITCH.name, HCA.name].map(|it| ([("collector", it)], value));
    families.gauge(
        "infiniband_exporter_collector_duration_seconds",
        "Collector time duration.",
        both(snapshot.collection.duration_s).into_iter(),
    )?;
    families.gauge(
        "infiniband_exporter_collect_errors",
        "Number of errors that occurred during collection",
        of(|node| node.is_error).into_iter(),
    )?;
    families.gauge(
        "infiniband_exporter_collect_timeouts",
        "Number of timeouts that occurred during collection",
        of(|node| node.is_timeout).into_iter(),
    )?;
    families.gauge(
        "infiniband_exporter_last_execution",
        "Last execution time of exporter",
        both(real(snapshot.at_ms / 1000)).into_iter(),
    )
}

fn nodes_of(
    snapshot: &Snapshot,
    family: Family,
    nodes: &[Shown<'_>],
    families: &mut Families<'_>,
) -> Result<(), Error> {
    let Family { name, title } = family;
    let collections = || {
        nodes.iter().map(|shown| {
            let labels = [("guid", shown.guid.as_str()), ("collector", name)];
            let collection = snapshot.nodes.get(shown.place).copied();
            (labels, collection.unwrap_or_default())
        })
    };
    let flag = |flag: bool| f64::from(u8::from(flag));
    families.gauge(
        &format!("infiniband_{name}_collect_duration_seconds"),
        "Duration of collection",
        collections().map(|(labels, it)| (labels, it.duration_s)),
    )?;
    families.gauge(
        &format!("infiniband_{name}_collect_error"),
        "Indicates if collect error",
        collections().map(|(labels, it)| (labels, flag(it.is_error))),
    )?;
    families.gauge(
        &format!("infiniband_{name}_collect_timeout"),
        "Indicates if collect timeout",
        collections().map(|(labels, it)| (labels, flag(it.is_timeout))),
    )?;
    families.gauge(
        &format!("infiniband_{name}_info"),
        &format!("Infiniband {title} information"),
        nodes.iter().map(|shown| {
            let guid = ("guid", shown.guid.as_str());
            let labels = [guid, (name, &shown.node.name), ("lid", &shown.lid)];
            (labels, 1.0)
        }),
    )
}

fn ports_of(
    snapshot: &Snapshot,
    family: Family,
    ports: &[ShownPort<'_>],
    families: &mut Families<'_>,
) -> Result<(), Error> {
    let Family { name, title } = family;
    for (counter_name, counter) in COUNTERS {
        let samples = ports.iter().map(|shown| {
            let value = snapshot.readings[shown.place].counters[counter];
            let value = match counter {
                Counter::XmitData | Counter::RcvData => value.saturating_mul(4),
                _ => value,
            };
            ([("guid", shown.guid), ("port", &shown.number)], value)
        });
        families.counter(
            &format!("infiniband_{name}_port_{counter_name}"),
            &format!("Infiniband {title} port {}", counter.name()),
            samples,
        )?;
    }
    rates(family, ports, families)
}

/// One of the rates of a port, bits a second.
type RateOf = fn(&Port) -> u64;

/// Of a switch a rate a port, of an HCA one: that of its first port with a link.
fn rates(
    family: Family,
    ports: &[ShownPort<'_>],
    families: &mut Families<'_>,
) -> Result<(), Error> {
    let kinds: [(&str, RateOf); 2] = [
        ("rate", Port::data_bits_per_s),
        ("raw_rate", Port::raw_bits_per_s),
    ];
    for (kind, bits_per_s) in kinds {
        let title = format!(
            "{} {}rate",
            family.title,
            kind.strip_suffix("rate").unwrap_or("").replace('_', " ")
        );
        let linked = ports.iter().map(|shown| (shown, bits_per_s(shown.port)));
        let linked = linked.filter(|&(_, rate)| rate > 0);
        if family.name == SWITCH.name {
            let samples = linked.map(|(shown, rate)| {
                let labels = [("guid", shown.guid), ("port", &shown.number)];
                (labels, real(rate) / 8.0)
            });
            let title = title.replace("switch ", "switch port ");
            let name = format!("infiniband_switch_port_{kind}_bytes_per_second");
            families.gauge(&name, &format!("Infiniband {title}"), samples)?;
        } else {
            let mut last = None;
            let first =
                linked.filter(|(shown, _)| last.replace(shown.port.node) != Some(shown.port.node));
            let samples = first.map(|(shown, rate)| ([("guid", shown.guid)], real(rate) / 8.0));
            let name = format!("infiniband_hca_{kind}_bytes_per_second");
            families.gauge(&name, &format!("Infiniband {title}"), samples)?;
        }
    }
    Ok(())
}

fn uplinks(
    snapshot: &Snapshot,
    family: Family,
    nodes: &[Shown<'_>],
    families: &mut Families<'_>,
) -> Result<(), Error> {
    let fabric: &Fabric = &snapshot.fabric;
    let name = family.name;
    let samples = nodes.iter().flat_map(|shown| {
        fabric.ports_of(shown.node).filter_map(move |(_, port)| {
            let (uplink, far) = fabric.at(port.peer?)?;
            let kind = match uplink.kind {
                NodeKind::Switch => "SW",
                NodeKind::Host => "CA",
                NodeKind::Router => "RT",
            };
            let labels = [
                ("guid", shown.guid.clone()),
                ("port", port.number.to_string()),
                (name, shown.node.name.clone()),
                ("uplink", uplink.name.clone()),
                ("uplink_guid", guid(uplink.guid)),
                ("uplink_type", kind.to_owned()),
                ("uplink_port", far.number.to_string()),
                ("uplink_lid", far.lid.to_string()),
            ];
            Some((labels, 1.0))
        })
    });
    families.gauge(
        &format!("infiniband_{name}_uplink_info"),
        &format!("Infiniband {} uplink information", family.title),
        samples,
    )
}
