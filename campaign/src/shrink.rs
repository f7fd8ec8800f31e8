//! The smallest schedule that still fails in the same way: fewer faults, less traffic, a smaller
//! fabric, shorter times.

use crate::outcome::{FailureKind, Outcome};
use crate::schedule::Schedule;

/// Shrinks a schedule that fails. `run` runs one; at most `runs_max` times.
pub fn shrink(
    schedule: &Schedule,
    kind: FailureKind,
    runs_max: u32,
    mut run: impl FnMut(&Schedule) -> Outcome,
) -> Schedule {
    let mut best = schedule.clone();
    let mut left = runs_max;
    let mut fails = |candidate: &Schedule| {
        if left == 0 {
            return false;
        }
        left -= 1;
        let failure = run(candidate).failure;
        failure.is_some_and(|failure| failure.kind == kind)
    };
    loop {
        let before = best.clone();
        shrink_list(&mut best, |schedule| &mut schedule.faults, &mut fails);
        shrink_list(&mut best, |schedule| &mut schedule.traffic, &mut fails);
        shrink_list(&mut best, |schedule| &mut schedule.standbys, &mut fails);
        for candidate in smaller(&best) {
            if fails(&candidate) {
                best = candidate;
                break;
            }
        }
        if best == before {
            return best;
        }
    }
}

/// Takes entries out of a list: first halves, then ever smaller pieces.
fn shrink_list<T: Clone>(
    best: &mut Schedule,
    list: impl Fn(&mut Schedule) -> &mut Vec<T>,
    fails: &mut impl FnMut(&Schedule) -> bool,
) {
    let mut size = list(best).len();
    while size > 0 {
        let mut at = 0;
        while at < list(best).len() {
            let mut candidate = best.clone();
            let entries = list(&mut candidate);
            let end = (at + size).min(entries.len());
            entries.drain(at..end);
            if fails(&candidate) {
                *best = candidate;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
}

/// Schedules that are one step simpler.
fn smaller(schedule: &Schedule) -> Vec<Schedule> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Schedule)| {
        let mut candidate = schedule.clone();
        change(&mut candidate);
        if candidate != *schedule {
            all.push(candidate);
        }
    };
    let devices = |schedule: &Schedule| schedule.graph().map_or(0, |graph| graph.len());
    let smallest = [
        "star-2",
        "ring-3-1",
        "mesh-2-1",
        "fat-tree-2-2",
        "clos-2-1-2",
        "ring-4-1",
        "fat-tree-4-2",
    ];
    for name in smallest {
        let mut candidate = schedule.clone();
        candidate.topology = name.to_owned();
        if devices(&candidate) < devices(schedule) {
            add(&|schedule| schedule.topology = candidate.topology.clone());
        }
    }
    add(&|schedule| schedule.lmc = None);
    add(&|schedule| schedule.vls = 1);
    add(&|schedule| schedule.from_start = false);
    add(&|schedule| schedule.m_key = None);
    add(&|schedule| schedule.partitions = None);
    add(&|schedule| schedule.engine = routing::RoutingEngine::Updn);
    add(&|schedule| schedule.trees = routing::multicast::Scheme::SpanningTree);
    add(&|schedule| {
        let faults = schedule
            .faults
            .iter()
            .map(|fault| fault.at_us + fault.for_us);
        let traffic = schedule.traffic.iter().map(|traffic| traffic.at_us);
        let end = faults.chain(traffic).max().unwrap_or(0);
        schedule.length_us = schedule.length_us.min(end + 1);
    });
    all
}
