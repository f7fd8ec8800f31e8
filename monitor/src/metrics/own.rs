//! Metrics of our own: what no exporter of real hardware has.

use std::fmt::Error;

use wire::convert::real;

use super::families::Families;
use crate::model::{Lane, NodeKind, PortState, ProcessFacts, Snapshot};

pub(super) fn encode(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    fabric(snapshot, families)?;
    ports(snapshot, families)?;
    lanes(snapshot, families)?;
    controllers(snapshot, families)?;
    processes(snapshot, families)
}

/// Labels of a port: GUID of the node, number, and the node's name.
type PortLabels = [(&'static str, String); 3];

/// The ports of all nodes that are there, with their places and labels; port 0 is left out.
fn labelled(snapshot: &Snapshot) -> impl Iterator<Item = (usize, PortLabels)> + '_ {
    let nodes = snapshot.fabric.nodes.iter().filter(|node| node.is_present);
    nodes.flat_map(|node| {
        let ports = snapshot.fabric.ports_of(node);
        ports
            .filter(|(_, port)| port.number != 0)
            .map(|(place, port)| {
                let labels = [
                    ("guid", format!("{:#018x}", node.guid)),
                    ("port", port.number.to_string()),
                    ("node", node.name.clone()),
                ];
                (place, labels)
            })
    })
}

fn fabric(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    let kinds = [
        ("switch", NodeKind::Switch),
        ("host", NodeKind::Host),
        ("router", NodeKind::Router),
    ];
    let nodes = &snapshot.fabric.nodes;
    let counts = kinds.map(|(name, kind)| {
        let of_kind = nodes
            .iter()
            .filter(|node| node.is_present && node.kind == kind);
        (
            [("kind", name)],
            real(wire::convert::u64_of(of_kind.count())),
        )
    });
    families.gauge(
        "ibemu_nodes",
        "Devices that subnet administration knows",
        counts.into_iter(),
    )?;
    let none: [(&str, &str); 0] = [];
    families.gauge(
        "ibemu_sample_requests",
        "Management datagrams sent for the latest sample",
        std::iter::once((none, real(snapshot.collection.requests))),
    )?;
    families.gauge(
        "ibemu_sample_success",
        "Whether the latest sample could be taken",
        std::iter::once((
            none,
            f64::from(u8::from(snapshot.collection.failure.is_none())),
        )),
    )
}

fn ports(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    let states = labelled(snapshot).map(|(place, labels)| {
        let state = match snapshot.fabric.ports[place].state {
            PortState::Unknown => 0.0,
            PortState::Down => 1.0,
            PortState::Init => 2.0,
            PortState::Armed => 3.0,
            PortState::Active => 4.0,
        };
        (labels, state)
    });
    families.gauge(
        "ibemu_port_state",
        "Logical state of the port: 0 unknown, 1 Down, 2 Init, 3 Armed, 4 Active",
        states,
    )?;
    families.counter(
        "ibemu_port_resets",
        "Times that counters of the port have begun anew: cleared, or the device restarted",
        labelled(snapshot).map(|(place, labels)| {
            let resets = snapshot.reading(place).resets;
            (labels, u64::from(resets))
        }),
    )?;
    families.gauge(
        "ibemu_port_saturated",
        "Whether a counter of the port stands at its largest value and cannot grow",
        labelled(snapshot).map(|(place, labels)| {
            let is_saturated = snapshot.reading(place).is_saturated;
            (labels, f64::from(u8::from(is_saturated)))
        }),
    )?;
    let drops = labelled(snapshot).flat_map(|(place, [guid, number, node])| {
        let port = &snapshot.fabric.ports[place];
        let drops = snapshot.devices.get(port.node);
        let drops = drops.and_then(|device| device.drops.get(&port.number));
        drops.into_iter().flatten().map(move |(reason, &count)| {
            let reason = ("reason", reason.clone());
            ([guid.clone(), number.clone(), node.clone(), reason], count)
        })
    });
    families.counter(
        "ibemu_port_dropped_packets",
        "Packets that the device has dropped at the port since it was started, by reason",
        drops,
    )
}

/// One figure of a lane.
type OfLane = fn(&Lane) -> f64;

fn lanes(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    let lanes = || {
        labelled(snapshot).flat_map(|(place, [guid, number, node])| {
            let port = &snapshot.fabric.ports[place];
            let lanes = snapshot.devices.get(port.node);
            let lanes = lanes.and_then(|device| device.lanes.get(&port.number));
            lanes
                .into_iter()
                .flatten()
                .enumerate()
                .map(move |(vl, lane)| {
                    let vl = ("vl", vl.to_string());
                    ([guid.clone(), number.clone(), node.clone(), vl], lane)
                })
        })
    };
    let gauges: [(&str, &str, OfLane); 4] = [
        (
            "ibemu_lane_input_occupancy_ratio",
            "Part of the virtual lane's input buffer that packets take",
            |lane| lane.input_share,
        ),
        (
            "ibemu_lane_output_queue_bytes",
            "Bytes in the virtual lane's output queue",
            |lane| real(u64::from(lane.output_blocks) * 64),
        ),
        (
            "ibemu_lane_credit_bytes",
            "Bytes that the peer's buffer still takes on the virtual lane",
            |lane| real(u64::from(lane.credits) * 64),
        ),
        (
            "ibemu_lane_arbiter_share_ratio",
            "Part of what the port has sent lately that the arbiter gave to the virtual lane",
            |lane| lane.share,
        ),
    ];
    for (name, help, value) in gauges {
        families.gauge(
            name,
            help,
            lanes().map(|(labels, lane)| (labels, value(lane))),
        )?;
    }
    families.counter(
        "ibemu_lane_transmit_data_bytes",
        "Bytes sent on the virtual lane since the device was started",
        lanes().map(|(labels, lane)| (labels, lane.xmit_bytes)),
    )?;
    families.counter(
        "ibemu_lane_transmit_wait_seconds",
        "Time since the device was started during which data waited on the virtual lane without credits",
        lanes().map(|(labels, lane)| (labels, lane.wait_s)),
    )
}

fn controllers(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    let all = || {
        let controllers = snapshot.controllers.iter();
        controllers.map(|it| ([("controller", it.name.as_str())], it))
    };
    let running = || all().filter(|(_, it)| it.is_running);
    families.gauge(
        "ibemu_subnet_manager_master",
        "Whether the subnet manager runs and is master",
        all().map(|(labels, it)| (labels, f64::from(u8::from(it.is_running && it.is_master)))),
    )?;
    families.gauge(
        "ibemu_subnet_sweep_duration_seconds",
        "Duration of the latest discovery",
        running().map(|(labels, it)| (labels, it.discovery_s)),
    )?;
    families.gauge(
        "ibemu_subnet_reroute_duration_seconds",
        "Duration of the latest computation of tables and of programming them",
        running().map(|(labels, it)| (labels, it.programming_s)),
    )?;
    families.counter(
        "ibemu_subnet_sweeps",
        "Sweeps that the subnet manager has completed since it was started",
        running().map(|(labels, it)| (labels, it.sweeps)),
    )?;
    families.counter(
        "ibemu_subnet_smps_sent",
        "Subnet management packets sent since the start, repetitions included",
        running().map(|(labels, it)| (labels, it.smps_sent)),
    )?;
    families.counter(
        "ibemu_subnet_smps_timed_out",
        "Subnet management packets that were not answered in time",
        running().map(|(labels, it)| (labels, it.smps_timed_out)),
    )?;
    families.counter(
        "ibemu_subnet_administration_requests",
        "Requests to subnet administration since the start",
        running().map(|(labels, it)| (labels, it.sa_requests)),
    )
}

fn processes(snapshot: &Snapshot, families: &mut Families<'_>) -> Result<(), Error> {
    fn labels(process: &ProcessFacts) -> [(&str, &str); 2] {
        [("process", &process.name), ("role", &process.role)]
    }
    let all = || snapshot.processes.iter();
    let measured = || all().filter(|process| process.pid.is_some() && !process.is_elsewhere);
    families.gauge(
        "ibemu_process_running",
        "Whether the process runs",
        all().map(|it| (labels(it), f64::from(u8::from(it.pid.is_some())))),
    )?;
    families.counter(
        "ibemu_process_restarts",
        "Times that the process was started again",
        all().map(|it| (labels(it), u64::from(it.restarts))),
    )?;
    families.counter(
        "ibemu_process_cpu_seconds",
        "CPU time of the process in user and kernel mode",
        measured().map(|it| (labels(it), it.cpu_s)),
    )?;
    families.gauge(
        "ibemu_process_resident_memory_bytes",
        "Resident memory of the process",
        measured().map(|it| (labels(it), real(it.resident_bytes))),
    )
}
