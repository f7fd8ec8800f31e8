//! `ibemu perf`: traffic between hosts.
//!
//! Every flow is one source sending to one destination's counting queue pair, which acknowledges;
//! the source keeps the counts of both ends. Where all packets are, those of data, of queries,
//! acknowledgements and reports, is the difference of all devices' counts before and after
//! ([`crate::accounting`]).
//!
//! ```text
//!   hosts, idle? ──> counts before, paths ──> start ──> how far? ... ──> reports, counts after
//!                                               └──────── interrupt: stop ────^
//! ```
//!
//! All that needs an answer of the fabric is asked before the first packet: traffic between all hosts keeps
//! them busy. From then on each host is asked once for each step, all of them at the same time.

mod bench;
mod report;

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use hostd::control::{FLOWS_MAX, FlowReport, FlowState};
use tokio::time::Instant;

use crate::accounting::Ledger;
use crate::cli::Perf;
use crate::dir::FabricDir;
use crate::lids::{self, HostLids, LeftOut};
use crate::names::FabricName;
use crate::progress::Progress;
use crate::state::FabricState;
use crate::usage::UsageError;
use crate::verify::{self, Pair};
use bench::{Bench, SourceRequest};

/// How long to send at most, seconds: what 32 bits of milliseconds hold.
const SECONDS_MAX: f64 = 4_294_967.0;

/// A flow with the pair that it runs between.
type Flow = (Pair, FlowReport);

/// Sends traffic and reports on it. An interrupt (SIGINT, SIGTERM) ends the flows, and what they have
/// delivered is reported; a second one does not wait for packets that are under way.
///
/// # Errors
/// If flows cannot be started, or were abandoned.
pub async fn run(fabric: &FabricName, options: &Perf) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    check(options)?;
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let mut progress = PerfProgress::new(options);
    let outcome = tokio::select! {
        prepared = prepare(&dir, &state, options, &mut progress) => prepared,
        () = leave.next() => bail!("interrupted before the first flow was started"),
    };
    let Prepared {
        involved,
        requests,
        ledger,
    } = outcome?;
    let hosts = &involved.hosts;
    let bench = Bench {
        dir: &dir,
        state: &state,
        hosts,
    };
    progress.begin("start");
    let started = Instant::now();
    if let Err(error) = bench.start(&requests).await {
        // What was started is not left behind; the first error says what is wrong.
        let _ = bench.clear().await;
        return Err(error);
    }
    let count = involved.pairs.len();
    progress.done(&format!("{count} flows between {} hosts", hosts.len()));
    progress.begin("flows");
    let ended = bench.finish(&requests, &mut leave, &progress).await;
    let elapsed = started.elapsed();
    progress.done(match ended.interrupted {
        true => "the flows were interrupted",
        false => "the flows have ended",
    });
    progress.begin("counts");
    let account = ledger.settle(&dir, &state).await;
    let flows = bench.with_counts_of_sinks(ended.flows).await;
    // A host that has gone has nothing left to forget.
    let _ = bench.clear().await;
    progress.clear();
    let mut left_out = involved.left_out;
    left_out.extend(ended.gone);
    let ran = report::RunOutcome {
        hosts,
        flows: &flows,
        account: &account,
        left_out: &left_out,
        elapsed,
        interrupted: ended.interrupted,
    };
    report::print(&ran, options)?;
    verdict(&flows, &left_out)
}

fn check(options: &Perf) -> Result<()> {
    if options.window == Some(0) && options.rate.is_none() {
        return Err(UsageError("--window 0 needs --rate".to_owned()).into());
    }
    if options.seconds.is_some_and(|seconds| seconds > SECONDS_MAX) {
        return Err(UsageError(format!("--seconds: at most {SECONDS_MAX}")).into());
    }
    Ok(())
}

/// The preparation of a run, before its first packet.
struct Prepared {
    involved: Involved,
    requests: Vec<SourceRequest>,
    ledger: Ledger,
}

async fn prepare(
    dir: &FabricDir,
    state: &FabricState,
    options: &Perf,
    progress: &mut PerfProgress,
) -> Result<Prepared> {
    progress.begin("hosts");
    let involved = involved(dir, state, options).await?;
    let hosts = &involved.hosts;
    let bench = Bench { dir, state, hosts };
    bench.check_idle().await?;
    bench.clear().await?;
    progress.begin("paths");
    let requests = bench.requests(&involved.pairs, options, progress).await?;
    progress.done(&format!("paths from {} hosts", requests.len()));
    progress.begin("counts");
    let ledger = Ledger::open(dir, state).await;
    Ok(Prepared {
        involved,
        requests,
        ledger,
    })
}

/// Shows how far it is: lines for traffic between all hosts, which takes its time; for one flow only what
/// a terminal shows meanwhile.
struct PerfProgress {
    progress: Progress,
    has_lines: bool,
    last_line: Cell<Instant>,
}

/// Where there is no terminal, running flows are told of so often.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

impl PerfProgress {
    fn new(options: &Perf) -> Self {
        Self {
            progress: Progress::new(),
            has_lines: options.all,
            last_line: Cell::new(Instant::now()),
        }
    }

    fn begin(&mut self, phase: &'static str) {
        self.progress.begin(phase);
    }

    fn show(&self, text: &str) {
        self.progress.show(text);
        let is_due = self.last_line.get().elapsed() >= LINE_INTERVAL;
        if is_due && self.has_lines && !self.progress.is_terminal() {
            self.last_line.set(Instant::now());
            self.progress.print(&format!("            {text}"));
        }
    }

    fn done(&mut self, what: &str) {
        if self.has_lines {
            self.progress.done(what);
        }
    }

    fn clear(&self) {
        self.progress.clear();
    }
}

/// The error, if there was one.
fn verdict(flows: &[Flow], left_out: &[LeftOut]) -> Result<()> {
    let abandoned = flows
        .iter()
        .filter(|(_, flow)| flow.state == FlowState::Abandoned)
        .count();
    let abandoned = (abandoned > 0).then(|| {
        format!(
            "{abandoned} of {} flows were abandoned: their sinks did not reply",
            flows.len()
        )
    });
    let wrong: Vec<String> = abandoned
        .into_iter()
        .chain(LeftOut::verdict(left_out))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!(wrong.join("; "))
    }
}

/// The hosts that take part, their pairs of source and destination, and the hosts that cannot take part.
struct Involved {
    hosts: Vec<HostLids>,
    pairs: Vec<Pair>,
    left_out: Vec<LeftOut>,
}

async fn involved(dir: &FabricDir, state: &FabricState, options: &Perf) -> Result<Involved> {
    if let (Some(source), Some(destination)) = (&options.source, &options.destination) {
        let source = lids::of_host(dir, state, state.find_host(source)?).await?;
        let destination = lids::of_host(dir, state, state.find_host(destination)?).await?;
        return Ok(Involved {
            hosts: vec![source, destination],
            pairs: vec![(0, 1)],
            left_out: Vec::new(),
        });
    }
    let (hosts, left_out) = lids::reachable(dir, state, state.hosts()).await;
    if hosts.len() < 2 {
        LeftOut::print(&left_out)?;
        bail!(
            "--all needs two hosts that can be reached, and of {} there are {} (ibemu status)",
            state.hosts().count(),
            hosts.len()
        );
    }
    if hosts.len() > FLOWS_MAX {
        bail!(
            "--all among {} hosts is more than the {FLOWS_MAX} flows that a host holds",
            hosts.len()
        );
    }
    let pairs = verify::all_pairs(hosts.len());
    Ok(Involved {
        hosts,
        pairs,
        left_out,
    })
}
