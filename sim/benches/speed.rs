//! How fast the simulator is and how much memory it takes: switch traversals and events a second
//! of one core, all checkers on; bytes a device; what two runs side by side lose.
//!
//! `cargo bench -p sim --bench speed [-- FABRIC ... | --side-by-side | --once FABRIC NS]`
//!
//! The load is MLID04's network at 0.04 bytes/ns and host, uniform, one VL, `mlid`. Each fabric
//! is run so many times; reported are median, least and most. Time is what the processor has spent
//! on this thread (Linux' `schedstat`), so that neighbours on the machine disturb by their caches
//! only; without that file it is the clock. Bringing a fabric up is measured by itself and taken
//! out.
//!
//! Side by side: two threads of one process and two processes take turns, and each pair starts
//! together. Both kinds of pair do the same work; compared is the work done a second of the clock.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it goes wrong")]
#![allow(clippy::print_stdout, reason = "the figures")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures real time"
)]
#![allow(missing_docs, reason = "a program")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::Instant;

use routing::RoutingEngine;
use sim::{FaultPlan, Load, LoadResult, Model, RoutedFabric};

const ROUNDS: usize = 5;
/// Fabrics, and how long they are looked at, nanoseconds of virtual time.
const FABRICS: [(&str, u64); 3] = [
    ("fat-tree-8-3", 800_000),
    ("fat-tree-32-2", 200_000),
    ("fat-tree-16-3", 100_000),
];
/// What runs side by side.
const PAIR: (&str, u64) = FABRICS[0];

/// Seconds that this thread has run.
fn spent() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns * 1e-9)
}

/// One run; seconds of the processor and of the clock, and what came of it.
fn run(prepared: &RoutedFabric, measure_ns: u64) -> (f64, f64, LoadResult) {
    let load = Load {
        warmup_ns: 1,
        measure_ns,
        ..Load::uniform(0.04, 1)
    };
    let (clock, before) = (Instant::now(), spent());
    let outcome = prepared
        .run(&Model::mlid04(1), &load, &FaultPlan::default())
        .unwrap();
    let clock = clock.elapsed().as_secs_f64();
    let busy = match (before, spent()) {
        (Some(before), Some(after)) => after - before,
        _ => clock,
    };
    assert!(outcome.violations.is_empty(), "{}", outcome.violations[0]);
    (busy, clock, outcome)
}

fn prepare(name: &str) -> (RoutedFabric, usize) {
    let graph = topologies::parse(name).unwrap().graph;
    (
        RoutedFabric::new(&graph, RoutingEngine::Mlid).unwrap(),
        graph.len(),
    )
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
    )
}

fn measure(name: &str, measure_ns: u64) {
    let (prepared, devices) = prepare(name);
    // The counting allocator gives the most that is held at a time: the fabric, ready.
    let held = allocation_counter::measure(|| {
        run(&prepared, 1);
    });
    let mut rates = Vec::new();
    let (mut per_traversal, mut up) = (0.0, f64::MAX);
    for _ in 0..ROUNDS {
        let (setup, _, before) = run(&prepared, 1);
        let (busy, _, after) = run(&prepared, measure_ns);
        let traversals = (after.traversals - before.traversals) as f64;
        let events = (after.counters.events - before.counters.events) as f64;
        rates.push(traversals / (busy - setup));
        per_traversal = events / traversals;
        up = up.min(setup);
    }
    let (median, least, most) = spread(rates);
    println!(
        "{name:14} {median:8.0} traversals/s ({least:.0} to {most:.0}), {:.0} events/s, \
         {per_traversal:.2} events a traversal, {:.0} bytes a device ({devices}), up in {:.0} ms",
        median * per_traversal,
        held.bytes_max as f64 / devices as f64,
        up * 1000.0,
    );
}

/// One run, for counts of instructions and cache misses: those of two lengths differ by what traversals cost.
fn once(name: &str, measure_ns: u64) {
    let (_, _, outcome) = run(&prepare(name).0, measure_ns);
    println!(
        "{name} {} traversals, {} events, mean latency {} ns",
        outcome.traversals, outcome.counters.events, outcome.latency_ns
    );
}

/// Traversals a second of the clock of one run of the pair.
fn pair_rate(prepared: &RoutedFabric) -> f64 {
    let (_, clock, outcome) = run(prepared, PAIR.1);
    outcome.traversals as f64 / clock
}

fn threads() -> f64 {
    let start = Barrier::new(2);
    let one = || {
        let (prepared, _) = prepare(PAIR.0);
        start.wait();
        pair_rate(&prepared)
    };
    std::thread::scope(|scope| {
        let both = [scope.spawn(one), scope.spawn(one)];
        both.map(|thread| thread.join().unwrap()).iter().sum()
    })
}

/// One of two processes: reports that it is ready, runs on a line of input, reports its rate.
fn child() {
    let (prepared, _) = prepare(PAIR.0);
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("{}", pair_rate(&prepared));
}

fn processes() -> f64 {
    let spawn = |_| -> Child {
        Command::new(std::env::current_exe().unwrap())
            .arg("--one-of-two")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut children = [0, 1].map(spawn);
    let mut outputs = children
        .each_mut()
        .map(|child| BufReader::new(child.stdout.take().unwrap()).lines());
    for output in &mut outputs {
        assert_eq!(output.next().unwrap().unwrap(), "ready");
    }
    for child in &mut children {
        writeln!(child.stdin.as_mut().unwrap(), "go").unwrap();
    }
    let rates = outputs.map(|mut output| output.next().unwrap().unwrap().parse::<f64>().unwrap());
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    rates.iter().sum()
}

fn side_by_side() {
    let ratios = (0..ROUNDS).map(|_| {
        // Two processes before and after the threads: what drifts cancels out.
        let (before, between, after) = (processes(), threads(), processes());
        2.0 * between / (before + after)
    });
    let (median, least, most) = spread(ratios.collect());
    println!(
        "side by side   two threads do {median:.3} ({least:.3} to {most:.3}) of what two \
         processes do, {}",
        PAIR.0
    );
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.iter().any(|arg| arg == "--one-of-two") {
        return child();
    }
    if let [flag, name, ns] = &given[..]
        && flag == "--once"
    {
        return once(name, ns.parse().unwrap());
    }
    let named: Vec<&String> = given.iter().filter(|arg| !arg.starts_with('-')).collect();
    let pairs_only = given.iter().any(|arg| arg == "--side-by-side");
    for (name, measure_ns) in FABRICS {
        let is_wanted = named.is_empty() || named.iter().any(|given| *given == name);
        if is_wanted && !pairs_only {
            measure(name, measure_ns);
        }
    }
    if named.is_empty() {
        side_by_side();
    }
}
