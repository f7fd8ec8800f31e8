//! A run: from flows that are wanted to what has become of them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use hostd::control::{FlowState, Histogram, Latency};
use tokio::time::Instant;

use super::bench::Bench;
use super::collective_report::CollectiveRun;
use super::flows::{Flow, FlowSpec};
use super::requests::{SourceRequest, jitter_requests, latency_requests};
use crate::accounting::{Account, Ledger};
use crate::dir::FabricDir;
use crate::lids::{HostLids, LeftOut};
use crate::progress::Progress;
use crate::state::FabricState;
use crate::verify::Pair;

/// The hosts of a run, and the flows between them.
pub(crate) struct Participants {
    /// The hosts that take part.
    pub(crate) hosts: Vec<HostLids>,
    /// The hosts that cannot take part.
    pub(crate) left_out: Vec<LeftOut>,
    /// What is to be sent, pairs being positions among `hosts`.
    pub(crate) flows: Vec<FlowSpec>,
    /// Groups of which jitter is wanted.
    pub(crate) jitter_of: BTreeSet<u32>,
    /// How many groups of flows there are, at least one more than the highest group's number.
    pub(crate) groups: u32,
    /// Whether its phases are shown by lines; else only on a terminal while they last.
    pub(crate) has_lines: bool,
}

/// A run and its results.
pub(crate) struct RunOutcome {
    /// The hosts that took part.
    pub(crate) hosts: Vec<HostLids>,
    /// The flows between them that are measured, as far as their sources answer.
    pub(crate) flows: Vec<Flow>,
    /// One-way latencies, for each group of flows, as far as sinks answer.
    pub(crate) latencies: Vec<Histogram>,
    /// Their jitter, of the groups of which it was wanted.
    pub(crate) jitter: Vec<Histogram>,
    /// Where all packets are.
    pub(crate) account: Account,
    /// The hosts that did not take part, or not to the end.
    pub(crate) left_out: Vec<LeftOut>,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// Whether an interrupt has ended it.
    pub(crate) interrupted: bool,
    /// How many flows join two machines, so that they have no one-way latency.
    pub(crate) untimed: usize,
}

/// Sends traffic. An interrupt (SIGINT, SIGTERM) ends the flows; a second one does not wait for packets that
/// are under way. `participants` finds hosts and flows; an interrupt ends that, too.
///
/// # Errors
/// If there are no flows, they cannot be started, or an interrupt comes before the first one.
pub(crate) async fn run(
    dir: &FabricDir,
    state: &FabricState,
    participants: impl Future<Output = Result<Participants>>,
) -> Result<RunOutcome> {
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let outcome = tokio::select! {
        prepared = prepare(dir, state, participants) => prepared,
        () = leave.next() => bail!("interrupted before the first flow was started"),
    };
    let Prepared {
        hosts,
        mut left_out,
        groups,
        jitter_of,
        requests,
        ledger,
        mut progress,
    } = outcome?;
    let bench = Bench {
        dir,
        state,
        hosts: &hosts,
    };
    progress.begin("start");
    let started = Instant::now();
    let begun = match bench.join(&requests).await {
        Ok(()) => bench.start(&requests).await,
        Err(error) => Err(error),
    };
    if let Err(error) = begun {
        // What was started is not left behind; the first error says what is wrong.
        let _ = bench.clear().await;
        bench.leave(&requests).await;
        return Err(error);
    }
    let count: usize = requests.iter().map(SourceRequest::flows).sum();
    progress.done(&format!("{count} flows between {} hosts", hosts.len()));
    progress.begin("flows");
    let ended = bench.finish(&requests, &mut leave, &progress).await;
    let elapsed = started.elapsed();
    progress.done(match ended.interrupted {
        true => "the flows were interrupted",
        false => "the flows have ended",
    });
    progress.begin("counts");
    let account = ledger.settle(dir, state).await;
    let flows = bench.with_counts_of_sinks(ended.flows).await;
    let mut flows = flows;
    let is_timed = |pair| has_one_clock(state, &hosts, pair);
    let mut untimed = 0;
    for flow in flows.iter_mut().filter(|flow| !is_timed(flow.spec.pair)) {
        flow.report.latency = Latency::default();
        untimed += 1;
    }
    let asked = latency_requests(&requests, &hosts, is_timed);
    let latencies = bench.durations(asked, groups).await;
    let asked = jitter_requests(&requests, &hosts, &jitter_of, is_timed);
    let jitter = bench.durations(asked, groups).await;
    // A host that has gone has nothing left to forget.
    let _ = bench.clear().await;
    bench.leave(&requests).await;
    progress.clear();
    left_out.extend(ended.gone);
    Ok(RunOutcome {
        hosts,
        flows,
        latencies,
        jitter,
        account,
        left_out,
        elapsed,
        interrupted: ended.interrupted,
        untimed,
    })
}

/// Whether two hosts are on one machine: the clocks of several have no common origin.
fn has_one_clock(state: &FabricState, hosts: &[HostLids], (source, sink): Pair) -> bool {
    let Some(job) = &state.job else { return true };
    let [source, sink] = [source, sink].map(|host| state.device_of(hosts[host].node));
    job.placement[source] == job.placement[sink]
}

/// The preparation of a run, before its first packet.
struct Prepared {
    hosts: Vec<HostLids>,
    left_out: Vec<LeftOut>,
    groups: u32,
    jitter_of: BTreeSet<u32>,
    requests: Vec<SourceRequest>,
    ledger: Ledger,
    progress: RunProgress,
}

async fn prepare(
    dir: &FabricDir,
    state: &FabricState,
    participants: impl Future<Output = Result<Participants>>,
) -> Result<Prepared> {
    let Participants {
        hosts,
        left_out,
        flows,
        groups,
        jitter_of,
        has_lines,
    } = participants.await?;
    let mut progress = RunProgress::new(has_lines);
    let bench = Bench {
        dir,
        state,
        hosts: &hosts,
    };
    progress.begin("hosts");
    bench.check_idle().await?;
    bench.clear().await?;
    progress.begin("paths");
    let requests = bench.requests(flows, &progress).await?;
    progress.done(&format!("paths from {} hosts", requests.len()));
    progress.begin("counts");
    let ledger = Ledger::open(dir, state).await;
    Ok(Prepared {
        hosts,
        left_out,
        groups,
        jitter_of,
        requests,
        ledger,
        progress,
    })
}

/// Shows how far it is: lines for traffic between all hosts, which takes its time; for one flow only what
/// a terminal shows meanwhile.
pub(super) struct RunProgress {
    progress: Progress,
    has_lines: bool,
    last_line: Cell<Instant>,
}

/// Where there is no terminal, running flows are told of so often.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

impl RunProgress {
    fn new(has_lines: bool) -> Self {
        Self {
            progress: Progress::new(),
            has_lines,
            last_line: Cell::new(Instant::now()),
        }
    }

    fn begin(&mut self, phase: &'static str) {
        self.progress.begin(phase);
    }

    pub(super) fn show(&self, text: &str) {
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
pub(crate) fn verdict(ran: &RunOutcome, collectives: &[CollectiveRun]) -> Result<()> {
    let RunOutcome {
        flows, left_out, ..
    } = ran;
    let of_collectives = collectives.iter().map(|run| run.outcome(flows));
    let of_collectives = of_collectives.filter_map(|outcome| outcome.verdict());
    let abandoned = flows
        .iter()
        .filter(|flow| flow.report.state == FlowState::Abandoned)
        .count();
    let abandoned = (abandoned > 0).then(|| {
        format!(
            "{abandoned} of {} flows were abandoned: their sinks did not reply",
            flows.len()
        )
    });
    let wrong: Vec<String> = abandoned
        .into_iter()
        .chain(of_collectives)
        .chain(LeftOut::verdict(left_out))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!(wrong.join("; "))
    }
}
