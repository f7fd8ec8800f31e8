//! The points of a plan: each one run, all of them side by side, those done before taken from
//! where they were kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::experiments::ExperimentError;
use crate::experiments::plan::Plan;
use crate::load::{Load, Outcome, Prepared};
use crate::setup::SetupError;
use crate::workload::mix;

/// One run of a plan and what came of it. Times in nanoseconds, traffic in bytes/ns and host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The topology's name.
    pub topology: String,
    /// The routing engine.
    pub scheme: String,
    /// Data lanes.
    pub vls: u8,
    /// Name of the workload.
    pub traffic: String,
    /// Which run of this point, from 0.
    pub run: u32,
    /// The run's seed.
    pub seed: u64,
    /// Traffic that hosts were to send.
    pub offered: f64,
    /// Traffic that arrived.
    pub accepted: f64,
    /// Mean time from the first byte sent to the last byte received.
    pub latency_ns: f64,
    /// Mean time from a packet's birth.
    pub total_latency_ns: f64,
    /// Median of the time in the network.
    pub latency_p50_ns: u64,
    /// 99th percentile of the time in the network.
    pub latency_p99_ns: u64,
    /// Packets measured.
    pub packets: u64,
    /// Packets born in the whole run.
    pub born: u64,
    /// Packets that found the queue of their source full.
    pub refused: u64,
    /// Packets through switches in the whole run.
    pub traversals: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets lost on cables and in crashed switches.
    pub lost: u64,
    /// Packets that waited for each other in a circle.
    pub deadlock: Option<String>,
    /// Rules broken.
    pub violations: u64,
}

/// What a point is, before it is run.
#[derive(Clone, Copy, Debug)]
struct Task {
    topology: usize,
    scheme: usize,
    vls: u8,
    traffic: usize,
    load: f64,
    run: u32,
}

/// All points of a plan in the order of the results.
fn tasks(plan: &Plan) -> Vec<Task> {
    let mut tasks = Vec::with_capacity(plan.points());
    for topology in 0..plan.topologies.len() {
        for traffic in 0..plan.traffic.len() {
            for &vls in &plan.vls {
                for scheme in 0..plan.schemes.len() {
                    for &load in &plan.loads {
                        tasks.extend((0..plan.runs).map(|run| Task {
                            topology,
                            scheme,
                            vls,
                            traffic,
                            load,
                            run,
                        }));
                    }
                }
            }
        }
    }
    tasks
}

/// Runs all points on so many threads; `progress` is told how many of how many are done.
pub(super) fn run_all(
    plan: &Plan,
    seed: u64,
    kept: &Kept,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Point>, ExperimentError> {
    let fabrics = prepare(plan)?;
    let tasks = tasks(plan);
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Mutex<Vec<Option<Result<Point, ExperimentError>>>> =
        Mutex::new(tasks.iter().map(|_| None).collect());
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&task) = tasks.get(at) else {
                return;
            };
            let point = kept.load(at).map_or_else(
                || {
                    let fabric = &fabrics[task.topology][task.scheme];
                    let point = run_one(plan, task, seed, fabric)?;
                    kept.store(at, &point)?;
                    Ok(point)
                },
                Ok,
            );
            failed.fetch_or(point.is_err(), Ordering::Relaxed);
            if let Ok(mut results) = results.lock() {
                results[at] = Some(point);
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, tasks.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // After a failure those not begun are missing: the failure is what there is to tell.
    results.into_iter().flatten().collect()
}

fn prepare(plan: &Plan) -> Result<Vec<Vec<Prepared>>, ExperimentError> {
    let mut fabrics = Vec::new();
    for name in &plan.topologies {
        let topology = topologies::parse(name)?;
        let schemes = plan.schemes.iter();
        let prepared: Result<Vec<_>, SetupError> = schemes
            .map(|scheme| Prepared::new(&topology.graph, scheme))
            .collect();
        fabrics.push(prepared?);
    }
    Ok(fabrics)
}

fn run_one(
    plan: &Plan,
    task: Task,
    seed: u64,
    fabric: &Prepared,
) -> Result<Point, ExperimentError> {
    let traffic = &plan.traffic[task.traffic];
    // The same seed for all schemes, lanes and loads: they see the same destinations.
    let seed = mix(seed, u64::from(task.run));
    let load = Load {
        pattern: traffic.pattern(),
        lanes: plan.lane_choice(),
        bytes_per_ns: task.load,
        warmup_ns: plan.warmup_ns,
        measure_ns: plan.measure_ns,
        drain: false,
        seed,
    };
    let outcome = fabric.run(&plan.model(task.vls), &load, &plan.faults(seed))?;
    let violation = outcome.violations.first();
    if let Some(violation) = violation {
        return Err(ExperimentError::Violation {
            point: format!(
                "{} {} {} VLs {} at {}",
                plan.topologies[task.topology],
                plan.schemes[task.scheme],
                task.vls,
                traffic.name(),
                task.load
            ),
            what: violation.to_string(),
        });
    }
    Ok(point(plan, task, seed, &outcome))
}

fn point(plan: &Plan, task: Task, seed: u64, outcome: &Outcome) -> Point {
    Point {
        topology: plan.topologies[task.topology].clone(),
        scheme: plan.schemes[task.scheme].clone(),
        vls: task.vls,
        traffic: plan.traffic[task.traffic].name(),
        run: task.run,
        seed,
        offered: outcome.offered,
        accepted: rounded(outcome.accepted),
        latency_ns: rounded(outcome.latency_ns),
        total_latency_ns: rounded(outcome.total_latency_ns),
        latency_p50_ns: outcome.latency_p50_ns,
        latency_p99_ns: outcome.latency_p99_ns,
        packets: outcome.packets,
        born: outcome.born,
        refused: outcome.refused,
        traversals: outcome.traversals,
        dropped: outcome.balance.dropped,
        lost: outcome.balance.lost,
        deadlock: outcome.deadlock.as_ref().map(ToString::to_string),
        violations: outcome.violations_total,
    }
}

/// To six decimals, so that what is written is what was meant and reads back the same.
fn rounded(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}

/// Where finished points of an interrupted run are kept.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// The place for this plan, size and seed below `out`.
    pub(super) fn new(out: &Path, plan: &Plan, seed: u64) -> Result<Self, ExperimentError> {
        let fingerprint = format!("{plan:?} {seed} {}", env!("CARGO_PKG_VERSION"));
        let mark = fingerprint
            .bytes()
            .fold(0, |mark, byte| mix(mark, u64::from(byte)));
        let folder = out.join(format!(".{}-{mark:016x}", plan.name));
        fs::create_dir_all(&folder).map_err(|source| unwritable(&folder, source))?;
        Ok(Self { folder })
    }

    fn path(&self, at: usize) -> PathBuf {
        self.folder.join(format!("{at}.json"))
    }

    /// A point that is there and whole.
    fn load(&self, at: usize) -> Option<Point> {
        serde_json::from_slice(&fs::read(self.path(at)).ok()?).ok()
    }

    fn store(&self, at: usize, point: &Point) -> Result<(), ExperimentError> {
        let path = self.path(at);
        let text = serde_json::to_vec(point)
            .map_err(|error| unwritable(&path, io::Error::other(error)))?;
        write_whole(&path, &text)
    }

    /// The results are written: what was kept is no longer needed.
    pub(super) fn discard(self) -> Result<(), ExperimentError> {
        fs::remove_dir_all(&self.folder).map_err(|source| unwritable(&self.folder, source))
    }
}

/// Writes a file so that it is there wholly or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ExperimentError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let temporary = PathBuf::from(temporary);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        // Whatever could be written of it is of no use to anybody.
        let _ = fs::remove_file(&temporary);
        unwritable(path, source)
    })
}

pub(super) fn unwritable(path: &Path, source: io::Error) -> ExperimentError {
    ExperimentError::Unwritable {
        path: path.to_owned(),
        source,
    }
}
