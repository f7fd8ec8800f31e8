//! One run: draws patterns, chooses paths, simulates packets.

use sim::{
    FaultPlan, RoutedFabric, Until, Workload, WorkloadResult, interval_ps, number, real, split_mix,
};
use wire::convert::u64_of;

use crate::error::{ExperimentError, no_violations};
use crate::experiment::rounded;
use crate::windows::measure::{Delays, Leaves, edges, shared_links};
use crate::windows::pattern::{Pattern, WindowPaths, WindowTiming, patterns, traffic_sources};
use crate::windows::plan::WindowsPlan;
use crate::windows::scheme::{Paths, Scheme};
use crate::windows::{Point, Task};

/// Switches on the way to a host of the same leaf, and of another.
const PATH_SWITCHES: [u64; 2] = [1, 3];
/// Time to drain beyond the time in which all traffic would pass over one link, nanoseconds.
const DRAIN_NS_MAX: u64 = 1_000_000;

pub(super) fn run(
    plan: &WindowsPlan,
    task: Task,
    prepared: &RoutedFabric,
    seed: u64,
) -> Result<Point, ExperimentError> {
    // The same seed for all schemes, loads and guard times.
    let seed = split_mix(seed, u64::from(task.run));
    let leaves = Leaves::of(prepared);
    let hosts = leaves.hosts();
    let patterns = patterns(number(hosts), plan.windows, plan.keep_percent, seed);
    let scheme = &plan.fabric[task.fabric].schemes[task.scheme];
    let window_paths = paths_of_windows(scheme, prepared, &patterns, seed)?;
    let model = plan.model();
    let timing = WindowTiming {
        window_ns: plan.window_ns,
        guard_ns: task.guard_ns,
        interval_ps: interval_ps(&model, task.load),
    };
    let span_ns = plan.span_ns();
    let limit_ns = span_ns.saturating_mul(u64_of(hosts)) + DRAIN_NS_MAX;
    let empty_ns = PATH_SWITCHES.map(|switches| plan.empty_network_ns(switches));
    let edges = edges(empty_ns, limit_ns);
    let mut workload = empty_workload(hosts, limit_ns, &edges);
    let bytes = plan.packet_bytes;
    let is_within = |from, to| leaves.is_within(from, to);
    workload.hosts = traffic_sources(&patterns, &window_paths, timing, bytes, seed, is_within);
    workload.backlog = timing.packets_max(plan.windows);
    let record = prepared.run_workload(&model, &workload, &FaultPlan::default())?;
    check(&record)?;
    let delays = Delays::new(&record.flows, &edges);
    let a_host = |ns: u64| rounded(real(delays.bytes()) / real(ns) / real(u64_of(hosts)));
    let (links_shared, connections_on_a_link_max) =
        shared_links(prepared, &patterns, &window_paths);
    Ok(Point {
        topology: plan.fabric[task.fabric].topology.clone(),
        scheme: scheme.to_string(),
        guard_ns: task.guard_ns,
        run: task.run,
        seed,
        rate: task.load,
        offered: a_host(span_ns),
        accepted: a_host(record.completed_ns().max(span_ns)),
        connections: patterns.iter().map(|pattern| u64_of(pattern.len())).sum(),
        moved: window_paths
            .iter()
            .map(|window_paths| window_paths.moved)
            .sum(),
        links_shared,
        connections_on_a_link_max,
        packets: delays.packets(),
        waited: delays.waited(empty_ns),
        empty_within_ns: empty_ns[0],
        empty_between_ns: empty_ns[1],
        latency_mean_ns: rounded(delays.mean()),
        latency_p10_ns: delays.quantile(100),
        latency_p25_ns: delays.quantile(250),
        latency_p50_ns: delays.quantile(500),
        latency_p75_ns: delays.quantile(750),
        latency_p90_ns: delays.quantile(900),
        latency_p99_ns: delays.quantile(990),
        latency_p999_ns: delays.quantile(999),
        latency_max_ns: delays.max(),
        latency_within_max_ns: delays.max_within(),
        traversals: record.traversals,
    })
}

/// The paths of the connections of every window.
fn paths_of_windows(
    scheme: &Scheme,
    prepared: &RoutedFabric,
    patterns: &[Pattern],
    seed: u64,
) -> Result<Vec<WindowPaths>, ExperimentError> {
    let mut paths = Paths::new(scheme, prepared, split_mix(seed, 4))?;
    let windows = (0u32..).zip(patterns);
    windows
        .map(|(window, pattern)| paths.next(window, pattern))
        .collect()
}

/// A workload without traffic, which counts delays between these edges for each length of path.
fn empty_workload(hosts: usize, limit_ns: u64, edges: &[u64]) -> Workload {
    let mut workload = Workload::empty(hosts, PATH_SWITCHES.len(), Until::Delivered(limit_ns));
    for flow in &mut workload.flows {
        flow.delays_ns = edges.to_vec();
    }
    workload
}

/// Checks what every run must keep: invariants of the simulator, and delivery of all packets.
fn check(record: &WorkloadResult) -> Result<(), ExperimentError> {
    no_violations(&record.violations)?;
    if !record.is_complete {
        let (balance, ended) = (record.balance, record.ended_ns);
        return Err(ExperimentError::Violation(format!(
            "not everything has been delivered in {ended} ns: {balance:?}"
        )));
    }
    Ok(())
}
