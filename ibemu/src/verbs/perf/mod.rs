//! `ibemu perf`: traffic between hosts.
//!
//! Every flow is one source sending to one destination's counting queue pair, which acknowledges;
//! the source keeps the counts of both ends. What was dropped on the way is the difference of all
//! devices' drop counters.

mod report;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use futures_util::{StreamExt, TryStreamExt, stream};
use hostd::control::{FLOWS_MAX, FlowReport, FlowState, PerfRequest, Reply, Request, SINK_QPN};
use tokio::time::Instant;
use wire::Sl;

use crate::ask::{DeviceClient, REQUEST_TIMEOUT, unexpected};
use crate::cli::Perf;
use crate::dir::FabricDir;
use crate::drops;
use crate::lids::{self, HostLids};
use crate::names::FabricName;
use crate::paths::{self, Path};
use crate::state::FabricState;
use crate::verify::{self, Pair};

/// How long to send, unless told otherwise.
const DURATION_MS: u32 = 5_000;
/// The window of a host's flows together, unless told otherwise.
const WINDOW: u32 = 256;
/// How many hosts are requested at a time.
const AT_ONCE: usize = 16;
/// The interval at which running flows are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of the drain of stopped flows.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends traffic and reports on it.
///
/// # Errors
/// If flows cannot be started, or were abandoned.
pub async fn run(fabric: &FabricName, options: &Perf) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    if options.window == Some(0) && options.rate.is_none() {
        return Err(crate::usage::UsageError("--window 0 needs --rate".to_owned()).into());
    }
    let (hosts, pairs) = involved(&dir, &state, options).await?;
    let bench = Bench {
        dir: &dir,
        state: &state,
        options,
        hosts: &hosts,
    };
    bench.check_idle().await?;
    let before = drops::of_fabric(&dir, &state).await?;
    let started = Instant::now();
    bench.start(&pairs).await?;
    let flows = bench.finish(&pairs).await?;
    let elapsed = started.elapsed();
    let dropped = drops::since(&drops::of_fabric(&dir, &state).await?, &before);
    bench.clear().await?;
    report::print(&hosts, &flows, &dropped, elapsed, options)?;
    let abandoned = flows
        .iter()
        .filter(|(_, flow)| flow.state == FlowState::Abandoned)
        .count();
    if abandoned > 0 {
        bail!(
            "{abandoned} of {} flows were abandoned: their sinks did not reply",
            flows.len()
        );
    }
    Ok(())
}

/// The hosts that take part, and who sends to whom among them.
async fn involved(
    dir: &FabricDir,
    state: &FabricState,
    options: &Perf,
) -> Result<(Vec<HostLids>, Vec<Pair>)> {
    if let (Some(source), Some(destination)) = (&options.source, &options.destination) {
        let source = lids::of_host(dir, state, state.find_host(source)?).await?;
        let destination = lids::of_host(dir, state, state.find_host(destination)?).await?;
        return Ok((vec![source, destination], vec![(0, 1)]));
    }
    let hosts = lids::of_all(dir, state).await?;
    if hosts.len() < 2 {
        bail!("the fabric has one host only: there is no destination");
    }
    if hosts.len() > FLOWS_MAX {
        bail!(
            "--all among {} hosts is more than the {FLOWS_MAX} flows that a host holds",
            hosts.len()
        );
    }
    let pairs = verify::all_pairs(hosts.len());
    Ok((hosts, pairs))
}

struct Bench<'a> {
    dir: &'a FabricDir,
    state: &'a FabricState,
    options: &'a Perf,
    hosts: &'a [HostLids],
}

/// A flow with the pair that it runs between.
type Flow = (Pair, FlowReport);

impl Bench<'_> {
    fn client(&self, host: usize) -> Result<DeviceClient> {
        let node = &self.state.nodes[self.hosts[host].node];
        DeviceClient::connect(self.dir, node, REQUEST_TIMEOUT)
    }

    async fn order(client: &mut DeviceClient, request: &Request) -> Result<()> {
        match client.host(request).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// All flows that a host's source knows.
    async fn reports(&self, host: usize) -> Result<Vec<FlowReport>> {
        let mut client = self.client(host)?;
        let mut all: Vec<FlowReport> = Vec::new();
        loop {
            let from = all.last().map_or(0, |last| last.flow.saturating_add(1));
            match client.host(&Request::PerfReports { from }).await? {
                Reply::PerfAll(some) if some.is_empty() => return Ok(all),
                Reply::PerfAll(some) => all.extend(some),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Refuses to disturb traffic that runs; forgets what has run.
    async fn check_idle(&self) -> Result<()> {
        let hosts = 0..self.hosts.len();
        let reports: Vec<Vec<FlowReport>> = stream::iter(hosts)
            .map(|host| self.reports(host))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        for (host, flows) in self.hosts.iter().zip(&reports) {
            let busy =
                |flow: &FlowReport| matches!(flow.state, FlowState::Running | FlowState::Draining);
            if flows.iter().any(busy) {
                bail!(
                    "{} is sending traffic already: another ibemu perf runs on this fabric",
                    host.identity.name
                );
            }
        }
        self.clear().await
    }

    async fn clear(&self) -> Result<()> {
        stream::iter(0..self.hosts.len())
            .map(|host| async move {
                Self::order(&mut self.client(host)?, &Request::PerfClear).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The request that starts the flow of `pair`; its number is the destination's position.
    fn request(&self, pair: Pair, path: Path) -> Result<PerfRequest> {
        let options = self.options;
        let flows = if options.all {
            u32::try_from(self.hosts.len() - 1)?
        } else {
            1
        };
        let rate = options
            .rate
            .map_or(0, |rate| (rate.0 / u64::from(flows)).max(1));
        let duration_ms = match (options.count, options.seconds) {
            (Some(_), _) => 0,
            (None, None) => DURATION_MS,
            (None, Some(seconds)) => u32::try_from(Duration::from_secs_f64(seconds).as_millis())
                .context("--seconds is too long")?
                .max(1),
        };
        let seed = [options.seed, u64::try_from(pair.0)?, u64::try_from(pair.1)?];
        Ok(PerfRequest {
            flow: u32::try_from(pair.1)?,
            dlid: match options.dlid_offset {
                Some(offset) => self.hosts[pair.1].with_offset(offset)?,
                None => path.dlid,
            },
            qpn: SINK_QPN,
            size: options.size,
            window: options.window.unwrap_or((WINDOW / flows).max(1)),
            rate,
            sl: options.sl.map_or(Ok(path.sl), Sl::new)?,
            count: options.count.unwrap_or(0),
            duration_ms,
            seed: seed.iter().fold(0, |mixed: u64, &part| {
                mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part)
            }),
        })
    }

    async fn start(&self, pairs: &[Pair]) -> Result<()> {
        stream::iter(pairs.chunk_by(|a, b| a.0 == b.0))
            .map(|same| async move {
                let source = same[0].0;
                let to: Vec<&HostLids> = same.iter().map(|pair| &self.hosts[pair.1]).collect();
                let paths = paths::from_host(self.dir, self.state, &self.hosts[source], &to).await;
                let mut client = self.client(source)?;
                for (&pair, path) in same.iter().zip(paths) {
                    let request = Request::PerfStart(self.request(pair, path)?);
                    Self::order(&mut client, &request).await?;
                }
                anyhow::Ok(())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Waits until all flows have ended; an interrupt ends them early.
    async fn finish(&self, pairs: &[Pair]) -> Result<Vec<Flow>> {
        let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
        let mut stop_by: Option<Instant> = None;
        loop {
            let flows = self.look(pairs).await?;
            let ended =
                |flow: &Flow| matches!(flow.1.state, FlowState::Finished | FlowState::Abandoned);
            if flows.iter().all(ended) || stop_by.is_some_and(|by| Instant::now() > by) {
                return Ok(flows);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = leave.next() => {
                    self.stop(pairs).await?;
                    stop_by = Some(Instant::now() + DRAIN_TIMEOUT);
                }
            }
        }
    }

    async fn look(&self, pairs: &[Pair]) -> Result<Vec<Flow>> {
        let mut all = Vec::with_capacity(pairs.len());
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let flows = self.reports(same[0].0).await?;
            for &pair in same {
                let number = u32::try_from(pair.1)?;
                let flow = flows.iter().find(|flow| flow.flow == number);
                let flow = flow.with_context(|| {
                    format!(
                        "{} has forgotten a flow: was it restarted?",
                        self.hosts[pair.0].identity.name
                    )
                })?;
                all.push((pair, flow.clone()));
            }
        }
        Ok(all)
    }

    async fn stop(&self, pairs: &[Pair]) -> Result<()> {
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let mut client = self.client(same[0].0)?;
            for pair in same {
                let flow = u32::try_from(pair.1)?;
                Self::order(&mut client, &Request::PerfStop { flow }).await?;
            }
        }
        Ok(())
    }
}
