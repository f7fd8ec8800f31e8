//! Packets at a steady rate between some pairs of hosts, counted by both ends.

use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use hostd::control::{FlowReport, FlowState, PerfRequest, Reply, Request, SINK_QPN};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::time::Instant;

use super::probe::Paths;
use crate::ask::{DeviceClient, unexpected};
use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::state::FabricState;
use crate::verify::Pair;

/// Packet length, bytes from LRH to VCRC.
const PACKET_BYTES: u16 = 290;
/// Flows end after this long even if the command that started them is gone, milliseconds.
const FLOW_MS_MAX: u32 = 300_000;
/// How long a host may take to answer about its flows.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long flows that were stopped, or that have an end, may take until their sinks have reported.
const FINISH_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval at which flows are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How many hosts are asked at a time.
const AT_ONCE: usize = 16;

/// The outcome of one flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FlowOutcome {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the sink has counted, each once.
    pub delivered: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Whether both ends have agreed on these figures; they have not where one was started again.
    pub is_final: bool,
}

/// Flows between hosts.
pub(super) struct Traffic<'a> {
    pub dir: &'a FabricDir,
    pub state: &'a FabricState,
    pub hosts: &'a [HostLids],
    pub paths: &'a Paths,
}

/// Sources and destinations of a round: `flows` hosts at most, each to another one.
pub(super) fn pairs(paths: &Paths, hosts: usize, flows: usize, seed: u64, round: u32) -> Vec<Pair> {
    let mut random = ChaCha8Rng::seed_from_u64(seed.rotate_left(16) ^ u64::from(round));
    let mut order: Vec<usize> = (0..hosts).collect();
    order.shuffle(&mut random);
    let next = order.iter().cycle().skip(1);
    let ring = order.iter().copied().zip(next.copied());
    let reachable = |pair: &Pair| paths.get(pair).is_some_and(|path| !path.is_apart);
    ring.filter(reachable).take(flows).collect()
}

impl Traffic<'_> {
    async fn client(&self, host: usize) -> Result<DeviceClient> {
        let node = &self.state.nodes[self.hosts[host].node];
        DeviceClient::connect(self.dir, node, ANSWER_TIMEOUT).await
    }

    async fn order(&self, host: usize, request: &Request) -> Result<()> {
        match self.client(host).await?.host(request).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Refuses to disturb traffic that runs.
    ///
    /// # Errors
    /// Which host is sending.
    pub(super) async fn check_idle(&self) -> Result<()> {
        for (host, lids) in self.hosts.iter().enumerate() {
            let flows = match self
                .client(host)
                .await?
                .host(&Request::PerfReports { from: 0 })
                .await?
            {
                Reply::PerfAll(flows) => flows,
                other => return Err(unexpected(&other)),
            };
            let busy = |flow: &FlowReport| flow.state == FlowState::Running;
            if flows.iter().any(busy) {
                bail!(
                    "{} is sending traffic already: an ibemu perf or chaos runs on this fabric",
                    lids.identity.name
                );
            }
        }
        Ok(())
    }

    /// Forgets what has run.
    ///
    /// # Errors
    /// If a host does not answer.
    pub(super) async fn clear(&self) -> Result<()> {
        let sources: Vec<_> = self.hosts.iter().map(|host| host.identity.lid).collect();
        let request = &Request::PerfClear { sources };
        stream::iter(0..self.hosts.len())
            .map(|host| self.order(host, request))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Starts a flow between each of `pairs`, of `count` packets each, or without an end in sight if
    /// that is 0.
    ///
    /// # Errors
    /// If a host does not answer.
    pub(super) async fn start(&self, pairs: &[Pair], rate: u64, count: u64) -> Result<()> {
        for (flow, &(source, destination)) in (1u32..).zip(pairs) {
            let Some(path) = self.paths.get(&(source, destination)) else {
                continue;
            };
            let request = PerfRequest {
                flow,
                dlid: path.dlid,
                qpn: SINK_QPN,
                size: PACKET_BYTES,
                window: 0,
                rate,
                sl: path.sl,
                count,
                duration_ms: if count == 0 { FLOW_MS_MAX } else { 0 },
                seed: u64::from(flow),
            };
            self.order(source, &Request::PerfStart(request)).await?;
        }
        Ok(())
    }

    /// Stops the flows; a host that has gone has nothing to stop.
    pub(super) async fn stop(&self, pairs: &[Pair]) {
        for (flow, &(source, _)) in (1u32..).zip(pairs) {
            let _ = self.order(source, &Request::PerfStop { flow }).await;
        }
    }

    /// The outcomes of the flows, when all have ended or the time for that is over.
    pub(super) async fn finish(&self, pairs: &[Pair]) -> Vec<FlowOutcome> {
        let deadline = Instant::now() + FINISH_TIMEOUT;
        loop {
            let mut reports = Vec::with_capacity(pairs.len());
            for (flow, &(source, _)) in (1u32..).zip(pairs) {
                reports.push(self.report(source, flow).await.ok());
            }
            let ended = |report: &Option<FlowReport>| {
                let state = report.as_ref().map(|report| report.state);
                !matches!(state, Some(FlowState::Running | FlowState::Draining))
            };
            if reports.iter().all(ended) || Instant::now() > deadline {
                let outcomes = pairs.iter().zip(reports);
                return outcomes
                    .map(|(&pair, report)| self.outcome(pair, report))
                    .collect();
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn report(&self, host: usize, flow: u32) -> Result<FlowReport> {
        match self
            .client(host)
            .await?
            .host(&Request::PerfReport { flow })
            .await?
        {
            Reply::Perf(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    fn outcome(&self, pair: Pair, report: Option<FlowReport>) -> FlowOutcome {
        let name = |host: usize| self.hosts[host].identity.name.clone();
        let state = report.as_ref().map(|report| report.state);
        let of = |count: fn(&FlowReport) -> u64| report.as_ref().map_or(0, count);
        FlowOutcome {
            from: name(pair.0),
            to: name(pair.1),
            sent: of(|report| report.sent),
            delivered: of(|report| report.delivered),
            lost: of(|report| report.lost),
            duplicates: of(|report| report.duplicates),
            is_final: state == Some(FlowState::Finished),
        }
    }
}
