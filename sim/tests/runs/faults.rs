//! Faults are counted, and what is repaired works again.

use routing::RoutingEngine;
use sim::{
    AddressVector, CableEnd, ConstantRate, Fault, FaultKind, FaultPlan, Load, LoadResult, Model,
    RoutedFabric, TrafficSource, Until, Workload, WorkloadResult,
};
use wire::PortNum;

fn end(node: &str, port: u8) -> CableEnd {
    CableEnd {
        node: node.to_owned(),
        port: PortNum::new(port),
    }
}

fn run(faults: Vec<(u64, FaultKind)>) -> LoadResult {
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let prepared = RoutedFabric::new(&graph, RoutingEngine::Mlid).unwrap();
    let faults = FaultPlan {
        faults: faults
            .into_iter()
            .map(|(at_ns, what)| Fault { at_ns, what })
            .collect(),
        seed: 5,
    };
    let load = Load {
        warmup_ns: 10_000,
        measure_ns: 190_000,
        drain: true,
        ..Load::uniform(0.03, 1)
    };
    let outcome = prepared.run(&Model::mlid04(1), &load, &faults).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.balance.is_balanced());
    outcome
}

#[test]
fn lost_and_damaged_packets_are_counted_and_credits_recover() {
    let rates = |node, port| FaultKind::Rates {
        end: end(node, port),
        loss_ppm: 50_000,
        corruption_ppm: 50_000,
    };
    let outcome = run(vec![(0, rates("s0.0.1", 3)), (0, rates("s0.0.1", 1))]);
    assert!(outcome.counters.lost > 5 && outcome.counters.corrupted > 5);
    let damaged: u64 = outcome.drops.iter().map(|&(_, count)| count).sum();
    assert_eq!(damaged, outcome.counters.corrupted);
    let balance = outcome.balance;
    assert_eq!(balance.delivered + balance.lost + damaged, balance.injected);
}

#[test]
fn a_cable_that_is_pulled_and_put_in_again_carries_packets_again() {
    let down = FaultKind::LinkDown(end("s0.0.1", 3));
    let up = FaultKind::LinkUp(end("s0.0.1", 3));
    let outcome = run(vec![(50_000, down.clone()), (100_000, up)]);
    let never = run(vec![(50_000, down)]);
    let gone = |outcome: &LoadResult| outcome.balance.injected - outcome.balance.delivered;
    assert!(gone(&outcome) > 0);
    assert!(gone(&never) > 2 * gone(&outcome), "{never:?} {outcome:?}");
}

#[test]
fn a_switch_that_crashes_and_is_started_again_gets_its_tables_and_forwards() {
    let crash = FaultKind::Crash("s0.0.1".to_owned());
    let restart = FaultKind::Restart("s0.0.1".to_owned());
    let outcome = run(vec![(50_000, crash.clone()), (80_000, restart)]);
    let never = run(vec![(50_000, crash)]);
    let gone = |outcome: &LoadResult| outcome.balance.injected - outcome.balance.delivered;
    assert!(gone(&outcome) > 0);
    assert!(gone(&never) > 2 * gone(&outcome));
}

#[test]
fn flow_control_that_is_lost_delays_and_loses_nothing() {
    let loss = FaultKind::CreditLoss {
        end: end("s0.0.1", 3),
        loss_ppm: 20_000,
    };
    let outcome = run(vec![(0, loss)]);
    let balance = outcome.balance;
    assert_eq!(balance.injected, balance.delivered);
}

#[test]
fn faults_are_repeatable_and_name_only_what_is_there() {
    let rates = || FaultKind::Rates {
        end: end("s0.0.1", 3),
        loss_ppm: 100_000,
        corruption_ppm: 0,
    };
    assert_eq!(run(vec![(0, rates())]), run(vec![(0, rates())]));
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let check = |what| {
        let faults = vec![Fault { at_ns: 0, what }];
        let plan = FaultPlan { faults, seed: 1 };
        plan.check(&graph).unwrap_err().to_string()
    };
    assert_eq!(
        check(FaultKind::Crash("s9".to_owned())),
        "fault 0: there is no device \"s9\""
    );
    assert!(check(FaultKind::LinkDown(end("s0.0.1", 9))).contains("no cable"));
    let host = graph.hosts().next().map(|id| graph.node(id).name.clone());
    assert!(check(FaultKind::Crash(host.unwrap())).contains("is a host"));
}

/// All hosts of FT(4, 2) but the last send to the last (flow 0) and to each other (flow 1), while
/// the last takes in a packet each `ns_per_packet`.
fn drain(ns_per_packet: u64, lifetime: Option<u8>) -> WorkloadResult {
    let graph = topologies::parse("fat-tree-4-2").unwrap().graph;
    let slow = graph.hosts().last().unwrap();
    let faults = FaultPlan {
        faults: vec![Fault {
            at_ns: 0,
            what: FaultKind::SlowDrain {
                node: graph.node(slow).name.clone(),
                ns_per_packet,
            },
        }],
        seed: 1,
    };
    let mut workload = Workload::empty(8, 2, Until::Delivered(10_000_000));
    workload.backlog = 1000;
    for host in 0..7u32 {
        for (to, flow) in [(7, 0), ((host + 3) % 7, 1)] {
            let constant = ConstantRate {
                address: AddressVector::to_host(to, flow),
                bytes: 32,
                first_ps: u64::from(host) * 100_000,
                interval_ps: 2_000_000,
                packets: Some(50),
            };
            let at = usize::try_from(host).unwrap();
            workload.hosts[at].push(TrafficSource::ConstantRate(constant));
        }
    }
    let model = Model {
        lifetime,
        ..Model::mlid04(1)
    };
    let prepared = RoutedFabric::new(&graph, RoutingEngine::Mlid).unwrap();
    let record = prepared.run_workload(&model, &workload, &faults).unwrap();
    assert_eq!(record.violations, []);
    assert!(record.balance.is_balanced());
    record
}

#[test]
fn congestion_spreads_back_from_a_host_that_drains_slowly_and_nothing_is_lost() {
    let [swift, slow] = [0, 3000].map(|ns_per_packet| drain(ns_per_packet, None));
    for record in [&swift, &slow] {
        assert!(record.is_complete && record.drops.is_empty());
        let delivered: Vec<u64> = record.flows.iter().map(|flow| flow.delivered).collect();
        assert_eq!(delivered, [350, 350]);
    }
    // A packet each 3000 ns, the last one no sooner than that.
    assert!(slow.flows[0].completed_ns >= 349 * 3000);
    // Packets to other hosts wait behind those for the slow one.
    let [before, after] = [&swift, &slow].map(|record| record.flows[1].delay_mean_ns());
    assert!(after > 20.0 * before, "{before} {after}");
}

#[test]
fn with_a_finite_lifetime_switches_drop_what_waits_for_a_slow_host() {
    let record = drain(200_000, Some(2));
    let dropped: u64 = record.drops.iter().map(|&(_, count)| count).sum();
    assert!(dropped > 100, "{:?}", record.drops);
    let reasons: Vec<&str> = record
        .drops
        .iter()
        .map(|(reason, _)| reason.name())
        .collect();
    assert!(
        reasons.iter().all(|name| name.contains("life")),
        "{reasons:?}"
    );
    assert_eq!(record.balance.delivered + dropped, record.balance.injected);
    assert_eq!(
        record.flows[1].delivered + record.flows[0].delivered + dropped,
        700
    );
}

#[test]
fn only_hosts_drain_slowly() {
    let graph = topologies::parse("fat-tree-4-2").unwrap().graph;
    let plan = FaultPlan {
        faults: vec![Fault {
            at_ns: 0,
            what: FaultKind::SlowDrain {
                node: "s0.0".to_owned(),
                ns_per_packet: 1,
            },
        }],
        seed: 0,
    };
    let error = plan.check(&graph).unwrap_err().to_string();
    assert!(error.contains("is a switch"), "{error}");
}
