//! A campaign from its start to its verdict.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use futures_util::{StreamExt, stream};
use strum::VariantArray as _;
use tokio::time::Instant;
use wire::choice::Choice as _;

use super::checks::{Checks, Violation};
use super::injector::Injector;
use super::kind::{FaultKind, FaultKinds};
use super::monitor::Monitor;
use super::probe::{Paths, Prober};
use super::report::{Report, Timeline, Times};
use super::round::{Bench, Done};
use super::schedule::{Inventory, Schedule};
use super::traffic::Traffic;
use crate::dir::FabricDir;
use crate::lids::{self, HostLids};
use crate::names::FabricName;
use crate::output;
use crate::paths;
use crate::quantity::bit_rate;
use crate::state::{FabricState, Stage};
use crate::supervisor;
use crate::usage::UsageError;
use crate::verify;

/// How many hosts are asked for their paths at a time.
const AT_ONCE: usize = 16;

/// How long a campaign goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// No round begins after this time.
    Time(Duration),
    /// So many rounds.
    Rounds(u32),
}

/// The parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Decides which faults are injected, which hosts send to which, and which pairs are probed.
    pub seed: u64,
    /// The first round, from 1: those before it are left out.
    pub first: u32,
    /// How long it goes on.
    pub length: Length,
    /// The kinds of faults; `None`: all that the fabric can have.
    pub kinds: Option<Vec<FaultKind>>,
    /// Flows of background traffic at most, each from another host.
    pub flows: usize,
    /// The rate of each, bits a second.
    pub rate: u64,
    /// Whether the report is one JSON object, without a line an event.
    pub json: bool,
}

/// Runs a campaign on a fabric that is up and whole.
///
/// # Errors
/// [`UsageError`] for kinds of faults that the fabric cannot have; a fabric that is not whole; a rule
/// that was broken.
pub async fn run(fabric: &FabricName, plan: &Plan) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let inventory = Inventory::of(&state);
    let kinds = kinds(plan, &inventory)?;
    // From here on an interrupt takes faults back.
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let whole = "a campaign begins with a whole fabric (ibemu status)";
    let (hosts, paths) = prepare(&dir, &state).await.context(whole)?;
    let checks = Checks {
        dir: &dir,
        state: &state,
        hosts: &hosts,
        paths: &paths,
    };
    let baseline = checks.baseline().await.context(whole)?;
    let traffic = Traffic {
        dir: &dir,
        state: &state,
        hosts: &hosts,
        paths: &paths,
    };
    traffic.check_idle().await?;
    let timeline = RefCell::new(Timeline::new(!plan.json));
    let (prober, done) = (Prober::new(&dir, &state, &hosts, &paths), Done::default());
    let injector = Injector::new(&dir, &state);
    let monitor = Monitor::new(&dir, &state, &timeline);
    let bench = Bench {
        dir: &dir,
        state: &state,
        hosts: &hosts,
        plan,
        baseline: &baseline,
        checks: &checks,
        prober: &prober,
        traffic: &traffic,
        injector: &injector,
        monitor: &monitor,
        timeline: &timeline,
        done: &done,
    };
    let started = Instant::now();
    announce(&bench, &kinds);
    let mut schedule = Schedule::new(plan.seed, inventory, &kinds);
    let ended = tokio::select! {
        ended = rounds(&bench, &mut schedule, started) => Some(ended.err()),
        () = prober.run() => None,
        () = monitor.run() => None,
        () = leave.next() => None,
    };
    let ended = Ended {
        violations: ended.iter().flatten().cloned().collect(),
        interrupted: ended.is_none(),
        seconds: started.elapsed().as_secs_f64(),
    };
    conclude(&bench, &kinds, ended).await
}

/// How the rounds have ended.
struct Ended {
    violations: Vec<Violation>,
    interrupted: bool,
    seconds: f64,
}

/// Takes back what is left, and reports.
async fn conclude(bench: &Bench<'_>, kinds: &[FaultKind], mut ended: Ended) -> Result<()> {
    if let Err(error) = bench.injector.take_back().await {
        let what = format!("{error:#}");
        ended.violations.push(Violation::new("return", what));
    }
    // A host that does not answer has nothing to forget, and is reported already.
    let _ = bench.traffic.clear().await;
    let (round, timeline) = bench.timeline.borrow_mut().take()?;
    let (state, done) = (bench.state, bench.done);
    let is_held = ended.violations.is_empty() && done.rounds.get() > 0;
    let replay = (!ended.violations.is_empty()).then(|| replay(bench, kinds, round));
    let report = Report {
        fabric: state.fabric.to_string(),
        topology: state.topology.clone(),
        transport: state.options.transport.name(),
        seed: bench.plan.seed,
        rounds: done.rounds.get(),
        seconds: ended.seconds,
        interrupted: ended.interrupted,
        packets_sent: done.sent.get(),
        packets_delivered: done.delivered.get(),
        faults: done.faults.take(),
        heal: Times::default(),
        heal_by_kind: BTreeMap::new(),
        heals: Vec::new(),
        violations: ended.violations,
        replay,
        timeline,
        held: is_held,
    };
    let report = report.with_heals(done.heals.take());
    if bench.plan.json {
        output::json(&report)?;
    } else {
        report.print()?;
    }
    if report.held {
        return Ok(());
    }
    match report.violations.first() {
        Some(violation) => bail!("{}: {}", violation.rule, violation.what),
        None => bail!("interrupted before the first round had ended"),
    }
}

/// The command that repeats a round.
fn replay(bench: &Bench<'_>, kinds: &[FaultKind], round: u32) -> String {
    let plan = bench.plan;
    format!(
        "ibemu chaos --fabric {} --seed {} --first {} --rounds 1 --faults {} --flows {} --rate {}",
        bench.state.fabric,
        plan.seed,
        round.max(plan.first),
        FaultKinds(kinds.to_vec()),
        plan.flows,
        plan.rate
    )
}

/// The kinds of faults that come.
fn kinds(plan: &Plan, inventory: &Inventory) -> Result<Vec<FaultKind>> {
    let Some(asked) = &plan.kinds else {
        let all = FaultKind::VARIANTS.iter().copied();
        return Ok(all.filter(|&kind| inventory.has(kind)).collect());
    };
    match asked.iter().find(|&&kind| !inventory.has(kind)) {
        None => Ok(asked.clone()),
        Some(FaultKind::StandbyKill) => {
            let what = "--faults standby-kill: no controller stands by (ibemu up --sm-node A,B)";
            Err(UsageError(what.to_owned()).into())
        }
        Some(kind) => {
            let what = format!("--faults {kind}: the fabric has nothing that it could happen to");
            Err(UsageError(what).into())
        }
    }
}

/// The hosts of a fabric that is up, and how they are addressed by each other.
async fn prepare(dir: &FabricDir, state: &FabricState) -> Result<(Vec<HostLids>, Paths)> {
    if state.stage != Stage::Up {
        bail!("fabric {} is not up yet", state.fabric);
    }
    if state.sm_nodes.is_empty() {
        bail!("it was brought up with --sm none: there is no controller to heal it");
    }
    // As any verb that needs one: it may have been killed.
    drop(supervisor::ensure(dir).await?);
    let hosts = lids::of_all(dir, state).await?;
    if hosts.len() < 2 {
        bail!("it has {} hosts, and traffic needs two", hosts.len());
    }
    let all = &hosts;
    let found: Vec<Vec<paths::Path>> = stream::iter(all)
        .map(|from| async move {
            let to: Vec<&HostLids> = all.iter().collect();
            paths::from_host(dir, state, from, &to).await
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut paths = Paths::new();
    for (source, found) in found.into_iter().enumerate() {
        let found = found.into_iter().enumerate();
        let others = found.filter(|(destination, _)| *destination != source);
        paths.extend(others.map(|(destination, path)| ((source, destination), path)));
    }
    Ok((hosts, paths))
}

fn announce(bench: &Bench<'_>, kinds: &[FaultKind]) {
    let (state, plan) = (bench.state, bench.plan);
    let flows = plan.flows.min(bench.hosts.len());
    bench.log(format!(
        "fabric {}: {} over {}, {} switches, {} hosts, {} cables, {} controllers; seed {}, {} flows of {}",
        state.fabric,
        state.topology,
        state.options.transport.name(),
        state.switches().count(),
        bench.hosts.len(),
        state.links.len(),
        state.sm_nodes.len(),
        plan.seed,
        flows,
        bit_rate(plan.rate)
    ));
    bench.log(format!("faults: {}", FaultKinds(kinds.to_vec())));
}

/// Runs rounds until the campaign is over or a rule is broken.
async fn rounds(
    bench: &Bench<'_>,
    schedule: &mut Schedule,
    started: Instant,
) -> Result<(), Violation> {
    for _ in 1..bench.plan.first {
        let _ = schedule.next_round();
    }
    let mut count = 0;
    loop {
        let is_over = match bench.plan.length {
            Length::Time(time) => started.elapsed() >= time,
            Length::Rounds(rounds) => count >= rounds,
        };
        if is_over {
            break;
        }
        bench.run(&schedule.next_round()).await?;
        count += 1;
    }
    bench
        .check_pairs(&verify::all_pairs(bench.hosts.len()))
        .await
}
