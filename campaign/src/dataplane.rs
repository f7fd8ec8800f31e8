//! A schedule without a manager, for what packets do within microseconds: tables are written before
//! the start, hosts offer what the schedule says, and some of them take packets in slowly.
//!
//! Every packet is followed ([`sim::RoutedFabric`]): packets balance exactly at each audit, come once
//! and in order, leave each switch within its lifetime, and what is not lost or dropped arrives.
//! Faults of management do not happen here.

use routing::{Options, verify};
use sim::{
    AddressVector, CableEnd, ConstantRate, CreditReturn, Destination, Fault as Event,
    FaultKind as EventKind, FaultPlan, Group, Model, RoutedFabric, TrafficSource, Until, Workload,
    WorkloadResult,
};
use topologies::{Endpoint, Graph, NodeId};
use wire::convert;

use crate::outcome::{Failure, FailureKind, Outcome};
use crate::schedule::{Fault, FaultKind, Schedule, TrafficKind};

/// Data VLs of all ports: enough for the service levels of any engine here.
const VLS: u8 = 8;
/// Bytes of every packet, LRH to ICRC.
const PACKET_BYTES: u16 = 128;
/// Packets of one flow at most.
const PACKETS_MAX: u64 = 200;
/// After the last fault what was offered arrives within this time, nanoseconds: lost flow control is
/// repeated by keep-alives.
const ARRIVED_NS_MAX: u64 = 2_000_000_000;

/// Runs a schedule without a manager.
pub(crate) fn run(schedule: &Schedule) -> Outcome {
    match attempt(schedule) {
        Ok((result, failure)) => outcome(&result, failure),
        Err(what) => Outcome::failed_before(FailureKind::Setup, what),
    }
}

fn attempt(schedule: &Schedule) -> Result<(WorkloadResult, Option<Failure>), String> {
    let graph = schedule.graph().map_err(|error| error.to_string())?;
    let options = Options {
        data_vls: Some(VLS),
        ..Options::default()
    };
    let tables = schedule.engine.route(&graph, &options);
    let tables = tables.map_err(|error| error.to_string())?;
    let is_deadlock_free = verify(&graph, &tables, tables.promises).cycle.is_none();
    let input = core::num::NonZeroU16::new(schedule.buffer.into());
    let model = Model {
        flight_ns: schedule.flight_ns.min(1000),
        packet_bytes: PACKET_BYTES,
        input_packets: input.unwrap_or(core::num::NonZeroU16::MIN),
        credits: CreditReturn::Packets,
        ..Model::mlid04(VLS)
    };
    let faults = plan(schedule, &graph);
    let workload = workload(schedule, &graph);
    let result = RoutedFabric::with_tables(&graph, tables)
        .run_workload(&model, &workload, &faults)
        .map_err(|error| error.to_string())?;
    let failure = judge(&result, is_deadlock_free);
    Ok((result, failure))
}

fn judge(result: &WorkloadResult, is_deadlock_free: bool) -> Option<Failure> {
    let fail = |kind, at_ns, what| Some(Failure { kind, at_ns, what });
    let end_ns = result.ended_ns;
    if let Some(violation) = result.violations.first() {
        return fail(FailureKind::Checker, violation.at.0, violation.what.clone());
    }
    let balance = result.balance;
    if !balance.is_balanced() {
        return fail(FailureKind::Balance, end_ns, format!("{balance:?}"));
    }
    match &result.deadlock {
        Some(deadlock) if is_deadlock_free => {
            return fail(FailureKind::Deadlock, end_ns, deadlock.to_string());
        }
        Some(_) => return None,
        None => {}
    }
    if balance.queued + balance.in_flight > 0 {
        return fail(FailureKind::NotAtRest, end_ns, format!("{balance:?}"));
    }
    let is_clean = balance.lost + balance.dropped == 0;
    if is_clean && !result.is_complete {
        let what = format!("not all that was offered has arrived: {balance:?}");
        return fail(FailureKind::Unreachable, end_ns, what);
    }
    None
}

fn outcome(result: &WorkloadResult, failure: Option<Failure>) -> Outcome {
    let balance = result.balance;
    let mut digest = 0;
    for value in [
        result.ended_ns,
        result.counters.events,
        result.counters.frames,
        result.traversals,
        balance.injected,
        balance.delivered,
        balance.dropped,
        balance.lost,
    ] {
        digest = sim::split_mix(digest ^ value, 2);
    }
    for byte in failure.iter().flat_map(|failure| failure.what.bytes()) {
        digest = sim::split_mix(digest ^ u64::from(byte), 2);
    }
    Outcome {
        failure,
        digest,
        virtual_ns: result.ended_ns,
        events: result.counters.events,
        datagrams: balance.injected,
    }
}

/// All hosts of a schedule's flows as constant rates, and its multicasts.
fn workload(schedule: &Schedule, graph: &Graph) -> Workload {
    let hosts = graph.hosts().count();
    let count: u32 = convert::saturate(hosts);
    let length_ns = schedule.length_us * 1000;
    let until = Until::Delivered(length_ns + ARRIVED_NS_MAX);
    let mut workload = Workload::empty(hosts, 1, until);
    workload.backlog = 4096;
    workload.seed = schedule.seed;
    if count < 2 {
        return workload;
    }
    let mut members = Vec::new();
    for traffic in &schedule.traffic {
        if let TrafficKind::Join { host } = traffic.what {
            let host = host % count;
            if !members.contains(&host) {
                members.push(host);
            }
        }
    }
    let mut add = |host: u32, to: Destination, at_us: u64, packets: u32, rate_kbps: u32| {
        let address = AddressVector {
            to,
            ..AddressVector::to_host(0, 0)
        };
        let bits = u64::from(PACKET_BYTES) * 8;
        let rate = u64::from(rate_kbps.max(500_000)) * 1000;
        let constant = ConstantRate {
            address,
            bytes: PACKET_BYTES,
            first_ps: at_us * 1_000_000,
            interval_ps: (bits * 1_000_000_000_000 / rate).max(1),
            packets: Some(u64::from(packets).clamp(1, PACKETS_MAX)),
        };
        let at = convert::saturate::<usize>(host % count);
        workload.hosts[at].push(TrafficSource::ConstantRate(constant));
    };
    for traffic in &schedule.traffic {
        let at_us = traffic.at_us.min(schedule.length_us);
        match traffic.what {
            TrafficKind::Flow {
                from,
                to,
                count: packets,
                rate_kbps,
                ..
            } if from % count != to % count => {
                add(
                    from,
                    Destination::Host(to % count),
                    at_us,
                    packets,
                    rate_kbps,
                );
            }
            TrafficKind::Multicast {
                host,
                count: packets,
            } if members.len() > 1 => {
                add(host, Destination::Group(0), at_us, packets, 0);
            }
            _ => {}
        }
    }
    workload.groups.push(Group { members });
    workload
}

/// The faults of a schedule that cables, switches and hosts have without a manager.
fn plan(schedule: &Schedule, graph: &Graph) -> FaultPlan {
    let mut faults = Vec::new();
    let mut outages = 0;
    for fault in &schedule.faults {
        // Without a manager overlapping outages of one device are not resolved.
        outages += u32::from(fault.what.is_outage());
        if fault.what.is_outage() && outages > 1 {
            continue;
        }
        for (begins, at_us) in [(true, fault.at_us), (false, end_us(schedule, fault))] {
            let events = events(graph, fault.what, begins).into_iter();
            faults.extend(events.map(|what| Event {
                at_ns: at_us.min(schedule.length_us) * 1000,
                what,
            }));
        }
    }
    FaultPlan {
        faults,
        seed: schedule.seed,
    }
}

fn end_us(schedule: &Schedule, fault: &Fault) -> u64 {
    match fault.for_us {
        0 => schedule.length_us,
        for_us => fault.at_us.saturating_add(for_us),
    }
}

/// The events of a simulated fabric by which a fault begins, or ends.
fn events(graph: &Graph, what: FaultKind, begins: bool) -> Vec<EventKind> {
    let links: Vec<(Endpoint, Endpoint)> = graph.links().collect();
    let cable = |number: u32| crate::bed::pick(&links, number);
    let end = |end: Endpoint| CableEnd {
        node: graph.node(end.node).name.clone(),
        port: end.port,
    };
    let name = |nodes: Vec<NodeId>, number: u32| {
        crate::bed::pick(&nodes, number).map(|id| graph.node(id).name.clone())
    };
    let rate = |ppm: u32| if begins { ppm } else { 0 };
    let both = |number: u32, event: &dyn Fn(CableEnd) -> EventKind| {
        let ends = cable(number).map(|(one, other)| [one, other]);
        ends.into_iter()
            .flatten()
            .map(|at| event(end(at)))
            .collect()
    };
    match what {
        FaultKind::Loss { cable, ppm } => both(cable, &|end| EventKind::Rates {
            end,
            loss_ppm: rate(ppm),
            corruption_ppm: 0,
        }),
        FaultKind::Damage { cable, ppm } => both(cable, &|end| EventKind::Rates {
            end,
            loss_ppm: 0,
            corruption_ppm: rate(ppm),
        }),
        FaultKind::CreditLoss { cable, ppm } => both(cable, &|end| EventKind::CreditLoss {
            end,
            loss_ppm: rate(ppm),
        }),
        FaultKind::Cut { cable: number } => {
            let one = cable(number).map(|(one, _)| end(one));
            let event = |at| match begins {
                true => EventKind::LinkDown(at),
                false => EventKind::LinkUp(at),
            };
            one.map(event).into_iter().collect()
        }
        FaultKind::SwitchCrash { switch } => {
            let event = |name| match begins {
                true => EventKind::Crash(name),
                false => EventKind::Restart(name),
            };
            let name = name(graph.switches().collect(), switch);
            name.map(event).into_iter().collect()
        }
        FaultKind::SlowDrain { host, ns } => {
            let node = name(graph.hosts().collect(), host);
            let event = |node| EventKind::SlowDrain {
                node,
                ns_per_packet: if begins { ns.into() } else { 0 },
            };
            node.map(event).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
