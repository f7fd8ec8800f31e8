//! What the hosts of a run are asked: each once for a step, all at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use anyhow::{Result, bail};
use daemon::signals::ShutdownSignals;
use futures_util::{StreamExt, TryStreamExt, stream};
use hostd::control::{
    FlowReport, FlowsProgress, Histogram, Reply, Request, SINK_FLOWS_MAX, SinkFlow,
};
use tokio::time::Instant;
use wire::Lid;
use wire::convert::{saturate, u64_of, usize_of};

use super::flows::{Flow, FlowSpec};
use super::requests::{SourceRequest, by_source, delayed, memberships, next_page};
use super::run::RunProgress;
use crate::ask::{DeviceClient, REQUEST_TIMEOUT, unexpected};
use crate::dir::FabricDir;
use crate::lids::{HostLids, LeftOut};
use crate::paths::{self, Path};
use crate::state::FabricState;

/// How many hosts are asked at a time: as many connections are open at most.
const AT_ONCE: usize = 256;
/// How many hosts ask for their paths at a time: the answers of all come from one manager.
const PATHS_AT_ONCE: usize = 16;
/// How many flows hosts are told of in a millisecond, all together.
const FLOWS_A_MS: usize = 500;
/// The shortest time between two looks at running flows.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Between two looks so many times as long passes as one takes, since to look disturbs; but no longer than this.
const POLL_PAUSES: u32 = 2;
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// How long packets under way are waited for after an interrupt.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a host may take to join or leave a group.
const GROUP_TIMEOUT: Duration = Duration::from_secs(60);
/// How long copies of packets to a group are waited for while none comes.
const COPIES_TIMEOUT: Duration = Duration::from_secs(2);

/// The hosts of a run.
pub(super) struct Bench<'a> {
    pub(super) dir: &'a FabricDir,
    pub(super) state: &'a FabricState,
    pub(super) hosts: &'a [HostLids],
}

/// How the flows of a run have ended.
pub(super) struct Ended {
    /// The flows whose sources answer.
    pub(super) flows: Vec<Flow>,
    /// The hosts that have ceased to answer.
    pub(super) gone: Vec<LeftOut>,
    /// Whether an interrupt has ended them.
    pub(super) interrupted: bool,
}

/// The sources that have ceased to answer, and why.
type Gone = BTreeMap<usize, String>;

impl Bench<'_> {
    async fn ask(&self, host: usize, request: &Request) -> Result<Reply> {
        let node = &self.state.nodes[self.hosts[host].node];
        let mut client = DeviceClient::connect(self.dir, node, REQUEST_TIMEOUT).await?;
        client.host(request).await
    }

    async fn order(&self, host: usize, request: &Request) -> Result<()> {
        match self.ask(host, request).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn progress(&self, host: usize) -> Result<FlowsProgress> {
        match self.ask(host, &Request::PerfProgress).await? {
            Reply::PerfProgress(progress) => Ok(progress),
            other => Err(unexpected(&other)),
        }
    }

    /// All flows of a host's source, by number.
    async fn reports(&self, host: usize) -> Result<BTreeMap<u32, FlowReport>> {
        let mut all = BTreeMap::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let some = match self.ask(host, &Request::PerfReports { from }).await? {
                Reply::PerfAll(some) => some,
                other => return Err(unexpected(&other)),
            };
            next = next_page(&some);
            all.extend(some.into_iter().map(|flow| (flow.flow, flow)));
        }
        Ok(all)
    }

    /// Refuses to disturb traffic that runs.
    pub(super) async fn check_idle(&self) -> Result<()> {
        let all: Vec<FlowsProgress> = stream::iter(0..self.hosts.len())
            .map(|host| self.progress(host))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let busy = self
            .hosts
            .iter()
            .zip(&all)
            .find(|(_, flows)| flows.under_way > 0);
        match busy {
            None => Ok(()),
            Some((host, _)) => bail!(
                "{} is sending traffic already: another ibemu perf or ibemu traffic runs on this fabric",
                host.identity.name
            ),
        }
    }

    /// Forgets what has run.
    pub(super) async fn clear(&self) -> Result<()> {
        let sources: Vec<Lid> = self.hosts.iter().map(|host| host.identity.lid).collect();
        let request = &Request::PerfClear { sources };
        stream::iter(0..self.hosts.len())
            .map(|host| self.order(host, request))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// What each source is to send, by the paths that subnet administration names.
    pub(super) async fn requests(
        &self,
        specs: Vec<FlowSpec>,
        progress: &RunProgress,
    ) -> Result<Vec<SourceRequest>> {
        let by_source = by_source(specs);
        let all = by_source.len();
        let mut asked = stream::iter(by_source)
            .map(|(source, specs)| async move {
                let to: BTreeSet<usize> = specs.iter().map(|flow| flow.spec.pair.1).collect();
                let hosts: Vec<&HostLids> = to.iter().map(|&host| &self.hosts[host]).collect();
                let from = &self.hosts[source];
                let paths = paths::from_host(self.dir, self.state, from, &hosts).await;
                let paths: BTreeMap<usize, Path> = to.into_iter().zip(paths).collect();
                SourceRequest::new(source, specs, self.hosts, |to| paths[&to])
            })
            .buffered(PATHS_AT_ONCE);
        let mut requests = Vec::with_capacity(all);
        while let Some(request) = asked.next().await {
            requests.push(request?);
            progress.show(&format!("paths from {} of {all} hosts", requests.len()));
        }
        Ok(requests)
    }

    /// Starts all flows, so late that every host has been told before the first one sends: traffic between many hosts keeps
    /// them so busy that the others would be told much later.
    pub(super) async fn start(&self, requests: &[SourceRequest]) -> Result<()> {
        let flows: usize = requests.iter().map(SourceRequest::flows).sum();
        let begin = Instant::now() + Duration::from_millis(u64_of(flows / FLOWS_A_MS));
        let orders = requests.iter().flat_map(|request| {
            let source = request.source;
            request.starts().map(move |start| (source, start))
        });
        stream::iter(orders)
            .map(|(source, request)| async move {
                let wait = begin.saturating_duration_since(Instant::now());
                let later = delayed(request, saturate::<u32>(wait.as_millis()));
                self.order(source, &later).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        tokio::time::sleep_until(begin).await;
        Ok(())
    }

    /// What sinks have measured of each of so many groups of flows, as far as they answer: for each request, the group
    /// and the sink.
    pub(super) async fn durations(
        &self,
        asked: Vec<(u32, usize, Request)>,
        groups: u32,
    ) -> Vec<Histogram> {
        let asked: Vec<(u32, Option<Histogram>)> = stream::iter(asked)
            .map(|(group, sink, request)| async move {
                match self.ask(sink, &request).await {
                    Ok(Reply::Durations(durations)) => (group, Some(*durations)),
                    _ => (group, None),
                }
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut together = vec![Histogram::default(); usize_of(groups)];
        for (group, durations) in asked {
            if let (Some(all), Some(durations)) = (together.get_mut(usize_of(group)), durations) {
                all.add(&durations);
            }
        }
        together
    }

    /// Waits until all flows have ended; an interrupt ends them, and a second one the wait.
    pub(super) async fn finish(
        &self,
        requests: &[SourceRequest],
        leave: &mut ShutdownSignals,
        progress: &RunProgress,
    ) -> Ended {
        let mut gone = Gone::new();
        let mut stop_by: Option<Instant> = None;
        let mut pause = POLL_INTERVAL;
        let mut stuck = Stuck::default();
        loop {
            let look = async {
                tokio::time::sleep(pause).await;
                let begun = Instant::now();
                let outcomes = self.each(requests, &gone, |host| self.progress(host)).await;
                (outcomes, begun.elapsed())
            };
            tokio::select! {
                (outcomes, took) = look => {
                    pause = (took * POLL_PAUSES).clamp(POLL_INTERVAL, POLL_INTERVAL_MAX);
                    let sum = sum_of(those_who_answered(outcomes, &mut gone));
                    show(&sum, progress);
                    if sum.under_way == 0 || stuck.is_at_last(sum) {
                        break;
                    }
                }
                () = leave.next() => {
                    if stop_by.is_some() {
                        break;
                    }
                    stop_by = Some(Instant::now() + DRAIN_TIMEOUT);
                    let stop = |host| self.order(host, &Request::PerfStopAll);
                    let stopped = self.each(requests, &gone, stop).await;
                    let _ = those_who_answered(stopped, &mut gone);
                    pause = POLL_INTERVAL;
                }
                () = until(stop_by) => break,
            }
        }
        let flows = self.flows(requests, &mut gone).await;
        let gone = gone.into_iter().map(|(host, reason)| LeftOut {
            name: self.hosts[host].identity.name.clone(),
            reason,
        });
        Ended {
            flows,
            gone: gone.collect(),
            interrupted: stop_by.is_some(),
        }
    }

    /// Asks all sources but those that are gone; the outcomes, in order.
    async fn each<T, A: Future<Output = Result<T>>>(
        &self,
        requests: &[SourceRequest],
        gone: &Gone,
        ask: impl Fn(usize) -> A,
    ) -> Vec<(usize, Result<T>)> {
        let sources = requests.iter().map(|request| request.source);
        stream::iter(sources.filter(|source| !gone.contains_key(source)))
            .map(|source| {
                let asked = ask(source);
                async move { (source, asked.await) }
            })
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    /// The flows of all sources that answer.
    async fn flows(&self, requests: &[SourceRequest], gone: &mut Gone) -> Vec<Flow> {
        let asked = self.each(requests, gone, |host| self.reports(host)).await;
        let mut by_source: BTreeMap<usize, BTreeMap<u32, FlowReport>> =
            those_who_answered(asked, gone).into_iter().collect();
        let mut all = Vec::new();
        for request in requests {
            let Some(known) = by_source.remove(&request.source) else {
                continue;
            };
            match request.measured(&known) {
                Ok(flows) => all.extend(flows),
                Err(error) => drop(gone.insert(request.source, format!("{error:#}"))),
            }
        }
        all
    }

    /// Lets hosts join the groups that flows go to.
    pub(super) async fn join(&self, requests: &[SourceRequest]) -> Result<()> {
        stream::iter(memberships(requests))
            .map(|(host, mgid)| async move {
                let send_only = false;
                self.change_group(host, &Request::Join { mgid, send_only })
                    .await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Lets them leave, as far as they answer.
    pub(super) async fn leave(&self, requests: &[SourceRequest]) {
        stream::iter(memberships(requests))
            .map(|(host, mgid)| async move {
                // A host that has gone is in no group any more.
                let _ = self.change_group(host, &Request::Leave { mgid }).await;
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await
    }

    async fn change_group(&self, host: usize, request: &Request) -> Result<()> {
        let node = &self.state.nodes[self.hosts[host].node];
        let mut client = DeviceClient::connect(self.dir, node, GROUP_TIMEOUT).await?;
        match client.host(request).await? {
            Reply::Membership(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// The flows with what sinks know of them, when no further copy of a packet to a group has come for a while.
    pub(super) async fn with_counts_of_sinks(&self, flows: Vec<Flow>) -> Vec<Flow> {
        let mut flows = self.counted(flows).await;
        let delivered =
            |flows: &[Flow]| -> u64 { flows.iter().map(|flow| flow.report.delivered).sum() };
        let mut changed = Instant::now();
        while flows.iter().any(Flow::lacks_copies) && changed.elapsed() < COPIES_TIMEOUT {
            tokio::time::sleep(POLL_INTERVAL_MAX).await;
            let before = delivered(&flows);
            flows = self.counted(flows).await;
            if delivered(&flows) != before {
                changed = Instant::now();
            }
        }
        flows
    }

    /// The flows, and for those that have not ended, were abandoned, or go to a group, what their sinks have counted since
    /// the last report that reached the source, where the sinks answer.
    async fn counted(&self, mut flows: Vec<Flow>) -> Vec<Flow> {
        let asked = flows.iter().filter(|flow| flow.is_told_by_sink());
        let asked = asked.map(|flow| flow.spec.pair.1);
        let asked: BTreeSet<usize> = asked.collect();
        let sinks: BTreeMap<usize, BTreeMap<(Lid, u32), SinkFlow>> = stream::iter(asked)
            .map(|host| async move { (host, self.sink(host).await.unwrap_or_default()) })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for flow in flows.iter_mut().filter(|flow| flow.is_told_by_sink()) {
            let (from, to) = flow.spec.pair;
            let key = (self.hosts[from].identity.lid, flow.report.flow);
            if let Some(counted) = sinks.get(&to).and_then(|sinks| sinks.get(&key)) {
                flow.take_counts(counted);
            }
        }
        flows
    }

    /// All flows that a host's sink has counted, by source and number.
    async fn sink(&self, host: usize) -> Result<BTreeMap<(Lid, u32), SinkFlow>> {
        let mut all = BTreeMap::new();
        for _ in 0..=SINK_FLOWS_MAX {
            let skip = u32::try_from(all.len())?;
            match self.ask(host, &Request::SinkReport { skip }).await? {
                Reply::Sink(some) if some.is_empty() => break,
                Reply::Sink(some) => {
                    let by_flow = some
                        .into_iter()
                        .map(|flow| ((flow.source, flow.flow), flow));
                    all.extend(by_flow);
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(all)
    }
}

/// The answers; who has not answered is gone.
fn those_who_answered<T>(asked: Vec<(usize, Result<T>)>, gone: &mut Gone) -> Vec<(usize, T)> {
    let mut answers = Vec::with_capacity(asked.len());
    for (source, outcome) in asked {
        match outcome {
            Ok(answer) => answers.push((source, answer)),
            Err(error) => drop(gone.insert(source, format!("{error:#}"))),
        }
    }
    answers
}

/// How far the flows of all hosts are together.
fn sum_of(answers: Vec<(usize, FlowsProgress)>) -> FlowsProgress {
    let mut sum = FlowsProgress::default();
    for (_, of_host) in answers {
        sum.add(of_host);
    }
    sum
}

fn show(sum: &FlowsProgress, progress: &RunProgress) {
    progress.show(&format!(
        "{} of {} flows under way, {} packets delivered",
        sum.under_way, sum.flows, sum.delivered
    ));
}

/// Steps that wait for packets that will not come.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    last: Option<FlowsProgress>,
}

impl Stuck {
    /// Whether nothing can happen any more: in this look and the one before, all that was under way waited for other
    /// flows, and nothing was sent between. Then there was a moment at which no packet was on its way.
    pub(super) fn is_at_last(&mut self, sum: FlowsProgress) -> bool {
        let waits = sum.waiting > 0 && sum.waiting == sum.under_way;
        let is_same = self.last.is_some_and(|last| last == sum);
        self.last = waits.then_some(sum);
        waits && is_same
    }
}

/// Until that moment, or for ever.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
