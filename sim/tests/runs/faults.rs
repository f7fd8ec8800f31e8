//! What goes wrong is counted, and what is mended works again.

use sim::{End, Fault, FaultPlan, Load, Model, Outcome, Prepared, Trouble};
use wire::PortNum;

fn end(node: &str, port: u8) -> End {
    End {
        node: node.to_owned(),
        port: PortNum::truncate(port),
    }
}

fn run(faults: Vec<(u64, Trouble)>) -> Outcome {
    let graph = topologies::parse("fat-tree-4-3").unwrap().graph;
    let prepared = Prepared::new(&graph, "mlid").unwrap();
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
    assert!(outcome.balance.is_even());
    outcome
}

#[test]
fn lost_and_damaged_packets_are_counted_and_credits_recover() {
    let rates = |node, port| Trouble::Rates {
        end: end(node, port),
        loss_ppm: 50_000,
        corruption_ppm: 50_000,
    };
    let outcome = run(vec![(0, rates("s0.0.1", 3)), (0, rates("s0.0.1", 1))]);
    assert!(outcome.tally.lost > 5 && outcome.tally.corrupted > 5);
    let damaged: u64 = outcome.drops.iter().map(|&(_, count)| count).sum();
    assert_eq!(damaged, outcome.tally.corrupted);
    let balance = outcome.balance;
    assert_eq!(balance.delivered + balance.lost + damaged, balance.entered);
}

#[test]
fn a_cable_that_is_pulled_and_put_in_again_carries_packets_again() {
    let down = Trouble::LinkDown(end("s0.0.1", 3));
    let up = Trouble::LinkUp(end("s0.0.1", 3));
    let outcome = run(vec![(50_000, down.clone()), (100_000, up)]);
    let never = run(vec![(50_000, down)]);
    let gone = |outcome: &Outcome| outcome.balance.entered - outcome.balance.delivered;
    assert!(gone(&outcome) > 0);
    assert!(gone(&never) > 2 * gone(&outcome), "{never:?} {outcome:?}");
}

#[test]
fn a_switch_that_crashes_and_is_started_again_gets_its_tables_and_forwards() {
    let crash = Trouble::Crash("s0.0.1".to_owned());
    let restart = Trouble::Restart("s0.0.1".to_owned());
    let outcome = run(vec![(50_000, crash.clone()), (80_000, restart)]);
    let never = run(vec![(50_000, crash)]);
    let gone = |outcome: &Outcome| outcome.balance.entered - outcome.balance.delivered;
    assert!(gone(&outcome) > 0);
    assert!(gone(&never) > 2 * gone(&outcome));
}

#[test]
fn flow_control_that_is_lost_delays_and_loses_nothing() {
    let loss = Trouble::CreditLoss {
        end: end("s0.0.1", 3),
        loss_ppm: 20_000,
    };
    let outcome = run(vec![(0, loss)]);
    let balance = outcome.balance;
    assert_eq!(balance.entered, balance.delivered);
}

#[test]
fn faults_are_repeatable_and_name_only_what_is_there() {
    let rates = || Trouble::Rates {
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
        check(Trouble::Crash("s9".to_owned())),
        "fault 0: there is no device \"s9\""
    );
    assert!(check(Trouble::LinkDown(end("s0.0.1", 9))).contains("no cable"));
    let host = graph.hosts().next().map(|id| graph.node(id).name.clone());
    assert!(check(Trouble::Crash(host.unwrap())).contains("is a host"));
}
