//! Packets without bytes fare as those with bytes: the same results, and the same counters of every port.

use core::num::NonZeroU16;

use link::Counts;
use wire::PortNum;

use super::*;
use crate::faults::{CableEnd, Fault, FaultKind};
use crate::model::CreditReturn;

/// Later than any run.
const NEVER_NS: u64 = 1 << 60;

fn end(node: &str, port: u8) -> CableEnd {
    CableEnd {
        node: node.to_owned(),
        port: PortNum::new(port),
    }
}

/// The outcome, and the counters of all ports in order. A plan that damages packets needs their bytes, even if it does
/// so after the run.
fn run(
    model: &Model,
    load: &Load,
    faults: &[(u64, FaultKind)],
    has_bytes: bool,
) -> (LoadResult, Vec<Counts>) {
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let prepared = RoutedFabric::new(&graph, RoutingEngine::Mlid).unwrap();
    let mark = FaultKind::Rates {
        end: end("s0.0.1", 3),
        loss_ppm: 0,
        corruption_ppm: u32::from(has_bytes),
    };
    let faults = faults.iter().cloned().chain([(NEVER_NS, mark)]);
    let plan = FaultPlan {
        faults: faults.map(|(at_ns, what)| Fault { at_ns, what }).collect(),
        seed: 5,
    };
    assert_eq!(crate::fabric::hands_over(model, &plan), !has_bytes);
    let mut fabric = prepared.start(model, load, &plan).unwrap();
    let until = fabric.measure.until;
    fabric.run(until - 1);
    if load.drain {
        drain(&mut fabric);
    }
    fabric.check_all();
    let ports = fabric.graph.ids().flat_map(|id| {
        let ports = 1..=fabric.graph.node(id).ports;
        ports.map(move |port| (id, PortNum::new(port)))
    });
    let counts = ports
        .filter_map(|(id, port)| fabric.nodes[id.index()].port(port))
        .map(|port| port.counts().clone())
        .collect();
    (outcome(&fabric, load), counts)
}

fn compare(model: &Model, load: &Load, faults: &[(u64, FaultKind)]) -> LoadResult {
    let [(values, value_counts), (bytes, byte_counts)] =
        [false, true].map(|has_bytes| run(model, load, faults, has_bytes));
    assert_eq!(values, bytes);
    assert_eq!(value_counts, byte_counts);
    assert!(values.packets > 0);
    values
}

fn third_host() -> String {
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let id = graph.hosts().nth(3).unwrap();
    graph.node(id).name.clone()
}

fn load(bytes_per_ns: f64, drain: bool) -> Load {
    Load {
        warmup_ns: 5_000,
        measure_ns: 30_000,
        drain,
        ..Load::uniform(bytes_per_ns, 3)
    }
}

#[test]
fn packets_without_bytes_fare_as_those_with_bytes() {
    let paper = Model::mlid04(1);
    let buffered = Model {
        credits: CreditReturn::Packets,
        input_packets: NonZeroU16::new(5).unwrap(),
        output_packets: NonZeroU16::new(3).unwrap(),
        packet_bytes: 288,
        vcrc_takes_time: true,
        ..Model::mlid04(4)
    };
    let instant = Model {
        crossbar_at_link_rate: false,
        ..Model::mlid04(2)
    };
    for bytes_per_ns in [0.03, 0.2] {
        for model in [&paper, &buffered, &instant] {
            compare(model, &load(bytes_per_ns, true), &[]);
        }
        let spread = Load {
            sl_choice: SlChoice::Random,
            pattern: Pattern::Centric {
                percent: 30,
                target: 1,
            },
            ..load(bytes_per_ns, false)
        };
        compare(&Model::mlid04(4), &spread, &[]);
    }
}

#[test]
fn packets_without_bytes_are_dropped_and_lost_as_those_with_bytes() {
    let short_lived = Model {
        lifetime: Some(0),
        ..Model::mlid04(1)
    };
    let crowded = Load {
        pattern: Pattern::Centric {
            percent: 80,
            target: 1,
        },
        ..load(0.24, false)
    };
    let outcome = compare(&short_lived, &crowded, &[]);
    assert!(!outcome.drops.is_empty());
    let plan = [
        (
            2_000,
            FaultKind::Rates {
                end: end("s0.0.1", 3),
                loss_ppm: 400_000,
                corruption_ppm: 0,
            },
        ),
        (
            3_000,
            FaultKind::CreditLoss {
                end: end("s0.0.0", 1),
                loss_ppm: 100_000,
            },
        ),
        (5_000, FaultKind::LinkDown(end("s0.0.1", 4))),
        (9_000, FaultKind::Crash("s1.0.0".to_owned())),
        (14_000, FaultKind::LinkUp(end("s0.0.1", 4))),
        (19_000, FaultKind::Restart("s1.0.0".to_owned())),
        (
            22_000,
            FaultKind::SlowDrain {
                node: third_host(),
                ns_per_packet: 700,
            },
        ),
    ];
    let outcome = compare(&Model::mlid04(1), &load(0.05, false), &plan);
    assert!(outcome.counters.lost > 0);
}
